"""Lints the templates and the workflow, and tests what the linters do not check."""

import functools
import json
from pathlib import Path

import pytest

from command import ROOT, run
from tools import FINAL, call, tool

AWS = ROOT / "scripts" / "aws"
TEMPLATES = sorted([*AWS.glob("cloudformation/*.yaml"), *AWS.glob("batch/*.yaml"), ROOT / "scripts" / "monitoring" / "alarms.yaml"])


@functools.cache
def as_json(path) -> dict:
    """Returns a template without its short forms (!Ref …), as AWS's own reader expands them."""
    code = ("import json, sys; from awscli.customizations.cloudformation.yamlhelper import yaml_parse; "
            "print(json.dumps(yaml_parse(open(sys.argv[1]).read()), default=str))")
    return json.loads(call("python", "-c", code, path).stdout)


MACHINES = {"p4d.24xlarge": 4, "p5.48xlarge": 32, "p3.8xlarge": 0}


GIVEN = ("--name=dtrain", "--image=ami-0123456789abcdef0", "--head_image=ami-0123456789abcdef0", "--key=mine", "--ssh_from=203.0.113.7/32",
         "--vpc=vpc-0123456789abcdef0", "--public_subnet=subnet-0123456789abcdef0", "--private_subnet=subnet-0123456789abcdef1",
         "--group=sg-0123456789abcdef0", "--file_system=fs-0123.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh")


def machines(kind: str, *flags, count: int = 3) -> dict:
    made = run(f"--type={kind}", f"--count={count}", *GIVEN, *flags, program=AWS / "cloudformation" / "instances.py").stdout
    assert len(made) < 51_200  # CloudFormation takes no longer ones
    return json.loads(made)


def with_cards(kind: str, folder) -> Path:
    """The template of Batch's environment, as set_up.sh deploys it."""
    made = folder / f"{kind}.yaml"
    made.write_text(run(kind, AWS / "batch" / "environment.yaml", program=AWS / "instance_types.py").stdout, encoding="utf-8")
    assert made.stat().st_size < 51_200
    return made


def test_templates(tmp_path):
    assert len(TEMPLATES) == 5
    whole = with_cards("p5.48xlarge", tmp_path)
    generated = [machines("p4d.24xlarge"), machines("p3.8xlarge", "--market=spot", count=1)]
    for number, one in enumerate(generated):
        (tmp_path / f"{number}.json").write_text(json.dumps(one), encoding="utf-8")
    call("cfn-lint", "--non-zero-exit-code", "informational", *TEMPLATES, whole, *tmp_path.glob("*.json"))


def test_machines_for_trainings_by_hand():
    for kind, cards in MACHINES.items():
        made = machines(kind, count=64)
        resources = made["Resources"]
        assert sum(one["Type"] == "AWS::EC2::Instance" for one in resources.values()) == 65  # and the head machine
        assert len(made["Outputs"]["Hosts"]["Value"]["Fn::Join"][1]) == 64
        data = resources["MachineTemplate"]["Properties"]["LaunchTemplateData"]
        assert [one["InterfaceType"] for one in data["NetworkInterfaces"]] == ["interface"] + ["efa-only"] * cards
        assert len({(one["NetworkCardIndex"], one["DeviceIndex"]) for one in data["NetworkInterfaces"]}) == cards + 1
        assert "Placement" in data and "InstanceMarketOptions" not in data
        head = resources["Head"]["Properties"]["NetworkInterfaces"][0]
        assert head["AssociatePublicIpAddress"] and head["SubnetId"] == "subnet-0123456789abcdef0"
        assert "IamInstanceProfile" not in json.dumps(resources)  # they ask AWS for nothing
    for market in ("", "capacity-block"):
        data = machines("p5.48xlarge", "--reservation=cr-1", f"--market={market}")["Resources"]["MachineTemplate"]["Properties"]["LaunchTemplateData"]
        assert data.get("InstanceMarketOptions", {}).get("MarketType", "") == market and "Placement" not in data
        assert data["CapacityReservationSpecification"]["CapacityReservationTarget"] == {"CapacityReservationId": "cr-1"}


def test_the_security_group_lets_efa_through():
    """EFA needs all traffic to and from the group's own id; 0.0.0.0/0 does not cover it."""
    resources = as_json(AWS / "cloudformation" / "base.yaml")["Resources"].values()
    own = {"Fn::GetAtt": ["ClusterSecurityGroup", "GroupId"]}
    for kind, peer in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")):
        rules = [one["Properties"] for one in resources if one["Type"] == f"AWS::EC2::SecurityGroup{kind}"]
        assert any(rule["GroupId"] == rule.get(peer) == own and rule["IpProtocol"] == "-1" for rule in rules)


def test_nothing_is_exported_as_deleted_and_what_holds_files_stays():
    files = as_json(AWS / "cloudformation" / "file_system.yaml")["Resources"]
    assert "DELETED" not in json.dumps(files["Results"])
    assert files["FileSystem"]["DeletionPolicy"] == "RetainExceptOnCreate" and files["FileSystem"]["UpdateReplacePolicy"] == "Retain"
    assert as_json(AWS / "cloudformation" / "base.yaml")["Resources"]["Bucket"]["DeletionPolicy"] == "Retain"


@pytest.mark.parametrize("kind, count", [("p4d.24xlarge", 4), ("p6-b200.48xlarge", 8)])
def test_a_network_card_has_one_interface_for_efa(kind, count, tmp_path):
    template = as_json(with_cards(kind, tmp_path))
    cards = template["Resources"]["LaunchTemplate"]["Properties"]["LaunchTemplateData"]["NetworkInterfaces"]
    assert [one["InterfaceType"] for one in cards] == ["interface"] + ["efa-only"] * count
    assert sorted(int(one["NetworkCardIndex"]) for one in cards[1:]) == list(range(count))
    assert len({(one["NetworkCardIndex"], one["DeviceIndex"]) for one in cards}) == count + 1


def test_a_job_that_finds_no_machines_is_tried_in_the_other_zone_unless_they_are_reserved():
    resources = as_json(AWS / "batch" / "environment.yaml")["Resources"]
    first, other = (resources[name]["Properties"]["ComputeResources"] for name in ("Environment", "OtherEnvironment"))
    different = {"Subnets", "PlacementGroup"}
    assert {name: value for name, value in first.items() if name not in different} == {
        name: value for name, value in other.items() if name not in different}
    assert first["PlacementGroup"]["Fn::If"][:2] == ["IsReserved", {"Ref": "AWS::NoValue"}]
    order = resources["Queue"]["Properties"]["ComputeEnvironmentOrder"]
    assert order["Fn::If"][0] == resources["OtherEnvironment"]["Condition"] == "HasOtherZone"
    assert [one["ComputeEnvironment"]["Ref"] for one in order["Fn::If"][1]] == ["Environment", "OtherEnvironment"]


def test_job_definition():
    text = call("python", AWS / "batch" / "job_definition.py", "--name=n", "--instance_type=p5.48xlarge", "--nodes=20",
                "--image=i", "--role=r", "--hours=1200").stdout
    job = json.loads(text)
    container = job["nodeProperties"]["nodeRangeProperties"][0]["container"]
    assert len(container["linuxParameters"]["devices"]) == 32
    assert container["resourceRequirements"][0] == {"type": "VCPU", "value": "192"}
    assert {"name": "memlock", "softLimit": -1, "hardLimit": -1} in container["ulimits"]
    # Codes with which the same run would end again are final. A code with * would match 70 and 75 as well as 7.
    rules = job["retryStrategy"]["evaluateOnExit"]
    assert [rule["onExitCode"] for rule in rules if rule["action"] == "EXIT"] == [*map(str, FINAL)] and len(rules) <= 5
    for parameter in job["parameters"]:  # Batch is documented to replace whole words
        assert f"Ref::{parameter}" in container["command"]
    # The training ends before Batch ends it, so that it is retried.
    assert container["command"][-2] == "--max_hours" and 3600 * float(container["command"][-1]) <= job["timeout"]["attemptDurationSeconds"] - 300
    assert {"name": "MOUNT_TYPE", "value": "lustre"} in container["environment"]
    # As the API's own model describes it.
    code = ("import json, sys, botocore.session, botocore.validate as v; "
            "model = botocore.session.get_session().get_service_model('batch').operation_model('RegisterJobDefinition'); "
            "print(v.ParamValidator().validate(json.load(sys.stdin), model.input_shape).generate_report())")
    assert run("-c", code, program=tool("python"), text=text).stdout.strip() == ""


WORKFLOW = AWS / "batch" / "workflow.yaml"


def test_the_workflow_is_valid_and_always_exports_and_takes_the_file_system_down(tmp_path):
    template = as_json(WORKFLOW)
    machine = template["Resources"]["Training"]["Properties"]["Definition"]
    (tmp_path / "workflow.json").write_text(json.dumps(machine), encoding="utf-8")
    call("statelint", tmp_path / "workflow.json")
    states = machine["States"]
    ends = {name for name, state in states.items() if state["Type"] in ("Succeed", "Fail")}
    left = {"ResultsAreNotExported", "FileSystemIsLeft"}  # the file system has the only copy, or cannot be deleted

    def leads(name: str, through: str, seen: tuple = ()) -> None:
        state = states[name]
        if through in (name, state.get("Resource", "").rpartition(":")[2]) or name in left or name in seen:
            return
        assert name not in ends and (through != "Export" or not state.get("Resource", "").endswith("deleteFileSystem")), seen
        following = [state.get("Next"), state.get("Default"), *(one["Next"] for one in state.get("Choices", [])),
                     *(one["Next"] for one in state.get("Catch", []))]
        for one in filter(None, following):
            leads(one, through, (*seen, name))

    leads("WaitForFileSystem", "deleteFileSystem")
    leads("Train", "Export")
    for name, state in states.items():  # every failure after making is caught
        if state["Type"] in ("Task", "Map") and name != "MakeFileSystem":
            assert state["Catch"][0]["ErrorEquals"] == ["States.ALL"], name
    # Nothing is caught after a time limit of the whole machine, so the training has it. The default job fits.
    assert "TimeoutSeconds" not in machine and states["Train"]["TimeoutSecondsPath"] == "$.own.Seconds"
    assert int(template["Parameters"]["TrainSeconds"]["Default"]) >= 3 * (24 + 1) * 3600


def statements(path, role: str) -> list[dict]:
    properties = as_json(path)["Resources"][role]["Properties"]
    found = [one for policy in properties.get("Policies", []) for one in policy["PolicyDocument"]["Statement"]]
    return [{**one, "Action": [one["Action"]] if isinstance(one["Action"], str) else one["Action"]} for one in found]


def test_roles_may_do_no_more_than_they_must():
    for statement in statements(WORKFLOW, "WorkflowRole"):
        text = json.dumps(statement)
        for action in statement["Action"]:
            if action.split(":")[1].startswith(("Delete", "Create", "Terminate", "Tag")) and not action.startswith("iam:"):
                assert "dtrain:name" in json.dumps(statement["Condition"]), action
            if statement["Resource"] == "*":
                assert action.split(":")[1].startswith(("Describe", "List", "GetSecurityGroups")), action
        assert "batch:SubmitJob" not in text or "job-queue/${Name}" in text
    roles = json.dumps([one["Resource"] for one in statements(WORKFLOW, "WorkflowRole") if "iam:CreateServiceLinkedRole" in one["Action"]])
    for principal in ("/fsx.amazonaws.com/", "/s3.data-source.lustre.fsx.amazonaws.com/"):  # as in AmazonFSxFullAccess
        assert principal in roles
    assert statements(AWS / "cloudformation" / "base.yaml", "JobRole") == []
    assert {action for one in statements(AWS / "cloudformation" / "base.yaml", "InstanceRole") for action in one["Action"]} == {
        "fsx:DescribeFileSystems"}


def test_a_machine_that_cannot_mount_starts_no_other():
    launch = as_json(AWS / "batch" / "environment.yaml")["Resources"]["LaunchTemplate"]["Properties"]["LaunchTemplateData"]
    script = launch["UserData"]["Fn::Base64"]["Fn::Sub"]
    assert "mount -t lustre" in script and "shutdown" not in script[script.index("dnf install"):]
    # What it costs is found by our tag, its disks and addresses too.
    assert [one["ResourceType"] for one in launch["TagSpecifications"]] == ["instance", "volume", "network-interface"]
    assert all(one["Tags"][-1]["Key"] == "dtrain:name" for one in launch["TagSpecifications"])
