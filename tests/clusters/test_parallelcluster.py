"""Tests scripts/aws/parallelcluster: what the cluster's file says, by ParallelCluster's own schema too (long), and what
configuration.sh refuses."""

import os
import subprocess
import sys

import pytest

from command import ROOT, run
from tools import read_yaml

PACKAGE = "aws-parallelcluster>=3.16.1,<3.17"
AWS = ROOT / "scripts" / "aws"
VARIABLES = {"NAME": "dtrain", "AWS_REGION": "us-east-1", "SUBNET_PUBLIC": "subnet-0123456789abcdef0", "KEY": "mine",
             "SUBNET_PRIVATE": "subnet-0123456789abcdef1", "SECURITY_GROUP": "sg-0123456789abcdef0",
             "FILE_SYSTEM_ID": "fs-0123456789abcdef0", "BUCKET": "of-images", "SSH_FROM": "203.0.113.7/32",
             "CAPACITY_TYPE": "ONDEMAND", "MIN_NODES": "0", "MAX_NODES": "8", "PLACEMENT_GROUP": "true"}
BLOCK = {"CAPACITY_TYPE": "CAPACITY_BLOCK", "CAPACITY_RESERVATION_ID": "cr-0123456789abcdef0", "MIN_NODES": "8",
         "PLACEMENT_GROUP": "false", "INSTANCE_TYPE": "p5en.48xlarge"}


def rendered(**more) -> str:
    return run(AWS / "parallelcluster" / "cluster.yaml", program=AWS / "eks" / "render.py", env=VARIABLES | more).stdout


def test_the_head_node_has_a_way_out_and_is_open_to_nobody_else():
    base = (AWS / "cloudformation" / "base.yaml").read_text(encoding="utf-8")
    head = read_yaml(rendered(KEY="laptop #2"))["HeadNode"]
    assert head["Ssh"]["KeyName"] == "laptop #2"
    # Without a public address the public subnet is a dead end: its way out is the internet gateway.
    assert "MapPublicIpOnLaunch" in base or head["Networking"]["ElasticIp"] is True
    assert head["Ssh"]["AllowedIps"] == "203.0.113.7/32"  # its default is the world


@pytest.mark.parametrize("more", [{}, BLOCK])
def test_the_queue(more):
    queue, = read_yaml(rendered(**more))["Scheduling"]["SlurmQueues"]
    resource, = queue["ComputeResources"]
    assert resource["Efa"] == {"Enabled": True}  # GdrSupport has had no effect since 3.0.2
    if more:  # what ParallelCluster's validators demand of a block
        assert queue["CapacityType"] == "CAPACITY_BLOCK" and resource["MinCount"] == resource["MaxCount"] > 0
        assert queue["CapacityReservationTarget"] == {"CapacityReservationId": "cr-0123456789abcdef0"}
        assert queue["Networking"]["PlacementGroup"] == {"Enabled": False}
    else:
        assert resource["MinCount"] == 0 and "CapacityReservationTarget" not in queue
        assert queue["Networking"]["PlacementGroup"] == {"Enabled": True}
    for script in (AWS / "parallelcluster").glob("*.sbatch"):
        text = script.read_text(encoding="utf-8")
        # The head node's own disk goes with the cluster.
        assert f"#SBATCH --partition={queue['Name']}\n" in text and "#SBATCH --output=/fsx/results/" in text


REFUSED = {
    "no key": ({"KEY": ""}, "KEY is not set"),
    "the world": ({"SSH_FROM": "0.0.0.0/0"}, "not the whole world"),
    "V100s without an image for them": ({"INSTANCE_TYPE": "p3dn.24xlarge"}, "the closed driver 570 or 580: CUSTOM_AMI="),
    "no number": ({"MAX_NODES": "many"}, "MAX_NODES is 'many'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_anything_is_asked(name):
    environment, text = REFUSED[name]
    said = run(program=AWS / "parallelcluster" / "configuration.sh", check=2, env={"KEY": "mine", "SSH_FROM": "203.0.113.7/32", **environment}).stderr
    assert text in said and "what to do:" in said


READ = """
import sys, yaml
from pcluster.schemas.cluster_schema import ClusterSchema
cluster = ClusterSchema(cluster_name="dtrain").load(yaml.safe_load(sys.stdin))
print([(queue.name, queue.compute_resources[0].efa.enabled) for queue in cluster.scheduling.queues])
"""


@pytest.mark.skipif(not os.environ.get("DTRAIN_LONG_TESTS"), reason="installs ParallelCluster: DTRAIN_LONG_TESTS=1")
def test_cluster(tmp_path):
    # It has an environment of its own, because it needs other versions of the packages in .venv/clusters.
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    subprocess.run([tmp_path / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE], check=True, timeout=900)

    def read(text: str):
        return run("-c", READ, program=tmp_path / "bin" / "python", text=text, check=None,
                   env={"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"})

    for text in (rendered(), rendered(**BLOCK), rendered(CUSTOM_AMI="ami-0123456789abcdef0", INSTANCE_TYPE="p3dn.24xlarge")):
        seen = read(text)
        assert seen.code == 0 and seen.stdout.strip() == "[('gpu', True)]", seen.stderr
    assert "Unknown field" in read(text.replace("MaxCount:", "MaxCounts:")).stderr
