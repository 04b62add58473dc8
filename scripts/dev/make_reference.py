#!/usr/bin/env python3
"""Writes docs/flags.md and the man pages docs/man/*.1 from the programs' --help. Run it after a flag was added or changed:

    scripts/dev/make_reference.py            writes them
    scripts/dev/make_reference.py --check    names those that are not current and exits with 1, as a test does

The programs are those of $DTRAIN_BUILD_DIR (default: build/release). Needs nothing but Python.
"""

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from safe_files import Failure, exit_code, replace  # noqa: E402

BUILD = Path(os.environ.get("DTRAIN_BUILD_DIR", ROOT / "build" / "release"))
PROGRAMS = {"dtrain_main": "trains, evaluates, predicts and exports models", "dtrain_data": "prepares and checks data sets",
            "dtrain_bench": "measures training steps, data loading and the network"}
SHARED = r"It takes --flagfile and the flags of dtrain_main, too.*?\."  # of dtrain_bench --help
MADE = "Made by scripts/dev/make_reference.py from --help: edit the help texts in the programs instead."
SECONDS_TO_ANSWER = 120


@dataclass
class Section:
    title: str
    text: list[str] = field(default_factory=list)              # lines that belong to no entry
    entries: list[tuple[str, str]] = field(default_factory=list)  # the left column, and the words beside it


def read_help(program: str) -> list[Section]:
    """Parses --help. An entry begins with two spaces and a dash, or with a word; lines that are indented further
    continue it."""
    try:
        done = subprocess.run([BUILD / "bin" / program, "--help"], capture_output=True, text=True, timeout=SECONDS_TO_ANSWER,
                              check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Failure(f"{BUILD / 'bin' / program} --help: {error}", "build it with scripts/build.sh") from None
    sections = [Section("")]
    for line in done.stdout.splitlines():
        if re.match(r"  \S", line):
            left, _, text = line.strip().partition("  ")
            sections[-1].entries.append((left, text.strip()))
        elif line.startswith("   ") and sections[-1].entries:
            left, text = sections[-1].entries[-1]
            sections[-1].entries[-1] = (left, f"{text} {line.strip()}".strip())
        elif line and not line.startswith(" ") and not sections[-1].text and sections[-1].title == "" and not sections[-1].entries:
            sections[-1].text.append(line)
        elif line and line[0].isupper() and len(line) < 40 and not line.endswith(".") and ":" not in line:
            sections.append(Section(line))
        elif line and line.strip() in PROGRAMS:
            sections.append(Section(f"Flags of {line.strip()} only"))
        elif line:
            sections[-1].text.append(line.strip())
    return sections


def split_details(text: str) -> tuple[str, str, str]:
    """Splits 'Words. [default: 3; steps, 1 or more]' into the words, the default, and the unit and range."""
    found = re.match(r"(.*?) ?\[default: ([^;\]]*(?:\[[^\]]*\])?[^;\]]*)(?:; (.*))?\]$", text)
    return (found[1], found[2], found[3] or "") if found else (text, "", "")


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def own_flags(helps: dict[str, list[Section]]) -> dict[str, list[Section]]:
    """Returns the flags of dtrain_main, and those of the other programs that it does not have."""
    of_main = {left for section in helps["dtrain_main"] for left, _ in section.entries}
    return {program: [Section(one.title, one.text, [entry for entry in one.entries if program == "dtrain_main" or entry[0] not in of_main])
                      for one in sections] for program, sections in helps.items()}


def flags_page(helps: dict[str, list[Section]]) -> str:
    lines = ["# All flags", "", f"<!-- {MADE} -->", "",
             "Write `--flag=value` or `--flag value`; for booleans, `--flag` or `--noflag`. In names, `-` and `_` are the same. If a flag is given",
             "twice, the last one counts. `--flagfile=FILE` reads flags from a file, one per line. For the flags of other tools see",
             "[coming-from.md](coming-from.md)."]
    for program, sections in helps.items():
        lines += ["", f"## {program}", ""]
        if program == "dtrain_bench":
            lines += [re.sub(r"(--\w+|dtrain_main)", r"`\1`", re.search(SHARED, " ".join(sections[0].text))[0]), ""]
        for section in sections:
            if not section.entries:
                continue
            if section.title:
                lines += ["", f"### {section.title}", ""]
            lines += ["| | | default | |", "|---|---|---|---|"]
            for left, text in section.entries:
                words, default, details = split_details(text)
                lines.append(f"| `{left}` | {cell(words)} | {cell(default)} | {cell(details)} |")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def exit_codes() -> str:
    """Returns the sentence of docs/runs.md."""
    page = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8")
    return " ".join(page.split("\nExit codes: ")[1].split("\n\n")[0].split()).replace(" · ", "; ")


def man_page(program: str, sections: list[Section]) -> str:
    lines = [f'.\\" {MADE}', f'.TH {program.upper()} 1 "" dtrain "User Commands"', ".SH NAME",
             f"{program} \\- {roff(PROGRAMS[program])}", ".SH SYNOPSIS"]
    usage = next((line for line in sections[0].text if line.startswith("Usage: ")), f"Usage: {program} [--flag=value ...]")
    lines += [roff(usage.removeprefix("Usage: ")), ".SH DESCRIPTION"]
    lines += [roff(line) for line in sections[0].text if not line.startswith("Usage: ")]
    for section in sections:
        if not section.entries:
            continue
        lines.append(f".SH {roff(section.title.upper() or 'OPTIONS')}")
        for left, text in section.entries:
            lines += [".TP", f".B {roff(left)}", roff(text)]
    lines += [".SH EXIT STATUS", roff(exit_codes()),
              ".SH SEE ALSO", ", ".join(f"\\fB{other}\\fR(1)" for other in PROGRAMS if other != program)]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is not current")
    arguments = parser.parse_args()
    helps = {program: read_help(program) for program in PROGRAMS}
    own = own_flags(helps)
    files = {ROOT / "docs" / "flags.md": flags_page(own)}
    files |= {ROOT / "docs" / "man" / f"{program}.1": man_page(program, own[program] if program == "dtrain_bench" else sections)
              for program, sections in helps.items()}
    stale = [path for path, content in files.items() if not path.exists() or path.read_text(encoding="utf-8") != content]
    for path in stale:
        if arguments.check:
            print(f"{path.relative_to(ROOT)} is not current: run scripts/dev/make_reference.py", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, files[path])
            print(path.relative_to(ROOT))
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
