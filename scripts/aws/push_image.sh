#!/usr/bin/env bash
# Builds the image and pushes it to the base stack's repository, as :latest and as :REVISION. It is built for the instances, also
# on a machine with another processor. Prints it with its digest, alone on the last line: the IMAGE of the other scripts.
#
#   AWS_REGION=us-east-1 scripts/aws/push_image.sh [BUILD-OPTIONS…]      such as --build-arg EFA=1.51.0 (the default)
#
# Environment: ENGINE (docker) may be podman; TARGET=python: the image with Python (torchrun, scripts/sweep.py), pushed as :python and
# :REVISION-python.
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/account.sh"

case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
engine=${ENGINE:-docker}
case ${TARGET:-} in
  '' | python) ;;
  *) fail "docker/Dockerfile has no target '$TARGET'" "set TARGET=python, or leave it unset" ;;
esac
command -v "$engine" >/dev/null || fail "$engine is not installed" "install it, or set ENGINE=podman"
check_account
need_stack "$NAME-base" scripts/aws/cloudformation/set_up.sh
repository=$(stack_output "$NAME-base" RepositoryUri)
root=$(cd "$aws_folder/../.." && pwd)
revision=$(git -C "$root" rev-parse --short HEAD)
[ -z "$(git -C "$root" status --porcelain)" ] || revision+=-changed
version=$revision${TARGET:+-$TARGET}
say "Building $repository:$version"
"$engine" build --platform linux/amd64 -f "$root/docker/Dockerfile" --build-arg "REVISION=$revision" --build-arg EFA=1.51.0 ${TARGET:+--target="$TARGET"} "$@" \
  -t "$repository:$version" -t "$repository:${TARGET:-latest}" "$root"
aws ecr get-login-password | "$engine" login --username AWS --password-stdin "${repository%%/*}"
"$engine" push "$repository:$version"
"$engine" push "$repository:${TARGET:-latest}"
image_of "${TARGET:-latest}" scripts/aws/push_image.sh
