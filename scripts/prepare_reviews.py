#!/usr/bin/env python3
"""Makes demo/reviews: 10,605 sentences of film reviews with people's ratings, 9,605 to train and 1,000 to validate.

    .venv/bin/python scripts/prepare_reviews.py [--output demo/reviews]

The sentences are those that Hutto and Gilbert had rated for their paper on VADER (2014); the source package of
vaderSentiment (MIT licence), which pip fetches, carries them. Each table has the columns `sentence`, `label` (negative or
positive) and `valence` (-4 to 4, the mean of what 20 people said). The split is the same everywhere: by the sentences' hashes,
so that equal sentences are on one side. What is complete already is left alone.
"""

import argparse
import hashlib
import io
import sys
import tarfile
import tempfile
from pathlib import Path

from safe_files import DATA, Failure, Parser, exit_code, replace, source_package, why

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "vaderSentiment==3.3.2"
TABLE = "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"
ROWS, VALIDATION = 10605, 1000
HEADER = "sentence\tlabel\tvalence\n"


def read_rows(package: Path) -> list[tuple[str, float]]:
    """Returns (sentence, rating) in the file's order, out of the archive within the package."""
    try:
        with tarfile.open(package) as outer:
            name = next(name for name in outer.getnames() if name.endswith("/hutto_ICWSM_2014.tar.gz"))
            with tarfile.open(fileobj=io.BytesIO(outer.extractfile(name).read())) as inner:
                text = inner.extractfile(TABLE).read().decode("cp1252")
    except (OSError, EOFError, KeyError, StopIteration, UnicodeDecodeError, tarfile.TarError) as error:
        raise Failure(f"{package.name} is damaged: {why(error)}", "run this again", DATA) from None
    rows = [line.split("\t") for line in text.splitlines()]
    if len(rows) != ROWS or any(len(cells) != 3 for cells in rows):
        raise Failure(f"{TABLE} of {PACKAGE} does not have {ROWS} rows of three columns", "run this again", DATA)
    return [(sentence.strip(), float(rating)) for _, rating, sentence in rows]


def line_of(sentence: str, rating: float) -> str:
    return f"{sentence}\t{'positive' if rating > 0 else 'negative'}\t{rating:.4f}\n"


def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "demo" / "reviews")
    output = parser.parse_args().output
    train, val = output / "train.tsv", output / "val.tsv"
    if train.is_file() and val.is_file():
        print(f"==> The reviews are in {output} already.")
        return 0
    for path in (train, val):
        if path.is_symlink() or path.exists():
            raise Failure(f"{path} exists, but is only a part of the reviews", "remove it, or choose another --output")
    print(f"==> Writing {ROWS} rated sentences to {output}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = read_rows(source_package(PACKAGE, Path(folder)))
    rows.sort(key=lambda row: hashlib.sha256(row[0].encode()).digest())
    output.mkdir(parents=True, exist_ok=True)
    for path, part in ((val, rows[:VALIDATION]), (train, rows[VALIDATION:])):
        replace(path, HEADER + "".join(line_of(*row) for row in part))
        print(f"    {len(part)} in {path}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
