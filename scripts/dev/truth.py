#!/usr/bin/env python3
"""Makes docs/truth.md: what is compared with what, how closely, and the worst difference that was found. It is made of
the records that the tests of tests/interop leave in the build folder (tests/truth.py).

    scripts/test.sh && scripts/dev/truth.py            after `scripts/test.sh --long` the page has every model
    scripts/dev/truth.py --records=DIR --output=FILE
"""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from safe_files import DATA, Failure, Parser, exit_code, output_file, read_object, replace, shown  # noqa: E402

BUILD = Path(os.environ.get("DTRAIN_BUILD_DIR", ROOT / "build" / "release"))
KINDS = ["Models", "Trainings", "Optimizers", "Schedules", "Losses", "Transforms", "Augmentation", "Tokenizers",
         "Blocks of text", "Files"]
HEAD = """# The page of truth

Each line is a comparison that a test makes: with what, how far the two may be apart, and the worst that was found when
this page was made. `scripts/dev/truth.py` makes it from the records of the tests in `tests/interop`; "the same" is a
difference of exactly 0.
"""


MOST_BYTES = 1 << 20
KEYS = {"kind", "subject", "reference", "tolerance", "worst"}


def read(folder: Path, is_record) -> list[dict]:
    records = {path: read_object(path, MOST_BYTES) for path in sorted(folder.glob("*.json"))}
    for path, record in records.items():
        if not is_record(record):
            raise Failure(f"{path} is no record", "remove it, and run the tests again: scripts/test.sh", DATA)
    if not records:
        raise Failure(f"there are no records in {folder}", "run the tests first: scripts/test.sh", DATA)
    return list(records.values())


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def page(records: list[dict]) -> str:
    kinds = KINDS + sorted({record["kind"] for record in records} - set(KINDS))
    parts = [HEAD]
    for kind in kinds:
        rows = sorted({(one["subject"], one["reference"], one["tolerance"], one["worst"]) for one in records
                       if one["kind"] == kind})
        if not rows:
            continue
        parts.append(f"## {kind}\n\n| what | reference | tolerance | worst difference |\n|---|---|---|---|\n" + "".join(
            f"| {cell(subject)} | {cell(reference)} | {cell(tolerance)} | {'the same' if worst == 0 else f'{worst:.1e}'} |\n"
            for subject, reference, tolerance, worst in rows))
    return "\n".join(parts)


def make_page(description: str, records: Path, target: Path, is_record, page, noun: str) -> int:
    """The program: writes what `page` makes of the records of a folder."""
    parser = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=records, help="folder of the records that the tests have written")
    parser.add_argument("--output", type=Path, default=target)
    arguments = parser.parse_args()
    found = read(arguments.records, is_record)
    text = page(found)
    output_file(arguments.output, [".md"], [], text.partition("\n")[0].encode())
    replace(arguments.output, text)
    print(f"{len(found)} {noun} → {shown(arguments.output)}")
    return 0


def main() -> int:
    return make_page(
        __doc__, BUILD / "truth", ROOT / "docs" / "truth.md", lambda record: KEYS <= record.keys(), page, "comparisons")


if __name__ == "__main__":
    sys.exit(exit_code(main))
