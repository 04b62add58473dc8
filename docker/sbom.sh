#!/usr/bin/env bash
# Prints the contents of this image as CycloneDX 1.6 JSON: the distribution's packages; Python's wheels, of which LibTorch,
# cuDNN and NCCL are some; and the components that no package manager installed; with the licences that they state. Every image of the
# Dockerfile calls it after its last installation.
#
#   sbom.sh [--wheels=FOLDER]… [NAME=VERSION]…      FOLDER has the wheels' *.dist-info, as site-packages does
set -euo pipefail

# wheels FOLDER: prints name and version of each, as PyPI writes them, and its licence, by the first of three fields.
wheels() {
  awk -v OFS='\t' '
    function end() {if (name != "") {name = tolower(name); gsub(/_/, "-", name); print "pypi", name, version, ""; if (licence != "") print "", "pypi/" name, licence}}
    FNR == 1 {end(); name = version = licence = ""; header = 1}
    {sub(/\r$/, "")}
    $0 == "" {header = 0}
    header && sub(/^Name: /, "") {name = $0}
    header && sub(/^Version: /, "") {version = $0}
    header && (sub(/^License-Expression: /, "") || sub(/^License: /, "") || sub(/^Classifier: License :: (OSI Approved :: )?/, "")) && licence == "" {licence = $0}
    END {end()}' "$1"/*.dist-info/METADATA
}

# Lines of two kinds: "TYPE NAME VERSION QUALIFIERS" is a component, " TYPE/NAME LICENCE" one of its licences.
{
  for argument in "$@"; do
    case $argument in
      --wheels=*) wheels "${argument#*=}" ;;
      *) printf 'generic\t%s\t%s\t\n' "${argument%%=*}" "${argument#*=}" ;;
    esac
  done
  # shellcheck source=/dev/null
  distribution=$(. /etc/os-release && printf '%s' "$ID")
  dpkg-query -W -f "\${db:Status-Status}\tdeb/$distribution\t\${Package}\t\${Version}\t?arch=\${Architecture}\n" | sed -n 's/^installed\t//p'
  # An image may be without them.
  awk -v OFS='\t' -v type="deb/$distribution" 'FNR == 1 {split(FILENAME, part, "/")}
    sub(/^License:[[:space:]]*/, "") && $0 != "" {print "", type "/" part[5], $0}' /usr/share/doc/*/copyright 2>/dev/null || true
} | awk -F'\t' '
  function quoted(text) {gsub(/[[:cntrl:]]/, " ", text); gsub(/["\\]/, "\\\\&", text); return "\"" text "\""}
  function encoded(text) {gsub(/[+]/, "%2B", text); gsub(/:/, "%3A", text); return text}  # they have other meanings in a package URL
  $1 == "" {if (!known[$2, $3]++) licences[$2] = licences[$2] (licences[$2] == "" ? "" : ", ") "{\"license\": {\"name\": " quoted($3) "}}"; next}
  !seen[$1, $2, $3]++ {key[++count] = $1 "/" $2; name[count] = $2; version[count] = $3; url[count] = "pkg:" $1 "/" encoded($2) "@" encoded($3) $4}
  END {
    printf "{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.6\",\n  \"version\": 1,\n"
    printf "  \"metadata\": {\"component\": {\"type\": \"container\", \"name\": \"dtrain\"}},\n  \"components\": ["
    for (i = 1; i <= count; ++i)
      printf "%s\n    {\"type\": \"library\", \"bom-ref\": %s, \"name\": %s, \"version\": %s, \"purl\": %s%s}", (i > 1 ? "," : ""), quoted(url[i]),
        quoted(name[i]), quoted(version[i]), quoted(url[i]), (licences[key[i]] == "" ? "" : ", \"licenses\": [" licences[key[i]] "]")
    printf "\n  ]\n}\n"
  }'
