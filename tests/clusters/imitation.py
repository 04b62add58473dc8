"""An empty account of AWS: moto (imitated_aws.py), and the AWS CLI that talks to it (warm_aws.py)."""

import atexit
import functools
import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import pytest

from command import ROOT, wait_until
from slurm_machine import free_ports
from tools import BIN, tool
from warm_aws import aws_program

AWS = ROOT / "scripts" / "aws"


class Account:
    """An account at a server of its own, and the scripts in it."""

    def __init__(self, port: int, folder):
        self.port = port
        self.environment = {"PATH": f"{folder / 'bin'}:{BIN}:{os.environ['PATH']}", "HOME": str(folder), "AWS_REGION": "us-east-1",
                            "AWS_DEFAULT_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "1",
                            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "test",
                            "AWS_SECRET_ACCESS_KEY": "test", "ZONE": "us-east-1a", "POLL_SECONDS": "1",
                            "AWS_EC2_METADATA_DISABLED": "true"}

    def post(self, path: str, body: dict | None = None) -> None:
        data = json.dumps(body or {}).encode()
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data), timeout=10).read()

    def reset(self) -> None:
        self.post("/moto-api/reset")
        self.post("/moto-api/config", {"batch": {"use_docker": False}, "stepfunctions": {"execute_state_machine": True},
                                       "iam": {"load_aws_managed_policies": True}})

    def script(self, name: str, *arguments, check: int = 0, **environment):
        variables = {**self.environment, "AWS_DEFAULT_REGION": "", **environment}  # the scripts use only AWS_REGION
        done = subprocess.run([str(AWS / name), *arguments], env=variables, capture_output=True,
                              text=True, check=False, timeout=300, stdin=subprocess.DEVNULL)
        assert done.returncode == check, f"{name} {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def aws(self, *arguments):
        done = subprocess.run(["aws", *arguments, "--output", "json"], env=self.environment, capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL, timeout=300)
        assert done.returncode == 0, f"aws {arguments}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout) if done.stdout.strip() else None

    def put(self, bucket: str, key: str = "", content: bytes = b"") -> None:
        """Makes a bucket, or an object in it."""
        headers = {"Content-Type": "application/octet-stream", "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{bucket}/{key}", data=content, headers=headers, method="PUT")
        urllib.request.urlopen(request, timeout=30).read()

    def put_data(self) -> None:
        """Puts data into the base stack's bucket, where the file system looks for it."""
        outputs = self.aws("cloudformation", "describe-stacks", "--stack-name", "dtrain-base")["Stacks"][0]["Outputs"]
        bucket = next(one["OutputValue"] for one in outputs if one["OutputKey"] == "BucketName")
        self.put(bucket, "data/train/cat/1.jpg")

    def resources(self, stack: str) -> list[str]:
        found = self.aws("cloudformation", "describe-stack-resources", "--stack-name", stack)
        return sorted(one.get("ResourceType", "") for one in found["StackResources"])


@functools.cache
def servers() -> Account:
    """Starts the two servers, which all tests of this process share."""
    port, = free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="dtrain-aws-"))
    atexit.register(shutil.rmtree, folder)
    account, socket = Account(port, folder), folder / "aws"
    aws_program(folder / "bin", socket)
    with open(folder / "log", "w", encoding="utf-8") as log:
        running = [subprocess.Popen([tool("python"), ROOT / "tests" / "clusters" / name, str(argument)], stdout=log, stderr=log,
                                    stdin=subprocess.DEVNULL, env=os.environ | {"MOTO_SIMPLE_BATCH_FAIL_AFTER": ""})
                   for name, argument in (("imitated_aws.py", port), ("warm_aws.py", socket))]
    for one in running:
        atexit.register(one.kill)

    def answers():
        assert all(one.poll() is None for one in running), (folder / "log").read_text()
        try:
            account.reset()
            return socket.exists()
        except OSError:
            return False

    wait_until(answers, "the imitation of AWS")
    return account


@pytest.fixture
def account():
    """An empty account."""
    servers().reset()
    return servers()
