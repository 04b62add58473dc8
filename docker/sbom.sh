#!/usr/bin/env bash
# Prints the contents of this image as CycloneDX 1.6 JSON: the distribution's packages, and the components that the
# package manager did not install, which the arguments name as NAME=VERSION.
set -euo pipefail

quoted() {
  local text=${1//\\/\\\\}
  printf '"%s"' "${text//\"/\\\"}"
}

component() {  # component TYPE NAME VERSION PURL
  printf '    {"type": "%s", "bom-ref": %s, "name": %s, "version": %s, "purl": %s}' "$1" "$(quoted "$4")" "$(quoted "$2")" \
    "$(quoted "$3")" "$(quoted "$4")"
}

# shellcheck source=/dev/null
distribution=$(. /etc/os-release && printf '%s' "$ID")
components=()
for named in "$@"; do
  components+=("$(component library "${named%%=*}" "${named#*=}" "pkg:generic/${named%%=*}@${named#*=}")")
done
while IFS=$'\t' read -r name version architecture; do
  # In a package URL, + and : have other meanings.
  url=${version//+/%2B}
  url=${url//:/%3A}
  components+=("$(component library "$name" "$version" "pkg:deb/$distribution/${name//+/%2B}@$url?arch=$architecture")")
done < <(dpkg-query -W -f '${db:Status-Status}\t${Package}\t${Version}\t${Architecture}\n' | sed -n 's/^installed\t//p')

printf '{\n  "bomFormat": "CycloneDX",\n  "specVersion": "1.6",\n  "version": 1,\n'
printf '  "metadata": {"component": {"type": "container", "name": "dtrain"}},\n  "components": [\n'
for i in "${!components[@]}"; do
  if [ "$i" -gt 0 ]; then printf ',\n'; fi
  printf '%s' "${components[$i]}"
done
printf '\n  ]\n}\n'
