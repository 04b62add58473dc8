"""The dashboard is put into a Grafana, and alarms look at what there is (scripts/monitoring). What dashboard and alerts ask for:
tests/integration/test_metrics.py."""

import json
import re

from command import ROOT, make_program, run

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


def test_alarms_look_at_what_is_reported_and_logged():
    text = (MONITORING / "alarms.yaml").read_text(encoding="utf-8")
    kept = (MONITORING / "cloudwatch_agent.json").read_text(encoding="utf-8")
    declared, = (one for one in re.findall(r'"\^dtrain_\(([^)]*)\)\$"', kept) if "step_total" in one)
    assert {f"dtrain_{name}" for name in declared.split("|")} >= set(re.findall(r"MetricName: (dtrain_\w+)", text))
    assert re.search(r'\["job"\]\]', re.sub(r"\s", "", kept))  # the dimension of the alarm
    words = re.findall(r'\?"([^"]+)"', re.search(r"FilterPattern: '(.*)'", text).group(1))
    assert [word for word in words if not word.startswith("exit code ")] == ["guard_node.sh: out of service"]
    assert "guard_node.sh: out of service" in (ROOT / "scripts" / "guard_node.sh").read_text(encoding="utf-8")
