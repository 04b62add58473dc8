"""Every image, chart, release, add-on and name of an AMI that is pinned has the form that its upstream gave it when somebody
looked, on 2026-11-25: in public Dockerfiles and templates, the repositories' tags, charts and release notes, AWS' models and
schemas. A pin of another form was never looked up; nothing here asks the network."""

import re

import pytest

from tools import tracked

WHERE = ("scripts/aws", "scripts/ssh", "scripts/monitoring", "docker", ".github", "docs/aws.md", "docs/parallelcluster.md", "docs/machines.md")
# By kind: how a pin is found, and its form.
PINS = {
    "image": (r"(?m)^(?:\s*image: (?!\$)|FROM (?!runtime\b))(\S+)",
              # All tags of the agent end in the number of a build; this one is in AWS's own chart.
              r"nvidia/cuda:\$\{CUDA\}-(devel|base)-ubuntu\$\{UBUNTU\}|debian:bookworm(-slim)?|"
              r"public\.ecr\.aws/cloudwatch-agent/cloudwatch-agent:1\.3000\d\d\.\d+b\d{4}"),
    "CUDA": (r"CUDA=(\d[\d.]+)", r"13\.0\.2|12\.6\.3"),
    "Ubuntu": (r"(?m)^ARG UBUNTU=(\S+)", r"22\.04"),
    # The versions of aws/eks-charts begin with v, those of prometheus-community/helm-charts do not.
    "chart": (r"(?:install|upgrade --install) \S+ (\S+ --version v?[\d.]+)",
              r"aws-efa-k8s-device-plugin --version v0\.5\.\d+|kube-prometheus-stack --version 88\.\d+\.\d+"),
    "release": (r"github\.com/(\S+\.git/\S+\?ref=v[\d.]+|\S+/releases/download/v[\d.]+)",
                r"kubeflow/trainer\.git/manifests/overlays/manager\?ref=v2\.3\.0|kubeflow/training-operator\.git/manifests/overlays/standalone\?ref=v1\.9\.4|"
                r"kubernetes-sigs/kueue/releases/download/v0\.19\.2"),
    "action": (r"uses: (\S+)", r"actions/(checkout|cache|upload-artifact)@v4"),
    "AMI": (r"((?:deeplearning|canonical)/\S+/ami-id)", r"deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-2\d\.04/latest/ami-id|"
            r"canonical/ubuntu/server/2\d\.04/stable/current/amd64/hvm/ebs-gp[23]/ami-id"),
    "EFA": (r"\b(?:EFA=([\d.]+)|(1\.\d\d\.\d) \.)", r"1\.\d\d\.\d"),
    "Kubernetes": (r'(?m)^  version: "([\d.]+)"', r"1\.35"),
    "add-on": (r"(?m)^  - name: ([a-z][\w-]+)\n(?!    instanceType)",
               r"eks-pod-identity-agent|vpc-cni|coredns|kube-proxy|eks-node-monitoring-agent|aws-fsx-csi-driver|amazon-cloudwatch-observability"),
    "image of Batch": (r"ImageType: (\w+)", "ECS_AL2023_NVIDIA"),
    "ParallelCluster": (r"aws-parallelcluster==([\d.]+)", r"3\.16\.\d"),
    "release of EKS' image": (r"AMI_RELEASE=?.{0,12}\b(1\.\d\d\.\d+-\d{8})", r"1\.35\.\d+-20\d{6}"),
    "runtime of Lambda": (r"(?m)^      Runtime: (\w[\w.]+)", r"python3\.1[1-4]"),
    "system of ParallelCluster": (r"(?m)^  Os: (\w+)", "ubuntu2204|ubuntu2404|alinux2023"),
}


@pytest.mark.parametrize("kind", PINS)
def test_pins_have_their_upstreams_form(kind):
    finder, form = PINS[kind]
    found = set()
    for path in tracked(*WHERE):
        text = path.read_text(encoding="utf-8")
        if kind == "add-on":
            text = text.split("addons:")[-1].split("managedNodeGroups")[0] if path.name == "cluster.yaml" else ""
        if kind != "system of ParallelCluster" or path.suffix == ".yaml":
            found.update("".join(match.groups("")) for match in re.finditer(finder, text))
    assert found, f"nothing of this kind is pinned any more: {kind}"
    for pin in found:
        assert re.fullmatch(form, pin), f"{kind} {pin} is not of the form that was looked up"
