#!/usr/bin/env python3
"""Makes demo/reviews: 10,605 sentences of film reviews with people's ratings, 9,605 to train and 1,000 to validate.

    .venv/bin/python scripts/prepare_reviews.py [--output demo/reviews]

The sentences are those that Hutto and Gilbert had rated for their paper on VADER (2014); the source package of
vaderSentiment (MIT licence), which pip fetches, carries them. Each table has the columns `sentence`, `label` (negative or
positive) and `valence` (-4 to 4, the mean of what 20 people said). The split is the same everywhere: by the sentences' hashes,
so that equal sentences are on one side. What is complete already is left alone.
"""

import hashlib
import io
import sys
import tarfile
from pathlib import Path

from demo_data import Texts, make_texts
from safe_files import DATA, Failure, exit_code

PACKAGE = "vaderSentiment==3.3.2"
TABLE = "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"
ROWS, VALIDATION = 10605, 1000
HEADER = "sentence\tlabel\tvalence\n"


def read_rows(package: Path) -> list[tuple[str, float]]:
    """Returns (sentence, rating) in the file's order, out of the archive within the package."""
    with tarfile.open(package) as outer:
        name = next(name for name in outer.getnames() if name.endswith("/hutto_ICWSM_2014.tar.gz"))
        with tarfile.open(fileobj=io.BytesIO(outer.extractfile(name).read())) as inner:
            text = inner.extractfile(TABLE).read().decode("cp1252")
    rows = [line.split("\t") for line in text.splitlines()]
    if len(rows) != ROWS or any(len(cells) != 3 for cells in rows):
        raise Failure(f"{TABLE} of {PACKAGE} does not have {ROWS} rows of three columns", "run this again", DATA)
    return [(sentence.strip(), float(rating)) for _, rating, sentence in rows]


def line_of(sentence: str, rating: float) -> str:
    return f"{sentence}\t{'positive' if rating > 0 else 'negative'}\t{rating:.4f}\n"


def read_reviews(package: Path) -> tuple[str, ...]:
    rows = sorted(read_rows(package), key=lambda row: hashlib.sha256(row[0].encode()).digest())
    val, train = rows[:VALIDATION], rows[VALIDATION:]
    print(f"    {len(train)} to train, {len(val)} to validate")
    return tuple(HEADER + "".join(line_of(*row) for row in part) for part in (train, val))


REVIEWS = Texts(name="reviews", package=PACKAGE, files=("train.tsv", "val.tsv"), read=read_reviews)

if __name__ == "__main__":
    sys.exit(exit_code(lambda: make_texts(REVIEWS, __doc__)))
