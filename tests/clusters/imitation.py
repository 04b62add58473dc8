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

from command import ROOT, make_program, run, wait_until
from slurm_machine import free_ports
from tools import BIN, tool
from warm_aws import aws_program

AWS = ROOT / "scripts" / "aws"

# Stands in for eksctl, kubectl and helm. Each notes its arguments and its input, and fails as the original does on what is there
# already (eksctl passes over addons and node groups that are); eksctl also makes and deletes the cluster. If there is a file $OBJECTS,
# it has lines "KIND/NAMESPACE/NAME LABEL"; of a kind that is in none of them the server has no type.
STAND_IN = r"""#!/bin/bash
printf '%s %s\n' "${0##*/}" "$*" >>"$CALLS"
if [[ " $* " = *" - "* ]]; then cat >>"$CALLS"; fi
once() { [ ! -e "$CALLS.$1" ] || { echo "$2" >&2; exit 1; }; touch "$CALLS.$1"; }
if [ "${0##*/}" = kubectl ] && [ -n "${OBJECTS:-}" ]; then
  grep -q "^$2/" "$OBJECTS" || { echo "error: the server doesn't have a resource type" >&2; exit 1; }
fi
ours="--all-namespaces*--selector=app.kubernetes.io/part-of=dtrain"
case "${0##*/} $1 $*" in
  "eksctl create create cluster"*)
    vpc=$(aws ec2 create-vpc --cidr-block 10.9.0.0/16 --query Vpc.VpcId --output text)
    subnet=$(aws ec2 create-subnet --vpc-id "$vpc" --cidr-block 10.9.1.0/24 --availability-zone "$ZONE" --query Subnet.SubnetId --output text)
    aws ec2 create-tags --resources "$subnet" --tags Key=kubernetes.io/role/internal-elb,Value=1
    aws eks create-cluster --name "$NAME" --role-arn arn:aws:iam::123456789012:role/eks --tags "dtrain:name=$NAME" \
      --resources-vpc-config "subnetIds=$subnet" >/dev/null || exit 1
    touch "$CALLS.association" ;;
  "eksctl create create podidentityassociation"*) once association "ResourceInUseException: Association already exists" ;;
  "eksctl delete delete cluster"*) aws eks delete-cluster --name "$NAME" >/dev/null ;;
  "kubectl get get secret"*) [ -e "$CALLS.$3" ] || { echo 'Error from server (NotFound)' >&2; exit 1; } ;;
  "kubectl create create secret"*) once "$4" 'error: failed to create secret secrets "'"$4"'" already exists' ;;
  "kubectl get"*$ours*) sed -n "s#^\($2/.*\) dtrain\$#\1#p" "${OBJECTS:-/dev/null}" ;;
  "kubectl delete"*$ours*) [ -z "${OBJECTS:-}" ] || sed -i "\#^$2/.* dtrain\$#d" "$OBJECTS" ;;
esac
"""


def stand_ins(folder, *names: str):
    for name in names:
        make_program(folder / name, STAND_IN)
    return folder


class Account:
    """An account at a server of its own, and the scripts in it."""

    def __init__(self, port: int, folder):
        self.port = port
        self.environment = {"PATH": f"{folder / 'bin'}:{BIN}:{os.environ['PATH']}", "HOME": str(folder), "AWS_REGION": "us-east-1",
                            "AWS_DEFAULT_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "1",
                            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "test",
                            "AWS_SECRET_ACCESS_KEY": "test", "ZONE": "us-east-1a", "POLL_SECONDS": "0",
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
        return run(*arguments, program=AWS / name, env=variables, check=check, timeout=300)

    def aws(self, *arguments):
        told = run(*arguments, "--output", "json", program="aws", env=self.environment, timeout=300).stdout
        return json.loads(told) if told.strip() else None

    def denying(self, folder, commands: str, answer: str) -> str:
        """Returns a PATH on which the AWS CLI fails for commands like this pattern of the shell."""
        make_program(folder / "aws", f'#!/bin/sh\ncase "$*" in {commands}) echo {answer} >&2; exit 254 ;; esac\n'
                                     f'exec "{self.environment["PATH"].split(":", 1)[0]}/aws" "$@"\n')
        return f"{folder}:{self.environment['PATH']}"

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
