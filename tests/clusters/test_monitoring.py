"""The dashboard is put into a Grafana, and alerts ask for what there is (scripts/monitoring)."""

import json
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from command import ROOT

promql = pytest.importorskip("promql_parser")
yaml = pytest.importorskip("yaml")
MONITORING = ROOT / "scripts" / "monitoring"


@pytest.fixture
def grafana():
    """A stand-in that keeps what it gets from who has the token."""
    class Server(BaseHTTPRequestHandler):
        got: list = []

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            allowed = self.path == "/api/dashboards/db" and self.headers["Authorization"] == "Bearer right"
            self.send_response(200 if allowed else 401)
            self.end_headers()
            if allowed:
                self.got.append(body)
                self.wfile.write(json.dumps({"url": f"/d/{body['dashboard']['uid']}/dtrain", "status": "success"}).encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", Server.got
        server.shutdown()


def deploy(*words: str, token: str) -> subprocess.CompletedProcess:
    return subprocess.run([MONITORING / "deploy_grafana.py", *words], env={"PATH": "/usr/bin:/bin", "GRAFANA_TOKEN": token},
                          capture_output=True, text=True, check=False, timeout=60)


def test_the_dashboard_is_deployed_and_replaced_with_one_command(grafana):
    address, got = grafana
    for _ in range(2):
        done = deploy(f"{address}/", token="right")
        assert (done.returncode, done.stdout) == (0, f"{address}/d/dtrain/dtrain\n"), done.stderr
    assert len(got) == 2 and got[0]["overwrite"] is True and got[0]["dashboard"]["title"] == "dtrain"


def test_what_grafana_refuses_is_said(grafana):
    address, got = grafana
    for words, token, text in (((address,), "wrong", "401"), ((address,), "", "GRAFANA_TOKEN is not set"),
                               (("http://127.0.0.1:1",), "right", "refused")):
        done = deploy(*words, token=token)
        assert done.returncode == 2 and text in done.stderr and "what to do:" in done.stderr and got == []
    assert deploy("127.0.0.1", token="right").returncode == 2


def test_alerts_are_rules_of_prometheus_about_what_is_served():
    documented = set(re.findall(r"`(dtrain_\w+)", (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")))
    group, = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        promql.parse(rule["expr"])
        assert set(rule) <= {"alert", "expr", "for", "annotations"} and rule["annotations"]["summary"]
        assert set(re.findall(r"dtrain_\w+", rule["expr"])) <= documented, rule["alert"]


def test_alarms_look_at_what_is_reported_and_logged():
    text = (MONITORING / "alarms.yaml").read_text(encoding="utf-8")
    named = set(re.findall(r"MetricName: (dtrain_\w+)", text))
    for path in (MONITORING / "cloudwatch_agent.json", ROOT / "scripts" / "aws" / "eks" / "metrics.yaml"):
        kept = path.read_text(encoding="utf-8")
        declared, = (one for one in re.findall(r'"\^dtrain_\(([^)]*)\)\$"', kept) if "step_total" in one)
        assert {f"dtrain_{name}" for name in declared.split("|")} >= named
        assert re.search(r'\["job"\]\]', re.sub(r"\s", "", kept))  # the dimension of the alarm
    assert 'out of service' in (ROOT / "scripts" / "guard_node.sh").read_text(encoding="utf-8")
    for words in re.findall(r"FilterPattern: '\"(.*)\"'", text):
        assert words.startswith("exit code ") or words in "guard_node.sh: out of service: Xid"
