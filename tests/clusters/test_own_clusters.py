"""Runs the script that makes machines for trainings by hand, with the real AWS CLI against an imitation of AWS (imitated_aws.py),
from nothing to their end (long)."""

import os
import re

import pytest

from command import ROOT, run

pytestmark = pytest.mark.skipif(not os.environ.get("DTRAIN_LONG_TESTS"), reason="a minute: DTRAIN_LONG_TESTS=1")


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
