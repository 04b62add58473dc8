#!/usr/bin/env bash
# Packs ImageNet on all machines of the hosts file at once, a part on each: what is in the pictures is decoded and resized where
# there are cores. Interrupted or failed, it is called again and goes on. Both folders are on storage that all share.
#
#   HOSTS=hosts scripts/ssh/prepare_imagenet.sh /fsx/data/imagenet /fsx/data/resized [FLAGS-FOR-dtrain_data-pack…]
set -euo pipefail
# shellcheck source=scripts/ssh/hosts.sh
source "$(dirname "${BASH_SOURCE[0]}")/hosts.sh"

case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
[ $# -ge 2 ] || fail "two folders are needed" "run scripts/ssh/prepare_imagenet.sh IMAGES OUTPUT"
images=$1
output=$2
shift 2
if [ $# = 0 ]; then set -- --output_format=webdataset --short_side=256 --seek_points; fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
program=${DTRAIN:-$root/build/release}/bin/dtrain_data
read_hosts
on_all "test -x '$program' && test -d '$images'" || fail "$program or $images is not on all machines" "run scripts/ssh/copyclust, and mount the shared storage on every machine"

printf -v arguments ' %q' "$@"
# shellcheck disable=SC2329  # on_each calls it
part_of() { printf '%s' "'$program' pack --data_dir='$images' --output='$output' --part=$(($1 + 1))/${#hosts[@]}$arguments"; }
code=0
on_each part_of || code=$?
[ "$code" = 0 ] || printf 'error: at least one part is incomplete\n  what to do: see the messages above, then run this again: it continues where it stopped\n' >&2
exit "$code"
