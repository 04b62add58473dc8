#!/usr/bin/env bash
# Makes the cluster (half an hour), the file system in its network, and the volume; installs EFA's device plugin and, with
# --trainer, Kubeflow Trainer's runtime. Run it again to go on where it stopped: what is there is not made again.
#
#   AWS_REGION=us-east-1 ZONE=us-east-1a OTHER_ZONE=us-east-1b BUCKET=… IMAGE=… scripts/aws/eks/set_up.sh [--trainer]
#
# Needs eksctl, kubectl and helm. Environment: CAPACITY_GIB (2400), DEPLOYMENT (SCRATCH_2), NODES (2): GPU instances that the
# quota must allow.
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

with_trainer=no
for argument in "$@"; do
  case $argument in
    --trainer) with_trainer=yes ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) fail "set_up.sh does not know '$argument'" "it takes --trainer" ;;
  esac
done
need ZONE "the zone of the GPU instances and of the file system"
need OTHER_ZONE "another zone of the region, for the control plane"
need BUCKET "the bucket with the data under data/"
need IMAGE "the image that scripts/aws/push_image.sh has pushed"
[ "$ZONE" != "$OTHER_ZONE" ] || fail "ZONE and OTHER_ZONE are both $ZONE" "a control plane needs two different zones"
for tool in eksctl kubectl helm python3; do
  command -v "$tool" >/dev/null || fail "$tool is not installed" "install it (eksctl 0.230, kubectl and helm 3 or newer)"
done
check_account
check_offered p4d.24xlarge "$ZONE"
check_quota p4d.24xlarge "${NODES:-2}"
aws s3api head-bucket --bucket "$BUCKET" >/dev/null 2>&1 || fail "the bucket $BUCKET is not there or not yours" "set BUCKET to a bucket of yours in $AWS_REGION"
export NAME ZONE OTHER_ZONE IMAGE
folder=$aws_folder/eks

cluster_field() { aws eks describe-cluster --name "$NAME" --query "cluster.$1" --output text 2>/dev/null || true; }
case $(cluster_field status) in
  '') say "Cluster $NAME"
    "$folder/render.py" "$folder/cluster.yaml" | eksctl create cluster -f - ;;
  ACTIVE) [ "$(cluster_field 'tags."dtrain:name"')" = "$NAME" ] || fail "there is a cluster $NAME that this script has not made" "choose another NAME"
    note "the cluster $NAME is there" ;;
  *) fail "the cluster $NAME is $(cluster_field status)" "wait for it, or run scripts/aws/eks/clean_up.sh" ;;
esac
aws eks update-kubeconfig --name "$NAME" >/dev/null

# The file system is in the cluster's network: in the GPU zone's private subnet, with the cluster's security group
# (which admits all traffic from itself).
vpc=$(cluster_field resourcesVpcConfig.vpcId)
subnet=$(aws ec2 describe-subnets --filters "Name=vpc-id,Values=$vpc" "Name=availability-zone,Values=$ZONE" \
  Name=tag-key,Values=kubernetes.io/role/internal-elb --query 'Subnets[0].SubnetId' --output text)
[ "$subnet" != None ] || fail "the cluster $NAME has no private subnet in $ZONE" "set ZONE and OTHER_ZONE as when it was made, or run scripts/aws/eks/clean_up.sh"
deploy_file_system "$subnet" "$(cluster_field resourcesVpcConfig.clusterSecurityGroupId)" "$BUCKET"
FILE_SYSTEM_ID=$(stack_output "$NAME-files" FileSystemId)
FILE_SYSTEM_DNS=$(stack_output "$NAME-files" DnsName)
FILE_SYSTEM_MOUNT=$(stack_output "$NAME-files" MountName)
export FILE_SYSTEM_ID FILE_SYSTEM_DNS FILE_SYSTEM_MOUNT
"$folder/render.py" "$folder/volume.yaml" | kubectl apply -f -

# Tainted GPU nodes have no EFA unless the plugin tolerates the taint.
helm upgrade --install efa aws-efa-k8s-device-plugin --version v0.5.30 --namespace kube-system \
  --repo https://aws.github.io/eks-charts --set 'tolerations[0].key=nvidia.com/gpu' --set 'tolerations[0].operator=Exists'
kubectl apply -f "$folder/metrics.yaml"
if [ "$with_trainer" = yes ]; then
  kubectl get crd clustertrainingruntimes.trainer.kubeflow.org >/dev/null 2>&1 ||
    fail "Kubeflow Trainer is not installed in this cluster" "install its release v2.3.0 (it brings JobSet), then run this again"
  "$folder/render.py" "$folder/runtime.yaml" | kubectl apply -f -
fi
say "Ready: eksctl scale nodegroup --cluster $NAME --name gpu --nodes 2, then a training, then --nodes 0"
