#!/usr/bin/env bash
# Prints the contents of this image as CycloneDX 1.6 JSON: the distribution's packages; Python's wheels, of which LibTorch,
# cuDNN and NCCL are some; and the components that no package manager installed. Every image of the Dockerfile calls it after
# its last installation.
#
#   sbom.sh [--wheels=FOLDER]… [NAME=VERSION]…      FOLDER has the wheels' *.dist-info, as site-packages does
set -euo pipefail

components=()
component() {  # component NAME VERSION PURL: adds one. (No subshells: an image has hundreds.)
  local text words=()
  for text in "$3" "$1" "$2" "$3"; do
    text=${text//\\/\\\\}
    words+=("\"${text//\"/\\\"}\"")
  done
  printf -v text '    {"type": "library", "bom-ref": %s, "name": %s, "version": %s, "purl": %s}' "${words[@]}"
  components+=("$text")
}

wheels() {  # wheels FOLDER…: prints name and version of each, as PyPI writes them
  local folder metadata
  for folder in "$@"; do
    for metadata in "$folder"/*.dist-info/METADATA; do
      if [ -r "$metadata" ]; then
        sed -n '/^\r\{0,1\}$/q; s/^Name: //p; s/^Version: //p' "$metadata" | tr -d '\r' | paste - - | tr '[:upper:]_' '[:lower:]-'
      fi
    done
  done
}

folders=()
for argument in "$@"; do
  case $argument in
    --wheels=*) folders+=("${argument#*=}") ;;
    *) component "${argument%%=*}" "${argument#*=}" "pkg:generic/${argument%%=*}@${argument#*=}" ;;
  esac
done
# The same wheel may lie in two of the folders.
while IFS=$'\t' read -r name version; do
  component "$name" "$version" "pkg:pypi/$name@${version//+/%2B}"
done < <(wheels "${folders[@]}" | sort -u)
# shellcheck source=/dev/null
distribution=$(. /etc/os-release && printf '%s' "$ID")
while IFS=$'\t' read -r name version architecture; do
  # In a package URL, + and : have other meanings.
  url=${version//+/%2B}
  url=${url//:/%3A}
  component "$name" "$version" "pkg:deb/$distribution/${name//+/%2B}@$url?arch=$architecture"
done < <(dpkg-query -W -f '${db:Status-Status}\t${Package}\t${Version}\t${Architecture}\n' | sed -n 's/^installed\t//p')

printf '{\n  "bomFormat": "CycloneDX",\n  "specVersion": "1.6",\n  "version": 1,\n'
printf '  "metadata": {"component": {"type": "container", "name": "dtrain"}},\n  "components": [\n'
for i in "${!components[@]}"; do
  if [ "$i" -gt 0 ]; then printf ',\n'; fi
  printf '%s' "${components[$i]}"
done
printf '\n  ]\n}\n'
