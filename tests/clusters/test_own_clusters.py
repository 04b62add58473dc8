"""Runs the scripts that make machines for trainings by hand and a Slurm cluster, with the real AWS CLI against an imitation of
AWS (imitated_aws.py), from nothing to their end (long)."""

import os
import re
import subprocess

import pytest

from command import ROOT
from imitation import account  # noqa: F401, a fixture

pytestmark = pytest.mark.skipif(not os.environ.get("DTRAIN_LONG_TESTS"), reason="a minute: DTRAIN_LONG_TESTS=1")


def test_machines_for_trainings_by_hand_and_their_hosts_file(account, tmp_path):  # noqa: F811
    mine = {"KEY": "mine", "SSH_FROM": "203.0.113.7/32", "MACHINE_IMAGE": "ami-12c6146b", "INSTANCE_TYPE": "p4d.24xlarge"}
    script, hosts = "cloudformation/instances.sh", tmp_path / "hosts"
    for more, arguments, text in (({"SSH_FROM": "0.0.0.0/0"}, ("2",), "SSH_FROM is '0.0.0.0/0'"), ({}, ("many",), "machines is 'many'"),
                                  ({}, ("2",), "there is no stack dtrain-base")):
        assert text in account.script(script, *arguments, check=2, **(mine | more)).stderr
    account.script("cloudformation/set_up.sh")
    assert "there is no key pair mine" in account.script(script, "2", check=2, **mine).stderr
    account.aws("ec2", "create-key-pair", "--key-name", "mine")
    done = account.script(script, "2", hosts, **mine)
    lines = [line for line in hosts.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert len(lines) == 2 and all(re.fullmatch(r"[\d.]+ slots=8", line) for line in lines), lines
    assert "there is no file system" in done.stdout and "ssh -A ubuntu@" in done.stdout
    listed = subprocess.run([ROOT / "scripts" / "ssh" / "runclust", "true"], capture_output=True, text=True, check=False,
                            env=os.environ | {"HOSTS": str(hosts), "REMOTE_SHELL": "echo"})
    assert listed.returncode == 0 and all(line.split()[0] in listed.stdout for line in lines)
    assert "stack dtrain-instances" in account.script(script, "0", "--dry_run").stdout
    account.script(script, "0", "--yes")
    assert [one["StackName"] for one in account.aws("cloudformation", "describe-stacks")["Stacks"]] == ["dtrain-base"]


# Stands in for pcluster: notes its configuration, and makes a stack of the cluster's name with its tag.
PCLUSTER = """#!/bin/bash
while [ $# -gt 0 ]; do [ "$1" != --cluster-configuration ] || cp "$2" "$CALLS"; shift; done
echo '{"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}' >"$CALLS.json"
aws cloudformation create-stack --stack-name "$NAME" --template-body "file://$CALLS.json" --tags "Key=dtrain:name,Value=$NAME"
"""


def test_a_slurm_cluster_and_its_end(account, tmp_path):  # noqa: F811
    (tmp_path / "pcluster").write_text(PCLUSTER, encoding="utf-8")
    (tmp_path / "pcluster").chmod(0o755)
    mine = {"KEY": "mine", "SSH_FROM": "203.0.113.7/32", "PATH": f"{tmp_path}:{account.environment['PATH']}", "NAME": "dtrain",
            "CALLS": str(tmp_path / "cluster.yaml")}
    account.script("cloudformation/set_up.sh", "--file-system")
    account.aws("ec2", "create-key-pair", "--key-name", "mine")
    account.script("parallelcluster/set_up.sh", **mine)
    written = (tmp_path / "cluster.yaml").read_text(encoding="utf-8")
    made, = account.aws("fsx", "describe-file-systems")["FileSystems"]
    assert f"FileSystemId: {made['FileSystemId']}" in written and "ElasticIp: true" in written
    script = re.search(r"s3://(\S+?)/(clusters/dtrain/pyxis.sh)", written)
    account.aws("s3api", "head-object", "--bucket", script.group(1), "--key", script.group(2))
    assert "the cluster dtrain is there" in account.script("parallelcluster/set_up.sh", **mine).stdout
    account.script("parallelcluster/clean_up.sh", "--yes")
    account.script("parallelcluster/clean_up.sh", "--yes")  # and again
    names = {one["StackName"] for one in account.aws("cloudformation", "describe-stacks")["Stacks"]}
    assert names == {"dtrain-base", "dtrain-files"}
