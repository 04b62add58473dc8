"""Every launcher gives the ranks of a run a token that nobody else knows (docs/trust.md): DTRAIN_RUN_TOKEN in their environment."""

import json
import re
import subprocess

import pytest

from command import ROOT, run
from test_entrypoint import ENTRY, PROGRAMS
from test_kubernetes import EKS, MANIFESTS, pods, rendered
from test_submission import call_script, parameters  # noqa: F401, one is a fixture

SCRIPTS = ROOT / "scripts"


def test_pods_have_the_clusters_secret():
    found = 0
    for container in (one for pod in pods(rendered(*MANIFESTS)) for one in pod["containers"] if "nvidia.com/gpu" in json.dumps(one)):
        token, = (one for one in container["env"] if one["name"] == "DTRAIN_RUN_TOKEN")
        assert token["valueFrom"] == {"secretKeyRef": {"name": "dtrain-run", "key": "token"}}
        found += 1
    assert found == 4 and "kubectl create secret generic dtrain-run" in (EKS / "set_up.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize("way", ["job", "workflow"])
def test_each_submission_to_batch_has_a_random_one(call_script, way):  # noqa: F811
    more = ("--workflow",) if way == "workflow" else ()
    tokens = {parameters(call_script("batch/submit.sh", "baseline", *more, EXECUTIONS="[]", **({"FILE_SYSTEMS": "[]"} if more else {}))[1])["run_token"]
              for _ in range(2)}
    assert len(tokens) == 2 and all(re.fullmatch(r"[0-9a-f]{32}", one) for one in tokens)
    # The definition's command, with what Batch replaces in it, reaches the program in the environment.
    made = subprocess.run([SCRIPTS / "aws" / "batch" / "job_definition.py", "--name=n", "--instance_type=p4d.24xlarge", "--image=i", "--role=r"],
                          capture_output=True, text=True, check=True).stdout
    job = json.loads(made)
    values = {**job["parameters"], "recipe": "default", "data": "default", "run_token": tokens.pop()}
    words = job["nodeProperties"]["nodeRangeProperties"][0]["container"]["command"]
    words = [values[word.removeprefix("Ref::")] if word.startswith("Ref::") else word for word in words]
    said = run("bash", "-c", "echo $DTRAIN_RUN_TOKEN", *words[1:], program=ENTRY, env=PROGRAMS)
    assert said.lines == [values["run_token"]]
