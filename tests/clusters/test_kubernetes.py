"""Checks the manifests of scripts/aws/eks against the published schemas, custom resources included, and tests what
schemas do not cover."""

import json
import re

import pytest

from command import ROOT, run
from tools import FINAL, PREEMPTED, call

EKS = ROOT / "scripts" / "aws" / "eks"
VARIABLES = {"NAME": "dtrain", "AWS_REGION": "us-east-1", "ZONE": "us-east-1a", "OTHER_ZONE": "us-east-1b",
             "IMAGE": "repository/dtrain:1", "PYTHON_IMAGE": "repository/dtrain:1-python",
             "FILE_SYSTEM_ID": "fs-0123",
             "FILE_SYSTEM_DNS": "fs-0123.fsx.us-east-1.amazonaws.com", "FILE_SYSTEM_MOUNT": "abcdefgh"}
MANIFESTS = sorted(set(EKS.glob("*.yaml")) - {EKS / "cluster.yaml"})
UNCHECKED = ("PodMonitor",)  # the field names are those of prometheus-operator's documentation
CUSTOM = ("TrainJob", "ClusterTrainingRuntime", "PyTorchJob")
KUEUE = ("ResourceFlavor", "ClusterQueue", "LocalQueue")


def rendered(*paths, **more) -> list[dict]:
    code = ("import json, subprocess, sys, yaml; "
            "print(json.dumps(list(yaml.safe_load_all(subprocess.check_output(sys.argv[1:], text=True)))))")
    return json.loads(call("python", "-c", code, EKS / "render.py", *paths, env=VARIABLES | more).stdout)


@pytest.fixture(scope="module")
def documents() -> list[dict]:
    return rendered(*MANIFESTS)


def of_kind(documents, kind: str) -> list[dict]:
    return [one for one in documents if one["kind"] == kind]


def pods(documents) -> list[dict]:
    """Returns the specifications of all pods, wherever a kind has them."""
    found = []

    def look(node):
        if isinstance(node, dict):
            if "containers" in node:
                found.append(node)
            for value in node.values():
                look(value)
        elif isinstance(node, list):
            for value in node:
                look(value)

    look(documents)
    return found


def test_kinds_of_kubernetes_itself(documents, tmp_path):
    own = [one for one in documents if one["kind"] not in CUSTOM + KUEUE + UNCHECKED]
    # The pods of custom resources are checked like a Job's, because their own schemas hardly cover them.
    for number, custom in enumerate(one for one in documents if one["kind"] == "PyTorchJob"):
        pod = json.loads(json.dumps(custom["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]))
        pod["spec"]["restartPolicy"] = "OnFailure"
        own.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"pods-{number}"},
                    "spec": {"template": pod}})
    for custom in of_kind(documents, "ClusterTrainingRuntime"):
        for job in custom["spec"]["template"]["spec"]["replicatedJobs"]:
            own.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "pods"}, "spec": job["template"]["spec"]})
    (tmp_path / "all.yaml").write_text("\n---\n".join(map(json.dumps, own)), encoding="utf-8")
    version = rendered(EKS / "cluster.yaml")[0]["metadata"]["version"]
    done = call("kubernetes-validate", "--strict", "-k", version, tmp_path / "all.yaml")
    assert "WARN" not in done.stdout + done.stderr


def test_custom_resources_are_right_and_wrong_ones_are_seen(documents, tmp_path):
    """The wrong ones have an unknown field deep inside or a field of an older version."""
    custom = [one for one in documents if one["kind"] in CUSTOM]
    assert sorted(one["kind"] for one in custom) == sorted(CUSTOM)
    wrong = json.loads(json.dumps(custom))
    for one in wrong:
        if one["kind"] == "PyTorchJob":
            one["spec"]["elasticPolicy"]["minReplica"] = 1
        elif one["kind"] == "ClusterTrainingRuntime":
            one["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["container"] = []
        else:
            one["spec"]["podTemplateOverrides"] = []
    files = {f"{name}-{one['kind']}.json": one for name, these in (("right", custom), ("wrong", wrong)) for one in these}
    for name, document in files.items():
        (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")
    done = call("python", ROOT / "tests" / "clusters" / "check_custom_resources.py", *(tmp_path / name for name in files), check=1)
    assert done.stdout and not any("/right-" in line for line in done.stdout.splitlines()), done.stdout + done.stderr
    for name in ("minReplica", "'container' was unexpected", "podTemplateOverrides"):
        assert name in done.stdout


def test_what_is_no_number_and_no_text(tmp_path):
    for name in ("NODES", "MAX_NODES"):
        assert f"{name} is 'two', not a number" in run(EKS / "trainjob.yaml", program=EKS / "render.py", env=VARIABLES | {name: "two"}, check=2).stderr
    (tmp_path / "latin.yaml").write_bytes(b"# \xe9\n")
    assert "can't decode" in run(tmp_path / "latin.yaml", program=EKS / "render.py", check=2).stderr


def test_every_variable_is_named_when_it_is_missing():
    said = run(EKS / "volume.yaml", program=EKS / "render.py", check=2).stderr
    assert "not set: FILE_SYSTEM_DNS, FILE_SYSTEM_ID, FILE_SYSTEM_MOUNT" in said
    said = run(EKS / "no.yaml", program=EKS / "render.py", check=2).stderr
    assert said.startswith("error: ") and said.count("\n") == 2 and "no.yaml cannot be read: No such file" in said


@pytest.mark.parametrize("name,said", [("trainjob", "At most 5 × p5.48xlarge: $275.20 an hour"), ("pytorchjob", "At most 3 × "),
                                       ("indexed_job", "At most 5 × "), ("prepare_data", ""), ("volume", "")])
def test_the_cost_of_a_job_is_said_before_it_is_submitted(name, said):
    done = run(EKS / f"{name}.yaml", program=EKS / "render.py", env=VARIABLES | {"INSTANCE_TYPE": "p5.48xlarge", "NODES": "5"})
    assert said in done.stderr if said else not done.stderr


def check_probes(container):
    """The program listens where it is asked. A slow start and a save take less than what kills them."""
    port, = (one["containerPort"] for one in container["ports"] if one["name"] == "metrics")
    assert {"name": "METRICS_PORT", "value": str(port)} in container["env"]
    for name, least in (("startupProbe", 3600), ("livenessProbe", 300)):
        asked = container[name]
        assert asked["httpGet"] == {"path": "/healthz", "port": "metrics"}
        assert asked["periodSeconds"] * asked["failureThreshold"] >= least


def test_pods_have_what_efa_needs(documents):
    gpu = [(pod, one) for pod in pods(documents) for one in pod["containers"]
           if "nvidia.com/gpu" in one.get("resources", {}).get("limits", {})]
    assert len(gpu) == 4
    for pod, container in gpu:
        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
        assert limits["vpc.amazonaws.com/efa"] == "4" and limits["hugepages-2Mi"] == "5120Mi"
        assert {name: requests[name] for name in limits} == limits
        assert any(volume.get("emptyDir", {}).get("medium") == "Memory" for volume in pod["volumes"])
        # The EFA plugin passes in the devices. With a path of the host, NCCL gets an empty list and uses TCP.
        assert not any("/dev" in volume.get("hostPath", {}).get("path", "") for volume in pod["volumes"])
        assert pod["securityContext"]["runAsUser"] != 0
        # torchrun watches its ranks, and sweep.py its trials.
        assert "ports" in container or container["name"] == "pytorch" or "python3" in container["args"]
        if "ports" in container:
            check_probes(container)


def test_pods_have_the_clusters_secret(documents):
    """docs/trust.md: ranks have a token that nobody else knows."""
    gpu = [one for pod in pods(documents) for one in pod["containers"] if "nvidia.com/gpu" in json.dumps(one)]
    for container in gpu:
        token, = (one for one in container["env"] if one["name"] == "DTRAIN_RUN_TOKEN")
        assert token["valueFrom"] == {"secretKeyRef": {"name": "dtrain-run", "key": "token"}}
    assert len(gpu) == 4 and "kubectl create secret generic dtrain-run" in (EKS / "set_up.sh").read_text(encoding="utf-8")


def test_pods_have_no_right_that_they_do_not_need(documents):
    """The guard reads the kernel's log; it and the metrics' agent ask Kubernetes' API."""
    for pod in pods(documents):
        container, = pod["containers"]
        if container["name"] == "guard":
            continue
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert (pod.get("automountServiceAccountToken") is False) == (container["name"] != "cloudwatch-agent")
        for one in (container, *pod.get("initContainers", [])):
            assert one["securityContext"]["allowPrivilegeEscalation"] is False
        if container["name"] != "cloudwatch-agent":
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]} and pod["securityContext"]["runAsUser"] == 10001


def test_an_indexed_job_measures_the_network(documents):
    job, = (one for one in rendered(EKS / "indexed_job.yaml", JOB="nccl-test", RUN="[dtrain_bench, collective, --backend=nccl]", NODES="3")
            if one["kind"] == "Job")
    container, = job["spec"]["template"]["spec"]["containers"]
    assert job["spec"]["completions"] == 3 and container["args"] == ["dtrain_bench", "collective", "--backend=nccl"]
    assert {"name": "PET_MASTER_ADDR", "value": "nccl-test-0.nccl-test-pods"} in container["env"]


def test_data_are_read_where_they_are_uploaded(documents):
    page = (ROOT / "docs" / "aws.md").read_text(encoding="utf-8")
    prefix = re.search(r"aws s3 sync imagenet \"s3://\S+?/(data/\w+)/\"", page).group(1)
    text = json.dumps(documents)
    assert f"--data_dir=/fsx/{prefix} " in text and f'"value": "/fsx/{prefix}"' in text


def test_every_size_of_the_elastic_job_shares_the_batch(documents, few_images):
    """A step has the recipe's samples with any number of nodes: no rank is without its part."""
    job, = of_kind(documents, "PyTorchJob")
    spec = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    recipe = next(one for one in spec["args"] if one.startswith("--flagfile=")).replace("/opt/dtrain", str(ROOT / "scripts"))
    sizes = job["spec"]["elasticPolicy"]
    for count in range(sizes["minReplicas"], sizes["maxReplicas"] + 1):
        ranks = {"RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "8", "WORLD_SIZE": str(8 * count), "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": "29500"}
        planned = json.loads(run(recipe, "--dry_run", "--log_format=json", f"--data_dir={few_images}", "--precision=fp32",
                                 "--model=resnet18", "--image_size=32", env=ranks).stdout)
        assert (planned["world_size"], planned["global_batch_size"]) == (8 * count, 384)


def test_exit_codes_are_what_dtrain_main_means(documents):
    for job in of_kind(documents, "Job"):
        rules = job["spec"].get("podFailurePolicy", {}).get("rules", [])
        for rule in rules:
            if "onExitCodes" in rule:
                expected = {"FailJob": {*FINAL}, "Ignore": {PREEMPTED}}[rule["action"]]
                assert set(rule["onExitCodes"]["values"]) <= expected and rule["onExitCodes"]["containerName"] in {
                    one["name"] for one in job["spec"]["template"]["spec"]["containers"]}
    runtime, = of_kind(documents, "ClusterTrainingRuntime")
    rules = {rule["action"]: rule["onJobFailureMessagePatterns"][0]
             for rule in runtime["spec"]["template"]["spec"]["failurePolicy"]["rules"]}
    said = "Container node for pod default/x failed with exit code {} matching FailJob rule at index 0"
    assert [code for code in range(256) if re.search(rules["FailJobSet"], said.format(code))] == [*FINAL]
    assert [code for code in range(256) if re.search(rules["RestartJobSetAndIgnoreMaxRestarts"], said.format(code))] == [PREEMPTED]


def test_pods_of_an_indexed_job_find_each_other(documents):
    for job in of_kind(documents, "Job"):
        pod = job["spec"]["template"]["spec"]
        environment = {one["name"]: one for one in pod["containers"][0].get("env", [])}
        if "PET_MASTER_ADDR" not in environment:
            continue
        service = next(one for one in of_kind(documents, "Service") if one["metadata"]["name"] == pod["subdomain"])
        assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"]
        assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
        assert environment["PET_MASTER_ADDR"]["value"] == f"{job['metadata']['name']}-0.{pod['subdomain']}"
        assert int(environment["PET_NNODES"]["value"]) == job["spec"]["completions"] == job["spec"]["parallelism"]


def test_jobs_name_a_queue_that_has_room_for_them(documents):
    queue, = of_kind(documents, "ClusterQueue")
    local, = of_kind(documents, "LocalQueue")
    assert local["spec"]["clusterQueue"] == queue["metadata"]["name"]
    group, = queue["spec"]["resourceGroups"]
    resources = group["flavors"][0]["resources"]
    assert group["coveredResources"] == [one["name"] for one in resources]
    queued = [one for one in documents if "kueue.x-k8s.io/queue-name" in one["metadata"].get("labels", {})]
    assert {one["kind"] for one in queued} == {"Job", "TrainJob"}
    for one in queued:
        assert one["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == local["metadata"]["name"]
        for container in (part for pod in pods(one) for part in pod["containers"]):
            # Kueue does not admit what requests a resource without a quota.
            assert set(container["resources"]["requests"]) <= set(group["coveredResources"])


def test_all_that_is_made_has_the_label_by_which_it_is_found(documents):
    for one in documents:
        assert one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "dtrain", one["metadata"]["name"]
