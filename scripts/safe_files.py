"""How the scripts read, write, print and end: by the rules of the programs (data/written_file.h, data/shown.h,
data/shallow_json.h, data/error.h), because what they read was written by others, and a script is not trusted less.

Whatever a script cannot do is a Failure: one sentence, what to do, and the exit code.
"""

import argparse
import errno
import json
import math
import os
import re
import signal
import socket
import stat
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

# Exit codes, as docs/runs.md lists them.
USAGE = 2
DATA = 3
PEER_LOST = 4
DISK = 5
DIVERGED = 6
OUT_OF_MEMORY = 7
INTERNAL = 70
PREEMPTED = 75

DEEPEST = 64         # levels of JSON, deeper than anything that dtrain writes
LONGEST_NUMBER = 20  # digits of a whole number of JSON; a longer one is read as a float, which may be infinite
CHUNK = 1 << 20
LONGEST_MESSAGE = 300  # bytes about arguments

# Characters that Shown() of data/shown.cc escapes; bytes that are no UTF-8 are lone surrogates in Python.
HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\U000e0000-\U000e0fff]")
SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Failure(Exception):
    """An error that the caller can do something about. Its text and remedy may hold names of others: shown() is called
    when they are printed."""

    def __init__(self, what: str, remedy: str, code: int = USAGE):
        super().__init__(what)
        self.remedy = remedy
        self.code = code


class Parser(argparse.ArgumentParser):
    """Says mistakes in the arguments like all others."""

    def error(self, message: str) -> None:
        raise Failure(shown(message, LONGEST_MESSAGE), f"{self.prog} --help says what it takes")


def number(least: float, most: float):
    """Returns a reader of numbers for add_argument's `type`."""
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text}: expected {least:g} to {most:g}")
        return value

    return read


def shown(text, most_bytes: int | None = None) -> str:
    """Returns `text` (or a path, or bytes) on one line, safe to print: control characters, bytes that are not UTF-8 and
    invisible characters become \\n, \\x1b, \\u202e. Cuts a text of more than `most_bytes` and appends its length."""
    if isinstance(text, os.PathLike):
        text = os.fspath(text)
    content = text if isinstance(text, bytes) else as_bytes(str(text))
    end = len(content) if most_bytes is None else min(len(content), most_bytes)
    while end < min(len(content), (most_bytes or 0) + 3) and 0x80 <= content[end] < 0xc0:
        end += 1  # no character is cut in half
    rest = f"... ({len(content)} bytes)" if end < len(content) else ""
    return HARMFUL.sub(escaped, content[:end].decode("utf-8", "surrogateescape")) + rest


def as_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # a name that is no UTF-8, as the system gave it
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")    # half a surrogate pair of JSON


def escaped(found: re.Match) -> str:
    code = ord(found[0])
    if 0xdc80 <= code <= 0xdcff:
        return f"\\x{code - 0xdc00:02x}"
    if code < 0x80:
        return SHORT_ESCAPES.get(found[0], f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def open_regular(path: Path, flags: int = os.O_RDONLY, links: bool = False) -> int:
    """Opens a regular file, as data/written_file.h does: never blocks on a pipe, and follows a link only with `links`
    (for files that the user has named). Returns a descriptor; raises OSError."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW), 0o644)
    status = os.fstat(descriptor)
    kind = None if stat.S_ISREG(status.st_mode) else errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.ENXIO
    if kind is None and status.st_nlink > 1 and flags & (os.O_WRONLY | os.O_RDWR):
        kind = errno.EMLINK  # a hard link: what is written would be in another file, too
    if kind is not None:
        os.close(descriptor)
        raise OSError(kind, os.strerror(kind), str(path))
    return descriptor


def why(error: Exception) -> str:
    """Returns the reason of an OSError or another error as words."""
    words = {errno.ELOOP: "it is a link", errno.ENXIO: "it is no regular file", errno.EMLINK: "it is a hard link",
             errno.EISDIR: "it is a folder"}
    code = getattr(error, "errno", None)
    return words.get(code) or getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__


def read_bounded(path: Path, limit: int, code: int = DATA, links: bool = False) -> bytes:
    """Returns the contents of a regular file of at most `limit` bytes. Raises Failure with `code`."""
    return b"".join(chunks(path, limit, code, links))


def chunks(path: Path, limit: int, code: int = DATA, links: bool = False) -> Iterator[bytes]:
    """The same in parts, for files that need not be in memory as a whole."""
    try:
        descriptor = open_regular(path, links=links)
        with open(descriptor, "rb", buffering=0) as file:
            left = limit
            while part := file.read(min(CHUNK, left + 1)):
                if len(part) > left:
                    raise Failure(f"{path} has more than {limit} bytes", "name another file", code)
                left -= len(part)
                yield part
    except OSError as error:
        raise Failure(f"{path} cannot be read: {why(error)}", "name a regular file that may be read", code) from None


def parse_json(text: str | bytes):
    """Parses JSON of any origin. Raises ValueError, also for what is nested too deeply and for bytes that are no UTF-8. A
    whole number of many digits becomes a float."""
    try:
        found = json.loads(text, parse_int=lambda digits: int(digits) if len(digits) <= LONGEST_NUMBER else float(digits))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    opening = (b"[", b"{") if isinstance(text, bytes) else ("[", "{")
    if sum(map(text.count, opening)) > DEEPEST:
        check_depth(found)
    return found


def check_depth(value) -> None:
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [inner for one in level if isinstance(one, (dict, list)) for inner in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return
    raise ValueError("nested too deeply")


def read_object(path: Path, limit: int) -> dict:
    """Returns the object in a JSON file, or {} if there is none or it cannot be read, as in a run that was killed."""
    try:
        found = parse_json(read_bounded(path, limit))
    except (Failure, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_number(value) -> bool:
    """Says whether a value of JSON is a number to compute with: no NaN, infinity, true or text."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def has_mark(path: Path, mark: bytes) -> bool:
    """Says whether a regular file is empty, or an earlier call of the script wrote it: `mark` is in its first or last MiB."""
    try:
        with open(open_regular(path), "rb") as file:
            start, size = file.read(CHUNK), os.fstat(file.fileno()).st_size
            file.seek(max(0, size - CHUNK))
            return not start or mark in start or mark in file.read(CHUNK)
    except OSError:
        return False


def output_file(path: Path, endings: list[str], inputs: list[Path], mark: bytes) -> None:
    """Raises Failure if a file that is to be written (with replace()) must not be: it has another ending than those of the
    script, is an input, no regular file, in no folder, or a file without the script's mark. A link is replaced itself."""
    if path.suffix.lower() not in endings:
        raise Failure(f"{path} does not end in {' or '.join(endings)}", "name another file to write")
    if not path.parent.is_dir():
        raise Failure(f"{path.parent} is no folder", "make it, or name another file to write")
    if path.is_symlink() or not path.exists():
        return
    if not path.is_file():
        raise Failure(f"{path} is no regular file", "name another file to write")
    for one in inputs:
        if one.exists() and path.samefile(one):
            raise Failure(f"{path} is an input", "name another file to write")
    if not has_mark(path, mark):
        raise Failure(f"{path} exists, and this script did not write it", "name another file to write, or move it away")


def replace(path: Path, content: str | bytes) -> None:
    """Writes a file completely or not at all. A link of that name is replaced, not followed. Raises Failure (5)."""
    draft = path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            with open(descriptor, "wb") as file:
                file.write(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Failure(f"{path} cannot be written: {why(error)}", "free space, or choose another --output", DISK) from None


def exit_code(main: Callable[[], int]) -> int:
    """Runs a script's main. Says a Failure as the programs do and returns its code; 5 for a file that cannot be read or
    written, 70 for a mistake of the script."""
    try:
        code = main()
        sys.stdout.flush()  # here, where a full disk can still be told
        return code
    except Failure as problem:
        what, remedy, code = str(problem), problem.remedy, problem.code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # nobody reads on (`| head`), so there is nobody to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        what, remedy, code = f"{error.filename or 'the output'}: {why(error)}", "make room, or choose another folder", DISK
    except Exception:  # noqa: BLE001  what is left is a bug, and its place is wanted
        what, remedy, code = "this is a bug of dtrain's script", "report it with the lines above", INTERNAL
        print(shown_lines(traceback.format_exc()), file=sys.stderr)
    print(f"error: {shown(what)}\n  what to do: {shown(remedy)}", file=sys.stderr)
    return code


def shown_lines(text: str) -> str:
    return "\n".join(shown(line) for line in text.splitlines())
