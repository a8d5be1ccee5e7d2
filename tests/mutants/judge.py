"""Runs tests against mutants: contained here, and in the test bed's machine what needs cgroups."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from threading import Timer

import build
import schemata

HERE = Path(__file__).resolve().parent
# In seconds, ten times and more what is needed without a mutation. A mutant for which a test waits
# for ever is caught, too.
UNIT_SECS, FIRST_SECS, ATTACKS_SECS = 60, 90, 600
# Under emulation, for all of a mutant's tests.
BOOT_SECS, EMULATED_SECS = 300, 600
# With less left on the host, what runs is ended: a mutant may have lost its limits.
KEPT_FREE_MB = 2000
# Where a session starts at all, these take two seconds.
FIRST = "attacks::whole attacks::process_start"
NEEDS_CGROUPS = ["every_way::attacks::cgroup", "a_command_starts_in_the_sessions_scope"]
# In the machine.
MACHINE_TESTS = [("engine-unit", "cgroup::"), ("executed", "attacks::cgroup attacks::whole")]

# What passes without a mutation: of what is below, all of it once.
BASELINE = [
    ("agent-unit", "sandbox:: spawn::"),
    ("engine-unit", "cgroup:: session::"),
    ("executed", "attacks::"),
    ("forked", f"{FIRST} attacks::commands"),
]


def tests_of(file):
    """Test programs and their filters for a mutant of this file, the quickest first."""
    if file.startswith("supervisor/engine/src/cgroup"):
        # The rest is for the machine.
        return [("engine-unit", "cgroup:: session::")]
    if file.startswith("supervisor"):
        return [("engine-unit", "cgroup:: session::"), ("executed", FIRST)]
    tests = [("agent-unit", "sandbox:: spawn::"), ("executed", FIRST)]
    layer = re.match(r"agent/src/sandbox/(\w+)", file)
    if layer:
        return [*tests, ("executed", f"attacks::{layer[1]}")]
    more = "attacks::commands attacks::credentials"
    return [*tests, ("executed", more), ("forked", f"{FIRST} attacks::commands")]


def needs_cgroups(file):
    return file.startswith("supervisor") or file == "agent/src/sandbox/cgroup.rs"


def contained(programs, tests):
    """Runs tests until one fails; by which a mutant is caught, or `None`."""
    for program, filters in tests:
        for _ in range(3):
            failed = one_contained(programs, program, filters)
            if not failed:
                break
            # Once more, alone: a test may also fail for what else the host has to do.
            one = f"{failed} --exact" if re.fullmatch(r"[\w:]+", failed) else filters
            failed = one_contained(programs, program, one)
            if failed:
                return f"{program}: {failed}"
    return None


def one_contained(programs, program, filters):
    skipped = [word for name in NEEDS_CGROUPS for word in ("--skip", name)]
    command = [HERE / "contain", programs, f"/run/programs/{program}", *filters.split(), *skipped]
    limit_secs = UNIT_SECS if program.endswith("unit") else ATTACKS_SECS
    limit_secs = FIRST_SECS if filters == FIRST else limit_secs
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        ended = []

        def end(why):
            ended.append(why)
            # Its only child is PID 1 in there, which goes with it, and takes all others along.
            process.send_signal(signal.SIGKILL)

        timer = Timer(limit_secs, end, ["did not end"])
        watch = Timer(0, watch_memory, [process, end])
        timer.start()
        watch.start()
        last = ""
        for line in process.stdout or ():
            if re.match(r"test .* (FAILED|has been running for over 60 seconds)$", line):
                end(line.split()[1])
                break
            last = line.strip() or last
        process.wait()
        timer.cancel()
        if ended:
            return ended[0]
        return f"ended with {process.returncode}: {last[:200]}" if process.returncode else None


def watch_memory(process, end):
    while process.poll() is None:
        free = re.search(r"MemAvailable: *(\d+)", Path("/proc/meminfo").read_text())
        if free and int(free[1]) < KEPT_FREE_MB * 1024:
            end("took the host's memory")
        time.sleep(0.2)


class Programs:
    """Built programs of which one mutant is active, in a directory of its own."""

    def __init__(self, built, into):
        shutil.rmtree(into, ignore_errors=True)
        shutil.copytree(built, into)
        self.path = into
        self.switches = schemata.switches(into)

    def activate(self, number):
        for name, places in self.switches.items():
            for _ in range(600):
                try:
                    schemata.throw(self.path / name, places, number)
                    break
                except OSError:
                    # What was killed is not gone yet.
                    time.sleep(0.1)
            else:
                raise TimeoutError(f"{name} is busy")


def emulated(built, own, wanted, work):
    """What the machine says of mutants, each with its tests; of 0 as well, which is none."""
    payload = work / "payload"
    shutil.rmtree(payload, ignore_errors=True)
    payload.mkdir(parents=True)
    shutil.copytree(built, payload / "base")
    shutil.copy(HERE / "start", payload / "start")
    switches = schemata.switches(built).items()
    lines = [f"{name} {place}\n" for name, places in switches for place in places]
    (payload / "switches").write_text("".join(lines))
    every = sorted({test for tests in wanted.values() for test in tests})
    for number, tests in {0: every, **wanted}.items():
        into = payload / "mutants" / f"{number:04}"
        into.mkdir(parents=True)
        if number in own:
            shutil.copytree(own[number], into / "programs")
        (into / "tests").write_text("".join(f"{program} {filters}\n" for program, filters in tests))
        octal = "".join(f"\\{byte:03o}" for byte in number.to_bytes(4, "little"))
        (into / "number").write_text(octal)
    cache = Path(os.environ.get("CARGO_TARGET_DIR", build.ROOT / "target")) / "vm"
    cache.mkdir(parents=True, exist_ok=True)
    image = build.output("tests/vm/image", str(cache)).strip().splitlines()[-1]
    limit_secs = BOOT_SECS + EMULATED_SECS * (len(wanted) + 1)
    (work / "results").unlink(missing_ok=True)
    build.output("nice", "tests/vm/boot", image, str(work), str(limit_secs))
    text = (work / "results").read_text(errors="replace")
    said = dict(re.findall(r"^mutant (\d+) (.*?)\r?$", text, re.MULTILINE))
    if said.get("0000") != "survived" or "all mutants done" not in text:
        raise RuntimeError(f"the machine did not come to its end, or tests fail:\n{text[-4000:]}")
    return {int(number): outcome for number, outcome in said.items() if int(number)}
