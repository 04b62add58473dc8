#!/usr/bin/env bash
# Fetches EFA's installer and unpacks it, if AWS has signed it: by the key whose fingerprint EC2's user guide states.
#
#   fetch_efa.sh VERSION FOLDER      FOLDER/aws-efa-installer/efa_installer.sh; VERSION such as 1.51.0
set -euo pipefail

fingerprint=4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC
source=${EFA_SOURCE:-https://efa-installer.amazonaws.com}
fail() {
  printf 'error: %s\n  what to do: %s\n' "$1" "$2" >&2
  exit 2
}

[[ ${1:-} =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] && [ -d "${2:-}" ] || fail "a version and a folder are needed" "fetch_efa.sh 1.51.0 /tmp"
archive=aws-efa-installer-$1.tar.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in "$archive" "$archive.sig" aws-efa-installer.key; do
  curl -fsSL -o "$work/$file" "$source/$file" || fail "$source/$file cannot be fetched" "is there a version $1, and a way out?"
done
export GNUPGHOME=$work
gpg --batch --quiet --import "$work/aws-efa-installer.key"
said=$(gpg --batch --status-fd 1 --verify "$work/$archive.sig" "$work/$archive" 2>/dev/null) || true
[[ $said =~ VALIDSIG\ [^$'\n']*$fingerprint ]] || fail "$archive is not signed by AWS's key $fingerprint" "do not install it; tell AWS Support"
tar -xz -C "$2" -f "$work/$archive"
