#!/usr/bin/env python3
"""Prints a CloudFormation template of several machines for trainings by hand (scripts/ssh): the same instances with EFA in a
placement group, without public addresses, and a small head machine from which they are reached. instances.sh deploys it.

    instances.py --type=p4d.24xlarge --count=8 [--reservation] [--market=capacity-block | spot]

It is generated, because CloudFormation has no loops over instances and network cards.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from instance_types import instance_type  # noqa: E402

# A machine whose image has no Lustre client yet comes up without /fsx; once it has one, `mount /fsx` is enough. An image has the
# entry of the machine that it was made of. The folders are everybody's, as ParallelCluster's are (parallelcluster/node.sh).
USER_DATA = """#!/bin/bash
set -uxo pipefail
mkdir -p /fsx
umount -q /fsx
sed -i '\\| /fsx lustre |d' /etc/fstab
if [ -n "${FileSystem}" ]; then
  echo "${FileSystem} /fsx lustre relatime,flock,_netdev,nofail 0 0" >>/etc/fstab
  for attempt in 1 2 3 4 5; do mount /fsx && install -d -m 1777 /fsx /fsx/data /fsx/results && break; sleep 10; done
fi
"""


def parameters() -> dict:
    def text(description: str, **more) -> dict:
        return {"Type": "String", "Description": description, **more}

    return {
        "Name": text("As in base.yaml.", Default="dtrain", AllowedPattern="[a-z][a-z0-9-]{1,30}"),
        "ImageId": {"Type": "AWS::EC2::Image::Id", "Description": "What scripts/ssh/machine_image.sh has made, or another AMI with NVIDIA's driver."},
        "HeadImageId": {"Type": "AWS::EC2::Image::Id", "Description": "The head machine's: any Linux with ssh."},
        "KeyName": {"Type": "AWS::EC2::KeyPair::KeyName", "Description": "The key pair that logs in to all of them."},
        "SshFrom": text("The addresses that may log in to the head machine, such as 203.0.113.7/32.",
                        AllowedPattern=r"\d{1,3}(\.\d{1,3}){3}/([1-9]|[12]\d|3[0-2])"),
        "VpcId": {"Type": "AWS::EC2::VPC::Id", "Description": "base.yaml's."},
        "PublicSubnetId": {"Type": "AWS::EC2::Subnet::Id", "Description": "base.yaml's, for the head machine."},
        "PrivateSubnetId": {"Type": "AWS::EC2::Subnet::Id", "Description": "base.yaml's, for the machines."},
        "SecurityGroupId": {"Type": "AWS::EC2::SecurityGroup::Id", "Description": "base.yaml's, which lets EFA and Lustre through."},
        "FileSystem": text("DNS@tcp:/MOUNTNAME of the file system that is mounted on /fsx, or nothing.", Default=""),
        "CapacityReservationId": text("A Capacity Block, or a reservation on demand.", Default=""),
    }


def tags(name: str) -> list[dict]:
    return [{"Key": "Name", "Value": {"Fn::Sub": f"${{Name}}-{name}"}}, {"Key": "dtrain:name", "Value": {"Ref": "Name"}}]


def template(kind: str, count: int, reserved: bool, market: str) -> dict:
    disk = [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 200, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}}]
    data = {"InstanceType": kind, "KeyName": {"Ref": "KeyName"}, "BlockDeviceMappings": disk,
            "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
            "NetworkInterfaces": instance_type(kind).interfaces({"Ref": "SecurityGroupId"}, SubnetId={"Ref": "PrivateSubnetId"}),
            "UserData": {"Fn::Base64": {"Fn::Sub": USER_DATA}}}
    resources = {"MachineTemplate": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}}}
    if market:
        data["InstanceMarketOptions"] = {"MarketType": market}
    if reserved:  # a reserved instance has its place already
        data["CapacityReservationSpecification"] = {"CapacityReservationTarget": {"CapacityReservationId": {"Ref": "CapacityReservationId"}}}
    else:
        resources["PlacementGroup"] = {"Type": "AWS::EC2::PlacementGroup", "Properties": {"Strategy": "cluster"}}
        data["Placement"] = {"GroupName": {"Ref": "PlacementGroup"}}
    launch = {"LaunchTemplateId": {"Ref": "MachineTemplate"}, "Version": {"Fn::GetAtt": ["MachineTemplate", "LatestVersionNumber"]}}
    machines = [f"Machine{number}" for number in range(count)]
    for number, name in enumerate(machines):
        resources[name] = {"Type": "AWS::EC2::Instance", "Properties": {
            "LaunchTemplate": launch, "ImageId": {"Ref": "ImageId"}, "Tags": tags(f"machine-{number}")}}
    resources["HeadSecurityGroup"] = {"Type": "AWS::EC2::SecurityGroup", "Properties": {
        "GroupDescription": "dtrain - ssh to the head machine", "VpcId": {"Ref": "VpcId"}, "Tags": tags("head"),
        "SecurityGroupIngress": [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": {"Ref": "SshFrom"}, "Description": "ssh"}]}}
    resources["Head"] = {"Type": "AWS::EC2::Instance", "Properties": {
        "InstanceType": "m7i.large", "ImageId": {"Ref": "HeadImageId"}, "KeyName": {"Ref": "KeyName"}, "Tags": tags("head"),
        "NetworkInterfaces": [{"DeviceIndex": "0", "AssociatePublicIpAddress": True, "SubnetId": {"Ref": "PublicSubnetId"},
                               "GroupSet": [{"Ref": "SecurityGroupId"}, {"Fn::GetAtt": ["HeadSecurityGroup", "GroupId"]}]}]}}
    wanted = parameters()
    if not reserved:
        wanted.pop("CapacityReservationId")
    return {"AWSTemplateFormatVersion": "2010-09-09", "Description": f"{count} {kind} for trainings by hand, and a head machine",
            "Parameters": wanted, "Resources": resources,
            "Outputs": {"Head": {"Value": {"Fn::GetAtt": ["Head", "PublicIp"]}},
                        "Hosts": {"Value": {"Fn::Join": [" ", [{"Fn::GetAtt": [name, "PrivateIp"]} for name in machines]]}}}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--reservation", action="store_true", help="of CapacityReservationId")
    parser.add_argument("--market", choices=("", "capacity-block", "spot"), default="", help="how they are paid, if not on demand")
    given = parser.parse_args()
    print(json.dumps(template(given.type, given.count, given.reservation, given.market)))


if __name__ == "__main__":
    main()
