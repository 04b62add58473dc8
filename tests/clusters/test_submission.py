"""What is submitted, what it may cost, and which image it runs; AWS answers from a table."""

import json
import os
import re
import shutil
import subprocess

import pytest

from command import ROOT, make_program, run
from test_entrypoint import enter

DIGEST = "sha256:" + "0a" * 32
ANSWERS = rf"""#!/bin/bash
printf '%s %s\n' "${{0##*/}}" "$*" >>"$CALLS"
case "${{0##*/}} $*" in
  docker*) cat >/dev/null ;;
  *get-caller-identity*) echo 123456789012 ;;
  *describe-regions*) echo us-east-1 ;;
  *StackStatus*) echo CREATE_COMPLETE ;;
  *describe-capacity-reservations*) printf '%b\n' "$RESERVATION" ;;
  *OtherPrivateSubnetId*) echo subnet-other ;;
  *PrivateSubnetId*) echo subnet-first ;;
  *"describe-subnets --subnet-ids subnet-other"*) echo us-east-1b ;;
  *describe-subnets*) echo us-east-1a ;;
  *"=='PublicSubnetId'"* | *"=='SecurityGroupId'"* | *"=='FileSystemId'"*) echo an-output ;;
  *describe-instance-type-offerings*) echo '["p5en.48xlarge"]' ;;
  *describe-instances*) echo "${{RUNNING:-[]}}" ;;
  *get-service-quota*) echo 768.0 ;;
  *"Stacks[0].Tags"*) echo dtrain ;;
  *RepositoryUri*) echo 1.dkr.ecr/dtrain ;;
  *BucketName*) echo bucket ;;
  *imageDigest*) echo {DIGEST} ;;
  *"keys(parameters"*) echo '[["arn", "recipe", "data", "epochs", "lr", "seed", "run_dir", "run_token"]]' ;;
  *instance-type*attemptDurationSeconds*) echo '[["p4d.24xlarge", 86400, 3]]' ;;
  *attemptDurationSeconds*) echo '[[86400, 3]]' ;;
  *instance-type*) echo '["p4d.24xlarge"]' ;;
  *dtrain:nodes*) echo '["20"]' ;;
  *parameters.data*) echo '["/fsx/data"]' ;;
  *jobDefinitionArn* | *sha256*) echo '["arn:definition"]' ;;
  *TrainSeconds*) echo 273600 ;;
  *"Stacks[0].[StackName"*) printf 'the-stack\tdtrain\n' ;;
  *StateMachineArn*) echo arn:machine ;;
  *list-executions*) echo "${{EXECUTIONS:-[\"baseline\"]}}" ;;
  *start-execution*) echo arn:execution ;;
  *"jobQueues[?status"*) echo None ;;
  *"jobQueues[].computeEnvironmentOrder"* | *"[0].state"*) echo '["ENABLED"]' ;;
  *describe-job-queues*) printf 'ENABLED\tVALID\tenvironment\n' ;;
  *describe-compute-environments*) echo 1920 ;;
  *describe-file-systems*) echo "${{FILE_SYSTEMS:-[[\"AVAILABLE\", \"fs-1\"]]}}" ;;
  *list-objects-v2*) echo '"data/train"' ;;
  *list-jobs*) echo '[]' ;;
  *submit-job*) echo the-id ;;
esac
"""


@pytest.fixture
def call_script(tmp_path):
    for name in ("aws", "docker"):
        make_program(tmp_path / name, ANSWERS)
    calls = tmp_path / "calls"

    def call(*words: str, check: int = 0, stdin: int = subprocess.DEVNULL, **variables) -> tuple[str, str]:
        calls.write_text("", encoding="utf-8")
        done = subprocess.run(words, cwd=ROOT / "scripts" / "aws", capture_output=True, text=True, check=False, stdin=stdin,
                              env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "AWS_REGION": "us-east-1",
                                                "CALLS": str(calls), **variables})
        assert done.returncode == check, done
        return done.stdout + done.stderr, calls.read_text(encoding="utf-8")

    return call


def parameters(calls: str) -> dict:
    """Returns what the job or the execution that was started is given."""
    given = json.JSONDecoder().raw_decode(re.search(r"--(?:parameters|input) (\{.*)", calls).group(1))[0]
    return given.get("parameters", given)


def test_a_job_continues_under_its_name_and_says_its_cost(call_script):
    output, calls = call_script("batch/submit.sh", "baseline", "epochs=3")
    assert "At most 1440 hours of p4d.24xlarge (20 × 24 h × 3 attempts): $31619 at 21.957642 an hour" in output
    assert output.splitlines()[-1] == "the-id" and parameters(calls)["epochs"] == "3" and parameters(calls)["run_dir"] == "/fsx/results/baseline"
    tokens = {parameters(calls)["run_token"]}
    _, calls = call_script("batch/submit.sh", "again", "run_dir=/fsx/results/baseline", "--nodes=2", MOST_DOLLARS="4000")
    tokens.add(parameters(calls)["run_token"])
    assert len(tokens) == 2 and all(re.fullmatch(r"[0-9a-f]{32}", one) for one in tokens)
    assert parameters(calls)["run_dir"] == "/fsx/results/baseline" and "--node-overrides numNodes=2" in calls
    for place in ("/scratch/baseline", "/fsx/results/../data"):
        output, calls = call_script("batch/submit.sh", "baseline", f"run_dir={place}", check=2)
        assert "is not in /fsx/results" in output and "submit-job" not in calls
    output, calls = call_script("batch/submit.sh", "baseline", check=2, MOST_DOLLARS="31618")
    assert "more than MOST_DOLLARS" in output and "submit-job" not in calls


BLOCK = {"CAPACITY_RESERVATION_ID": "cr-1", "INSTANCE_TYPE": "p5en.48xlarge", "NODES": "8", "HOURS": "1"}


def test_machines_are_started_in_a_reservation_or_where_there_are_some(call_script):
    def deployed(**variables) -> str:
        return next(line for line in call_script("batch/set_up.sh", **variables)[1].splitlines() if " cloudformation deploy " in line)

    for kind, market in (("capacity-block", "capacity-block"), ("default", "on-demand")):
        line = deployed(**BLOCK, GPU_ZONE="us-east-1b", RESERVATION=rf"active\tp5en.48xlarge\tus-east-1b\t8\t{kind}")
        assert f"SubnetId=subnet-other OtherSubnetId= InstanceType=p5en.48xlarge CapacityReservationId=cr-1 Market={market} " in line
    line = deployed(INSTANCE_TYPE="p5en.48xlarge", NODES="4")
    assert "SubnetId=subnet-first OtherSubnetId=subnet-other InstanceType=p5en.48xlarge CapacityReservationId= Market=on-demand " in line
    for variables, text in (
            ({"RESERVATION": r"active\tp5en.48xlarge\tus-east-1b\t8\tdefault"}, "of p5en.48xlarge in us-east-1b"),
            ({"RESERVATION": r"expired\tp5en.48xlarge\tus-east-1a\t8\tdefault"}, "the reservation cr-1 is expired"),
            ({"RESERVATION": r"active\tp5en.48xlarge\tus-east-1a\t4\tdefault"}, "has 4 machines, not 8"),
            ({"RESERVATION": "", "SPOT": "1"}, "no job of several machines on Spot"),
            ({"CAPACITY_RESERVATION_ID": "", "RESERVATION": ""}, "8 × p5en.48xlarge need 1536 vCPUs"),
            ({"CAPACITY_RESERVATION_ID": "", "RESERVATION": "", "NODES": "4", "RUNNING": "[[48, 2], [1, 1]]"}, "quota is 768, of which 97 are in use"),
            ({"GPU_ZONE": "us-east-1f", "RESERVATION": ""}, "no private subnet in us-east-1f")):
        assert text in call_script("batch/set_up.sh", check=2, **BLOCK | variables)[0]


@pytest.mark.parametrize("variables, kind, least, placed", [
    ({"SPOT": "1"}, "SPOT", 0, True), ({}, "ONDEMAND", 0, True),
    ({"CAPACITY_RESERVATION_ID": "cr-1", "RESERVATION": r"active\tp5en.48xlarge\tus-east-1a\t4\tdefault"}, "ONDEMAND", 0, False),
    ({"CAPACITY_RESERVATION_ID": "cr-1", "RESERVATION": r"active\tp5en.48xlarge\tus-east-1a\t4\tcapacity-block"}, "CAPACITY_BLOCK", 4, False)])
def test_slurm_has_machines_of_every_market(call_script, variables, kind, least, placed):
    output, _ = call_script("parallelcluster/configuration.sh", KEY="mine", SSH_FROM="203.0.113.7/32", MAX_NODES="4",
                            INSTANCE_TYPE="p5en.48xlarge", **variables)
    assert "At most 4 × p5en.48xlarge: $253.18 an hour" in output
    for line in (f"CapacityType: {kind}\n", f"MinCount: {least}\n", f"Enabled: {str(placed).lower()}\n", 'SubnetIds: ["subnet-first"]'):
        assert line in output, line
    assert ("CapacityReservationId" in output) == ("RESERVATION" in variables)


def test_a_workflow_may_be_started_again_under_its_name(call_script):
    quiet = {"EXECUTIONS": "[]", "FILE_SYSTEMS": "[]"}
    output, calls = call_script("batch/submit.sh", "baseline", "--workflow", "epochs=3", **quiet)
    assert re.search(r"--name baseline-\d{4}T\d{4}[0-9a-f]{6} ", calls) and output.splitlines()[-1] == "arn:execution"
    assert parameters(calls)["epochs"] == "3" and "submit-job" not in calls and re.fullmatch(r"[0-9a-f]{32}", parameters(calls)["run_token"])
    for words, text in ((("b" * 65,), "up to 64 letters"), (("baseline", "--nodes=2"), "--nodes and --workflow were both given")):
        assert text in call_script("batch/submit.sh", *words, "--workflow", check=2, **quiet)[0]
    assert "the workflow is under way" in call_script("batch/submit.sh", "baseline", "--workflow", check=2, FILE_SYSTEMS="[]")[0]


def test_the_token_of_a_submission_reaches_the_program_in_the_environment():
    """By the definition's command, with what Batch replaces in it."""
    job = json.loads(run("--name=n", "--instance_type=p4d.24xlarge", "--image=i", "--role=r",
                         program=ROOT / "scripts" / "aws" / "batch" / "job_definition.py").stdout)
    values = {**job["parameters"], "recipe": "default", "data": "default", "run_token": "secret"}
    words = job["nodeProperties"]["nodeRangeProperties"][0]["container"]["command"]
    words = [values[word.removeprefix("Ref::")] if word.startswith("Ref::") else word for word in words]
    assert enter("bash", "-c", "echo $DTRAIN_RUN_TOKEN", *words[1:]).lines == ["secret"]


def test_old_prices_are_said_to_be_old_and_are_refreshed(call_script, tmp_path):
    folder = tmp_path / "aws-folder"
    folder.mkdir()
    for name in ("prices.py", "costs.sh"):
        shutil.copy(ROOT / "scripts" / "aws" / name, folder)
    (folder / "prices.tsv").write_text("# as of 2020-01-02: from a list\np4d.24xlarge\t1.5\np3.8xlarge\t2.5\neks\t0.10\n", encoding="utf-8")
    product = json.dumps({"terms": {"OnDemand": {"a": {"priceDimensions": {"b": {"pricePerUnit": {"USD": "21.957642"}}}}}}})
    (tmp_path / "aws").write_text(f"""#!/bin/sh
case "$*" in *Value=p4d*) printf '%s' '{{"PriceList": [{json.dumps(product)}]}}' ;; *) echo '{{"PriceList": []}}' ;; esac
""", encoding="utf-8")
    said = ("bash", "-euc", f'say() {{ echo "$@"; }}; . {folder}/costs.sh; say_price p4d.24xlarge 2')
    assert re.search(r"\$3.00 an hour.*2020-01-02, \d+ days ago: scripts/aws/prices.py gets newer ones", call_script(*said)[0])
    assert "stays" in call_script("/usr/bin/python3", str(folder / "prices.py"))[0]
    output, _ = call_script(*said)
    assert "$43.92 an hour" in output and "days ago" not in output
    assert (folder / "prices.tsv").read_text(encoding="utf-8").splitlines()[2:] == ["p3.8xlarge\t2.5", "eks\t0.10"]


def test_a_workflow_under_way_keeps_its_stack(call_script):
    output, calls = call_script("./clean_up.sh", "batch", "--yes", check=2)
    assert "the workflow is under way: baseline" in output and "delete" not in calls


@pytest.mark.parametrize("answer", ["yes", "dtrain"])
def test_a_person_types_the_name(call_script, tmp_path, answer):
    table = (tmp_path / "aws").read_text(encoding="utf-8")
    here, gone = tmp_path / "here", "echo 'does not exist' >&2; exit 254"
    here.touch()
    table = table.replace('case "${', f"""case "$*" in
  *list-executions* | *describe-job-definitions* | *describe-compute-environments*) echo []; exit ;;
  *"Stacks[0].[StackName"*) [ -e {here} ] || {{ {gone}; }} ;;
  *delete-stack*) rm {here} ;;
esac
case "${{""", 1)
    (tmp_path / "aws").write_text(table, encoding="utf-8")
    person, terminal = os.openpty()
    os.write(person, f"{answer}\n".encode())
    output, calls = call_script("./clean_up.sh", "batch", check=0 if answer == "dtrain" else 2, stdin=terminal)
    os.close(person)
    os.close(terminal)
    assert "stack dtrain-batch: with its" in output and here.exists() == (answer != "dtrain")
    assert ("delete-stack" in calls) == (answer == "dtrain")


def test_images_are_built_for_the_instances_and_run_by_their_digest(call_script):
    """By the commands of docs/aws.md."""
    commands = re.search(r"(?s)```sh\n(REPOSITORY=.*?)```", (ROOT / "docs" / "aws.md").read_text(encoding="utf-8")).group(1)
    _, calls = call_script("bash", "-euc", f"cd {ROOT}; NAME=dtrain; {commands}")
    assert "docker build --platform linux/amd64 " in calls and "docker push 1.dkr.ecr/dtrain:latest" in calls
    output, _ = call_script("bash", "-c", "source batch/job.sh; image_of latest")
    assert output == f"1.dkr.ecr/dtrain@{DIGEST}\n"
