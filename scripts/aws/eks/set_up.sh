#!/usr/bin/env bash
# Makes the cluster (half an hour), the file system in its network, and the volume; installs EFA's device plugin, the guard and the
# metrics' agent. Run it again to complete what an interrupted or failed run has left: what is there is not made again. docs/aws.md has
# the commands for what only some trainings need: Kubeflow Trainer, the training operator, Kueue, Grafana.
#
#   AWS_REGION=us-east-1 ZONE=us-east-1a OTHER_ZONE=us-east-1b BUCKET=… IMAGE=… scripts/aws/eks/set_up.sh
#
# Needs eksctl, kubectl and helm. Environment: INSTANCE_TYPE (p4d.24xlarge), one of instance_types.tsv, for the GPU nodes;
# NODES (2) that the quota must allow; MAX_NODES (8); CAPACITY_RESERVATION_ID, a Capacity Block or a reservation on demand for
# them; SPOT=1, cheaper ones that AWS takes back; CAPACITY_GIB (2400), DEPLOYMENT (SCRATCH_2); AMI_RELEASE, EKS' image of that
# release for the GPU nodes, not its newest one. Where ZONE has no machines left, GPU_ZONE=OTHER-ZONE makes another group of nodes there
# (gpu-ZONE), which is scaled in place of `gpu`. IMAGE is named by its digest.
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

takes_nothing "$0" "its settings are environment variables: --help" "$@"
need ZONE "the zone of the GPU instances and of the file system"
need OTHER_ZONE "another zone of the region, for the control plane"
need BUCKET "the bucket with the data under data/"
need IMAGE "the image that you have pushed: docs/aws.md"
[ "$ZONE" != "$OTHER_ZONE" ] || fail "ZONE and OTHER_ZONE are both $ZONE" "a control plane needs two different zones"
for tool in eksctl kubectl helm python3; do
  command -v "$tool" >/dev/null || fail "$tool is not installed" "install it (eksctl 0.230, kubectl and helm 3 or newer)"
done
check_account
INSTANCE_TYPE=${INSTANCE_TYPE:-p4d.24xlarge}
check_instance_type "$INSTANCE_TYPE"
check_driver "$INSTANCE_TYPE" AMI_RELEASE "such as 1.35.0-20260120, of amazon-eks-ami's releases, which name their drivers"
[[ $IMAGE = *@sha256:* ]] || fail "IMAGE is $IMAGE, without a digest: restarted pods might run another image than the rest" \
  'docker inspect --format "{{index .RepoDigests 0}}" REPOSITORY:latest prints it with one'
GPU_ZONE=${GPU_ZONE:-$ZONE} GPU_GROUP=gpu
[[ " $ZONE $OTHER_ZONE " = *" $GPU_ZONE "* ]] || fail "GPU_ZONE is $GPU_ZONE" "it is ZONE or OTHER_ZONE: the cluster has subnets only there"
[ "$GPU_ZONE" = "$ZONE" ] || GPU_GROUP=gpu-$GPU_ZONE
check_capacity "$INSTANCE_TYPE" "$GPU_ZONE" "${NODES:-2}"
if [ "$market" = capacity-block ]; then export CAPACITY_BLOCK=1; fi
say_price "$INSTANCE_TYPE" "${MAX_NODES:-8}"
aws s3api head-bucket --bucket "$BUCKET" >/dev/null 2>&1 || fail "the bucket $BUCKET is not there or not yours" "set BUCKET to a bucket of yours in $AWS_REGION"
export NAME ZONE OTHER_ZONE IMAGE INSTANCE_TYPE GPU_ZONE GPU_GROUP
folder=$aws_folder/eks

# cluster_field FIELD: prints nothing if there is no cluster. What AWS does not answer is not taken for none.
cluster_field() {
  local found
  found=$(aws eks describe-cluster --name "$NAME" --query "cluster.$1" --output text 2>&1) || case $found in
    *ResourceNotFound* | *"No cluster found"*) found= ;;
    *) fail "EKS does not describe the cluster $NAME: ${found##*$'\n'}" "see the message, then run this again" ;;
  esac
  printf '%s\n' "$found"
}
render() { "$folder/render.py" "$folder/$1"; }

# eksctl passes over addons and node groups that are there, and makes the rest. (It does not pass over pod identity associations.)
complete_cluster() {
  local group status
  for group in system data "$GPU_GROUP"; do
    status=$(aws eks describe-nodegroup --cluster-name "$NAME" --nodegroup-name "$group" --query nodegroup.status --output text 2>/dev/null || true)
    case $status in
      CREATE_FAILED | DELETE_FAILED) fail "the node group $group of $NAME is $status" \
        "see aws eks describe-nodegroup --cluster-name $NAME --nodegroup-name $group; eksctl delete nodegroup --cluster $NAME --name $group, then run this again" ;;
    esac
  done
  render cluster.yaml | eksctl create addon -f -
  render cluster.yaml | eksctl create nodegroup -f -
}

status=$(cluster_field status)
case $status in
  '') say "Cluster $NAME"
    render cluster.yaml | eksctl create cluster -f - ;;
  ACTIVE | CREATING | UPDATING)
    [ "$(cluster_field 'tags."dtrain:name"')" = "$NAME" ] || fail "there is a cluster $NAME that this script has not made" "choose another NAME"
    note "the cluster $NAME is there"
    aws eks wait cluster-active --name "$NAME"
    complete_cluster ;;
  *) fail "the cluster $NAME is $status" "wait for it, or run scripts/aws/clean_up.sh eks" ;;
esac
aws eks update-kubeconfig --name "$NAME" >/dev/null

# The file system is in the cluster's network: in the GPU zone's private subnet, with the cluster's security group
# (which admits all traffic from itself).
vpc=$(cluster_field resourcesVpcConfig.vpcId)
subnet=$(rows ec2 describe-subnets --filters "Name=vpc-id,Values=$vpc" "Name=availability-zone,Values=$ZONE" \
  Name=tag-key,Values=kubernetes.io/role/internal-elb --query 'Subnets[0].SubnetId')
[ "$subnet" != None ] || fail "the cluster $NAME has no private subnet in $ZONE" "set ZONE and OTHER_ZONE as when it was made, or run scripts/aws/clean_up.sh eks"
deploy_file_system "$subnet" "$(cluster_field resourcesVpcConfig.clusterSecurityGroupId)" "$BUCKET"
FILE_SYSTEM_ID=$(stack_output "$NAME-files" FileSystemId)
FILE_SYSTEM_DNS=$(stack_output "$NAME-files" DnsName)
FILE_SYSTEM_MOUNT=$(stack_output "$NAME-files" MountName)
export FILE_SYSTEM_ID FILE_SYSTEM_DNS FILE_SYSTEM_MOUNT
render volume.yaml | kubectl apply -f -
# The token of all runs in this cluster, without which a pod could join another one's run.
kubectl get secret dtrain-run >/dev/null 2>&1 || kubectl create secret generic dtrain-run --from-literal="token=$(openssl rand -hex 16)"

# Tainted GPU nodes have no EFA unless the plugin tolerates the taint.
helm upgrade --install efa aws-efa-k8s-device-plugin --version v0.5.30 --namespace kube-system \
  --repo https://aws.github.io/eks-charts --set 'tolerations[0].key=nvidia.com/gpu' --set 'tolerations[0].operator=Exists'
for file in metrics.yaml guard.yaml; do render "$file" | kubectl apply -f -; done
say "Ready: eksctl scale nodegroup --cluster $NAME --name $GPU_GROUP --nodes ${NODES:-2}, then a training, then --nodes 0"
