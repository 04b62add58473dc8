#!/usr/bin/env python3
"""Makes docs/faults.md: the faults that a run survives, how often each was tried, and how long it took at most. It is made
of the records that the tests leave in the build folder (tests/matrix.py, tests/fault_record.h).

    scripts/test.sh && scripts/dev/fault_matrix.py    after `scripts/test.sh --long` the page has the numbers of the long mode
    scripts/dev/fault_matrix.py --records=DIR --output=FILE
"""

import sys

from truth import BUILD, ROOT, cell, exit_code, make_page

ROWS = {1: "A rank is killed", 2: "Killed while it saves", 3: "Asked to stop", 4: "A rank hangs", 5: "A short stall",
        6: "The network is cut", 7: "The launcher is killed", 8: "Strangers at the port", 9: "A wrong number of ranks",
        10: "Ranks that differ", 11: "A disk that is full or fails", 12: "A read-only folder", 13: "Damaged checkpoints",
        14: "Hostile files", 15: "A slow or hanging disk", 16: "Two jobs in one folder", 17: "Damaged images",
        18: "Unusual images", 19: "Damaged record files", 20: "Data that vanishes", 21: "Data that has changed",
        22: "Gradients that are not finite", 23: "No memory", 24: "No threads or files", 25: "A clock that jumps",
        26: "Another number of ranks", 27: "A crash loop", 28: "Secrets", 29: "Spikes of the loss"}
HEAD = """# What a run survives

Each line is a fault that tests cause: what must happen, how many times it did when this page was made, and the longest time
that it took then, where the bound is a time. `scripts/dev/fault_matrix.py` makes the page from the records of the tests; a test
that fails leaves none. "The same bits" are those of the weights and losses of a run that nothing disturbed.

| | fault | what must happen | cases | seconds at most |
|---|---|---|---|---|
"""


def is_record(record: dict) -> bool:
    return {"row", "fault", "bound", "cases", "seconds"} <= record.keys() and record["row"] in ROWS


def page(records: list[dict]) -> str:
    lines: dict[tuple, list] = {}
    for record in records:
        found = lines.setdefault((record["row"], record["fault"], record["bound"]), [0, None])
        found[0] += record["cases"]
        found[1] = max((seconds for seconds in (found[1], record["seconds"]) if seconds is not None), default=None)
    return HEAD + "".join(
        f"| {ROWS[row]} | {cell(fault)} | {cell(bound)} | {cases:,} | {'' if seconds is None else f'{seconds:.1f}'} |\n"
        for (row, fault, bound), (cases, seconds) in sorted(lines.items()))


def main() -> int:
    return make_page(__doc__, BUILD / "faults", ROOT / "docs" / "faults.md", is_record, page, "records")


if __name__ == "__main__":
    sys.exit(exit_code(main))
