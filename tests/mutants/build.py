"""A copy of the tree with all mutants in it, built once; and what can not be built so."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import schemata

ROOT = Path(__file__).resolve().parents[2]
# Programs under test, and the test programs by what they are called here: package and target.
PROGRAMS = {"vivarium": "vivarium", "vivarium-agent": "vivarium-agent"}
TESTS = {
    "agent-unit": ("vivarium-agent", "vivarium_agent", ["--lib"]),
    "engine-unit": ("vivarium-engine", "vivarium_engine", ["--lib"]),
    "executed": ("vivarium-tests", "executed", ["--test", "executed"]),
    "forked": ("vivarium-tests", "forked", ["--test", "forked"]),
}


def output(*command, **more):
    done = subprocess.run(command, cwd=ROOT, text=True, check=True, stdout=subprocess.PIPE, **more)
    return done.stdout


def listed(patterns):
    """The mutants of these files, those inside of sessions first."""
    chosen = [word for pattern in patterns for word in ("--file", pattern)]
    found = json.loads(output("cargo", "mutants", "--list", "--json", *chosen))
    first = ("agent/src/sandbox", "agent/src/spawn", "supervisor/engine/src/session", "")
    return sorted(found, key=lambda mutant: [not mutant["file"].startswith(s) for s in first])


class Tree:
    """A copy of the tree, with a directory of its own for what is built."""

    def __init__(self, work):
        self.path, self.target = work / "tree", work / "target"
        # What the compiler refuses, by file: spans of bytes and what is said.
        self.refused = []
        # Files with mutants as they were when the run began, by name.
        self.originals = {}
        names = output("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
        for name in filter(None, names.split("\0")):
            here = ROOT / name
            if here.is_file() and not here.is_symlink():
                self.write(name, here.read_bytes())
                shutil.copymode(here, self.path / name)

    def write(self, name, content):
        """Only what is another one: cargo compares times."""
        there = self.path / name
        content = content.encode() if isinstance(content, str) else content
        if not there.exists() or there.read_bytes() != content:
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(content)

    def cargo(self, *arguments):
        """Runs cargo; the paths of what it built by target name, or `None` where it refuses."""
        environment = {
            **os.environ,
            "CARGO_TARGET_DIR": str(self.target),
            "CARGO_PROFILE_DEV_DEBUG": "0",
        }
        done = subprocess.run(
            ["cargo", *arguments, "--locked", "--message-format=json"],
            cwd=self.path,
            env=environment,
            text=True,
            capture_output=True,
        )
        messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0:
            said = (m["message"] for m in messages if m["reason"] == "compiler-message")
            self.refused = [message for message in said if message["level"] == "error"]
            if not self.refused:
                raise RuntimeError(done.stderr)
            return None
        return {
            m["target"]["name"]: Path(m["executable"] or next(iter(m["filenames"])))
            for m in messages
            if m["reason"] == "compiler-artifact" and (m["executable"] or not m["profile"]["test"])
        }

    def build(self, into, tests=tuple(TESTS), programs=PROGRAMS):
        """Builds programs and test programs `into` a directory; whether they build."""
        into.mkdir(parents=True, exist_ok=True)
        found: dict = {}
        packages = ["--package", "vivarium", "--package", "vivarium-agent"]
        steps = [(programs, ["build", *packages])] if programs else []
        for name in tests:
            package, target, which = TESTS[name]
            steps.append(({target: name}, ["test", "--no-run", "--package", package, *which]))
        for wanted, arguments in steps:
            built = self.cargo(*arguments)
            if built is None:
                return False
            found |= {name: built[target] for target, name in wanted.items()}
        if programs:
            found["libvivarium_agent.so"] = self.target / "debug/libvivarium_agent.so"
        for name, path in found.items():
            (into / name).unlink(missing_ok=True)
            subprocess.run(["strip", "-o", into / name, path], check=True)
        return True


def switched(tree, mutants, into):
    """Builds with a switch for as many of the mutants (by number) as can have one.

    Returns why each of the others has none: "does not build", or that it wants a build of its own.
    """
    files: dict = {}
    for number, mutant in mutants.items():
        files.setdefault(mutant["file"], {})[number] = mutant
    tree.originals = {name: (ROOT / name).read_text() for name in files}
    sources = {name: schemata.Source(text) for name, text in tree.originals.items()}
    without = {}
    for name, its in files.items():
        for number, mutant in its.items():
            changes = sources[name].changes(number, mutant)
            if isinstance(changes, str):
                without[number] = changes
    for library in ("agent/src/lib.rs", "supervisor/engine/src/lib.rs"):
        tree.write(library, (ROOT / library).read_text() + schemata.SWITCH)
    while True:
        texts = {}
        for name, its in files.items():
            changes = [
                change
                for number, mutant in its.items()
                if number not in without
                for change in sources[name].changes(number, mutant)
            ]
            texts[name] = schemata.switched(sources[name], changes)
            tree.write(name, texts[name])
        if tree.build(into):
            return without
        left_out = dict(blamed(tree.refused, texts))
        if not left_out:
            raise RuntimeError("\n".join(message["rendered"] for message in tree.refused))
        print(f"the compiler refuses {len(left_out)}", flush=True)
        without |= left_out


def blamed(errors, texts):
    """The mutants that errors are about."""
    for error in errors:
        # The place itself first, then what else is pointed at.
        for span in sorted(error["spans"], key=lambda span: not span["is_primary"]):
            text = texts.get(span["file_name"])
            found = text and schemata.blamed(text, span["byte_start"], span["byte_end"])
            if found:
                break
        else:
            continue
        for number in found:
            # Where it is several, only one of them may be to blame.
            yield number, "alone" if len(found) > 1 else "does not build"


def alone(tree, mutant, into, tests):
    """Builds one mutant without a switch: unit tests only, or programs too; whether it builds."""
    name = mutant["file"]
    before = (tree.path / name).read_text()
    tree.write(name, schemata.Source(tree.originals[name]).applied(mutant))
    try:
        return tree.build(into, tests, PROGRAMS if "executed" in tests else {})
    finally:
        tree.write(name, before)
