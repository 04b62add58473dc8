#!/usr/bin/env python3
"""Prints a CloudFormation template of several machines for trainings by hand (scripts/ssh): the same instances with EFA in a
placement group, without public addresses, and a small head machine from which they are reached. instances.sh deploys it.

    instances.py --name=dtrain --type=p4d.24xlarge --count=8 --image=ami-… --head_image=ami-… --key=mine --ssh_from=203.0.113.7/32
                 --vpc=… --public_subnet=… --private_subnet=… --group=… [--file_system=DNS@tcp:/NAME]
                 [--reservation=cr-…] [--market=capacity-block | spot]

It is generated, because CloudFormation has no loops over network cards.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from instance_types import instance_type  # noqa: E402

# A machine whose image has no Lustre client yet comes up without /fsx; once it has one, `mount /fsx` is enough. An image has the
# entry of the machine that it was made of. The file system's root belongs to root, and trainings do not run as root.
USER_DATA = """#!/bin/bash
set -uxo pipefail
mkdir -p /fsx
umount -q /fsx
sed -i '\\| /fsx lustre |d' /etc/fstab
if [ -n "{source}" ]; then
  echo "{source} /fsx lustre relatime,flock,_netdev,nofail 0 0" >>/etc/fstab
  for attempt in 1 2 3 4 5; do mount /fsx && install -d -m 1777 /fsx /fsx/data /fsx/results && break; sleep 10; done
fi
"""
DISK = [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 200, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}}]


def template(given: argparse.Namespace) -> dict:
    def tags(name: str) -> list[dict]:
        return [{"Key": "Name", "Value": f"{given.name}-{name}"}, {"Key": "dtrain:name", "Value": given.name}]

    data = {"InstanceType": given.type, "KeyName": given.key, "BlockDeviceMappings": DISK,
            "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
            "NetworkInterfaces": instance_type(given.type).interfaces(given.group, SubnetId=given.private_subnet),
            "UserData": {"Fn::Base64": USER_DATA.format(source=given.file_system)}}
    resources = {"MachineTemplate": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}}}
    if given.market:
        data["InstanceMarketOptions"] = {"MarketType": given.market}
    if given.reservation:  # a reserved instance has its place already
        data["CapacityReservationSpecification"] = {"CapacityReservationTarget": {"CapacityReservationId": given.reservation}}
    else:
        resources["PlacementGroup"] = {"Type": "AWS::EC2::PlacementGroup", "Properties": {"Strategy": "cluster"}}
        data["Placement"] = {"GroupName": {"Ref": "PlacementGroup"}}
    launch = {"LaunchTemplateId": {"Ref": "MachineTemplate"}, "Version": {"Fn::GetAtt": ["MachineTemplate", "LatestVersionNumber"]}}
    machines = [f"Machine{number}" for number in range(given.count)]
    for number, name in enumerate(machines):
        resources[name] = {"Type": "AWS::EC2::Instance", "Properties": {
            "LaunchTemplate": launch, "ImageId": given.image, "Tags": tags(f"machine-{number}")}}
    resources["HeadSecurityGroup"] = {"Type": "AWS::EC2::SecurityGroup", "Properties": {
        "GroupDescription": "dtrain - ssh to the head machine", "VpcId": given.vpc, "Tags": tags("head"),
        "SecurityGroupIngress": [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": given.ssh_from, "Description": "ssh"}]}}
    resources["Head"] = {"Type": "AWS::EC2::Instance", "Properties": {
        "InstanceType": "m7i.large", "ImageId": given.head_image, "KeyName": given.key, "Tags": tags("head"),
        "NetworkInterfaces": [{"DeviceIndex": "0", "AssociatePublicIpAddress": True, "SubnetId": given.public_subnet,
                               "GroupSet": [given.group, {"Fn::GetAtt": ["HeadSecurityGroup", "GroupId"]}]}]}}
    return {"AWSTemplateFormatVersion": "2010-09-09", "Description": f"{given.count} {given.type} for trainings by hand, and a head machine",
            "Resources": resources,
            "Outputs": {"Image": {"Value": given.image}, "HeadImage": {"Value": given.head_image},
                        "Head": {"Value": {"Fn::GetAtt": ["Head", "PublicIp"]}},
                        "Hosts": {"Value": {"Fn::Join": [" ", [{"Fn::GetAtt": [name, "PrivateIp"]} for name in machines]]}}}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("name", "type", "image", "head_image", "key", "ssh_from", "vpc", "public_subnet", "private_subnet", "group"):
        parser.add_argument(f"--{flag}", required=True)
    parser.add_argument("--count", type=int, required=True)
    for flag in ("file_system", "reservation", "market"):
        parser.add_argument(f"--{flag}", default="")
    print(json.dumps(template(parser.parse_args())))


if __name__ == "__main__":
    main()
