#!/usr/bin/env python3
"""Draws one or more runs: loss, validation, learning rate, throughput, where the time went, and a table of them.

    scripts/report.py RUN_DIR… --output=DIR
    scripts/report.py runs/* --output=DIR                       # sweeps among them: their trials; what is no run is left out
    scripts/report.py runs/sweep --output=DIR --axes=linear     # all trials of a sweep, no value beyond an axis

DIR/report.html is one file that fetches nothing: mail it, print it. The same pictures are PNG files beside it. The table
has a column for each flag that was given and differs, and the state of each run; if the runs differ in one flag (and
their seeds), their best validations are drawn against it. Runs of one model on different numbers of devices are drawn as
scaling curves, too (throughput, efficiency, time of an epoch, and, where result.json splits the time of the run, the
shares of start-up and communication). The confusion_matrix.csv of each set that --mode=eval has evaluated (RUN/eval-SPLIT)
becomes a picture, and a table of the classes with their counts and the 95 % intervals of their accuracy. --predictions=FILE adds
these for the samples in a file of --mode=eval --predictions=FILE, and the worst mistakes with their pictures or texts.
Needs scripts/requirements.txt.

Exit codes: 0 done · 2 usage, or no run in the folders · 3 a run that cannot be read, and no other · 5 disk.
"""

import argparse
import gc
import io
import re
import sys
from datetime import datetime
from pathlib import Path

from safe_files import DISK, Failure, Parser, exit_code, has_mark, replace, shown, why

try:
    from matplotlib import pyplot as plt

    from reports import charts, classes, drawing, flags, mistakes, page, read
except ModuleNotFoundError as error:
    print(f"error: Python has no {error.name}\n  what to do: {sys.executable} -m pip install -r {Path(__file__).with_name('requirements.txt')}\n"
          "  If that is refused, as Debian's own Python does: python3 -m venv tools, and the same with tools/bin/python", file=sys.stderr)
    sys.exit(2)

DOTS_PER_INCH = 160
MOST_MATRICES = 16  # sets whose classes are drawn
PICTURES = "|".join(name for name, _, _ in charts.CHARTS)
OURS = re.compile(rf"\.?(?:report\.html|(?:{PICTURES}|confusion(?:_\d+)?)\.png)(?:\.[\w.-]+-\d+)?")  # the drafts of a killed one, too


def parse_arguments() -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN_DIR", help="run directories, sweeps, or folders of them")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR",
                        help="folder to write to: a new one, or that of an earlier report, which is replaced")
    parser.add_argument("--predictions", type=Path, metavar="FILE",
                        help="the samples of an evaluation (dtrain_main --mode=eval --predictions=FILE): accuracy by class, and the "
                             "worst mistakes with their pictures or texts")
    parser.add_argument("--axes", choices=["auto", "linear", "log"], default="auto",
                        help="scale of loss, validation and learning rate; auto (default): logarithmic where values span decades, "
                             "without the few that would flatten the others; linear, log: all values")
    return parser.parse_args()


def png(figure) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, dpi=DOTS_PER_INCH)
    plt.close(figure)
    return content.getvalue()


def draw(comparison: drawing.Comparison) -> tuple[list[tuple[str, str, bytes]], list[tuple[str, list[classes.Row]]]]:
    """Returns (file name, what it shows, PNG) for all data that the runs have, and the classes of the runs that have any."""
    pictures = [(name, words, png(figure)) for name, words, chart in charts.CHARTS if (figure := chart(comparison)) is not None]
    tables = []
    found = [(f"{run.name}, {split}" if split else run.name, folder) for run in comparison.runs
             for split, folder in classes.evaluations(run.folder)]
    for title, folder in found:
        matrix = classes.read_matrix(folder) if len(tables) < MOST_MATRICES else None
        rows = classes.class_rows(matrix) if matrix else []
        if rows:
            name = "confusion" if len(comparison.runs) == 1 and not tables else f"confusion_{len(tables) + 1}"
            pictures.append((name, f"confusion matrix of {title}", png(classes.confusion(matrix, title))))
            tables.append((title, rows))
    return pictures, tables


def counted(rows: list[classes.Row]) -> set[tuple[str, int, int]]:
    return {(row.name, row.samples, row.correct) for row in rows}


def show_mistakes(path: Path, known: list[list[classes.Row]]) -> list[page.Html]:
    """Shows the classes only if they are not those of an evaluation that is on the page already."""
    found = mistakes.read_mistakes(path)
    pictures = [mistakes.picture(one.file) if not one.texts else None for one in found.worst]
    table = [page.table_of_classes(path.name, found.classes)] if found.classes and counted(found.classes) not in map(counted, known) else []
    return [*table, page.gallery(found, str(path), pictures)]


def prepare_output(folder: Path) -> None:
    """Makes the folder. Refuses one with files that no report has written, such as a run directory."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entries = list(folder.iterdir())
        others = sorted(entry.name for entry in entries if not OURS.fullmatch(entry.name))
        if any(not entry.is_symlink() for entry in entries) and not has_mark(folder / "report.html", page.MARK.encode()):
            others = others or sorted(entry.name for entry in entries)
    except FileExistsError:
        raise Failure(f"--output={folder} is no folder", "name a new folder") from None
    except OSError as error:
        raise Failure(f"{folder} cannot be written: {why(error)}", "choose another --output", DISK) from None
    if others:
        raise Failure(f"--output={folder} has files that no report has written: {', '.join(others[:3])}", "name a new folder")


def write(folder: Path, pictures: list[tuple[str, str, bytes]], text: str) -> None:
    """Replaces an earlier report."""
    names = {f"{name}.png": content for name, _, content in pictures}
    for entry in folder.iterdir():
        if OURS.fullmatch(entry.name) and entry.name not in names and entry.name != "report.html":
            entry.unlink()
    for name, content in names.items():
        replace(folder / name, content)
    replace(folder / "report.html", text)


def main() -> int:
    arguments = parse_arguments()
    runs, problems = read.read_runs(arguments.runs)
    read.name_apart(runs)
    prepare_output(arguments.output)
    for problem in problems[:page.MOST_NOTES]:
        print(f"left out: {shown(problem)}", file=sys.stderr)
    if len(problems) > page.MOST_NOTES:
        print(f"left out: {len(problems) - page.MOST_NOTES} others", file=sys.stderr)
    comparison = drawing.Comparison(runs, flags.differing(runs), arguments.axes)
    pictures, of_runs = draw(comparison)
    tables = [page.table_of_classes(name, rows) for name, rows in of_runs]
    if arguments.predictions:
        tables += show_mistakes(arguments.predictions, [rows for _, rows in of_runs])
    text = page.page(comparison, pictures, tables, [str(problem) for problem in problems], datetime.now())
    write(arguments.output, pictures, text)
    print(f"{shown(arguments.output / 'report.html')} ({len(runs)} runs, {len(pictures)} pictures)")
    return 0


if __name__ == "__main__":
    gc.freeze()  # what Matplotlib has made is not looked through again while millions of lines are read
    sys.exit(exit_code(main))
