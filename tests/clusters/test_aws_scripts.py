"""Runs the unchanged scripts of scripts/aws with the real AWS CLI against an imitation of AWS (imitated_aws.py)."""

import json
import os
import re

import pytest

from command import ROOT, make_program, run, wait_until
from imitation import AWS, stand_ins
from test_aws_templates import as_json
from test_deletion import OURS, make_batch, make_file_system, make_network, submit
from tools import call


@pytest.mark.skipif(not os.environ.get("DTRAIN_LONG_TESTS"), reason="a minute: DTRAIN_LONG_TESTS=1")
def test_from_nothing_to_a_job_and_back(account):
    account.script("cloudformation/set_up.sh", "--file-system")
    types = account.resources("dtrain-base")
    for kind in ("AWS::EC2::VPC", "AWS::EC2::NatGateway", "AWS::EC2::SecurityGroupIngress", "AWS::S3::Bucket",
                 "AWS::ECR::Repository", "AWS::IAM::Role", "AWS::IAM::InstanceProfile", "AWS::EC2::VPCEndpoint"):
        assert kind in types
    assert "AWS::FSx::FileSystem" in account.resources("dtrain-files")

    refused = account.script("batch/set_up.sh", check=2)
    assert "there is no image" in refused.stderr and "docs/aws.md" in refused.stderr
    account.script("batch/set_up.sh", IMAGE="repository/dtrain:1", NODES="4")
    assert {"AWS::Batch::ComputeEnvironment", "AWS::Batch::JobQueue", "AWS::EC2::LaunchTemplate"} <= set(
        account.resources("dtrain-batch"))

    # Run twice, they change nothing. (moto takes a second change set of some stacks for an update, so only the base
    # stack and the job definition are compared.)
    assert "it is as it should be" in account.script("cloudformation/set_up.sh").stdout
    made = account.aws("fsx", "describe-file-systems")["FileSystems"]
    account.script("cloudformation/set_up.sh", "--file-system")
    assert account.aws("fsx", "describe-file-systems")["FileSystems"] == made
    again = account.script("batch/set_up.sh", IMAGE="repository/dtrain:1", NODES="4")
    assert "Job definition dtrain\n    it is as it should be" in again.stdout
    definitions = account.aws("batch", "describe-job-definitions", "--job-definition-name", "dtrain")["jobDefinitions"]
    assert [one["revision"] for one in definitions] == [1]

    account.put_data()
    job = account.script("batch/submit.sh", "baseline", "recipe=resnet50_160gpu", "epochs=3").stdout.splitlines()[-1]
    described = account.aws("batch", "describe-jobs", "--jobs", job)["jobs"][0]
    assert (described["parameters"]["epochs"], described["parameters"]["lr"]) == ("3", "default")
    assert re.fullmatch(r"[0-9a-f]{32}", described["parameters"]["run_token"])

    # What is left over is deleted while Batch stays, but not under a job. A budget's stop is undone by a second set-up.
    assert "clean_up.sh batch" in account.script("clean_up.sh", "base", check=2).stderr
    waiting = account.script("batch/submit.sh", "waits").stdout.splitlines()[-1]
    assert waiting in account.script("clean_up.sh", "files", "--yes", check=2).stderr
    stop_everything(account)
    assert "run scripts/aws/batch/set_up.sh" in account.script("batch/submit.sh", "later", check=2).stderr
    assert "was DISABLED, and is enabled again" in account.script("batch/set_up.sh", IMAGE="repository/dtrain:1", NODES="4").stdout
    account.script("batch/submit.sh", "later")
    account.script("clean_up.sh", "files", "--yes")
    assert account.aws("fsx", "describe-file-systems")["FileSystems"] == []
    account.script("clean_up.sh", "batch", "--yes")
    account.script("clean_up.sh", "base", "--yes")
    assert account.aws("cloudformation", "describe-stacks")["Stacks"] == []
    assert account.aws("fsx", "describe-file-systems")["FileSystems"] == []
    assert not account.aws("batch", "describe-job-definitions", "--status", "ACTIVE")["jobDefinitions"]
    account.script("clean_up.sh", "base", "--yes")  # and again


REFUSED = {
    "no region": ({"AWS_REGION": ""}, "AWS_REGION is not set"),
    "no such region": ({"AWS_REGION": "us-east-9", "ZONE": "us-east-9a"}, "in the region 'us-east-9'"),
    "no region at all": ({"AWS_REGION": "Virginia"}, "which is not a region"),
    "no zone": ({"ZONE": ""}, "ZONE is not set"),
    "another region's zone": ({"ZONE": "eu-west-1a"}, "not in the region"),
    "a capacity that FSx does not sell": ({"CAPACITY_GIB": "3600"}, "multiples of 2400"),
    "a name with capitals": ({"NAME": "Mine"}, "NAME is 'Mine'"),
    "an unknown instance type": ({"INSTANCE_TYPE": "p2.xlarge"}, "not among the instance types"),
    "the same zone twice": ({"OTHER_ZONE": "us-east-1a"}, "are both us-east-1a"),
    "a bucket that is not there": ({"BUCKET": "no-such-bucket-of-ours"}, "the bucket no-such-bucket-of-ours"),
}


def test_refused_before_anything_is_made(account):
    for environment, text in REFUSED.values():
        refused = account.script("cloudformation/set_up.sh", "--file-system", check=2, **environment)
        assert text in refused.stderr and "what to do:" in refused.stderr
    assert account.aws("cloudformation", "describe-stacks")["Stacks"] == []


def test_a_name_that_is_taken(account, tmp_path):
    template = tmp_path / "other.json"
    template.write_text('{"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}', encoding="utf-8")
    account.aws("cloudformation", "create-stack", "--stack-name", "dtrain-base", "--template-body", f"file://{template}")
    assert "these scripts have not made" in account.script("cloudformation/set_up.sh", check=2).stderr
    assert account.resources("dtrain-base") == ["AWS::SNS::Topic"]


def test_a_file_system_is_not_replaced_while_aws_does_not_answer(account, tmp_path):
    account.script("cloudformation/set_up.sh", "--file-system")
    made = account.aws("fsx", "describe-file-systems")["FileSystems"][0]["FileSystemId"]
    larger = account.script("cloudformation/set_up.sh", "--file-system", check=2, CAPACITY_GIB="4800").stderr
    assert "has CapacityGib 2400, not 4800: another one would take its place" in larger
    refused = account.script("cloudformation/set_up.sh", "--file-system", check=2, CAPACITY_GIB="4800",
                             PATH=account.denying(tmp_path, "*describe-stacks*dtrain-files*", "Throttling")).stderr
    assert "does not describe the stack dtrain-files: Throttling" in refused
    assert [one["FileSystemId"] for one in account.aws("fsx", "describe-file-systems")["FileSystems"]] == [made]


def test_what_is_needed_before_anything_is_made(account, tmp_path):
    tools = stand_ins(tmp_path, "eksctl", "kubectl", "helm")
    assert "there is no stack dtrain-base" in account.script("batch/set_up.sh", check=2).stderr
    account.script("cloudformation/set_up.sh")
    assert "--file-system" in account.script("batch/set_up.sh", check=2).stderr
    quota = account.script("batch/set_up.sh", "--workflow", check=2, NODES="20", IMAGE="i").stderr
    assert "20 × p4d.24xlarge need 1920 vCPUs, and this account's quota is 768, of which 0 are in use" in quota
    assert "request-service-quota-increase" in quota
    for script, variable in (("batch/set_up.sh", "MACHINE_IMAGE"), ("cloudformation/instances.sh", "MACHINE_IMAGE"), ("eks/set_up.sh", "AMI_RELEASE")):
        needed = {"INSTANCE_TYPE": "p3.16xlarge", "KEY": "mine", "SSH_FROM": "203.0.113.7/32", "OTHER_ZONE": "us-east-1b", "BUCKET": "b",
                  "IMAGE": "i", "PATH": f"{tools}:{account.environment['PATH']}"}
        refused = account.script(script, *(("2",) if "instances" in script else ()), check=2, **needed).stderr
        assert "580 is the last branch" in refused and f"{variable}=" in refused
    # What AWS does not answer is not taken for an empty text.
    refused = account.script("batch/set_up.sh", "--workflow", check=2, IMAGE="i",
                             PATH=account.denying(tmp_path, "*JobRoleArn*", "Throttling")).stderr
    assert "does not describe the stack dtrain-base: Throttling" in refused
    assert account.aws("batch", "describe-job-queues")["jobQueues"] == []


def test_the_hosts_can_be_written_before_there_are_any():
    assert "/nowhere/hosts cannot be written" in run("2", "/nowhere/hosts", program=AWS / "cloudformation" / "instances.sh", check=2).stderr


AWS_OF_A_SET_UP_THAT_WAS_CUT_OFF = """#!/bin/sh
case "$*" in
  *get-caller-identity*) echo 123456789012 ;;
  *describe-regions*) echo us-east-1 ;;
  *describe-stacks*) echo CREATE_COMPLETE ;;
  *describe-job-queues*) echo ENABLED VALID dtrain ;;
  *describe-job-definitions*) echo '[null]' ;;
esac
"""


def test_a_sweep_without_a_job_definition(tmp_path):
    make_program(tmp_path / "aws", AWS_OF_A_SET_UP_THAT_WAS_CUT_OFF)
    said = run("rates", ROOT / "scripts" / "sweeps" / "examples" / "digits.yaml", "--trials=3", "--", "--lr=1", program=AWS / "batch" / "sweep.sh",
               env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "AWS_REGION": "us-east-1"}, check=2).stderr
    assert said.startswith("error: there is no job definition dtrain\n")


@pytest.mark.skipif(not os.environ.get("DTRAIN_LONG_TESTS"), reason="a minute: DTRAIN_LONG_TESTS=1")
def test_jobs_sweeps_and_what_a_failed_set_up_leaves(account, tmp_path):
    account.script("cloudformation/set_up.sh")
    account.script("batch/set_up.sh", "--workflow", IMAGE="repository/dtrain:1", NODES="4")

    def refused(*arguments, script="batch/submit.sh", **environment):
        return account.script(script, *arguments, check=2, **environment).stderr

    # Submissions that could only wait or fail are refused.
    assert "needs 480 vCPUs, and the environment may have 384" in refused("large", "--nodes=5")
    assert "no parameter 'epoch'" in refused("typo", "epoch=3")
    assert "no recipe 'no_such'" in refused("typo", "recipe=no_such")
    assert "'epochs=ten' is not a number" in refused("typo", "epochs=ten")
    assert "refuses arrays" in refused("many", "--array=10")
    assert "is not a valid job name" in refused("two words")
    assert "no job definition" in refused("elsewhere", AWS_REGION="eu-west-1")
    assert "no file system for the instances to mount" in refused("early")
    account.script("cloudformation/set_up.sh", "--file-system")
    assert "there is nothing in s3://" in refused("early")
    account.put_data()
    assert "/data/resized/, which is /fsx/data/resized" in refused("early", "data=/fsx/data/resized")
    account.script("batch/submit.sh", "waits")
    assert "a job waits is under way already" in refused("waits")

    # A sweep is an array whose jobs share a study. The space is passed as text.
    space = str(ROOT / "scripts" / "sweeps" / "examples" / "digits.yaml")
    flags = ("--", "--recipe", "resnet50_90ep")
    assert "/dtrain:python" in refused("rates", space, "--trials=3", *flags, script="batch/sweep.sh")
    assert "no recipe 'r'" in refused("rates", space, "--trials=3", "--", "--recipe", "r", script="batch/sweep.sh")
    assert "is not a search space" in refused("rates", str(tmp_path), "--trials=3", *flags, script="batch/sweep.sh")
    submit = ("batch/sweep.sh", "rates", space, "--trials=3", "--prune", *flags)
    array = account.script(*submit, IMAGE="repository/dtrain:sweep").stdout.splitlines()[-1]
    job = account.aws("batch", "describe-jobs", "--jobs", array)["jobs"][0]
    words = job["container"]["command"]
    assert job["arrayProperties"]["size"] == 3 and words[:2] == ["python3", "/opt/dtrain/scripts/sweep.py"]
    assert {"--at_most=1", "--trials=3", "--output=/fsx/results/rates", "--prune", "--data_dir=/fsx/data"} <= set(words)
    assert words[words.index("dtrain_main") + 1] == "--nproc_per_node=auto"  # a definition may have eight GPUs
    assert "low: 0.005, high: 1, log: true" in words[2] and "resnet50_90ep" in words
    waiting = ("batch/sweep.sh", "waits", *submit[2:])
    assert "waits is under way" in account.script(*waiting, IMAGE="repository/dtrain:sweep").stdout

    # The stack is gone, but queue and environment are not, and a file system belongs to no stack.
    account.aws("cloudformation", "delete-stack", "--stack-name", "dtrain-batch")
    make_file_system(account, make_network(account), OURS, linked=False)
    assert "Deleting the job" in account.script("clean_up.sh", "batch", "--yes").stdout
    assert account.aws("batch", "describe-job-queues")["jobQueues"] == []
    assert not account.aws("batch", "describe-job-definitions", "--status", "ACTIVE")["jobDefinitions"]
    assert account.aws("batch", "describe-compute-environments")["computeEnvironments"] == []
    account.script("clean_up.sh", "files", "--yes", "--discard")
    assert account.aws("fsx", "describe-file-systems")["FileSystems"] == []
    assert account.aws("cloudformation", "describe-stacks")["Stacks"][0]["StackName"] == "dtrain-base"


@pytest.mark.skipif(not os.environ.get("DTRAIN_LONG_TESTS"), reason="a minute: DTRAIN_LONG_TESTS=1")
def test_a_cluster_of_eks_its_file_system_and_their_end(account, tmp_path):
    variables = {"PATH": f"{stand_ins(tmp_path, 'eksctl', 'kubectl', 'helm')}:{account.environment['PATH']}", "CALLS": str(tmp_path / "calls"),
                 "NAME": "dtrain", "OTHER_ZONE": "us-east-1b", "BUCKET": "of-images", "IMAGE": "repository/dtrain@sha256:0a"}
    assert "the bucket of-images" in account.script("eks/set_up.sh", check=2, **variables).stderr
    assert "without a digest" in account.script("eks/set_up.sh", check=2, **variables | {"IMAGE": "repository/dtrain:1"}).stderr
    account.aws("s3api", "create-bucket", "--bucket", "of-images")
    account.script("eks/set_up.sh", **variables)
    made, = account.aws("fsx", "describe-file-systems")["FileSystems"]
    calls = (tmp_path / "calls").read_text(encoding="utf-8")
    assert "kind: ClusterConfig" in calls and f"volumeHandle: {made['FileSystemId']}" in calls
    assert re.search(r"kubectl create secret generic dtrain-run --from-literal=token=[0-9a-f]{32}\n", calls)
    # Again, as after a set-up that was interrupted: eksctl gets what is missing to make, and the runs' token stays.
    before = len(calls)
    assert "the cluster dtrain is there" in account.script("eks/set_up.sh", **variables).stdout
    calls = (tmp_path / "calls").read_text(encoding="utf-8")[before:]
    for what in ("create addon", "create nodegroup"):
        assert f"eksctl {what} -f -" in calls
    assert "create cluster" not in calls and "create secret" not in calls and "kind: DaemonSet" in calls
    # The base stack's file system would replace this one.
    refused = account.script("cloudformation/set_up.sh", "--file-system", check=2).stderr
    assert "another one would take its place" in refused
    account.script("clean_up.sh", "eks", "--yes", **variables)
    assert account.aws("eks", "list-clusters")["clusters"] == []
    assert account.aws("fsx", "describe-file-systems")["FileSystems"] == []
    last = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()[-1]
    assert last == "eksctl delete cluster --name dtrain --region us-east-1 --wait"
    account.script("clean_up.sh", "eks", "--yes", **variables)  # and again


@pytest.mark.skipif(not os.environ.get("DTRAIN_LONG_TESTS"), reason="half a minute: DTRAIN_LONG_TESTS=1")
def test_the_workflow_makes_a_file_system_trains_and_takes_it_down(account):
    account.script("cloudformation/set_up.sh")
    account.script("batch/set_up.sh", "--workflow", IMAGE="repository/dtrain:1")
    assert "AWS::StepFunctions::StateMachine" in account.resources("dtrain-workflow")
    values = {one["ParameterKey"]: one["ParameterValue"] for one in account.aws(
        "cloudformation", "describe-stacks", "--stack-name", "dtrain-workflow")["Stacks"][0]["Parameters"]}
    assert values["TrainSeconds"] == "273600"
    make_workflow(account, values)

    def refused(*arguments):
        return account.script("batch/submit.sh", *arguments, "--workflow", check=2).stderr

    assert "there is nothing in s3://" in refused("one")
    account.put_data()
    other = account.aws("fsx", "create-file-system", "--file-system-type", "LUSTRE", "--storage-capacity", "1200", "--subnet-ids",
                        "subnet-0123456789abcdef0", "--tags", "Key=dtrain:name,Value=dtrain")["FileSystem"]["FileSystemId"]
    assert f"of this name already: AVAILABLE {other}" in refused("one")
    account.aws("fsx", "delete-file-system", "--file-system-id", other)
    assert f"of this name already: DELETING {other}" in refused("one")
    # Submitted again under its name, it continues.
    for _ in range(2):
        started = account.script("batch/submit.sh", "one" + "e" * 61, "epochs=2", "--workflow")
        assert "$3162 at 21.957642" in started.stdout
        execution = started.stdout.splitlines()[-1]
        assert finished(account, execution)["status"] == "SUCCEEDED"
        wait_until(lambda: account.aws("fsx", "describe-file-systems")["FileSystems"] == [], "the file system to be gone")
    jobs = account.aws("batch", "list-jobs", "--job-queue", "dtrain", "--job-status", "SUCCEEDED")["jobSummaryList"]
    assert [one["jobName"] for one in jobs] == ["one" + "e" * 61] * 2


@pytest.mark.skipif(not os.environ.get("DTRAIN_LONG_TESTS"), reason="a minute: DTRAIN_LONG_TESTS=1")
def test_machines_for_trainings_by_hand_and_their_hosts_file(account, tmp_path):
    mine = {"KEY": "mine", "SSH_FROM": "203.0.113.7/32", "MACHINE_IMAGE": "ami-12c6146b", "INSTANCE_TYPE": "p4d.24xlarge"}
    script, hosts = "cloudformation/instances.sh", tmp_path / "hosts"
    for more, arguments, text in (({"SSH_FROM": "0.0.0.0/0"}, ("2",), "SSH_FROM is '0.0.0.0/0'"), ({}, ("many",), "machines is 'many'"),
                                  ({"INSTANCE_TYPE": "p3.16xlarge", "MACHINE_IMAGE": ""}, ("2",), "the closed driver 570 or 580: MACHINE_IMAGE="),
                                  ({}, ("2",), "there is no stack dtrain-base")):
        assert text in account.script(script, *arguments, check=2, **(mine | more)).stderr
    account.script("cloudformation/set_up.sh")
    assert "there is no key pair mine" in account.script(script, "2", check=2, **mine).stderr
    account.aws("ec2", "create-key-pair", "--key-name", "mine")
    done = account.script(script, "2", hosts, **mine)
    lines = [line for line in hosts.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert len(lines) == 2 and all(re.fullmatch(r"[\d.]+ slots=8", line) for line in lines), lines
    assert "there is no file system" in done.stdout and "ssh -A -J ubuntu@" in done.stdout
    listed = run("true", program=ROOT / "scripts" / "ssh" / "runclust", env={"HOSTS": str(hosts), "REMOTE_SHELL": "echo"})
    assert all(line.split()[0] in listed.stdout for line in lines)
    # More of them later: they keep their image, since CloudFormation replaces machines whose image is another one.
    account.script(script, "3", hosts, **mine | {"MACHINE_IMAGE": ""})
    stack, = account.aws("cloudformation", "describe-stacks", "--stack-name", "dtrain-instances")["Stacks"]
    assert {"OutputKey": "Image", "OutputValue": "ami-12c6146b"} in stack["Outputs"]
    assert sum(line.endswith(" slots=8") for line in hosts.read_text(encoding="utf-8").splitlines()) == 3
    assert "stack dtrain-instances" in account.script("clean_up.sh", "instances", "--dry_run").stdout
    account.script("clean_up.sh", "instances", "--yes")
    assert [one["StackName"] for one in account.aws("cloudformation", "describe-stacks")["Stacks"]] == ["dtrain-base"]


def finished(account, execution: str) -> dict:
    """Waits for the end of an execution."""
    found: dict = {}
    wait_until(lambda: found.update(account.aws("stepfunctions", "describe-execution", "--execution-arn", execution)) or
               found["status"] != "RUNNING", "the execution to end", seconds=120)
    return found


def make_workflow(account, values: dict) -> str:
    """Makes the workflow's state machine with short waits. moto executes only those that CloudFormation has not made."""
    template = as_json(AWS / "batch" / "workflow.yaml")["Resources"]["Training"]["Properties"]
    definition = re.sub(r'"Seconds": \d+', '"Seconds": 1', json.dumps(template["Definition"]))
    for name in template["DefinitionSubstitutions"]:
        definition = definition.replace(f"${{{name}}}", values[name])
    return account.aws("stepfunctions", "create-state-machine", "--name", "dtrain-training", "--definition", definition,
                       "--role-arn", "arn:aws:iam::123456789012:role/workflow")["stateMachineArn"]


def test_a_training_that_takes_too_long_is_ended_and_exported(account):
    make_batch(account, "ours", "--tags", "dtrain:name=dtrain")
    machine = make_workflow(account, {"Name": "dtrain", "SubnetId": "subnet-0123456789abcdef0", "BucketName": "b", "CapacityGib": "1200",
                                      "SecurityGroupId": "sg-0123456789abcdef0", "TrainSeconds": "3"})

    def start(name: str, given: str) -> dict:
        return finished(account, account.aws("stepfunctions", "start-execution", "--state-machine-arn", machine, "--name", name, "--input",
                                             given)["executionArn"])

    for given in ("{}", '{"job": "one"}', '{"parameters": {}}'):  # nothing is made for what cannot be run
        assert start(f"wrong-{len(given)}", given)["error"] == "NothingToRun"
    assert account.aws("fsx", "describe-file-systems")["FileSystems"] == []
    ended = start("waits", '{"job": "waits", "parameters": {}}')
    assert (ended["status"], ended["cause"]) == ("FAILED", "The Batch job failed; results are exported, the file system is deleted.")
    wait_until(lambda: account.aws("fsx", "describe-file-systems")["FileSystems"] == [], "the file system to be gone")
    job, = account.aws("batch", "list-jobs", "--job-queue", "dtrain", "--job-status", "FAILED")["jobSummaryList"]
    assert job["jobName"] == "waits"
    assert account.aws("batch", "describe-jobs", "--jobs", job["jobId"])["jobs"][0]["parameters"]["run_token"]


def stop_everything(account, before: str = "") -> None:
    """The budget's stop, which is a function in the template."""
    code = as_json(AWS / "batch" / "environment.yaml")["Resources"]["Stop"]["Properties"]["Code"]["ZipFile"]
    call("python", "-c", f"{code}\n{before}\nstop({{}}, None)", env=account.environment | {"QUEUE": "dtrain"})


def test_the_stop_of_a_budget_passes_over_what_it_may_not_end(account):
    make_batch(account, "ours", "--tags", "dtrain:name=dtrain")
    jobs = [submit(account) for _ in range(3)]
    denied = f"""
import botocore.client
plain = botocore.client.BaseClient._make_api_call
def deny(self, name, given):
    if given.get("jobId") == "{jobs[0]}":
        raise PermissionError("AccessDenied")
    return plain(self, name, given)
botocore.client.BaseClient._make_api_call = deny
"""
    with pytest.raises(AssertionError, match="RuntimeError.*AccessDenied"):
        stop_everything(account, denied)
    assert account.aws("batch", "describe-job-queues")["jobQueues"][0]["state"] == "DISABLED"
    assert account.aws("batch", "describe-compute-environments")["computeEnvironments"][0]["state"] == "DISABLED"
    assert len(account.aws("batch", "list-jobs", "--job-queue", "dtrain", "--job-status", "FAILED")["jobSummaryList"]) == 2
