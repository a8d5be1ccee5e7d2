"""What the tests share: the API, systemd, and the looks at the host that tell what is left."""

import contextlib
import http.client
import json
import os
import pathlib
import pwd
import re
import socket
import subprocess
import threading
import time

SOCKET = "/run/vivarium/api.sock"
SERVICE = "vivarium.service"
UNITS = [
    "vivarium.service",
    "vivarium.socket",
    "vivarium.slice",
    "vivarium-gate.service",
    "vivarium-gate.socket",
]
CGROUP = pathlib.Path("/sys/fs/cgroup/vivarium.slice/vivarium.service")
CONFIG = pathlib.Path("/etc/vivarium/vivarium.toml")

# The machine is emulated, and some ten times slower than a real one: outcomes are asserted here,
# never speeds, and what is waited for may take its time.
PATIENCE_SECS = 180


def run(*command, check=True, text=None):
    """Runs a command; its standard output. A failure shows everything it said."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=600)
    if check and done.returncode != 0:
        raise AssertionError(
            f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def wait_until(what, condition):
    """Waits for a condition to hold; its (true) value."""
    end = time.monotonic() + PATIENCE_SECS
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {PATIENCE_SECS} s in vain: {what}")
        time.sleep(0.2)


def show(unit, name):
    """A property of a unit."""
    return run("systemctl", "show", "--value", f"--property={name}", unit).strip()


def main_pid():
    return int(show(SERVICE, "MainPID"))


def journal(since):
    """What the service has logged since a cursor (see `journal_cursor`)."""
    return run("journalctl", "--unit", SERVICE, "--after-cursor", since, "--output=cat")


def journal_cursor():
    shown = run("journalctl", "--lines=0", "--show-cursor", "--quiet")
    return shown.strip().removeprefix("-- cursor: ")


class _UnixConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(600)
        self.sock.connect(SOCKET)


def request(method, path, body=None, token=None):
    """One request; its status and its JSON."""
    connection = _UnixConnection("localhost")
    try:
        headers = {} if body is None else {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None
    finally:
        connection.close()


def api(method, path, body=None, status=(200, 201, 202, 204), token=None):
    """One request that has to be answered with one of these."""
    got, answer = request(method, path, body, token)
    if got not in status:
        raise AssertionError(f"{method} {path}: {got} {json.dumps(answer, indent=2)}")
    return answer


class Session:
    """A session that is deleted at the end, of the tenant whose token is given."""

    def __init__(self, token=None, **wanted):
        self.token = token
        self.info = api("POST", "/v1/sessions", wanted, token=token)
        self.id = self.info["id"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        request("DELETE", f"/v1/sessions/{self.id}", token=self.token)

    def execute(self, code, timeout_ms=120_000, **more):
        body = {"code": code, "timeout_ms": timeout_ms, **more}
        return api("POST", f"/v1/sessions/{self.id}/execute", body, token=self.token)

    def post(self, action):
        return api("POST", f"/v1/sessions/{self.id}/{action}", token=self.token)

    def delete(self):
        api("DELETE", f"/v1/sessions/{self.id}", token=self.token)

    @property
    def scope(self):
        return CGROUP / "tenants" / self.info["tenant"] / self.id

    @property
    def leaf(self):
        """That of the kernel of the context `main`."""
        leaves = self.scope.glob("kernel/context-0-*")
        # The one of an earlier kernel is removed a moment later.
        return max(leaves, key=lambda leaf: int(leaf.name.rpartition("-")[2]))

    @property
    def members(self):
        """The pids of its processes but the agent."""
        pids = []
        for leaf in self.scope.glob("kernel/*/cgroup.procs"):
            with contextlib.suppress(FileNotFoundError, OSError):
                pids += leaf.read_text().split()
        return pids


@contextlib.contextmanager
def in_background(function):
    """Calls a function in a thread; the value is a list that will hold its result."""
    results = []

    def call():
        try:
            results.append(function())
        except Exception as error:  # shown by whoever looks at the result
            results.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield results
    finally:
        thread.join()


def host_ids():
    """The user ids that are Vivarium's: its own, and those granted to it."""
    ids = {pwd.getpwnam("vivarium").pw_uid}
    for line in pathlib.Path("/etc/subuid").read_text().splitlines():
        owner, first, count = line.split(":")
        if owner == "vivarium":
            ids.update(range(int(first), int(first) + int(count)))
    return ids


def processes():
    """Vivarium's processes, whatever cgroup they are in: pid and command."""
    ids = host_ids()
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid in ids or owner(entry) in ids:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(entry.name)] = command.strip()
    return found


def owner(entry):
    """The real user id of a process: its files are root's if it can not be traced."""
    for line in (entry / "status").read_text().splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[1])
    return None


def left_over():
    """Whatever sessions have of the host: cgroups, processes other than the daemon, mounts,
    files. Empty when there is no session."""
    daemon = main_pid()
    if daemon:
        wait_until("templates are there", templates_are_ready)
    found = []
    tenants = CGROUP / "tenants"
    if tenants.is_dir():
        found += [f"cgroup {path}" for path in tenants.glob("*/*") if path.is_dir()]
    found += [f"process {pid} {command}" for pid, command in processes().items() if pid != daemon]
    for place in ("/run/vivarium", "/var/lib/vivarium", "/tmp", "/var/tmp", "/dev/shm"):
        for directory, _, files in os.walk(place):
            for path in [directory] + [os.path.join(directory, name) for name in files]:
                with contextlib.suppress(OSError):
                    if os.lstat(path).st_uid in host_ids():
                        found.append(f"file {path}")
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    found += [f"mount {line}" for line in mounts.splitlines()]
    if daemon:
        with contextlib.suppress(OSError):
            mounts = pathlib.Path(f"/proc/{daemon}/mountinfo").read_text()
            # Numbers of mounts differ from start to start.
            found += [f"daemon's mount {line.split(' ', 3)[3]}" for line in mounts.splitlines()]
    return sorted(without_numbers(line) for line in found)


def templates_are_ready():
    """They are built in the background, and again after a restart."""
    environments = api("GET", "/v1/host")["environments"]
    return all(environment["template"]["state"] == "ready" for environment in environments)


def without_numbers(line):
    """Peer groups and mount numbers say nothing about what is mounted; nor does the name that
    systemd gives a private /tmp, a template's pid or the name of its directory."""
    line = re.sub(r"(workdirs-)[0-9a-f]{32}(/[0-9a-f]{32})?", r"\1NAME", line)
    words = [word for word in line.split(" ") if not word.startswith(("shared:", "master:"))]
    if words[0] == "mount":
        del words[1:3]
    if words[0] == "process":
        del words[1]
    return " ".join("PRIVATE" if "systemd-private-" in word else word for word in words)
