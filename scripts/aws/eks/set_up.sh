#!/usr/bin/env bash
# Makes the cluster (half an hour), the file system in its network, and the volume; installs EFA's device plugin and what
# the options name. Run it again to complete what an interrupted or failed run has left: what is there is not made again.
#
#   AWS_REGION=us-east-1 ZONE=us-east-1a OTHER_ZONE=us-east-1b BUCKET=… IMAGE=… scripts/aws/eks/set_up.sh [OPTIONS]
#
#   --trainer    Kubeflow Trainer 2.3 with JobSet, and our runtime: for trainjob.yaml
#   --operator   the training operator 1.9: for pytorchjob.yaml
#   --grafana    Prometheus and Grafana with our dashboard and alerts (kube-prometheus-stack)
#   --queue      Kueue 0.19 and a queue for the GPU nodes: jobs wait until all their pods have room
#
# Needs eksctl, kubectl and helm. Environment: INSTANCE_TYPE (p4d.24xlarge), one of instance_types.tsv, for the GPU nodes;
# NODES (2) that the quota must allow; MAX_NODES (8); CAPACITY_RESERVATION_ID, a Capacity Block or a reservation on demand for
# them; SPOT=1, cheaper ones that AWS takes back; CAPACITY_GIB (2400), DEPLOYMENT (SCRATCH_2). Where ZONE has no machines left,
# GPU_ZONE=OTHER-ZONE makes another group of nodes there (gpu-ZONE), which is scaled in place of `gpu`.
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

for argument in "$@"; do
  case $argument in
    --trainer | --operator | --queue | --grafana) ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) fail "set_up.sh does not know '$argument'" "it takes --trainer, --operator, --queue and --grafana" ;;
  esac
done
chosen=" $* "
need ZONE "the zone of the GPU instances and of the file system"
need OTHER_ZONE "another zone of the region, for the control plane"
need BUCKET "the bucket with the data under data/"
need IMAGE "the image that scripts/aws/push_image.sh has pushed"
[ "$ZONE" != "$OTHER_ZONE" ] || fail "ZONE and OTHER_ZONE are both $ZONE" "a control plane needs two different zones"
for tool in eksctl kubectl helm python3; do
  command -v "$tool" >/dev/null || fail "$tool is not installed" "install it (eksctl 0.230, kubectl and helm 3 or newer)"
done
check_account
INSTANCE_TYPE=${INSTANCE_TYPE:-p4d.24xlarge}
check_instance_type "$INSTANCE_TYPE"
GPU_ZONE=${GPU_ZONE:-$ZONE} GPU_GROUP=gpu
[[ " $ZONE $OTHER_ZONE " = *" $GPU_ZONE "* ]] || fail "GPU_ZONE is $GPU_ZONE" "it is ZONE or OTHER_ZONE: the cluster has subnets only there"
[ "$GPU_ZONE" = "$ZONE" ] || GPU_GROUP=gpu-$GPU_ZONE
check_capacity "$INSTANCE_TYPE" "$GPU_ZONE" "${NODES:-2}"
if [ "$market" = capacity-block ]; then export CAPACITY_BLOCK=1; fi
say_price "$INSTANCE_TYPE" "${MAX_NODES:-8}"
aws s3api head-bucket --bucket "$BUCKET" >/dev/null 2>&1 || fail "the bucket $BUCKET is not there or not yours" "set BUCKET to a bucket of yours in $AWS_REGION"
export NAME ZONE OTHER_ZONE IMAGE INSTANCE_TYPE GPU_ZONE GPU_GROUP
folder=$aws_folder/eks

cluster_field() { aws eks describe-cluster --name "$NAME" --query "cluster.$1" --output text 2>/dev/null || true; }
render() { "$folder/render.py" "$folder/$1"; }

# eksctl passes over what is there and makes the rest.
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
  render cluster.yaml | eksctl create podidentityassociation -f -
}

case $(cluster_field status) in
  '') say "Cluster $NAME"
    render cluster.yaml | eksctl create cluster -f - ;;
  ACTIVE | CREATING | UPDATING)
    [ "$(cluster_field 'tags."dtrain:name"')" = "$NAME" ] || fail "there is a cluster $NAME that this script has not made" "choose another NAME"
    note "the cluster $NAME is there"
    aws eks wait cluster-active --name "$NAME"
    complete_cluster ;;
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
render volume.yaml | kubectl apply -f -

# Tainted GPU nodes have no EFA unless the plugin tolerates the taint.
helm upgrade --install efa aws-efa-k8s-device-plugin --version v0.5.30 --namespace kube-system \
  --repo https://aws.github.io/eks-charts --set 'tolerations[0].key=nvidia.com/gpu' --set 'tolerations[0].operator=Exists'
for file in metrics.yaml guard.yaml; do render "$file" | kubectl apply -f -; done

# install NAME DEPLOYMENT NAMESPACE KUBECTL-ARGUMENTS…: applies a release and waits until its webhooks answer, without which
# its kinds cannot be applied.
install() {
  local what=$1 deployment=$2 namespace=$3
  shift 3
  say "$what"
  kubectl apply --server-side "$@"
  kubectl rollout status "deployment/$deployment" --namespace "$namespace" --timeout=300s
}
if [[ $chosen = *" --trainer "* ]]; then
  install "Kubeflow Trainer 2.3.0" kubeflow-trainer-controller-manager kubeflow-system \
    -k "https://github.com/kubeflow/trainer.git/manifests/overlays/manager?ref=v2.3.0"
  render runtime.yaml | kubectl apply -f -
fi
if [[ $chosen = *" --operator "* ]]; then
  install "Training operator 1.9.4" training-operator kubeflow \
    -k "https://github.com/kubeflow/training-operator.git/manifests/overlays/standalone?ref=v1.9.4"
fi
if [[ $chosen = *" --queue "* ]]; then
  install "Kueue 0.19.2" kueue-controller-manager kueue-system \
    -f https://github.com/kubernetes-sigs/kueue/releases/download/v0.19.2/manifests.yaml
  render queue.yaml | kubectl apply -f -
fi
if [[ $chosen = *" --grafana "* ]]; then
  say "Prometheus and Grafana (kube-prometheus-stack 88.1.3)"
  monitoring=$aws_folder/../monitoring
  { printf 'additionalPrometheusRulesMap:\n  dtrain:\n' && sed 's/^/    /' "$monitoring/alerts.yaml"; } |
    helm upgrade --install monitoring kube-prometheus-stack --version 88.1.3 --namespace monitoring --create-namespace \
      --repo https://prometheus-community.github.io/helm-charts --wait \
      --set prometheus.prometheusSpec.podMonitorSelectorNilUsesHelmValues=false --values -
  # Grafana loads what has this label.
  kubectl create configmap dtrain-dashboard --namespace monitoring --from-file="$monitoring/grafana.json" --dry-run=client -o yaml |
    kubectl label --local --dry-run=client -o yaml -f - grafana_dashboard=1 app.kubernetes.io/part-of=dtrain | kubectl apply --server-side -f -
  render pod_monitor.yaml | kubectl apply -f -
  note "kubectl port-forward --namespace monitoring service/monitoring-grafana 3000:80, and http://127.0.0.1:3000"
fi
say "Ready: eksctl scale nodegroup --cluster $NAME --name $GPU_GROUP --nodes ${NODES:-2}, then a training, then --nodes 0"
