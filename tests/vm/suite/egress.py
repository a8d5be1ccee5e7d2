"""The units' networks: the daemon's reaches loopback alone, the gate's what sessions may; what the
gate's unit caches; and network `full` through Debian's passt, under its AppArmor profile."""

import contextlib
import os
import pathlib
import socket
import subprocess
import unittest

import internet
from internet import ASKED, CONTENT, GREETING, HOST, PRIVATE, PUBLIC, WHEEL
from support import CONFIG, SERVICE, UNITS, Session, main_pid, processes, run, show, wait_until

GATE = "vivarium-gate.service"
CACHE = pathlib.Path("/var/cache/private/vivarium-gate")
SETTINGS = {
    "sandbox": 'allowed_networks = ["none", "loopback", "trusted", "full"]',
    "egress": f'gate = "unix:/run/vivarium-gate/gate.sock"\npasst = "on"\nallow = ["{PUBLIC}"]',
    "packages": f'index_url = "http://{PUBLIC}/simple"',
}

# `get` by the proxy that the session's variables name, and `tcp` by a socket.
TOOLS = """
import errno, os, re, socket, urllib.error, urllib.parse, urllib.request
def get(url):
    try:
        with urllib.request.urlopen(url, timeout=120) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.reason
def tcp(address, port=80):
    try:
        with socket.create_connection((address, port), 120) as connection:
            connection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            return connection.makefile("rb").read().split(b"\\r\\n\\r\\n")[1]
    except OSError as error:
        return errno.errorcode.get(error.errno, repr(error))
def install():
    index = os.environ["PIP_INDEX_URL"].rstrip("/") + "/tiny/"
    status, page = get(index)
    if status != 200:
        return status, page
    link = re.search(b'href="([^"#]*)', page)[1].decode()
    return get(urllib.parse.urljoin(index, link))
"""


def sends(pid, address):
    """The error with which a process in the cgroup of another sends a packet; 0 if it is sent."""
    child = os.fork()
    if child == 0:
        number = 255
        with contextlib.suppress(Exception):
            path = pathlib.Path(f"/proc/{pid}/cgroup").read_text().strip().partition("::")[2]
            pathlib.Path(f"/sys/fs/cgroup{path}/cgroup.procs").write_text(str(os.getpid()))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                number = 0
                try:
                    sender.sendto(b"x", (address, 9))
                except OSError as error:
                    number = error.errno or 255
        os._exit(number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def asked_for(name):
    return sum(line.endswith(name) for line in ASKED.read_text().splitlines())


class Egress(unittest.TestCase):
    session: Session

    @classmethod
    def setUpClass(cls):
        cls.enterClassContext(internet.connected())
        text = original = CONFIG.read_text()
        # What upgrades the package restarts the daemon.
        cls.addClassCleanup(CONFIG.write_text, original)
        for section, lines in SETTINGS.items():
            text = text.replace(f"\n[{section}]\n", f"\n[{section}]\n{lines}\n")
        CONFIG.write_text(text)
        # As a boot does (tests/vm/boot).
        run("apparmor_parser", "--replace", "/etc/apparmor.d/usr.bin.passt")
        run("systemctl", "enable", "--now", "vivarium-gate.socket")
        run("systemctl", "restart", SERVICE)
        cls.session = cls.enterClassContext(Session(network="trusted"))
        cls.session.execute(TOOLS)

    def value(self, code, session=None):
        outcome = (session or self.session).execute(code)
        self.assertEqual(outcome["status"], "ok", outcome)
        return outcome["result"]["repr"]

    def test_the_gate_reaches_what_a_session_may(self):
        self.assertEqual(self.value(f"get('http://{PUBLIC}/')"), repr((200, GREETING)))
        for address in (f"{PUBLIC}:8080", PRIVATE, HOST):
            self.assertIn("(403,", self.value(f"get('http://{address}/')"), address)
        self.assertEqual(self.value(f"tcp('{PUBLIC}')"), "'ENETUNREACH'")

    def test_the_gates_unit_alone_has_egress(self):
        gate = int(show(GATE, "MainPID"))
        for pid in (1, gate):
            self.assertEqual(sends(pid, PUBLIC), 0)
        self.assertEqual(sends(main_pid(), "127.0.0.1"), 0)
        for address in (PUBLIC, PRIVATE, HOST):
            self.assertEqual(os.strerror(sends(main_pid(), address)), "Operation not permitted")
        denying = [unit for unit in UNITS if "0.0.0.0/0" in show(unit, "IPAddressDeny")]
        self.assertEqual(denying, [SERVICE])
        # Its user is its own.
        owner = pathlib.Path(f"/proc/{gate}").stat().st_uid
        self.assertNotIn(gate, processes())
        self.assertNotEqual(owner, 0)

    def test_the_gates_unit_caches_packages_and_nobody_else_reads_them(self):
        installed = repr((200, CONTENT))
        self.assertEqual(self.value("install()"), installed)
        kept = [path for path in CACHE.rglob("*") if path.is_file()]
        self.assertTrue(any(path.read_bytes() == CONTENT for path in kept), kept)
        listing = ["setpriv", "--reuid=vivarium", "--regid=vivarium", "--clear-groups", "ls"]
        done = subprocess.run([*listing, CACHE], capture_output=True, text=True, check=False)
        self.assertIn("Permission denied", done.stderr)
        self.assertEqual(self.value(f"os.path.exists('{CACHE}')"), "False")
        # Another gate has it too.
        gate = show(GATE, "MainPID")
        run("systemctl", "kill", "--signal=KILL", GATE)
        wait_until("there is another", lambda: show(GATE, "MainPID") not in ("0", gate))
        self.assertEqual(self.value("install()"), installed)
        self.assertEqual(asked_for(WHEEL), 1)
        self.assertEqual(asked_for("/simple/tiny/"), 2, "so it was another gate")

    def test_full_is_a_network_of_its_own_through_passt(self):
        with Session(network="full") as session:
            reports = {report["layer"]: report for report in session.info["protection"]}
            self.assertEqual(reports["network"]["status"], "enforced", reports)
            [pasta] = [pid for pid, command in processes().items() if "pasta" in command]
            confined = pathlib.Path(f"/proc/{pasta}/attr/current").read_text().strip("\0\n")
            self.assertEqual(confined, "passt (enforce)")
            # The unit's rule holds for it, until the operator changes that.
            self.assertEqual(os.strerror(sends(pasta, PUBLIC)), "Operation not permitted")
            run("systemctl", "set-property", "--runtime", SERVICE, "IPAddressDeny=")
            self.addCleanup(run, "systemctl", "revert", SERVICE)
            self.assertEqual(sends(pasta, PUBLIC), 0)
            session.execute(TOOLS)
            self.assertEqual(self.value(f"tcp('{PUBLIC}')", session), repr(GREETING))
            interfaces = "[line.split(':')[0].strip() for line in list(open('/proc/net/dev'))[2:]]"
            self.assertIn(self.value(interfaces, session), ("['lo', 'passt0']", "['passt0', 'lo']"))
            # The control: there is an answer for who is not in the session.
            with socket.create_server((HOST, 0)) as server:
                for address, port in ((PRIVATE, 80), (HOST, server.getsockname()[1])):
                    socket.create_connection((address, port), 60).close()
                    refused = self.value(f"tcp('{address}', {port})", session)
                    self.assertEqual(refused, "'ECONNREFUSED'", address)
        wait_until("pasta ends", lambda: not pathlib.Path(f"/proc/{pasta}").exists())
