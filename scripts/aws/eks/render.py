#!/usr/bin/env python3
"""Prints manifests with ${VARIABLE}s from the environment; names the ones that are not set, and exits with 2.

    IMAGE=… scripts/aws/eks/render.py scripts/aws/eks/indexed_job.yaml | kubectl apply -f -

INSTANCE_TYPE (p4d.24xlarge) decides what pods request: GPUS, EFA_CARDS, POD_CPUS, POD_MEMORY and WHOLE_NODE (all of these and
huge pages) follow from its line in scripts/aws/instance_types.tsv; MAX_NODES (8), how many there may be; LEAST_GBPS (0), what the network of each must reach. A
line that ends with `# if VARIABLE` is left out if that variable is not set. What the instances of jobs cost an hour is said on
standard error.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from instance_types import instance_type  # noqa: E402

CONDITION = re.compile(r"\s+# if (\w+)$")
JOB = re.compile(r"^kind: (?:Job|PyTorchJob|TrainJob)$", re.MULTILINE)
NODES = re.compile(r"^\s+(?:parallelism|maxReplicas|numNodes): (\d+)$", re.MULTILINE)
COSTS = Path(__file__).resolve().parents[1] / "costs.sh"


def of_instance(name: str) -> dict:
    """Returns what a pod that has an instance of this type for itself requests."""
    kind = instance_type(name)
    # A sixth of the vCPUs and a tenth of the memory are left to the system, the huge pages and other pods.
    cpus, memory = str(kind.vcpus - kind.vcpus // 6), f"{kind.mebibytes * 9 // 10}Mi"
    limits = {"nvidia.com/gpu": str(kind.gpus), "vpc.amazonaws.com/efa": str(kind.cards),
              "hugepages-2Mi": "5120Mi" if kind.cards else "0", "memory": memory}
    return {"INSTANCE_TYPE": name, "GPUS": str(kind.gpus), "EFA_CARDS": str(kind.cards), "POD_CPUS": cpus, "POD_MEMORY": memory,
            "WHOLE_NODE": json.dumps({"requests": limits | {"cpu": cpus}, "limits": limits}), "WITH_EFA": "true" if kind.cards else "false"}


def render(text: str, variables: dict) -> str:
    lines = []
    for line in text.splitlines():
        condition = CONDITION.search(line)
        if line.lstrip().startswith("#") or condition and not variables.get(condition.group(1)):
            continue  # comments may name variables that need not be set
        lines.append(CONDITION.sub("", line))
    text = "\n".join(lines)
    missing = sorted({name for name in re.findall(r"\$\{(\w+)\}", text) if not variables.get(name)})
    if missing:
        raise ValueError(f"not set: {', '.join(missing)}")
    return re.sub(r"\$\{(\w+)\}", lambda match: variables[match.group(1)], text)


def hourly_cost(manifest: str, instance: str) -> str:
    """Returns what the instances of a manifest's jobs cost; empty if there is none. A node is taken for each pod."""
    jobs = [part for part in manifest.split("\n---\n") if JOB.search(part) and ("nvidia.com/gpu" in part or "numNodes" in part)]
    if not jobs:
        return ""
    nodes = sum(max(map(int, NODES.findall(job))) for job in jobs)
    say = 'say() { printf "==> %s" "$*"; }; . "$0"; say_price "$@"'
    command = ["bash", "-euc", say, COSTS, instance, str(nodes)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    try:
        variables = of_instance(os.environ.get("INSTANCE_TYPE") or "p4d.24xlarge") | {"MAX_NODES": "8", "NODES": "2", "GPU_GROUP": "gpu", "LEAST_GBPS": "0"} | dict(os.environ)
        variables.setdefault("GPU_ZONE", variables.get("ZONE", ""))
        variables["QUEUE_GPUS"] = str(int(variables["MAX_NODES"]) * int(variables["GPUS"]))
        manifest = "\n---\n".join(render(Path(name).read_text(encoding="utf-8"), variables) for name in sys.argv[1:])
        if cost := hourly_cost(manifest, variables["INSTANCE_TYPE"]):
            print(cost, file=sys.stderr)
        print(manifest)
    except ValueError as error:
        print(f"error: {error}\n  what to do: export the right values; scripts/aws/eks/set_up.sh --help names them",
              file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
