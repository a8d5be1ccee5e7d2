"""An internet of the machine's own: a namespace behind an interface with a public address, in which
every address answers. No packet leaves the two.

    python3 internet.py      serves there, on a namespace's port 80
"""

import contextlib
import hashlib
import http.server
import pathlib
import subprocess
import sys

from support import run

NAMESPACE = "beyond"
# The host's own address, one beyond, and one beyond that is private.
HOST, PUBLIC, PRIVATE = "11.0.0.1", "11.22.33.44", "10.1.2.3"
# The paths that were asked for, one a line.
ASKED = pathlib.Path("/run/asked")

GREETING = b"from the internet"
# What the gate caches need not be a wheel, but have the hash that its page says.
WHEEL, CONTENT = "tiny-1.0-py3-none-any.whl", b"a wheel" * 1000
PAGE = f'<a href="/files/{WHEEL}#sha256={hashlib.sha256(CONTENT).hexdigest()}">{WHEEL}</a>'
ANSWERS = {
    "/": ("text/plain", GREETING),
    "/simple/tiny/": ("text/html", PAGE.encode()),
    f"/files/{WHEEL}": ("application/octet-stream", CONTENT),
}


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with ASKED.open("a") as asked:
            asked.write(f"{self.path}\n")
        kind, body = ANSWERS.get(self.path, ("text/plain", b""))
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def connected():
    """Connects the machine to it."""
    ASKED.write_text("")
    beyond = f"ip -netns {NAMESPACE}"
    for command in (
        f"ip netns add {NAMESPACE}",
        f"ip link add uplink type veth peer name beyond netns {NAMESPACE}",
        f"{beyond} link set lo up",
        f"{beyond} link set beyond up",
        f"{beyond} addr add 11.0.0.254/24 dev beyond",
        f"{beyond} route add local 0.0.0.0/0 dev lo",
        "ip link set uplink up",
        f"ip addr add {HOST}/24 dev uplink",
        "ip route add default via 11.0.0.254",
    ):
        run(*command.split())
    serve = ["ip", "netns", "exec", NAMESPACE, sys.executable, __file__]
    with subprocess.Popen(serve, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout and server.stdout.readline() == b"ready\n"
            yield
        finally:
            server.kill()
            # With it the pair goes, and the route.
            run("ip", "link", "delete", "uplink")
            run("ip", "netns", "delete", NAMESPACE)


if __name__ == "__main__":
    listening = http.server.ThreadingHTTPServer(("0.0.0.0", 80), Answer)
    print("ready", flush=True)
    listening.serve_forever()
