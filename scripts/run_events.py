"""The lines that dtrain_main --on_event gives a command on its standard input, for scripts/events_to_*.py."""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType

from safe_files import Failure, is_number, parse_json

LONGEST_LINE = 1 << 20
NOT_NUMBERS = ("kind", "step", "split", "time")


def events() -> Iterator[dict]:
    """Returns the events as they come, the last one being of the kind `end`, also if the training was killed."""
    event = {}
    while line := sys.stdin.buffer.readline(LONGEST_LINE):
        try:
            event = parse_json(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("kind"), str):
            yield event
            if event["kind"] == "end":
                return
    yield {"kind": "end", "finished": False}


def numbers(event: dict) -> dict[str, float]:
    """Returns the numbers of a logged line by the names that TensorBoard shows, such as train/loss and val/top1."""
    kind = event["kind"]
    group = f"val_{event['split']}" if kind == "val" and "split" in event else kind
    return {f"{group}/{name}": value for name, value in event.items() if name not in NOT_NUMBERS and is_number(value)}


def result_of(end: dict) -> dict[str, float]:
    """Returns the numbers of result.json, if the training has finished."""
    result = end.get("result")
    return {name: value for name, value in result.items() if is_number(value)} if isinstance(result, dict) else {}


def package(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise Failure(f"Python has no {name}", f"pip install {name}") from None


def follow(library: ModuleType, start: Callable, log: Callable, end: Callable) -> int:
    """Hands on each event of a training that has started. What `start(event)` returns is the first argument of `log`,
    which gets steps and validations, and of `end`. Returns the exit code. An exception of the library or of one that it
    uses, which know what is wrong with its server or its login, is no bug of ours, and no disk is full."""
    name = library.__name__
    try:
        return hand_on(start, log, end)
    except Failure:
        raise
    except Exception as error:
        if type(error).__module__ == "builtins" and not isinstance(error, OSError):
            raise
        raise Failure(f"{name}: {error}", f"the training goes on; the pages of {name} have more") from error


def hand_on(start: Callable, log: Callable, end: Callable) -> int:
    run, started = None, False
    for event in events():
        if event["kind"] == "start":
            run, started = start(event), True
        elif started and event["kind"] in ("train", "val"):
            log(run, event)
        elif started and event["kind"] == "end":
            end(run, event)
    return 0
