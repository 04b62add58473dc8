"""The numbers of metrics.jsonl as columns: a row for each line of a kind, without a number where the line has none.

Beyond a number of rows neighbours are averaged, so that a log of any length takes a bounded part of the memory, and its
curves stay what they are.
"""

import math
from array import array

import numpy as np

MOST_COLUMNS = 48
MOST_LETTERS = 64              # of a column's name
GREATEST, LEAST = 1e40, 1e-40  # beyond what float32 holds; Matplotlib's axes do not survive the ends of float64


def finite(value) -> float | None:
    """Returns a number of JSON as a float that can be drawn, and None for everything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -GREATEST <= value <= GREATEST:
        return None
    return float(value) if abs(value) >= LEAST else 0.0


class Points:
    def __init__(self, most_rows: int):
        self._most_rows = most_rows
        self._columns: dict[str, array] = {}
        self._rows = 0
        self._lines_a_row = 1
        self._sums: dict[str, tuple[float, int]] = {}  # of the row under way: the sum and how many there were
        self._lines = 0                                # of the row under way
        self.last: dict[str, float] = {}               # the numbers of the last line, as they are

    def add(self, point: dict) -> None:
        self.last = {name: number for name, value in point.items()
                     if (number := finite(value)) is not None and len(name) <= MOST_LETTERS}
        for name, number in self.last.items():
            total, count = self._sums.get(name, (0.0, 0))
            self._sums[name] = (total + number, count + 1)
        self._lines += 1
        if self._lines == self._lines_a_row:
            self.end_row()

    def end_row(self) -> None:
        """Called after the last line, too, where the last row may have fewer lines than the others."""
        if self._lines == 0:
            return
        for name in self._sums:
            if name not in self._columns and len(self._columns) < MOST_COLUMNS:
                self._columns[name] = array("d", [math.nan]) * self._rows
        for name, column in self._columns.items():
            total, count = self._sums.get(name, (math.nan, 1))
            column.append(total / count)
        self._sums, self._lines = {}, 0
        self._rows += 1
        if self._rows == 2 * self._most_rows:
            self._halve()

    def _halve(self) -> None:
        for name, column in self._columns.items():
            pairs = np.array(column).reshape(-1, 2)
            known = np.isfinite(pairs)
            counts = known.sum(axis=1)
            means = np.divide(np.where(known, pairs, 0).sum(axis=1), counts, out=np.full(len(pairs), np.nan), where=counts > 0)
            self._columns[name] = array("d", means.tobytes())
        self._rows //= 2
        self._lines_a_row *= 2

    def __len__(self) -> int:
        return self._rows

    @property
    def names(self) -> list[str]:
        return list(self._columns)

    def column(self, name: str) -> np.ndarray:
        """Returns a number for each row, NaN where there is none."""
        return np.array(self._columns[name]) if name in self._columns else np.full(self._rows, np.nan)

    def known(self, name: str) -> np.ndarray:
        values = self.column(name)
        return values[np.isfinite(values)]

    def series(self, x: str, y: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns two columns at the rows that have both."""
        of_x, of_y = self.column(x), self.column(y)
        both = np.isfinite(of_x) & np.isfinite(of_y)
        return of_x[both], of_y[both]
