"""ParallelCluster's own schema reads scripts/aws/parallelcluster/cluster.yaml (long)."""

import os
import subprocess
import sys

import pytest

from command import ROOT

PACKAGE = "aws-parallelcluster==3.16.1"
VARIABLES = {"NAME": "dtrain", "AWS_REGION": "us-east-1", "SUBNET_PUBLIC": "subnet-0123456789abcdef0", "KEY": "mine",
             "SUBNET_PRIVATE": "subnet-0123456789abcdef1", "SECURITY_GROUP": "sg-0123456789abcdef0",
             "FILE_SYSTEM_ID": "fs-0123456789abcdef0"}
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
    folder = ROOT / "scripts" / "aws"
    text = subprocess.run([folder / "eks" / "render.py", folder / "parallelcluster" / "cluster.yaml"], capture_output=True,
                          text=True, check=True, env=os.environ | VARIABLES).stdout

    def read(text: str) -> subprocess.CompletedProcess:
        return subprocess.run([tmp_path / "bin" / "python", "-c", READ], input=text, capture_output=True, text=True, check=False,
                              env=os.environ | {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"})

    seen = read(text)
    assert seen.returncode == 0 and seen.stdout.strip() == "[('p4d', True), ('p5', True)]", seen.stderr
    assert "Unknown field" in read(text.replace("MaxCount:", "MaxCounts:")).stderr
