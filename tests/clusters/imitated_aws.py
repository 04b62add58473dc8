"""An imitation of AWS (moto) as a server for the AWS CLI; run with .venv/clusters/bin/python: imitated_aws.py PORT.

It adds what moto lacks and the scripts need, as the services' own models describe it: file systems of FSx become
available and can be made by CloudFormation (which also deletes route tables, and returns outputs), data repository
associations and tasks, EC2's quotas, the network of EKS' clusters, and the names of parameters and results that Step
Functions translates for Batch and FSx. Jobs end at once, but those whose names begin with `waits` never start.

It is as unkind as AWS where moto is not: answers come in pages of one, the first of which is empty; a file system is DELETING
for a while, keeps its place when its stack goes, and is an error once it is gone; an association is listed late.
"""

import copy
import functools
import json
import sys

import boto3
from moto.batch import models as batch
from moto.batch.responses import BatchResponse
from moto.batch_simple.models import BatchSimpleBackend
from moto.cloudformation import models as cloudformation
from moto.cloudformation import parsing
from moto.core.common_models import CloudFormationModel
from moto.core.exceptions import JsonRESTError
from moto.ec2.models import ec2_backends
from moto.ec2.models.route_tables import RouteTable
from moto.eks import models as eks
from moto.fsx import models as fsx
from moto.fsx.responses import FSxResponse
from moto.iam.models import iam_backends
from moto.servicequotas import models as quotas
from moto.servicequotas.responses import ServiceQuotasResponse
from moto.stepfunctions.responses import StepFunctionResponse
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_aws_sdk, state_task_service_batch)

P_INSTANCES, G_INSTANCES = "L-417A185B", "L-DB2E81BA"
QUOTAS = {P_INSTANCES: 768.0, G_INSTANCES: 0.0}  # vCPUs: eight p4d, and nothing else


def instead(kind, name: str = ""):
    """The function below is called instead of that of its name in `kind`, which it gets as its first argument."""
    def replace(function):
        replaced = name or function.__name__
        plain = getattr(kind, replaced, None)
        by_class = isinstance(getattr(plain, "__self__", None), type)
        given = plain.__func__ if by_class else plain

        @functools.wraps(function)
        def call(*arguments, **named):
            return function(given, *arguments, **named)

        setattr(kind, replaced, classmethod(call) if by_class else call)
        return function
    return replace


@instead(quotas.ServiceQuotasBackend)
def get_service_quota(plain, self, service_code, quota_code):
    if service_code == "ec2" and quota_code in QUOTAS:
        return {"ServiceCode": "ec2", "QuotaCode": quota_code, "Value": QUOTAS[quota_code]}
    return plain(self, service_code, quota_code)


@instead(ServiceQuotasResponse, "get_service_quota")
def answer_with_quota(_, self):
    request = json.loads(self.body)
    quota = self.backend.get_service_quota(request["ServiceCode"], request["QuotaCode"])
    return json.dumps({"Quota": quota if isinstance(quota, dict) else quota.to_dict()})


@instead(fsx.FileSystem)
def to_dict(plain, self):
    """Those with the tag `test` of `leaves` are DELETING before anybody has deleted them."""
    found = plain(self)
    leaving = self.file_system_id in LEAVING or {"Key": "test", "Value": "leaves"} in found.get("Tags", [])
    return {**found, "Lifecycle": "DELETING" if leaving else "AVAILABLE", "DNSName": f"{self.file_system_id}.fsx.us-east-1.amazonaws.com",
            "LustreConfiguration": {**(found.get("LustreConfiguration") or {}), "MountName": "abcdefgh"}}


class FileSystemStack(CloudFormationModel):
    """AWS::FSx::FileSystem."""

    __module__ = fsx.__name__  # the name by which moto knows the service

    def __init__(self, file_system, backend):
        self.file_system, self.backend = file_system, backend
        self.type = "AWS::FSx::FileSystem"

    @property
    def physical_resource_id(self):
        return self.file_system.file_system_id

    @staticmethod
    def cloudformation_name_type():
        return ""

    @staticmethod
    def cloudformation_type():
        return "AWS::FSx::FileSystem"

    @classmethod
    def has_cfn_attr(cls, attr):
        return attr in ("DNSName", "LustreMountName", "ResourceARN")

    def get_cfn_attribute(self, attribute_name):
        found = self.file_system.to_dict()
        return {"DNSName": found["DNSName"], "LustreMountName": "abcdefgh",
                "ResourceARN": found["ResourceARN"]}[attribute_name]

    @classmethod
    def create_from_cloudformation_json(cls, resource_name, cloudformation_json, account_id, region_name, **kwargs):
        wanted = copy.deepcopy(cloudformation_json["Properties"])
        backend = fsx.fsx_backends[account_id][region_name]
        made = backend.create_file_system(
            client_request_token=resource_name, file_system_type=wanted["FileSystemType"],
            storage_capacity=int(wanted["StorageCapacity"]), storage_type="SSD", subnet_ids=wanted["SubnetIds"],
            security_group_ids=wanted["SecurityGroupIds"], tags=wanted.get("Tags", []), kms_key_id=None,
            windows_configuration=None, lustre_configuration=wanted["LustreConfiguration"], ontap_configuration=None,
            file_system_type_version=wanted["FileSystemTypeVersion"], open_zfs_configuration=None)
        link(made.file_system_id, S3={"AutoExportPolicy": {"Events": ["NEW", "CHANGED"]}})  # moto skips the template's
        return cls(made, backend)

    @classmethod
    def delete_from_cloudformation_json(cls, resource_name, cloudformation_json, account_id, region_name):
        """Its deletion policy is to be retained."""

    def delete(self, account_id, region_name):
        pass


LEAVING: dict[str, int] = {}  # of file systems that are deleted: how many more questions find them


@instead(fsx.FSxBackend)
def describe_file_systems(plain, self, file_system_ids=None, **pages):
    for one in self.file_systems.values():
        if one.to_dict()["Lifecycle"] == "DELETING":
            LEAVING.setdefault(one.file_system_id, 12)
    for one in list(LEAVING):
        LEAVING[one] -= 1
        if LEAVING[one] < 0:
            del LEAVING[one]
            self.file_systems.pop(one, None)
    for one in file_system_ids or ():
        if one not in self.file_systems:
            raise fsx.FileSystemNotFound(one)
    return plain(self, file_system_ids=file_system_ids, **pages)


@instead(fsx.FSxBackend)
def delete_file_system(plain, self, file_system_id, **more):
    there = self.file_systems.get(file_system_id)
    if there is not None and there.to_dict()["Lifecycle"] == "DELETING":
        raise JsonRESTError("BadRequest", f"{file_system_id} is being deleted")
    answer = plain(self, file_system_id=file_system_id, **more)
    self.file_systems[file_system_id] = there
    LEAVING[file_system_id] = 2
    return answer


def answer_in_pages(kind, operation: str, listed: str, token: str, names: tuple[str, ...]) -> None:
    """Lists that nothing narrows to what the caller names come in pages of one; the first one is empty."""
    @instead(kind, operation)
    def respond(plain, self):
        wanted = json.loads(self.body or "{}")
        page = wanted.pop(token, None)
        if any(wanted.get(name) for name in names):
            return plain(self)
        self.body = json.dumps(wanted)
        getattr(self, "params", {}).pop(token, None)
        answer = plain(self)
        made = json.loads(answer) if isinstance(answer, str) else answer.result
        page, everything = int(page or 0), made[listed]
        made |= {listed: everything[page - 1:page] if page else [], token: str(page + 1) if page < len(everything) else None}
        return json.dumps(made) if isinstance(answer, str) else answer


answer_in_pages(FSxResponse, "describe_file_systems", "FileSystems", "NextToken", ("FileSystemIds",))
answer_in_pages(BatchResponse, "listjobs", "jobSummaryList", "nextToken", ("filters", "arrayJobId"))
answer_in_pages(BatchResponse, "describejobdefinitions", "jobDefinitions", "nextToken", ("jobDefinitions",))
answer_in_pages(BatchResponse, "describecomputeenvironments", "computeEnvironments", "nextToken", ("computeEnvironments",))
answer_in_pages(StepFunctionResponse, "list_executions", "executions", "nextToken", ())


@instead(RouteTable, "delete")
def delete_route_table(_, self, account_id, region_name):
    ec2_backends[account_id][region_name].route_tables.pop(self.id, None)


@instead(parsing)
def parse_and_update_resource(plain, logical_id, resource_json, resources_map, account_id, region_name):
    """A second change set of a stack updates the resources whose parameters differ. moto would update those, too, which the
    template's conditions leave out, and forget those that it cannot update."""
    there = resources_map[logical_id]  # makes it if its condition holds only now
    if there is None:
        return None
    return plain(logical_id, resource_json, resources_map, account_id, region_name) or there


@instead(cloudformation.CloudFormationBackend)
def execute_change_set(plain, self, change_set_name, stack_name=None):
    """Gives outputs after it."""
    plain(self, change_set_name, stack_name)
    for stack in self.stacks.values():
        if not isinstance(stack.template, dict) and stack.status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            stack._parse_template()
            stack.output_map = stack._create_output_map()


def keeps_tags(plain, kind, resource_name, cloudformation_json, account_id, region_name, **kwargs):
    made = plain(kind, resource_name, cloudformation_json, account_id, region_name, **kwargs)
    batch.batch_backends[account_id][region_name].tag_resource(made.arn, cloudformation_json["Properties"].get("Tags", {}))
    return made


instead(batch.JobQueue, "create_from_cloudformation_json")(keeps_tags)


@instead(batch.ComputeEnvironment)
def create_from_cloudformation_json(plain, kind, resource_name, cloudformation_json, account_id, region_name, **kwargs):
    """Allows environments of the service-linked role."""
    role = iam_backends[account_id]["aws"].create_role(
        role_name=f"batch-{resource_name}", assume_role_policy_document="{}", path="/", permissions_boundary=None,
        description="", tags=[], max_session_duration="3600")
    wanted = {**cloudformation_json, "Properties": {"ServiceRole": role.arn, **cloudformation_json["Properties"]}}
    return keeps_tags(plain, kind, resource_name, wanted, account_id, region_name, **kwargs)


@instead(eks.Cluster, "__init__")
def make_cluster(plain, self, *arguments, **named):
    """Says its network."""
    plain(self, *arguments, **named)
    subnet = ec2_backends[named["account_id"]][named["region_name"]].get_subnet(self.resources_vpc_config["subnetIds"][0])
    self.resources_vpc_config |= {"vpcId": subnet.vpc_id, "clusterSecurityGroupId": "sg-0123456789abcdef0"}


@instead(BatchSimpleBackend)
def _mark_job_as_finished(plain, self, include_start_attempt, job):
    if not job.job_name.startswith("waits"):
        return plain(self, include_start_attempt=include_start_attempt, job=job)
    self.backend._jobs[job.job_id] = job
    job.status = batch.JobStatus.RUNNABLE


@instead(batch.Job)
def terminate(plain, self, reason):
    plain(self, reason)
    if self.job_name.startswith("waits"):
        self.status = batch.JobStatus.FAILED


ASSOCIATIONS: list[dict] = []
LATE: list[str] = []  # associations of which the next question finds only the first
TASKS: list[dict] = []


def link(file_system: str, **more) -> dict:
    made = {"FileSystemId": file_system, "AssociationId": f"dra-{len(ASSOCIATIONS):017x}", "Lifecycle": "AVAILABLE", **more}
    ASSOCIATIONS.append(made)
    return made


@instead(FSxResponse)
def create_data_repository_association(_, self):
    wanted = json.loads(self.body)
    made = link(wanted.pop("FileSystemId"), **wanted)
    LATE.append(made["AssociationId"])
    return json.dumps({"Association": made})


@instead(FSxResponse)
def update_data_repository_association(_, self):
    wanted = json.loads(self.body)
    found = next(one for one in ASSOCIATIONS if one["AssociationId"] == wanted["AssociationId"])
    found["S3"] = {**found.get("S3", {}), **wanted["S3"]}
    return json.dumps({"Association": found})


@instead(FSxResponse)
def describe_data_repository_associations(_, self):
    wanted = [value for one in json.loads(self.body).get("Filters", []) for value in one["Values"]]
    found = [one for one in ASSOCIATIONS if one["FileSystemId"] in wanted]
    late, LATE[:] = [one for one in found if one["AssociationId"] in LATE], []
    return json.dumps({"Associations": [one for one in found if one not in late[1:]]})


@instead(FSxResponse)
def create_data_repository_task(_, self):
    """Exports end as the documentation says: never while files are exported automatically or without an association.
    Those of a file system with the tag `test` are FAILED, or SUCCEEDED with a failed file."""
    wanted = json.loads(self.body)
    mine = [one for one in ASSOCIATIONS if one["FileSystemId"] == wanted["FileSystemId"]]
    if not mine or any(one.get("S3", {}).get("AutoExportPolicy", {}).get("Events") for one in mine):
        raise JsonRESTError("BadRequest", "automatic export is on" if mine else "no data repository is linked")
    tags = {one["Key"]: one["Value"] for one in self.fsx_backend.file_systems[wanted["FileSystemId"]].to_dict()["Tags"]}
    kind = tags.get("test", "")
    made = {**wanted, "TaskId": f"task-{len(TASKS):017x}", "Lifecycle": "FAILED" if kind == "FAILED" else "SUCCEEDED",
            "Status": {"FailedCount": int(kind == "a file fails")}}
    TASKS.append(made)
    return json.dumps({"DataRepositoryTask": made})


@instead(FSxResponse)
def describe_data_repository_tasks(_, self):
    wanted = json.loads(self.body)["TaskIds"]
    return json.dumps({"DataRepositoryTasks": [one for one in TASKS if one["TaskId"] in wanted]})


def operation(self, service, action):
    name = service or self._get_boto_service_name()
    model = boto3.client(name, region_name="us-east-1").meta.service_model
    wanted = (action or self.resource.api_action).replace("_", "").lower()
    return model.operation_model(next(one for one in model.operation_names if one.lower() == wanted))


for service in (state_task_service_batch.StateTaskServiceBatch, state_task_service_aws_sdk.StateTaskServiceAwsSdk):
    @instead(service)
    def _normalise_parameters(_, self, parameters, boto_service_name=None, service_action_name=None):
        self._to_boto_request(parameters, operation(self, boto_service_name, service_action_name).input_shape)

    @instead(service)
    def _normalise_response(_, self, response, boto_service_name=None, service_action_name=None):
        self._from_boto_response(response, operation(self, boto_service_name, service_action_name).output_shape)

if __name__ == "__main__":
    from moto.server import main as serve  # after all changes

    serve(["-H", "127.0.0.1", "-p", sys.argv[1]])
