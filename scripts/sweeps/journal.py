"""The file of a study: one line of JSON for each of Optuna's operations. Every line is written under a lock and synced,
so after a kill, a full disk or a power loss only the last one can be incomplete; whoever opens the file next cuts it.

Optuna's own file refuses such a journal for ever, and its next line is appended to the incomplete one.
"""

import contextlib
import errno
import fcntl
import json
import os
from pathlib import Path

from optuna.storages.journal import BaseJournalBackend

from safe_files import DISK, Failure, open_regular, parse_json, why

BEGIN = b'{"op_code":'
LONGEST_LINE = 1 << 20
MOST_BYTES = 1 << 30
WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


def lock(path: Path, wait: bool, flags: int = 0) -> int | None:
    """Returns a descriptor that holds the file's lock, or None if another process holds it. The kernel releases the lock
    of a killed process."""
    try:
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | flags)
    except OSError as error:
        raise Failure(f"{path} cannot be opened: {why(error)}", "free space, remove the file, or choose another --output", DISK) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        os.close(descriptor)
        if error.errno in WITHOUT_LOCKS:
            raise Failure(f"files in {path.parent} cannot be locked", "mount Lustre with the option flock", DISK) from None
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


@contextlib.contextmanager
def locked(path: Path, flags: int = 0):
    descriptor = lock(path, wait=True, flags=flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def operation(line: bytes) -> dict | None:
    """Returns the operation in a line, or None if it is incomplete or another program's. Earlier versions appended to an
    incomplete line, so the last operation in a line counts; within a text its beginning would be escaped."""
    try:
        found = parse_json(line[max(0, line.rfind(BEGIN)):]) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("op_code"), int) else None


def is_torn(line: bytes) -> bool:
    """Says whether an append that broke off can have left `line`: the beginning of an operation, or, after a power loss,
    blocks of zeros. A file of another program is not cut."""
    return line.startswith((BEGIN, b"\0")) or BEGIN.startswith(line)


class Journal(BaseJournalBackend):
    def __init__(self, path: Path):
        self._path = path
        self._read = 0    # operations that were returned
        self._offset = 0  # bytes of those
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failure(f"{path.parent} cannot be made: {why(error)}", "name another file with --study", DISK) from None
        with locked(path, os.O_APPEND) as descriptor:
            self._cut(descriptor)

    def _fail(self, what: str) -> None:
        raise Failure(f"the study {self._path} {what}", "name another file with --study, or another --output", DISK)

    def _lines(self, descriptor: int, offset: int):
        """Yields (offset, line) from `offset` to the end. The last line may be incomplete."""
        size = os.fstat(descriptor).st_size
        if size > MOST_BYTES:
            self._fail(f"has more than {MOST_BYTES >> 30} GiB")
        if size < offset:
            self._fail("was cut by another program")
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(offset)
            while line := file.readline(LONGEST_LINE):
                yield offset, line
                offset += len(line)

    def _cut(self, descriptor: int) -> None:
        """Removes an incomplete last line. Called under the lock, because another process may be writing it otherwise."""
        whole, number, torn = self._offset, self._read, None
        for offset, line in self._lines(descriptor, whole):
            if torn is not None:
                self._fail(f"is damaged or no journal: line {number} cannot be read")
            number += 1
            if operation(line) is not None:
                whole = offset + len(line)
            elif is_torn(line):
                torn = line
            else:
                self._fail(f"is damaged or no journal: line {number} cannot be read")
        if torn is not None:
            os.ftruncate(descriptor, whole)
            os.fsync(descriptor)

    def read_logs(self, log_number_from: int) -> list[dict]:
        if log_number_from != self._read:  # another storage begins with this journal
            self._read = self._offset = 0
        found = []
        descriptor = open_regular(self._path)
        try:
            for _, line in self._lines(descriptor, self._offset):
                one = operation(line)
                if one is None:  # another process is writing it, or broke off
                    break
                self._offset += len(line)
                self._read += 1
                if self._read > log_number_from:
                    found.append(one)
        finally:
            os.close(descriptor)
        return found

    def append_logs(self, logs: list[dict]) -> None:
        content = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in logs).encode()
        with locked(self._path, os.O_APPEND) as descriptor:
            self._cut(descriptor)
            size = os.fstat(descriptor).st_size
            try:
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(descriptor, rest):]
                os.fsync(descriptor)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise Failure(f"the study {self._path} cannot be written: {why(error)}",
                              "free space, then run the same command again: it goes on", DISK) from None
