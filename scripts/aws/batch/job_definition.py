#!/usr/bin/env python3
"""Prints the job definition for an instance type: job_definition.json and what depends on the type, the image, the role.

    job_definition.py --name=dtrain --instance_type=p4d.24xlarge --nodes=20 --image=URI --role=ARN [--retries=3] [--hours=24]
    job_definition.py --name=dtrain-sweep --sweep …    of jobs on one machine each, whose command comes with the submission

Its tag dtrain:sha256 says whether the one that is registered is this one.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from instance_types import instance_type as row_of  # noqa: E402

MINUTES_TO_SAVE = 10  # and to mount the file system beforehand
MAX_RULES = 5  # evaluateOnExit's limit, which cfn-lint does not check


def definition(name: str, instance_type: str, nodes: int, image: str, role: str, retries: int, hours: float, sweep: bool) -> dict:
    job = json.loads((HERE / "job_definition.json").read_text(encoding="utf-8"))
    machine = row_of(instance_type)
    job["jobDefinitionName"] = name
    job["retryStrategy"]["attempts"] = retries
    job["timeout"]["attemptDurationSeconds"] = int(hours * 3600)
    container = job["nodeProperties"]["nodeRangeProperties"][0]["container"]
    container |= {"image": image, "jobRoleArn": role}
    container["resourceRequirements"] = [{"type": "VCPU", "value": str(machine.vcpus)},
                                         {"type": "MEMORY", "value": str(machine.mebibytes)},
                                         {"type": "GPU", "value": str(machine.gpus)}]
    container["linuxParameters"]["sharedMemorySize"] = machine.mebibytes // 8  # MiB; NCCL and --cache=ram
    if sweep:
        del job["nodeProperties"], job["parameters"]
        container["command"] = ["dtrain_main", "--help"]
        job |= {"type": "container", "containerProperties": container}
    else:
        job["nodeProperties"]["numNodes"] = nodes
        container["instanceType"] = instance_type
        container["linuxParameters"]["devices"] = [
            {"hostPath": f"/dev/infiniband/uverbs{i}", "containerPath": f"/dev/infiniband/uverbs{i}",
             "permissions": ["READ", "WRITE", "MKNOD"]} for i in range(machine.cards)]
        # Batch tells a job no end, and does not retry what its timeout has stopped: the training saves before it, and ends with 75.
        container["command"] += ["--max_hours", f"{max(hours - MINUTES_TO_SAVE / 60, hours / 2):.4g}"]
        container["environment"].append({"name": "EFA_DEVICES", "value": str(machine.cards)})
    assert len(job["retryStrategy"]["evaluateOnExit"]) <= MAX_RULES
    whole = json.dumps(job, sort_keys=True).encode()
    # Further facts for which job.sh asks.
    job["tags"] = {"dtrain:name": name.removesuffix("-sweep"), "dtrain:nodes": str(nodes),
                   "dtrain:instance-type": instance_type, "dtrain:sha256": hashlib.sha256(whole).hexdigest()[:32]}
    return job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("--name", "--instance_type", "--image", "--role"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--retries", type=int, default=3)
    parser.add_argument("--hours", type=float, default=24)
    flags = parser.parse_args()
    if flags.nodes < 1 or not 1 <= flags.retries <= 10 or flags.hours < 1 / 60:
        sys.exit("error: --nodes is at least 1, --retries 1 to 10, --hours at least a minute")
    print(json.dumps(definition(**vars(flags)), indent=2))


if __name__ == "__main__":
    main()
