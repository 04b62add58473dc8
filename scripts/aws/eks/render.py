#!/usr/bin/env python3
"""Prints manifests with ${VARIABLE}s from the environment; names the ones that are not set, and exits with 2.

    IMAGE=… scripts/aws/eks/render.py scripts/aws/eks/indexed_job.yaml | kubectl apply -f -

INSTANCE_TYPE (p4d.24xlarge) decides what pods request: GPUS, EFA_CARDS and WHOLE_NODE follow from its line in
scripts/aws/instance_types.tsv; NODES (2), the size of a job; MAX_NODES (8), how many there may be; LEAST_GBPS (0), what the network of
each must reach. The comment `# + PART` stands for one of the parts below, which all pods with GPUs share. A line that ends with
`# if VARIABLE` is left out if that variable is not set. What the instances of jobs cost an hour is said on standard error.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

from instance_types import instance_type  # noqa: E402
from safe_files import USAGE, Failure, Parser, exit_code, read_bounded  # noqa: E402

MOST_BYTES = 1 << 20

CONDITION = re.compile(r"\s+# if (\w+)$")
JOB = re.compile(r"^kind: (?:Job|PyTorchJob|TrainJob)$", re.MULTILINE)
NODES = re.compile(r"^\s+(?:parallelism|maxReplicas|numNodes): (\d+)$", re.MULTILINE)
# indexed_job.yaml trains, unless JOB and RUN say otherwise.
DEFAULTS = {"MAX_NODES": "8", "NODES": "2", "GPU_GROUP": "gpu", "LEAST_GBPS": "0", "NCCL_DEBUG": "WARN", "JOB": "resnet50",
            "RUN": "[dtrain_main, --flagfile=/opt/dtrain/recipes/resnet50_160gpu.flags]"}
PART = re.compile(r"^( *)# \+ (\w+)$", re.MULTILINE)
SCRIPTS = Path(__file__).resolve().parents[2]
PARTS = {
    # Nothing of them needs Kubernetes' API, or a right that its image's user has not. A save must take less than the grace: with Adam's
    # state RoBERTa-large is 4 GB.
    "pod": """
automountServiceAccountToken: false
terminationGracePeriodSeconds: 120
securityContext: {runAsUser: 10001, runAsGroup: 10001, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
nodeSelector: {node.kubernetes.io/instance-type: "${INSTANCE_TYPE}"}
tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
volumes:
  - {name: fsx, persistentVolumeClaim: {claimName: dtrain-fsx}}
  - {name: shm, emptyDir: {medium: Memory, sizeLimit: 128Gi}}
  - {name: guard, hostPath: {path: /run/dtrain, type: DirectoryOrCreate}}""",
    "container": """
securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
resources: ${WHOLE_NODE}
volumeMounts: [{name: fsx, mountPath: /fsx}, {name: shm, mountPath: /dev/shm}, {name: guard, mountPath: /run/dtrain}]""",
    # The token keeps strangers in the cluster out of the run (docs/trust.md); set_up.sh makes the Secret.
    "environment": """
- {name: MOUNT, value: /fsx}
- {name: STOP_GRACE_SECONDS, value: "120"}
- {name: EFA_DEVICES, value: "${EFA_CARDS}"}
- {name: DTRAIN_RUN_TOKEN, valueFrom: {secretKeyRef: {name: dtrain-run, key: token}}}""",
    # dtrain_main answers once its ranks have met and opened the data: for that it gets an hour, with the mount and the network's
    # measurement. Later, ranks that stand still have --comm_timeout to end by themselves, and these five minutes.
    "probes": """
ports: [{name: metrics, containerPort: 9401}]
startupProbe: {httpGet: {path: /healthz, port: metrics}, periodSeconds: 30, timeoutSeconds: 10, failureThreshold: 120}
livenessProbe: {httpGet: {path: /healthz, port: metrics}, periodSeconds: 30, timeoutSeconds: 10, failureThreshold: 10}""",
}


def of_instance(name: str) -> dict:
    """Returns what a pod that has an instance of this type for itself requests."""
    kind = instance_type(name)
    # A sixth of the vCPUs and a tenth of the memory are left to the system, the huge pages and other pods.
    cpus, memory = str(kind.vcpus - kind.vcpus // 6), f"{kind.mebibytes * 9 // 10}Mi"
    limits = {"nvidia.com/gpu": str(kind.gpus), "vpc.amazonaws.com/efa": str(kind.cards),
              "hugepages-2Mi": "5120Mi" if kind.cards else "0", "memory": memory}
    return {"INSTANCE_TYPE": name, "GPUS": str(kind.gpus), "EFA_CARDS": str(kind.cards),
            "WHOLE_NODE": json.dumps({"requests": limits | {"cpu": cpus}, "limits": limits}), "WITH_EFA": "true" if kind.cards else "false"}


def render(text: str, variables: dict) -> str:
    text = PART.sub(lambda match: textwrap.indent(PARTS[match.group(2)].strip(), match.group(1)), text)
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
    command = ["bash", "-euc", say, SCRIPTS / "aws" / "costs.sh", instance, str(nodes)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", nargs="+", type=Path, metavar="FILE.yaml")
    manifests = [read_bounded(path, MOST_BYTES, USAGE, links=True) for path in parser.parse_args().manifests]
    try:
        texts = [manifest.decode() for manifest in manifests]
        variables = DEFAULTS | of_instance(os.environ.get("INSTANCE_TYPE") or "p4d.24xlarge") | {k: v for k, v in os.environ.items() if v}
        for name in ("NODES", "MAX_NODES"):
            if not re.fullmatch("[0-9]{1,5}", variables[name]):
                raise ValueError(f"{name} is '{variables[name]}', not a number")
        variables.setdefault("GPU_ZONE", variables.get("ZONE", ""))
        variables["QUEUE_GPUS"] = str(int(variables["MAX_NODES"]) * int(variables["GPUS"]))
        agent = json.loads((SCRIPTS / "monitoring" / "cloudwatch_agent.json").read_text(encoding="utf-8"))
        variables["CLOUDWATCH_AGENT"] = json.dumps(agent | {"agent": {"region": variables.get("AWS_REGION")}})
        manifest = "\n---\n".join(render(text, variables) for text in texts)
    except ValueError as error:
        raise Failure(str(error), "export the right values; scripts/aws/eks/set_up.sh --help names them") from None
    if cost := hourly_cost(manifest, variables["INSTANCE_TYPE"]):
        print(cost, file=sys.stderr)
    print(manifest)
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
