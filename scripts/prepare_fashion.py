#!/usr/bin/env python3
"""Makes demo/fashion: Fashion-MNIST as an ImageFolder of PNGs, 60,000 to train and 10,000 to validate.

    sudo apt-get install dataset-fashion-mnist
    .venv/bin/python scripts/prepare_fashion.py [--output demo/fashion]

The pictures of clothes are those of Zalando Research (arXiv 1708.07747, MIT licence), which Debian and Ubuntu carry
whole. What is complete already is left alone.
"""

import gzip
import math
import sys
import zlib
from pathlib import Path

from demo_data import SIDE, Demo, Picture, make
from safe_files import DATA, Failure, exit_code

SOURCE = Path("/usr/share/datasets/fashion-mnist")
CLASSES = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle_boot"]
COUNTS = {"train": 6000, "val": 1000}  # of each class
README = """Fashion-MNIST (Xiao, Rasul, Vollgraf; Zalando Research, MIT licence), from Debian's dataset-fashion-mnist; made by
scripts/prepare_fashion.py, which may replace this folder.
"""


def read_idx(path: Path, shape: tuple[int, ...]) -> bytes:
    """Returns the bytes of an array of this shape in the IDX format."""
    head = bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)
    again = "install it again: apt-get install --reinstall dataset-fashion-mnist"
    try:
        with gzip.open(path) as file:
            found = file.read()
    except FileNotFoundError:
        raise Failure(f"there is no {path}", "install it: apt-get install dataset-fashion-mnist", DATA) from None
    except (OSError, EOFError, zlib.error) as error:
        raise Failure(f"{path} is damaged: {error}", again, DATA) from None
    if not found.startswith(head) or len(found) != len(head) + math.prod(shape):
        raise Failure(f"{path} does not hold {' x '.join(map(str, shape))} bytes", again, DATA)
    return found[len(head):]


def read_fashion() -> list[Picture]:
    pictures = []
    for split, stem in (("train", "train"), ("val", "t10k")):
        count = COUNTS[split] * len(CLASSES)
        pixels = read_idx(SOURCE / f"{stem}-images-idx3-ubyte.gz", (count, SIDE, SIDE))
        labels = read_idx(SOURCE / f"{stem}-labels-idx1-ubyte.gz", (count,))
        size = SIDE * SIDE
        pictures += [Picture(split, CLASSES[labels[i]], i, pixels[i * size:(i + 1) * size]) for i in range(count)]
    return pictures


FASHION = Demo(name="fashion", readme=README, ending=".png", classes=CLASSES, read=read_fashion, counts=COUNTS)

if __name__ == "__main__":
    sys.exit(exit_code(lambda: make(FASHION, __doc__)))
