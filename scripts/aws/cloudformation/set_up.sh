#!/usr/bin/env bash
# Makes what all the ways of training share: network, bucket, image repository, roles; with --file-system also FSx for
# Lustre. Run it again to bring both up to date; what is as it should be is not touched.
#
#   AWS_REGION=us-east-1 ZONE=us-east-1a scripts/aws/cloudformation/set_up.sh [--file-system]
#
# Environment: ZONE (required) is the availability zone of everything; INSTANCE_TYPE (p4d.24xlarge) must be offered there;
# OTHER_ZONE, another one for GPU instances that are not to be had in the first; BUCKET names an existing bucket; DEPLOYMENT
# (SCRATCH_2, PERSISTENT_2) and CAPACITY_GIB (2400) are the file system's.
# Costs: the NAT gateway by the hour, the bucket by what is in it; the file system by the hour, for as long as it exists.
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

if [ "${1:-}" != --file-system ]; then takes_nothing "$0" "it takes --file-system" "$@"; fi
capacity=${CAPACITY_GIB:-2400}
[[ $capacity =~ ^[0-9]+$ ]] && { [ "$capacity" = 1200 ] || [ $((capacity % 2400)) = 0 ]; } && [ "$capacity" -ge 1200 ] ||
  fail "CAPACITY_GIB is '$capacity'" "FSx for Lustre takes 1200, 2400 and multiples of 2400"
need ZONE "an availability zone that has your instance type"
check_account
type=${INSTANCE_TYPE:-p4d.24xlarge}
check_instance_type "$type"
[ "$ZONE" != "${OTHER_ZONE:-}" ] || fail "ZONE and OTHER_ZONE are both $ZONE" "name two different zones, or leave OTHER_ZONE unset"
for place in "$ZONE" ${OTHER_ZONE:+"$OTHER_ZONE"}; do
  [[ $place = "$AWS_REGION"[a-z] ]] || fail "the zone $place is not in the region $AWS_REGION" "name one such as ${AWS_REGION}a"
  check_offered "$type" "$place"
done
if [ -n "${BUCKET:-}" ]; then
  aws s3api head-bucket --bucket "$BUCKET" >/dev/null 2>&1 ||
    fail "the bucket $BUCKET is not there, not in $AWS_REGION, or not yours" "create it, or leave BUCKET unset to have one made"
fi

say "The NAT gateway costs \$$(price_of nat) an hour, and what goes through it (us-east-1, $(price_date))"
deploy "$NAME-base" "$aws_folder/cloudformation/base.yaml" "Name=$NAME" "Zone=$ZONE" "BucketName=${BUCKET:-}" ${OTHER_ZONE+"OtherZone=$OTHER_ZONE"}
bucket=$(stack_output "$NAME-base" BucketName)
repository=$(stack_output "$NAME-base" RepositoryUri)
if [ "${1:-}" = --file-system ]; then
  subnet=$(stack_output "$NAME-base" PrivateSubnetId)
  group=$(stack_output "$NAME-base" SecurityGroupId)
  deploy_file_system "$subnet" "$group" "$bucket"
fi
say "Ready: bucket $bucket, image repository $repository"
