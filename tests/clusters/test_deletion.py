"""What deletes touches nothing that is not ours, asks first, and gives up no file that is not in the bucket."""

import re

import pytest

from command import ROOT, run
from imitation import stand_ins
from tools import tracked

OURS = "Key=dtrain:name,Value=dtrain"
IMAGE = "ami-12c6146b"  # one of moto's
DELETES = re.compile(r"\b(aws \S+ (delete|terminate|deregister|remove)-|kubectl delete|eksctl delete|aws s3 r[mb]|pcluster delete)")


def test_one_function_deletes():
    for path in tracked("scripts", "docker"):
        if path.suffix not in (".sh", ".py", ".sbatch", "") or path.name == "deletion.sh":
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            code = re.sub(r'\b(fail|say|printf) .*|".*"|#.*', "", line)  # a hint may name a command
            assert not DELETES.search(code), f"{path}: {line}"


def test_a_folder_of_others_stays(tmp_path):
    (tmp_path / "run").mkdir()
    done = run(f"--output={tmp_path}", f"--text={__file__}", program=ROOT / "scripts" / "roberta_demo.sh", check=None)
    assert done.code != 0 and "other files than a demo's" in done.stderr and (tmp_path / "run").is_dir()


def make_network(account) -> str:
    vpc = account.aws("ec2", "create-vpc", "--cidr-block", "10.9.0.0/16")["Vpc"]["VpcId"]
    return account.aws("ec2", "create-subnet", "--vpc-id", vpc, "--cidr-block", "10.9.1.0/24")["Subnet"]["SubnetId"]


def make_file_system(account, subnet: str, *tags: str, linked: bool = True, exports: bool = False) -> str:
    made = account.aws("fsx", "create-file-system", "--file-system-type", "LUSTRE", "--storage-capacity", "1200", "--subnet-ids",
                       subnet, "--lustre-configuration", "DeploymentType=SCRATCH_2", "--tags", *tags)["FileSystem"]["FileSystemId"]
    if linked:
        account.aws("fsx", "create-data-repository-association", "--file-system-id", made, "--data-repository-path", "s3://b",
                    *(("--s3", "AutoExportPolicy={Events=[NEW,CHANGED]}") if exports else ()))
    return made


def file_systems(account) -> list[str]:
    return [one["FileSystemId"] for one in account.aws("fsx", "describe-file-systems")["FileSystems"]]


def make_batch(account, name: str, *tags: str) -> None:
    role = account.aws("iam", "create-role", "--role-name", name, "--assume-role-policy-document", "{}")["Role"]["Arn"]
    account.aws("batch", "create-compute-environment", "--compute-environment-name", name, "--type", "UNMANAGED", "--state", "ENABLED",
                "--service-role", role, *tags)
    account.aws("batch", "create-job-queue", "--job-queue-name", "dtrain", "--state", "ENABLED", "--priority", "1",
                "--compute-environment-order", f"order=1,computeEnvironment={name}", *tags)
    account.aws("batch", "register-job-definition", "--job-definition-name", "dtrain", "--type", "container",
                "--container-properties", '{"image": "i", "vcpus": 1, "memory": 128}', *tags)


def submit(account, *tags: str) -> str:
    return account.aws("batch", "submit-job", "--job-name", "waits", "--job-queue", "dtrain", "--job-definition", "dtrain",
                       *tags)["jobId"]


def batch_has(account) -> tuple[int, int, int]:
    return (len(account.aws("batch", "describe-job-queues")["jobQueues"]),
            len(account.aws("batch", "describe-compute-environments")["computeEnvironments"]),
            len(account.aws("batch", "describe-job-definitions", "--status", "ACTIVE")["jobDefinitions"]))


def test_batch_of_others_stays(account):
    make_batch(account, "theirs")
    job = submit(account)
    done = account.script("clean_up.sh", "batch", "--yes")
    assert "left alone: the queue dtrain belongs to nobody" in done.stdout
    assert batch_has(account) == (1, 1, 1)
    assert account.aws("batch", "describe-jobs", "--jobs", job)["jobs"][0]["status"] == "RUNNABLE"


def test_batch_of_ours_goes_after_a_question(account):
    make_batch(account, "ours", "--tags", "dtrain:name=dtrain")
    theirs = submit(account)
    ours = submit(account, "--tags", "dtrain:name=dtrain")
    refused = account.script("clean_up.sh", "batch", "--yes", check=2)
    assert f"the job {theirs} in the queue dtrain belongs to nobody" in refused.stderr
    account.aws("batch", "terminate-job", "--job-id", theirs, "--reason", "test")
    asked = account.script("clean_up.sh", "batch", check=2)
    assert "nobody is there to be asked" in asked.stderr
    for words in ("queue dtrain: costs nothing", f"job {ours}: it is told to stop", "environment ours", "job-definition/dtrain:1"):
        assert words in asked.stdout
    assert batch_has(account) == (1, 1, 1)
    account.script("clean_up.sh", "batch", "--yes")
    assert batch_has(account) == (0, 0, 0)


UNEXPORTED = {
    "an export that fails": ("FAILED", True, "has not exported all files"),
    "a file that fails": ("a file fails", True, "SUCCEEDED, 1 failed"),
    "no bucket": ("-", False, "is linked to no bucket"),
}


@pytest.mark.parametrize("name", UNEXPORTED)
def test_what_is_not_known_to_be_exported_stays(account, name):
    kind, linked, text = UNEXPORTED[name]
    made = make_file_system(account, make_network(account), OURS, f"Key=test,Value={kind}", linked=linked, exports=linked)
    assert text in account.script("clean_up.sh", "base", "--yes", check=2).stderr
    assert file_systems(account) == [made]


def test_one_that_is_being_deleted_is_waited_for(account):
    made = make_file_system(account, make_network(account), OURS, "Key=test,Value=leaves", linked=False)
    assert f"{made} is being deleted already" in account.script("clean_up.sh", "base", "--yes").stdout
    assert file_systems(account) == []


def test_a_network_goes_after_what_is_in_it(account, tmp_path):
    template = tmp_path / "network.json"
    template.write_text('{"Resources": {"Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.9.0.0/16"}}},'
                        '"Outputs": {"VpcId": {"Value": {"Ref": "Vpc"}}}}', encoding="utf-8")
    make = ("cloudformation", "create-stack", "--template-body", f"file://{template}", "--tags", OURS, "--stack-name")
    account.aws(*make, "dtrain-base")
    for name, script in (("dtrain-instances", "clean_up.sh instances"), ("dtrain", "pcluster delete-cluster -n dtrain")):
        account.aws(*make, name)
        refused = account.script("clean_up.sh", "base", "--yes", check=2).stderr
        assert f"the stack {name} still uses the network" in refused and script in refused
        account.aws("cloudformation", "delete-stack", "--stack-name", name)
    # Somebody's machine, though no file system goes.
    vpc = account.aws("cloudformation", "describe-stacks", "--stack-name", "dtrain-base")["Stacks"][0]["Outputs"][0]["OutputValue"]
    subnet = account.aws("ec2", "create-subnet", "--vpc-id", vpc, "--cidr-block", "10.9.1.0/24")["Subnet"]["SubnetId"]
    machine, = account.aws("ec2", "run-instances", "--image-id", IMAGE, "--subnet-id", subnet)["Instances"]
    assert machine["InstanceId"] in account.script("clean_up.sh", "base", "--yes", check=2).stderr
    account.aws("ec2", "terminate-instances", "--instance-ids", machine["InstanceId"])
    account.aws("ec2", "delete-subnet", "--subnet-id", subnet)
    account.script("clean_up.sh", "base", "--yes")
    assert account.aws("cloudformation", "describe-stacks")["Stacks"] == []


def test_file_systems_go_when_they_are_exported_and_unused(account, tmp_path):
    template = tmp_path / "theirs.json"
    template.write_text('{"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}', encoding="utf-8")
    account.aws("cloudformation", "create-stack", "--stack-name", "dtrain-base", "--template-body", f"file://{template}")
    subnet = make_network(account)
    foreign = make_file_system(account, subnet, "Key=dtrain:name,Value=other")
    ours = make_file_system(account, subnet, OURS, exports=True)
    head, = account.aws("ec2", "run-instances", "--image-id", IMAGE, "--subnet-id", subnet, "--tag-specifications",
                        "ResourceType=instance,Tags=[{Key=parallelcluster:cluster-name,Value=pc}]")["Instances"]
    used = account.script("clean_up.sh", "base", "--yes", "--discard", check=2).stderr
    assert f"{head['InstanceId']} of ParallelCluster pc" in used
    account.aws("ec2", "terminate-instances", "--instance-ids", head["InstanceId"])
    listed = account.script("clean_up.sh", "base", "--dry_run").stdout
    assert f"file-system {ours}: 1200 GiB SCRATCH_2, $0.23 an hour" in listed and foreign not in listed
    assert sorted(file_systems(account)) == sorted([foreign, ours])
    # AWS answers with an error: nothing is taken for gone, for unused, or for exported.
    for operation, text in (("create-data-repository-task", f"the files of {ours} cannot be exported"),
                            ("describe-job-queues", "whose the queue dtrain is cannot be found out"),
                            ("describe-subnets", f"the network of {ours} cannot be found")):
        denied = account.script("clean_up.sh", "base", "--yes", check=2, PATH=account.denying(tmp_path, f"*{operation}*", "AccessDenied")).stderr
        assert text in denied and ours in file_systems(account)
    assert "Exporting what" in account.script("clean_up.sh", "base", "--yes").stdout
    assert file_systems(account) == [foreign]
    assert account.resources("dtrain-base") == ["AWS::SNS::Topic"]


@pytest.mark.parametrize("ours", [False, True])
def test_clusters_and_objects_of_others_stay(account, tmp_path, ours):
    subnet = make_network(account)
    account.aws("eks", "create-cluster", "--name", "dtrain", "--role-arn", "arn:aws:iam::123456789012:role/eks",
                "--resources-vpc-config", f"subnetIds={subnet}", *(("--tags", "dtrain:name=dtrain") if ours else ()))
    stand_ins(tmp_path, "kubectl", "eksctl")
    objects, calls = tmp_path / "objects", tmp_path / "calls"
    objects.write_text("jobs.batch/default/dtrain dtrain\njobs.batch/default/theirs \npersistentvolumes//dtrain-fsx dtrain\n",
                       encoding="utf-8")
    calls.touch()
    done = account.script("clean_up.sh", "eks", "--yes", PATH=f"{tmp_path}:{account.environment['PATH']}", NAME="dtrain",
                          OBJECTS=str(objects), CALLS=str(calls))
    made = [line for line in calls.read_text(encoding="utf-8").splitlines() if " delete " in line]
    left = account.aws("eks", "list-clusters")["clusters"]
    if ours:
        assert [line.split(" --")[0] for line in made] == ["kubectl delete jobs.batch", "kubectl delete persistentvolumes", "eksctl delete cluster"]
        assert left == [] and objects.read_text(encoding="utf-8") == "jobs.batch/default/theirs \n"
    else:
        assert made == [] and left == ["dtrain"] and "left alone: the cluster dtrain" in done.stdout
