"""The table of an evaluation's samples that --mode=eval --predictions=FILE writes: its classes, and its worst mistakes."""

import csv
import heapq
import io
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from reports.classes import MOST_CLASSES, Row, wilson
from reports.points import finite
from safe_files import DATA, Failure, chunks, parse_json, read_bounded

MOST_BYTES = 1 << 30
MOST_BYTES_OF_A_LINE = 16 << 20
MOST_BYTES_OF_A_PICTURE = 64 << 20
MOST_SHOWN = 24
FIRST_ROWS = 1000     # tell what a table is
MOST_LETTERS = 1000   # of a sentence
SIDE = 150            # pixels of a picture on the page
HOW = "name a file that dtrain_main --mode=eval --predictions=FILE has written"
csv.field_size_limit(MOST_BYTES_OF_A_LINE)  # a sample's text is a cell


@dataclass(order=True)
class Mistake:
    loss: float
    number: int  # of the sample in the file
    file: str = field(compare=False)
    texts: list[str] = field(compare=False)
    label: str = field(compare=False)
    prediction: str = field(compare=False)
    probability: float | None = field(compare=False)  # of the prediction


@dataclass
class Mistakes:
    samples: int = 0
    wrong: int = 0
    classes: list[Row] = field(default_factory=list)    # the one with the lowest accuracy first; none of a regression
    worst: list[Mistake] = field(default_factory=list)  # the one with the greatest loss first


def lines(path: Path) -> Iterator[str]:
    rest = b""
    for chunk in chunks(path, MOST_BYTES, links=True):
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > MOST_BYTES_OF_A_LINE:
            raise Failure(f"{path} has a line of more than {MOST_BYTES_OF_A_LINE} bytes", HOW, DATA)
        yield from (line.decode("utf-8", "surrogateescape") + "\n" for line in whole)
    if rest:
        yield rest.decode("utf-8", "surrogateescape")


def rows_of_csv(path: Path) -> Iterator[dict]:
    """A ' before a text is no part of it (data/formats/table_writer.h)."""
    rows = csv.reader(lines(path))
    names = next(rows, [])
    names[:1] = [name.removeprefix("\ufeff") for name in names[:1]]  # --csv_bom
    for row in rows:
        one = {name: value.removeprefix("'") for name, value in zip(names, row, strict=False)}
        one["probability"] = one.get("probability_1") if "class_1" in one else None
        yield one


def rows_of_json(path: Path) -> Iterator[dict]:
    """Of several labels, too, each has a probability: in some of the first rows they are no class's."""
    are_classes = all(map(is_of_class, itertools.islice(lines(path), FIRST_ROWS)))
    for line in lines(path):
        one = parse_json(line)
        if not isinstance(one, dict):
            raise ValueError("a line is no object")
        one["probability"] = one["probabilities"][one["prediction"]] if are_classes and is_of_class(line) else None
        yield one


def is_of_class(line: str) -> bool:
    try:
        row = parse_json(line)
    except ValueError:
        return True  # whoever reads it says in which sample
    probabilities = row.get("probabilities") if isinstance(row, dict) else None
    if not isinstance(probabilities, dict) or row.get("prediction") not in probabilities:
        return False
    return sum(number(one) or 0.0 for one in probabilities.values()) < 1.001


def number(value) -> float | None:
    try:
        return finite(float(value))
    except (TypeError, ValueError):
        return None


def read_mistakes(path: Path) -> Mistakes:
    """Reads a table once, whatever its size. Raises Failure if it is no table of predictions."""
    found, counts, taken_for = Mistakes(), {}, {}
    worst: list[Mistake] = []
    try:
        for row in rows_of_csv(path) if path.suffix.lower() == ".csv" else rows_of_json(path):
            label, prediction, loss = row["label"], row["prediction"], number(row["loss"])
            found.samples += 1
            is_class = row["probability"] is not None
            if is_class:
                label, prediction = str(label), str(prediction)
                right, samples = counts.get(label, (0, 0))
                counts[label] = (right + (label == prediction), samples + 1)
                if len(counts) > MOST_CLASSES:
                    raise ValueError(f"more than {MOST_CLASSES} classes")
                if label == prediction:
                    continue
                rivals = taken_for.setdefault(label, {})
                rivals[prediction] = rivals.get(prediction, 0) + 1
                found.wrong += 1
            texts = [str(row[name])[:MOST_LETTERS] for name in ("text", "pair") if row.get(name)]
            mistake = Mistake(loss if loss is not None else 0.0, found.samples, str(row["file"]), texts, str(label), str(prediction),
                              number(row["probability"]))
            (heapq.heappush if len(worst) < MOST_SHOWN else heapq.heappushpop)(worst, mistake)
    except (KeyError, ValueError, csv.Error) as error:
        raise Failure(f"{path}, sample {found.samples + 1}: {error if not isinstance(error, KeyError) else f'no {error}'}", HOW,
                      DATA) from None
    found.worst = sorted(worst, reverse=True)
    for label, (right, samples) in counts.items():
        rival, times = max(taken_for.get(label, {"": 0}).items(), key=lambda one: one[1])
        taken = right + sum(rivals.get(label, 0) for rivals in taken_for.values())
        found.classes.append(Row(label, samples, right, *wilson(right, samples), rival, times, taken))
    found.classes.sort(key=lambda row: row.accuracy)
    return found


def picture(path: str) -> bytes | None:
    """Returns a small PNG of an image file; None of a record in a shard, or of what cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(read_bounded(Path(path), MOST_BYTES_OF_A_PICTURE, links=True))) as image:
                image.draft("RGB", (2 * SIDE, 2 * SIDE))
                small = image.convert("RGB")
        small.thumbnail((SIDE, SIDE))
        content = io.BytesIO()
        small.save(content, "PNG")
        return content.getvalue()
    except (Failure, OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return None
