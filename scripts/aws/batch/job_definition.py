#!/usr/bin/env python3
"""Prints the job definition for an instance type.

    job_definition.py --name=dtrain --instance_type=p4d.24xlarge --nodes=20 --image=URI --role=ARN [--retries=3] [--hours=24]
    job_definition.py --name=dtrain-sweep --sweep …    of jobs on one machine each, whose command comes with the submission

Its tag dtrain:sha256 says whether the one that is registered is this one.
"""

import argparse
import hashlib
import json
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from instance_types import instance_type as row_of  # noqa: E402

# Exit codes with which the same run would end again: those of data/error.h, and 7 (memory), since a job has its machines to
# itself, whereas ranks that are restarted in place may find the memory that another process has freed. Each is written out: 7*
# would match 70 and 75, too.
FINAL = (2, 3, 6, 7)
MINUTES_TO_SAVE = 10  # and to mount the file system beforehand
PARAMETERS = {"recipe": "resnet50_160gpu", "data": "/fsx/data", "epochs": "default", "lr": "default", "seed": "default",
              "run_dir": "default", "run_token": "default"}
ENVIRONMENT = {"MOUNT": "/fsx", "MOUNT_TYPE": "lustre", "MOUNT_TIMEOUT": "120", "SCRATCH_DIR": "/fsx/results", "LEAST_GBPS": "0"}
VOLUMES = {"fsx": "/fsx", "guard": "/run/dtrain"}  # the same paths on the machine and in the container


def definition(name: str, instance_type: str, nodes: int, image: str, role: str, retries: int, hours: float, sweep: bool) -> dict:
    machine = row_of(instance_type)
    owner = name.removesuffix("-sweep")
    container = {
        "image": image, "jobRoleArn": role, "command": ["dtrain_main", "--help"],
        "environment": [{"name": key, "value": value} for key, value in ENVIRONMENT.items()],
        "resourceRequirements": [{"type": "VCPU", "value": str(machine.vcpus)}, {"type": "MEMORY", "value": str(machine.mebibytes)},
                                 {"type": "GPU", "value": str(machine.gpus)}],
        # Shared memory in MiB, for NCCL and --cache=ram.
        "linuxParameters": {"initProcessEnabled": True, "sharedMemorySize": machine.mebibytes // 8},
        "ulimits": [{"name": "memlock", "softLimit": -1, "hardLimit": -1}, {"name": "nofile", "softLimit": 65536, "hardLimit": 65536}],
        "volumes": [{"name": key, "host": {"sourcePath": path}} for key, path in VOLUMES.items()],
        "mountPoints": [{"sourceVolume": key, "containerPath": path, "readOnly": False} for key, path in VOLUMES.items()],
        "logConfiguration": {"logDriver": "awslogs", "options": {"awslogs-group": f"/dtrain/{owner}"}}}
    job = {"jobDefinitionName": name, "propagateTags": True, "timeout": {"attemptDurationSeconds": int(hours * 3600)},
           "retryStrategy": {"attempts": retries, "evaluateOnExit": [  # at most five
               *({"onExitCode": str(code), "action": "EXIT"} for code in FINAL), {"onReason": "*", "action": "RETRY"}]}}
    if sweep:
        job |= {"type": "container", "containerProperties": container}
    else:
        flags = {"data": "data_dir"}
        container["command"] = ["dtrain_main", *(word for key in PARAMETERS for word in (f"--{flags.get(key, key)}", f"Ref::{key}"))]
        container["instanceType"] = instance_type
        container["linuxParameters"]["devices"] = [
            {"hostPath": f"/dev/infiniband/uverbs{i}", "containerPath": f"/dev/infiniband/uverbs{i}",
             "permissions": ["READ", "WRITE", "MKNOD"]} for i in range(machine.cards)]
        # Batch tells a job no end, and does not retry what its timeout has stopped: the training saves before it, and ends with 75.
        container["command"] += ["--max_hours", f"{max(hours - MINUTES_TO_SAVE / 60, hours / 2):.6g}"]
        if machine.cards:
            container["environment"].append({"name": "EFA_DEVICES", "value": str(machine.cards)})
        job |= {"type": "multinode", "parameters": PARAMETERS, "nodeProperties": {
            "mainNode": 0, "numNodes": nodes, "nodeRangeProperties": [{"targetNodes": "0:", "container": container}]}}
    whole = json.dumps(job, sort_keys=True).encode()
    # Further facts for which job.sh asks.
    job["tags"] = {"dtrain:name": owner, "dtrain:nodes": str(nodes),
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
    if flags.nodes < 1 or not 1 <= flags.retries <= 10 or not 1 / 60 <= flags.hours < math.inf:
        parser.error("--nodes is at least 1, --retries 1 to 10, --hours at least a minute")
    try:
        print(json.dumps(definition(**vars(flags)), indent=2))
    except ValueError as unknown_type:
        parser.error(str(unknown_type))


if __name__ == "__main__":
    main()
