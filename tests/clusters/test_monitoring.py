"""The dashboard is put into a Grafana, and alerts ask for what there is (scripts/monitoring)."""

import json
import re

import pytest

from command import ROOT, make_program, run

promql = pytest.importorskip("promql_parser")
yaml = pytest.importorskip("yaml")
MONITORING = ROOT / "scripts" / "monitoring"


def test_the_dashboard_is_put_into_a_grafana_with_one_command(tmp_path):
    """That of docs/metrics.md, with a stand-in for curl that keeps what it is given."""
    command = re.search(r"(?s)```sh\n(curl .*?grafana\.json.*?)```", (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")).group(1)
    make_program(tmp_path / "curl", '#!/bin/sh\nfor word; do :; done\nprintf "%s\\n" "$@" >&2\ncat\n')
    done = run("-euc", command, program="bash", cwd=ROOT, env={"PATH": f"{tmp_path}:/usr/bin:/bin", "GRAFANA_TOKEN": "t",
                                                               "GRAFANA": "https://grafana.example.org"})
    body = json.loads(done.stdout)
    assert body["overwrite"] is True and body["dashboard"]["title"] == "dtrain"
    assert "https://grafana.example.org/api/dashboards/db" in done.stderr and "Authorization: Bearer t" in done.stderr


def test_alerts_are_rules_of_prometheus_about_what_is_served():
    documented = set(re.findall(r"`(dtrain_\w+)", (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")))
    group, = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        promql.parse(rule["expr"])
        assert set(rule) <= {"alert", "expr", "for", "annotations"} and rule["annotations"]["summary"]
        assert set(re.findall(r"dtrain_\w+", rule["expr"])) <= documented, rule["alert"]


def test_alarms_look_at_what_is_reported_and_logged():
    text = (MONITORING / "alarms.yaml").read_text(encoding="utf-8")
    kept = (MONITORING / "cloudwatch_agent.json").read_text(encoding="utf-8")
    declared, = (one for one in re.findall(r'"\^dtrain_\(([^)]*)\)\$"', kept) if "step_total" in one)
    assert {f"dtrain_{name}" for name in declared.split("|")} >= set(re.findall(r"MetricName: (dtrain_\w+)", text))
    assert re.search(r'\["job"\]\]', re.sub(r"\s", "", kept))  # the dimension of the alarm
    words = re.findall(r'\?"([^"]+)"', re.search(r"FilterPattern: '(.*)'", text).group(1))
    assert [word for word in words if not word.startswith("exit code ")] == ["guard_node.sh: out of service"]
    assert "guard_node.sh: out of service" in (ROOT / "scripts" / "guard_node.sh").read_text(encoding="utf-8")
