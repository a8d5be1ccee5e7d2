"""Prometheus, set up by docs/operations.md, scrapes the daemon, and its alerts arrive."""

import http.server
import json
import queue
import threading
import unittest
import urllib.parse
import urllib.request

from support import CONFIG, SERVICE, run, show, wait_until

PROMETHEUS = "http://127.0.0.1:9090/api/v1/"


def prometheus(path, **parameters):
    """What Prometheus answers."""
    url = PROMETHEUS + path + "?" + urllib.parse.urlencode(parameters)
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.load(response)["data"]


def tearDownModule():
    # It has shown what it had to, and the machine is slow.
    run("systemctl", "stop", "prometheus.service")


class Alertmanager(http.server.BaseHTTPRequestHandler):
    """Takes alerts as Alertmanager's API v2 does."""

    received: queue.Queue = queue.Queue()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        for alert in json.loads(body):
            self.received.put(alert)

    def log_message(self, *_):
        pass


class Monitoring(unittest.TestCase):
    def test_it_is_scraped_and_every_rule_is_healthy(self):
        targets = prometheus("targets", state="active")["activeTargets"]
        self.assertEqual([(t["labels"]["job"], t["health"]) for t in targets], [("vivarium", "up")])
        groups = prometheus("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertGreater(len(rules), 5)
        self.assertEqual([rule["name"] for rule in rules if rule["health"] == "err"], [])
        # All layers are enforced here, so that nothing is to be told.
        self.assertEqual(prometheus("alerts")["alerts"], [])

    def test_an_alert_reaches_the_alertmanager(self):
        server = http.server.HTTPServer(("127.0.0.1", 9093), Alertmanager)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        before = CONFIG.read_text()
        self.addCleanup(run, "systemctl", "restart", SERVICE)
        self.addCleanup(CONFIG.write_text, before)
        CONFIG.write_text(before.replace('mode = "on"', 'mode = "off"'))
        run("systemctl", "restart", SERVICE)
        wait_until("it is ready", lambda: show(SERVICE, "ActiveState") == "active")
        while True:
            labels = Alertmanager.received.get(timeout=180)["labels"]
            if labels["alertname"] == "VivariumSandboxOff":
                break
        self.assertEqual((labels["job"], labels["severity"]), ("vivarium", "critical"))
