"""Tests scripts/aws/eks/cluster.yaml: its fields, and that its nodes and roles are what the manifests need."""

import json

import pytest

from test_kubernetes import EKS, MANIFESTS, of_kind, pods, rendered
from tools import read_yaml

AFTER_TYPE = ("vcpus", "mebibytes", "gpus", "efa")  # columns of instance_types.tsv
# vCPUs and GiB of the nodes that are no GPU instances.
PLAIN_NODES = {"m7i.large": (2, 8), "m7i.4xlarge": (16, 64)}


def number(quantity) -> float:
    text = str(quantity)
    for suffix, factor in (("Mi", 2**20), ("Gi", 2**30), ("m", 1e-3)):
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * factor
    return float(text)


def nodes(cluster: dict, kind: str) -> list[tuple[dict, dict, list]]:
    """Returns labels, resources and taints of a node of each group."""
    rows = {row[0]: dict(zip(AFTER_TYPE, map(int, row[1:5]))) for row in
            (line.split("\t") for line in (EKS.parent / "instance_types.tsv").read_text().splitlines()[1:])}
    found = []
    for group in cluster["managedNodeGroups"]:
        name = group["instanceType"]
        if name in PLAIN_NODES:
            resources = {"cpu": PLAIN_NODES[name][0], "memory": PLAIN_NODES[name][1] * 2**30 * 0.9}
        else:
            assert name == kind and group.get("efaEnabled", False) == (rows[name]["efa"] > 0)
            resources = {"cpu": rows[name]["vcpus"], "memory": rows[name]["mebibytes"] * 2**20, "nvidia.com/gpu": rows[name]["gpus"],
                         "vpc.amazonaws.com/efa": rows[name]["efa"], "hugepages-2Mi": 5120 * 2**20 if rows[name]["efa"] else 0}
            resources["memory"] -= resources["hugepages-2Mi"]
        resources["cpu"] *= 0.9  # the system takes a part
        labels = group.get("labels", {}) | {"node.kubernetes.io/instance-type": name}
        found.append((labels, resources, group.get("taints", [])))
    return found


def fits(pod: dict, node: tuple[dict, dict, list]) -> bool:
    labels, resources, taints = node
    wanted = [one.get("resources", {}).get("requests", {}) for one in pod["containers"]]
    tolerated = {one["key"] for one in pod.get("tolerations", [])}
    return (pod.get("nodeSelector", {}).items() <= labels.items() and {one["key"] for one in taints} <= tolerated
            and all(sum(number(one.get(name, 0)) for one in wanted) <= resources.get(name, 0)
                    for name in {name for one in wanted for name in one}))


@pytest.mark.parametrize("kind", ["p4d.24xlarge", "p5en.48xlarge", "p6-b200.48xlarge", "p3.8xlarge"])
def test_every_pod_fits_on_a_node(kind):
    cluster, *made = rendered(EKS / "cluster.yaml", *MANIFESTS, INSTANCE_TYPE=kind)
    for pod in pods(made):
        assert any(fits(pod, node) for node in nodes(cluster, kind)), pod
    assert not any(fits(pod | {"nodeSelector": {}, "tolerations": []}, node) for pod in pods(made) for node in nodes(cluster, kind)
                   if pod["containers"][0]["name"] == "prepare")  # the check itself: m7i.large is too small, the rest tainted


@pytest.mark.parametrize("reservation, block", [("", ""), ("cr-0123456789abcdef0", ""), ("cr-0123456789abcdef0", "1")])
def test_cluster(reservation, block):
    cluster, = rendered(EKS / "cluster.yaml", CAPACITY_RESERVATION_ID=reservation, CAPACITY_BLOCK=block)
    assert cluster["upgradePolicy"] == {"supportType": "STANDARD"}
    groups = {group["name"]: group for group in cluster["managedNodeGroups"]}
    # What a node may do, every pod on it may do. No pod of ours asks AWS for anything but the metrics' agent.
    assert not any("iam" in group for group in groups.values())
    gpu = groups["gpu"]
    assert len(gpu["availabilityZones"]) == 1 and gpu["privateNetworking"]
    assert gpu["desiredCapacity"] == groups["data"]["desiredCapacity"] == 0  # nothing is billed before a training
    assert gpu["nodeRepairConfig"]["enabled"] and "eks-node-monitoring-agent" in {one["name"] for one in cluster["addons"]}
    assert gpu.get("instanceMarketOptions") == ({"marketType": "capacity-block"} if block else None)
    assert (gpu.get("capacityReservation") is not None) == bool(reservation)
    limits = read_yaml(gpu["overrideBootstrapCommand"])["spec"]["containerd"]["baseRuntimeSpec"]["process"]["rlimits"]
    assert {one["type"] for one in limits} == {"RLIMIT_MEMLOCK", "RLIMIT_NOFILE"}  # the list replaces nodeadm's own
    for one in limits:
        # nodeadm passes numbers through float64 and writes them in full; containerd reads 64 bits without a sign.
        assert int(float(one["hard"])) == one["hard"] < 2**63
        assert one["hard"] > 2**43 or one["type"] == "RLIMIT_NOFILE"


def test_an_image_of_a_certain_release():
    cluster, = rendered(EKS / "cluster.yaml", AMI_RELEASE="1.35.0-20260120")
    assert [group.get("releaseVersion") for group in cluster["managedNodeGroups"]] == [None, None, "1.35.0-20260120"]


def test_another_zone_has_a_group_of_its_own():
    cluster, = rendered(EKS / "cluster.yaml", GPU_ZONE="us-east-1b", GPU_GROUP="gpu-us-east-1b", SPOT="1")
    gpu, = (group for group in cluster["managedNodeGroups"] if group["name"] == "gpu-us-east-1b")
    assert gpu["availabilityZones"] == ["us-east-1b"] and gpu["spot"] and "gpu" not in {group["name"] for group in cluster["managedNodeGroups"]}


def test_the_metrics_agent_finds_its_configuration():
    """Both halves of the configuration are where the agent looks for them: it takes every YAML file beside its own configuration
    for one of OpenTelemetry. The names of the metrics: tests/integration/test_metrics.py."""
    documents = rendered(*MANIFESTS)
    maps = {one["metadata"]["name"]: one["data"] for one in of_kind(documents, "ConfigMap")}
    agent, = (one for one in of_kind(documents, "Deployment") if one["metadata"]["name"] == "dtrain-metrics")
    pod = agent["spec"]["template"]["spec"]
    mounts = {one["mountPath"]: next(volume["configMap"]["name"] for volume in pod["volumes"] if volume["name"] == one["name"])
              for one in pod["containers"][0]["volumeMounts"]}
    assert list(maps[mounts["/etc/cwagentconfig"]]) == ["cwagentconfig.json"]
    prometheus = json.loads(maps[mounts["/etc/cwagentconfig"]]["cwagentconfig.json"])["logs"]["metrics_collected"]["prometheus"]
    folder, name = prometheus["prometheus_config_path"].rsplit("/", 1)
    assert read_yaml(maps[mounts[folder]][name])["scrape_configs"][0]["job_name"] == "dtrain"
    addons = {one["name"]: one for one in rendered(EKS / "cluster.yaml")[0]["addons"]}
    role, = addons["amazon-cloudwatch-observability"]["podIdentityAssociations"]
    assert agent["metadata"]["namespace"] == "amazon-cloudwatch" and pod["serviceAccountName"] == role["serviceAccountName"]
    assert "eks-pod-identity-agent" in addons
