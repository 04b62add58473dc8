"""Follows the validations in the metrics.jsonl of a training that runs."""

import os
from pathlib import Path

from safe_files import is_number, open_regular, parse_json

LONGEST_LINE = 1 << 20
MOST_BYTES_AT_ONCE = 1 << 24  # so that one training does not keep the others waiting


class Points:
    """The validations as far as they are written, one for all sets: a further set's numbers follow those of the first, and
    have its name before theirs. A run that resumes replaces the file."""

    def __init__(self, path: Path):
        self._path = path
        self._file = None  # (device, inode)
        self._offset = 0
        self._points: list[dict] = []

    def read(self) -> list[dict]:
        """Returns the numbers of all points so far. Lines that are no JSON are left out."""
        try:
            descriptor = open_regular(self._path)
        except OSError:
            return self._points
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if self._file != (status.st_dev, status.st_ino) or status.st_size < self._offset:
                self._file, self._offset, self._points = (status.st_dev, status.st_ino), 0, []
            file.seek(self._offset)
            end = self._offset + MOST_BYTES_AT_ONCE
            while self._offset < end and (line := file.readline(LONGEST_LINE)):
                if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                    break  # it is being written
                self._offset += len(line)
                self._add(line)
        return self._points

    def _add(self, line: bytes) -> None:
        try:
            point = parse_json(line)
        except ValueError:
            return
        if not isinstance(point, dict) or point.get("kind") != "val":
            return
        numbers = {name: value for name, value in point.items() if is_number(value)}
        if "split" not in point:
            self._points.append(numbers)
        elif self._points:
            self._points[-1].update({f"{point['split']}_{name}": value for name, value in numbers.items()})
