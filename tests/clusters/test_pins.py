"""Every image, chart, release, add-on and name of an AMI that is pinned has the form that its upstream gives it, and the day at which
somebody looked. A pin that is not below was never looked up; nothing here asks the network."""

import datetime
import re

import pytest

from command import ROOT
from tools import tracked

WHERE = ("scripts/aws", "scripts/ssh", "scripts/monitoring", "docker", ".github", "docs/aws.md", "docs/parallelcluster.md", "docs/machines.md")
# How a pin is found, and the kind of which it is.
FINDERS = {
    r"(?m)^\s*image: ([^$\s]\S*)": "image", r"(?m)^FROM ((?!runtime\b)\S+)": "image", r"(?m)^ARG CUDA=(\S+)": "CUDA", r"CUDA=(\d[\d.]+)": "CUDA",
    r"(?m)^ARG UBUNTU=(\S+)": "Ubuntu", r"(?:install|upgrade --install) \S+ (\S+ --version v?[\d.]+)": "chart",
    r"github\.com/(\S+\.git/\S+\?ref=v[\d.]+)": "release", r"github\.com/(\S+/releases/download/v[\d.]+)": "release",
    r"uses: (\S+)": "action", r"((?:deeplearning|canonical)/\S+/ami-id)": "AMI", r"\bEFA=([\d.]+)": "EFA", r"\b(1\.\d\d\.\d) \.": "EFA",
    r'(?m)^  version: "([\d.]+)"': "Kubernetes", r"(?m)^  - name: ([a-z][\w-]+)\n(?!    instanceType)": "add-on", r"ImageType: (\w+)": "image of Batch",
    r"aws-parallelcluster==([\d.]+)": "ParallelCluster", r"AMI_RELEASE=?.{0,12}\b(1\.\d\d\.\d+-\d{8})": "release of EKS' image",
    r"(?m)^      Runtime: (\w[\w.]+)": "runtime of Lambda", r"(?m)^  Os: (\w+)": "system of ParallelCluster",
}
# The form of a kind as its upstream has it, where that was seen, and when.
FORMS = {
    "image": (r"nvidia/cuda:\$\{CUDA\}-(devel|base)-ubuntu\$\{UBUNTU\}|debian:bookworm(-slim)?|"
              # All tags of the agent end in the number of a build; this one is in AWS's own chart.
              r"public\.ecr\.aws/cloudwatch-agent/cloudwatch-agent:1\.3000\d\d\.\d+b\d{4}", "Docker Hub; aws-observability/helm-charts 6.4.0", "2026-11-25"),
    "CUDA": (r"13\.0\.2|12\.6\.3", "tags of nvidia/cuda in public Dockerfiles", "2026-11-25"),
    "Ubuntu": (r"22\.04", "the same", "2026-11-25"),
    "chart": (r"aws-efa-k8s-device-plugin --version v0\.5\.\d+|kube-prometheus-stack --version 88\.\d+\.\d+",
              "aws/eks-charts (its versions begin with v); prometheus-community/helm-charts (they do not)", "2026-11-25"),
    "release": (r"kubeflow/trainer\.git/manifests/overlays/manager\?ref=v2\.3\.0|kubeflow/training-operator\.git/manifests/overlays/standalone\?ref=v1\.9\.4|"
                r"kubernetes-sigs/kueue/releases/download/v0\.19\.2", "tags of the repositories, installation guides", "2026-11-25"),
    "action": (r"actions/(checkout|cache|upload-artifact)@v4", "tags of the repositories", "2026-11-25"),
    "AMI": (r"deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-2\d\.04/latest/ami-id|"
            r"canonical/ubuntu/server/2\d\.04/stable/current/amd64/hvm/ebs-gp[23]/ami-id", "public templates that ask for them", "2026-11-25"),
    "EFA": (r"1\.\d\d\.\d", "EFA's release notes", "2026-11-25"),
    "Kubernetes": (r"1\.35", "EKS' versions in standard support", "2026-11-25"),
    "add-on": (r"eks-pod-identity-agent|vpc-cni|coredns|kube-proxy|eks-node-monitoring-agent|aws-fsx-csi-driver|amazon-cloudwatch-observability",
               "EKS' list of add-ons", "2026-11-25"),
    "image of Batch": ("ECS_AL2023_NVIDIA", "botocore's model of Batch", "2026-11-25"),
    "ParallelCluster": (r"3\.16\.\d", "its releases", "2026-11-25"),
    "release of EKS' image": (r"1\.35\.\d+-20\d{6}", "releases of awslabs/amazon-eks-ami", "2026-11-25"),
    "runtime of Lambda": (r"python3\.1[1-4]", "cfn-lint's schemas", "2026-11-25"),
    "system of ParallelCluster": ("ubuntu2204|ubuntu2404|alinux2023", "ParallelCluster's schema", "2026-11-25"),
}


def pins() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in tracked(*WHERE):
        text = path.read_text(encoding="utf-8")
        for finder, kind in FINDERS.items():
            if kind == "add-on" and path.name != "cluster.yaml" or kind == "system of ParallelCluster" and path.suffix != ".yaml":
                continue
            if kind == "add-on":
                text = text.split("addons:")[-1].split("managedNodeGroups")[0]
            found.setdefault(kind, set()).update(re.findall(finder, text))
    return found


@pytest.mark.parametrize("kind", FORMS)
def test_pins_have_their_upstreams_form(kind):
    form, where, day = FORMS[kind]
    found = pins().get(kind, set())
    assert found, f"nothing of this kind is pinned any more: {kind}"
    for pin in found:
        assert re.fullmatch(form, pin), f"{kind} {pin} is not of the form that was looked up at {day} ({where})"
    assert datetime.date.fromisoformat(day) <= datetime.date.today()


def test_what_never_existed_is_seen():
    for kind, wrong in (("image", "public.ecr.aws/cloudwatch-agent/cloudwatch-agent:1.300064.1"), ("chart", "kube-prometheus-stack --version v88.1.3"),
                        ("chart", "aws-efa-k8s-device-plugin --version 0.5.30"),
                        ("AMI", "deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-2204/latest/ami-id")):
        assert not re.fullmatch(FORMS[kind][0], wrong)
