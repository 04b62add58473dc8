"""Lints the templates and the workflow, and tests what the linters do not check."""

import json
import subprocess

import pytest

from command import ROOT
from tools import BIN, call, tool

AWS = ROOT / "scripts" / "aws"
TEMPLATES = sorted([*AWS.glob("cloudformation/*.yaml"), *AWS.glob("batch/*.yaml")])


def as_json(path) -> dict:
    """Returns a template without its short forms (!Ref …), as AWS's own reader expands them."""
    code = ("import json, sys; from awscli.customizations.cloudformation.yamlhelper import yaml_parse; "
            "print(json.dumps(yaml_parse(open(sys.argv[1]).read()), default=str))")
    return json.loads(call("python", "-c", code, path).stdout)


def test_templates():
    assert len(TEMPLATES) == 4
    call("cfn-lint", "--non-zero-exit-code", "informational", *TEMPLATES)


def test_every_parameter_says_what_it_is():
    for path in TEMPLATES:
        for name, parameter in as_json(path)["Parameters"].items():
            assert len(parameter.get("Description", "")) > 10, (path, name)


def test_the_security_group_lets_efa_through():
    """EFA needs all traffic to and from the group's own id; 0.0.0.0/0 does not cover it."""
    resources = as_json(AWS / "cloudformation" / "base.yaml")["Resources"].values()
    own = {"Fn::GetAtt": ["ClusterSecurityGroup", "GroupId"]}
    for kind, peer in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")):
        rules = [one["Properties"] for one in resources if one["Type"] == f"AWS::EC2::SecurityGroup{kind}"]
        assert any(rule["GroupId"] == rule.get(peer) == own and rule["IpProtocol"] == "-1" for rule in rules)


def test_nothing_is_exported_as_deleted_and_the_bucket_stays():
    files = as_json(AWS / "cloudformation" / "file_system.yaml")["Resources"]
    assert "DELETED" not in json.dumps(files["Results"])
    assert as_json(AWS / "cloudformation" / "base.yaml")["Resources"]["Bucket"]["DeletionPolicy"] == "Retain"


def test_a_network_card_has_one_interface_for_efa():
    cards = as_json(AWS / "batch" / "environment.yaml")["Resources"]["LaunchTemplate"]["Properties"]
    cards = [one["Fn::If"][1] if "Fn::If" in one else one for one in cards["LaunchTemplateData"]["NetworkInterfaces"]]
    assert [one["InterfaceType"] for one in cards] == ["interface"] + ["efa-only"] * 32
    assert sorted(int(one["NetworkCardIndex"]) for one in cards[1:]) == list(range(32))


@pytest.mark.parametrize("kind, devices, vcpus", [("p4d.24xlarge", 4, "96"), ("p5.48xlarge", 32, "192")])
def test_job_definition(kind, devices, vcpus):
    text = call("python", AWS / "batch" / "job_definition.py", "--name=n", f"--instance_type={kind}", "--nodes=20",
                "--image=i", "--role=r").stdout
    job = json.loads(text)
    container = job["nodeProperties"]["nodeRangeProperties"][0]["container"]
    assert len(container["linuxParameters"]["devices"]) == devices
    assert container["resourceRequirements"][0] == {"type": "VCPU", "value": vcpus}
    assert {"name": "memlock", "softLimit": -1, "hardLimit": -1} in container["ulimits"]
    # Codes with which the same run would end again are final. A code with * would match 70 and 75 as well as 7.
    rules = job["retryStrategy"]["evaluateOnExit"]
    assert [rule["onExitCode"] for rule in rules if rule["action"] == "EXIT"] == ["2", "3", "6", "7"] and len(rules) <= 5
    for parameter in job["parameters"]:  # Batch is documented to replace whole words
        assert f"Ref::{parameter}" in container["command"]
    # As the API's own model describes it.
    code = ("import json, sys, botocore.session, botocore.validate as v; "
            "model = botocore.session.get_session().get_service_model('batch').operation_model('RegisterJobDefinition'); "
            "print(v.ParamValidator().validate(json.load(sys.stdin), model.input_shape).generate_report())")
    done = subprocess.run([tool("python"), "-c", code], input=text, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_workflow_is_valid_and_always_takes_the_file_system_down(tmp_path):
    machine = as_json(AWS / "batch" / "workflow.yaml")["Resources"]["Training"]["Properties"]["Definition"]
    (tmp_path / "workflow.json").write_text(json.dumps(machine), encoding="utf-8")
    call("statelint", tmp_path / "workflow.json")
    states = machine["States"]
    ends = {name for name, state in states.items() if state["Type"] in ("Succeed", "Fail")}
    kept = {"ResultsAreNotExported"}  # the file system has the only copy then

    def leads(name: str, seen: tuple = ()) -> None:
        state = states[name]
        if state.get("Resource", "").endswith("deleteFileSystem") or name in kept or name in seen:
            return
        assert name not in ends, f"{seen} ends in {name} without deleteFileSystem"
        following = [state.get("Next"), state.get("Default"), *(one["Next"] for one in state.get("Choices", [])),
                     *(one["Next"] for one in state.get("Catch", []))]
        for one in filter(None, following):
            leads(one, (*seen, name))

    leads("WaitForFileSystem")
    for name in states:  # every failure between making and deleting is caught
        if states[name]["Type"] == "Task" and name not in ("MakeFileSystem", "Delete", "DeleteAfterFailure"):
            assert states[name]["Catch"][0]["ErrorEquals"] == ["States.ALL"], name


def test_tools_are_where_setup_puts_them():
    if not BIN.exists():
        pytest.skip("scripts/setup.sh --tests")
    for name in ("aws", "cfn-lint", "statelint", "shellcheck", "hadolint", "kubernetes-validate"):
        assert (BIN / name).exists(), name
