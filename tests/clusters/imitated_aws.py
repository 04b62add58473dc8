"""An imitation of AWS (moto) as a server for the AWS CLI; run with .venv/clusters/bin/python: imitated_aws.py PORT.

It adds what moto lacks and the scripts need, as the services' own models describe it: file systems of FSx become
available and can be made by CloudFormation (which also deletes route tables, and returns outputs), data repository
associations and tasks, EC2's quotas, the network of EKS' clusters, and the names of parameters and results that Step
Functions translates for Batch and FSx. Jobs end at once, but those whose names begin with `waits` never start.

It is as unkind as AWS where moto is not: answers come in pages of one, the first of which is empty; a file system is DELETING
for a while, keeps its place when its stack goes, and is an error once it is gone; an association is listed late.
"""

import copy
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


def add_quotas() -> None:
    plain = quotas.ServiceQuotasBackend.get_service_quota

    def get_service_quota(self, service_code, quota_code):
        if service_code == "ec2" and quota_code in QUOTAS:
            return {"ServiceCode": "ec2", "QuotaCode": quota_code, "Value": QUOTAS[quota_code]}
        return plain(self, service_code, quota_code)

    def respond(self):
        request = json.loads(self.body)
        quota = self.backend.get_service_quota(request["ServiceCode"], request["QuotaCode"])
        return json.dumps({"Quota": quota if isinstance(quota, dict) else quota.to_dict()})

    quotas.ServiceQuotasBackend.get_service_quota = get_service_quota
    ServiceQuotasResponse.get_service_quota = respond


def add_file_systems() -> None:
    """Those with the tag `test` of `leaves` are DELETING before anybody has deleted them."""
    plain = fsx.FileSystem.to_dict

    def to_dict(self):
        found = plain(self)
        leaving = self.file_system_id in LEAVING or {"Key": "test", "Value": "leaves"} in found.get("Tags", [])
        return {**found, "Lifecycle": "DELETING" if leaving else "AVAILABLE", "DNSName": f"{self.file_system_id}.fsx.us-east-1.amazonaws.com",
                "LustreConfiguration": {**(found.get("LustreConfiguration") or {}), "MountName": "abcdefgh"}}

    fsx.FileSystem.to_dict = to_dict

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


def let_file_systems_leave_slowly() -> None:
    describe, delete = fsx.FSxBackend.describe_file_systems, fsx.FSxBackend.delete_file_system

    def describe_file_systems(self, file_system_ids=None, **pages):
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
        return describe(self, file_system_ids=file_system_ids, **pages)

    def delete_file_system(self, file_system_id, **more):
        there = self.file_systems.get(file_system_id)
        if there is not None and there.to_dict()["Lifecycle"] == "DELETING":
            raise JsonRESTError("BadRequest", f"{file_system_id} is being deleted")
        answer = delete(self, file_system_id=file_system_id, **more)
        self.file_systems[file_system_id] = there
        LEAVING[file_system_id] = 2
        return answer

    fsx.FSxBackend.describe_file_systems, fsx.FSxBackend.delete_file_system = describe_file_systems, delete_file_system


def answer_in_pages() -> None:
    """Lists that nothing narrows to what the caller names come in pages of one; the first one is empty."""
    def in_pages(kind, operation: str, listed: str, token: str, names: tuple[str, ...]) -> None:
        plain = getattr(kind, operation)

        def respond(self):
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

        setattr(kind, operation, respond)

    in_pages(FSxResponse, "describe_file_systems", "FileSystems", "NextToken", ("FileSystemIds",))
    in_pages(BatchResponse, "listjobs", "jobSummaryList", "nextToken", ("filters", "arrayJobId"))
    in_pages(BatchResponse, "describejobdefinitions", "jobDefinitions", "nextToken", ("jobDefinitions",))
    in_pages(BatchResponse, "describecomputeenvironments", "computeEnvironments", "nextToken", ("computeEnvironments",))
    in_pages(StepFunctionResponse, "list_executions", "executions", "nextToken", ())


def delete_route_tables() -> None:
    def delete(self, account_id, region_name):
        ec2_backends[account_id][region_name].route_tables.pop(self.id, None)

    RouteTable.delete = delete


def update_what_is_there() -> None:
    """A second change set of a stack updates the resources whose parameters differ. moto would update those, too, which the
    template's conditions leave out, and forget those that it cannot update."""
    plain = parsing.parse_and_update_resource

    def update(logical_id, resource_json, resources_map, account_id, region_name):
        there = resources_map[logical_id]  # makes it if its condition holds only now
        if there is None:
            return None
        return plain(logical_id, resource_json, resources_map, account_id, region_name) or there

    parsing.parse_and_update_resource = update


def give_outputs_after_a_change_set() -> None:
    plain = cloudformation.CloudFormationBackend.execute_change_set

    def execute(self, change_set_name, stack_name=None):
        plain(self, change_set_name, stack_name)
        for stack in self.stacks.values():
            if not isinstance(stack.template, dict) and stack.status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
                stack._parse_template()
                stack.output_map = stack._create_output_map()

    cloudformation.CloudFormationBackend.execute_change_set = execute


def allow_environments_of_the_service_linked_role() -> None:
    plain = batch.ComputeEnvironment.create_from_cloudformation_json.__func__

    def create(cls, resource_name, cloudformation_json, account_id, region_name, **kwargs):
        role = iam_backends[account_id]["aws"].create_role(
            role_name=f"batch-{resource_name}", assume_role_policy_document="{}", path="/", permissions_boundary=None,
            description="", tags=[], max_session_duration="3600")
        wanted = {**cloudformation_json, "Properties": {"ServiceRole": role.arn, **cloudformation_json["Properties"]}}
        return plain(cls, resource_name, wanted, account_id, region_name, **kwargs)

    batch.ComputeEnvironment.create_from_cloudformation_json = classmethod(create)


def keep_the_tags_of_batch() -> None:
    for kind in (batch.ComputeEnvironment, batch.JobQueue):
        def create(cls, resource_name, cloudformation_json, account_id, region_name,
                   plain=kind.create_from_cloudformation_json.__func__, **kwargs):
            made = plain(cls, resource_name, cloudformation_json, account_id, region_name, **kwargs)
            batch.batch_backends[account_id][region_name].tag_resource(made.arn, cloudformation_json["Properties"].get("Tags", {}))
            return made

        kind.create_from_cloudformation_json = classmethod(create)


def say_the_network_of_clusters() -> None:
    plain = eks.Cluster.__init__

    def make(self, *arguments, **named):
        plain(self, *arguments, **named)
        subnet = ec2_backends[named["account_id"]][named["region_name"]].get_subnet(self.resources_vpc_config["subnetIds"][0])
        self.resources_vpc_config |= {"vpcId": subnet.vpc_id, "clusterSecurityGroupId": "sg-0123456789abcdef0"}

    eks.Cluster.__init__ = make


def let_some_jobs_wait() -> None:
    finish, terminate = BatchSimpleBackend._mark_job_as_finished, batch.Job.terminate

    def finish_unless_it_waits(self, include_start_attempt, job):
        if not job.job_name.startswith("waits"):
            return finish(self, include_start_attempt=include_start_attempt, job=job)
        self.backend._jobs[job.job_id] = job
        job.status = batch.JobStatus.RUNNABLE

    def terminate_what_waits(self, reason):
        terminate(self, reason)
        if self.job_name.startswith("waits"):
            self.status = batch.JobStatus.FAILED

    BatchSimpleBackend._mark_job_as_finished, batch.Job.terminate = finish_unless_it_waits, terminate_what_waits


ASSOCIATIONS: list[dict] = []
LATE: list[str] = []  # associations of which the next question finds only the first
TASKS: list[dict] = []


def link(file_system: str, **more) -> dict:
    made = {"FileSystemId": file_system, "AssociationId": f"dra-{len(ASSOCIATIONS):017x}", "Lifecycle": "AVAILABLE", **more}
    ASSOCIATIONS.append(made)
    return made


def add_data_repositories() -> None:
    """Exports end as the documentation says: never while files are exported automatically or without an association.
    Those of a file system with the tag `test` are FAILED, or SUCCEEDED with a failed file."""

    def create_association(self):
        wanted = json.loads(self.body)
        made = link(wanted.pop("FileSystemId"), **wanted)
        LATE.append(made["AssociationId"])
        return json.dumps({"Association": made})

    def update_association(self):
        wanted = json.loads(self.body)
        found = next(one for one in ASSOCIATIONS if one["AssociationId"] == wanted["AssociationId"])
        found["S3"] = {**found.get("S3", {}), **wanted["S3"]}
        return json.dumps({"Association": found})

    def describe_associations(self):
        wanted = [value for one in json.loads(self.body).get("Filters", []) for value in one["Values"]]
        found = [one for one in ASSOCIATIONS if one["FileSystemId"] in wanted]
        late, LATE[:] = [one for one in found if one["AssociationId"] in LATE], []
        return json.dumps({"Associations": [one for one in found if one not in late[1:]]})

    def create_task(self):
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

    def describe_tasks(self):
        wanted = json.loads(self.body)["TaskIds"]
        return json.dumps({"DataRepositoryTasks": [one for one in TASKS if one["TaskId"] in wanted]})

    FSxResponse.create_data_repository_association = create_association
    FSxResponse.update_data_repository_association = update_association
    FSxResponse.describe_data_repository_associations = describe_associations
    FSxResponse.create_data_repository_task = create_task
    FSxResponse.describe_data_repository_tasks = describe_tasks


def translate_step_functions() -> None:
    def operation(self, service, action):
        name = service or self._get_boto_service_name()
        model = boto3.client(name, region_name="us-east-1").meta.service_model
        wanted = (action or self.resource.api_action).replace("_", "").lower()
        return model.operation_model(next(one for one in model.operation_names if one.lower() == wanted))

    def request(self, parameters, boto_service_name=None, service_action_name=None):
        self._to_boto_request(parameters, operation(self, boto_service_name, service_action_name).input_shape)

    def response(self, response, boto_service_name=None, service_action_name=None):
        self._from_boto_response(response, operation(self, boto_service_name, service_action_name).output_shape)

    for service in (state_task_service_batch.StateTaskServiceBatch, state_task_service_aws_sdk.StateTaskServiceAwsSdk):
        service._normalise_parameters, service._normalise_response = request, response


def main() -> None:
    add_quotas()
    add_file_systems()
    let_file_systems_leave_slowly()
    answer_in_pages()
    delete_route_tables()
    update_what_is_there()
    give_outputs_after_a_change_set()
    allow_environments_of_the_service_linked_role()
    keep_the_tags_of_batch()
    say_the_network_of_clusters()
    let_some_jobs_wait()
    add_data_repositories()
    translate_step_functions()
    from moto.server import main as serve  # after all changes

    serve(["-H", "127.0.0.1", "-p", sys.argv[1]])


if __name__ == "__main__":
    main()
