"""The numbers of metrics.jsonl as columns: a row for each line of a kind, without a number where the line has none.

Beyond a number of rows neighbours are averaged, so that a log of any length takes a bounded part of the memory, and its
curves stay what they are; the least and the greatest number of a column are kept as they are.
"""

import contextlib

import numpy as np

MOST_COLUMNS = 48
MOST_LETTERS = 64              # of a column's name
GREATEST, LEAST = 1e40, 1e-40  # beyond what float32 holds; Matplotlib's axes do not survive the ends of float64


def finite(value) -> float | None:
    """Returns a number of JSON as a float that can be drawn, and None for everything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -GREATEST <= value <= GREATEST:
        return None
    return float(value) if abs(value) >= LEAST else 0.0


def numbers(values: list) -> np.ndarray:
    """Returns finite() of each value, and NaN for None."""
    if set(map(type, values)) <= {float, int}:  # bool is neither
        with contextlib.suppress(OverflowError):  # of a whole number of many digits
            found = np.array(values, dtype=float)
            size = np.abs(found)
            return np.where(size <= GREATEST, np.where(size < LEAST, 0, found), np.nan)
    return np.array([finite(value) for value in values], dtype=float)


class Points:
    def __init__(self, most_rows: int):
        self._most_rows = 2 * most_rows
        self._columns: dict[str, np.ndarray] = {}  # for each row the sum of its numbers, and how many there are
        self._lines = 0
        self._lines_a_row = 1
        self.last: dict[str, float] = {}           # the numbers of the last line, as they are
        self._ends: dict[tuple[str, bool], tuple[float, float | None, float | None]] = {}  # by column and whether it is the least

    def add(self, lines: list[dict]) -> None:
        """Takes the next lines. Many at once take a fraction of the time."""
        alike = len(set(map(tuple, lines))) == 1
        if not alike or not lines[0].keys() <= self._columns.keys():
            for line in lines:
                self._meet(line)
        while lines:
            if self._lines == self._most_rows * self._lines_a_row:
                self._halve()
            room = self._most_rows * self._lines_a_row - self._lines
            self._sum_up(lines[:room], alike)
            self.last = {name: number for name, value in lines[-1].items()
                         if (number := finite(value)) is not None and len(name) <= MOST_LETTERS}
            lines = lines[room:]

    def _meet(self, line: dict) -> None:
        for name, value in line.items():
            if (name not in self._columns and len(self._columns) < MOST_COLUMNS and len(name) <= MOST_LETTERS
                    and finite(value) is not None):
                self._columns[name] = np.zeros((2, self._most_rows))

    def _sum_up(self, lines: list[dict], alike: bool) -> None:
        rows = np.arange(self._lines, self._lines + len(lines)) // self._lines_a_row
        values_of = (dict(zip(lines[0], zip(*map(dict.values, lines), strict=True), strict=True)) if alike
                     else {name: [line.get(name) for line in lines] for name in self._columns})
        for name in self._columns.keys() & values_of.keys():
            values = numbers(values_of[name])
            known = np.isfinite(values)
            column = self._columns[name][:, rows[0]:rows[-1] + 1]
            column[0] += np.bincount(rows - rows[0], np.where(known, values, 0))
            column[1] += np.bincount(rows - rows[0], known)
            if known.any():
                self._widen(name, values, lines)
        self._lines += len(lines)

    def _widen(self, name: str, values: np.ndarray, lines: list[dict]) -> None:
        for least in (True, False):
            place = int((np.nanargmin if least else np.nanargmax)(values))
            before, value = self._ends.get((name, least)), float(values[place])
            if before is None or (value < before[0] if least else value > before[0]):
                self._ends[name, least] = (value, finite(lines[place].get("step")), finite(lines[place].get("epoch")))

    def _halve(self) -> None:
        for column in self._columns.values():
            half = self._most_rows // 2
            column[:, :half] = column.reshape(2, half, 2).sum(axis=2)
            column[:, half:] = 0
        self._lines_a_row *= 2

    def __len__(self) -> int:
        return -(-self._lines // self._lines_a_row)

    @property
    def names(self) -> list[str]:
        return list(self._columns)

    def column(self, name: str) -> np.ndarray:
        """Returns a number for each row, NaN where there is none."""
        sums, counts = self._columns.get(name, np.zeros((2, self._most_rows)))[:, :len(self)]
        return np.divide(sums, counts, out=np.full(len(self), np.nan), where=counts > 0)

    def end(self, name: str, least: bool) -> tuple[float, float | None, float | None] | None:
        """Returns the least or the greatest number of a column with the step and the epoch of the first line that has it."""
        return self._ends.get((name, least))

    def known(self, name: str) -> np.ndarray:
        values = self.column(name)
        return values[np.isfinite(values)]

    def series(self, x: str, y: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns two columns at the rows that have both."""
        of_x, of_y = self.column(x), self.column(y)
        both = np.isfinite(of_x) & np.isfinite(of_y)
        return of_x[both], of_y[both]
