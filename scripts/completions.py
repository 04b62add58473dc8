#!/usr/bin/env python3
"""Writes the completions of the programs' flags for bash and zsh into a folder such as PREFIX/share:

    scripts/completions.py FOLDER-OF-PROGRAMS SHARE

They are made from --help=json. Needs nothing but Python.
"""

import argparse
import json
import subprocess
from pathlib import Path

PROGRAMS = ("dtrain_main", "dtrain_data", "dtrain_bench")
SECONDS_TO_ANSWER = 120

BASH = """\
# Completes the flags of {program}. Made by scripts/completions.py from --help=json.
_{program}() {{
  local word=$2 flag=$3
  if [ "$word" = = ]; then word=; fi  # bash takes --flag=word for three words
  if [ "$flag" = = ]; then flag=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  case $flag in
{choices}  esac
  if [ "$COMP_CWORD" = 1 ]; then mapfile -t COMPREPLY < <(compgen -W "{commands}" -- "$word"); fi
  case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "{flags}" -- "$word") ;;
  esac
  case ${{COMPREPLY[0]-}} in *=) compopt -o nospace ;; esac
}}
complete -o default -F _{program} {program}
"""
BASH_CHOICES = """    --{name}) mapfile -t COMPREPLY < <(compgen -W "{choices}" -- "$word"); return ;;
"""
ZSH = """\
#compdef {program}
# Completes the flags of {program}. Made by scripts/completions.py from --help=json.
_arguments \\
{flags}
"""


def words(flag: dict) -> list[str]:
    """Returns a flag as one types it: --name=, or --name and --noname."""
    name = flag["name"]
    return [f"--{name}", f"--no{name}"] if flag["type"] == "boolean" else [f"--{name}="]


def zsh_line(word: str, flag: dict) -> str:
    text = flag["help"].split(". ")[0].rstrip(".")
    for letter in "\\[]:":
        text = text.replace(letter, "\\" + letter)
    value = f":{flag['type']}:" if word.endswith("=") else ""
    if value and flag["type"] == "text":
        value += f"({' '.join(flag['choices'])})" if "choices" in flag else "_files"
    return "  '" + f"{word}[{text}]{value}".replace("'", "'\\''") + "'"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path)
    parser.add_argument("share", type=Path)
    given = parser.parse_args()
    programs, share = given.programs, given.share
    bash, zsh = share / "bash-completion" / "completions", share / "zsh" / "site-functions"
    for folder in (bash, zsh):
        folder.mkdir(parents=True, exist_ok=True)
    for program in (one for one in PROGRAMS if (programs / one).exists()):
        answer = subprocess.run([programs / program, "--help=json"], check=True, capture_output=True, timeout=SECONDS_TO_ANSWER).stdout
        described = json.loads(answer)
        flags, commands = described["flags"], " ".join(described["commands"])
        choices = "".join(BASH_CHOICES.format(name=flag["name"], choices=" ".join(flag["choices"])) for flag in flags if "choices" in flag)
        all_words = [(word, flag) for flag in flags for word in words(flag)]
        (bash / program).write_text(BASH.format(program=program, choices=choices, commands=commands, flags=" ".join(word for word, _ in all_words)),
                                    encoding="utf-8")
        lines = [zsh_line(word, flag) for word, flag in all_words] + ([f"  '1:command:({commands})'"] if commands else [])
        (zsh / f"_{program}").write_text(ZSH.format(program=program, flags=" \\\n".join(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
