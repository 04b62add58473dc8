#!/usr/bin/env python3
"""Draws one or more runs: loss, validation, learning rate, throughput, where the time went, and a table of them.

    scripts/report.py RUN_DIR… --output=DIR

DIR/report.html is one file that fetches nothing: mail it, print it. The same pictures are PNG files beside it. Runs of one
model on different numbers of devices are drawn as scaling curves, too (throughput, efficiency, time of an epoch, and, where
result.json splits the time of the run, the shares of start-up and communication); a confusion_matrix.csv that
--mode=eval has left in a run directory as a picture of its own. Needs scripts/requirements.txt.

Exit codes: 0 done · 2 usage, or a folder that is no run directory · 5 disk.
"""

import argparse
import io
import sys
from datetime import datetime
from pathlib import Path

try:
    from matplotlib import pyplot as plt

    from reports import charts, page
    from reports.run import NoRun, Run, name_apart, read_run
except ModuleNotFoundError as error:
    print(f"error: Python has no {error.name}\n  what to do: pip install -r {Path(__file__).with_name('requirements.txt')}",
          file=sys.stderr)
    sys.exit(2)

DOTS_PER_INCH = 160


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN_DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to write to; its report.html and PNGs are replaced")
    return parser.parse_args()


def png(figure) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, dpi=DOTS_PER_INCH)
    plt.close(figure)
    return content.getvalue()


def draw(runs: list[Run]) -> list[tuple[str, str, bytes]]:
    """Returns (file name, what it shows, PNG) for all data that the runs have."""
    drawn = [(name, words, chart(runs)) for name, words, chart in charts.CHARTS]
    for place, run in enumerate(runs):
        name = "confusion" if len(runs) == 1 else f"confusion_{place + 1}"
        drawn.append((name, f"confusion matrix of {run.name}", charts.confusion(run)))
    return [(name, words, png(figure)) for name, words, figure in drawn if figure is not None]


def main() -> int:
    arguments = parse_arguments()
    try:
        runs = [read_run(folder) for folder in arguments.runs]
    except NoRun as problem:
        print(f"error: {problem}\n  what to do: name folders that dtrain_main --run_dir=… has written", file=sys.stderr)
        return 2
    name_apart(runs)
    pictures = draw(runs)
    try:
        arguments.output.mkdir(parents=True, exist_ok=True)
        for name, _, content in pictures:
            (arguments.output / f"{name}.png").write_bytes(content)
        (arguments.output / "report.html").write_text(page.page(runs, pictures, datetime.now()), encoding="utf-8")
    except OSError as error:
        print(f"error: {arguments.output} cannot be written: {error.strerror}\n  what to do: choose another --output", file=sys.stderr)
        return 5
    print(f"{arguments.output / 'report.html'} ({len(runs)} runs, {len(pictures)} pictures)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
