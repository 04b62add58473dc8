"""The space of a sweep: which flags vary, over which values, and which number of result.json decides what is best.

    metric: val_top1              # a key of result.json
    direction: maximize           # or minimize; not given: as the program says (smaller_is_better of result.json)
    flags:
      lr: {low: 0.01, high: 1, log: true}
      warmup_epochs: {low: 0, high: 2, step: 0.5}
      batch_size: {low: 32, high: 128, step: 32}
      nesterov: [true, false]     # a list: one of these

Words are as they are written (off, 2026-01-31); there are no anchors, tags or dates (plain_yaml.py).
"""

import itertools
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from reports.run import smaller_is_better
from safe_files import USAGE, Failure, read_bounded, shown
from sweeps import plain_yaml
from sweeps.plain_yaml import quoted

EXAMPLE = "see scripts/sweeps/examples/digits.yaml"
# Flags that the sweep sets itself: it decides where a trial runs, and a trial resumes from its own checkpoints.
RESERVED = {"run_dir", "resume", "resume_from_checkpoint", "mode", "clear_log", "dry_run", "doctor", "print_config", "flagfile", "help", "version"}
MOST_VALUES = 1000  # most values of a list or a range with a step
MOST_COMBINATIONS = 100_000
MOST_FLAGS = 64     # a picture has an axis for each
MOST_BYTES = 1 << 18
LARGEST = 1e100     # ends of a range, whose width the samplers square
METRIC = re.compile(r"[A-Za-z0-9_.:/-]{1,100}")
FLAG = re.compile(r"[A-Za-z0-9_]{1,100}")


@dataclass(frozen=True)
class Space:
    metric: str
    maximize: bool
    distributions: dict[str, optuna.distributions.BaseDistribution]
    is_directed: bool = False  # by the file

    def directed(self, told: list | None) -> "Space":
        """Returns it with the direction of its metric, unless the file gives one. `told` are the numbers of which less is
        better, as far as a program says them."""
        return self if self.is_directed else replace(self, maximize=not smaller_is_better(self.metric, told))

    def grid(self) -> list[dict]:
        """Returns every combination, with the last flag changing fastest."""
        without = [name for name, one in self.distributions.items() if values_of(one) is None]
        if without:
            raise Failure(f"--sampler=grid: {', '.join(without)} has infinitely many values",
                          "give a list, or a range with a step that is not logarithmic")
        values = [values_of(one) for one in self.distributions.values()]
        count = math.prod(map(len, values))
        if count > MOST_COMBINATIONS:
            raise Failure(f"--sampler=grid: the space has more than {MOST_COMBINATIONS} combinations",
                          "give fewer values, or choose --sampler=random or tpe")
        return [dict(zip(self.distributions, combination, strict=True)) for combination in itertools.product(*values)]

    def corners(self) -> list[dict]:
        """Returns few combinations in which each listed value, and each end of a range, occurs once."""
        ends = [list(one.choices) if isinstance(one, CategoricalDistribution) else [one.low, one.high]
                for one in self.distributions.values()]
        return [{name: values[min(row, len(values) - 1)] for name, values in zip(self.distributions, ends, strict=True)}
                for row in range(max(map(len, ends)))]

    def identity(self) -> dict:
        """Returns the facts that must agree for two calls to work on the same study."""
        return {"metric": self.metric, "maximize": self.maximize,
                "flags": {name: optuna.distributions.distribution_to_json(one)
                          for name, one in self.distributions.items()}}


def values_of(distribution) -> list | None:
    """Returns all values in order, or None if there are too many to count."""
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    if distribution.log or distribution.step is None:
        return None
    count = round((distribution.high - distribution.low) / distribution.step) + 1
    return [distribution.low + number * distribution.step for number in range(count)]


def as_flag_value(value) -> str:
    """Returns the text after --flag=, with at most six digits."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return format(value, ".6g") if isinstance(value, float) else str(value)


def read_space(where: str, kinds: dict[str, str] | None) -> Space:
    """Reads a file, or the text itself ({…}, or more than a line), and checks it. `kinds` gives the kind of value (INT,
    NUMBER, TEXT, …) of each flag that the program knows; without it any name is accepted."""
    where = str(where)
    if where.startswith("{") or "\n" in where:
        text, path = where, "{…}"
    else:
        content, path = read_bounded(Path(where), MOST_BYTES, USAGE, links=True), where
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            raise Failure(f"the space {path} is not UTF-8", EXAMPLE) from None
    if len(text) > MOST_BYTES:
        raise Failure(f"the space has more than {MOST_BYTES} characters", EXAMPLE)
    content = plain_yaml.read(text, EXAMPLE)
    if not isinstance(content, dict) or not isinstance(content.get("flags"), dict) or not content["flags"]:
        raise Failure(f"the space {path} names no flags", EXAMPLE)
    if len(content["flags"]) > MOST_FLAGS:
        raise Failure(f"the space {path} names more than {MOST_FLAGS} flags", EXAMPLE)
    strangers = sorted(set(content) - {"metric", "direction", "flags"})
    if strangers:
        raise Failure(f"the space {path} has {quoted(strangers[0])}, which is not a known key", EXAMPLE)
    metric = content.get("metric")
    if not isinstance(metric, str) or not METRIC.fullmatch(metric):
        raise Failure(f"the space {path} does not say which metric is best",
                      "add the name of a number of result.json, such as metric: val_top1")
    direction = content.get("direction")
    if direction not in ("maximize", "minimize", None):
        raise Failure(f"the space {path} has direction: {shown(str(direction), 60)}", "write maximize or minimize")
    distributions = {}
    for name, values in content["flags"].items():
        flag = name.lstrip("-").replace("-", "_")
        if flag in distributions:
            raise Failure(f"the space {path} has --{flag} twice", "keep one of them")
        distributions[flag] = distribution(flag, values, kinds)
    return Space(metric, direction == "maximize", distributions, direction is not None).directed(None)


def distribution(flag: str, values, kinds: dict[str, str] | None):
    if not FLAG.fullmatch(flag):
        raise Failure(f"the space has the flag {quoted(flag)}, which no program has", EXAMPLE)
    if flag in RESERVED:
        raise Failure(f"--{flag} of the space belongs to the sweep itself", "leave it out")
    if kinds is not None and flag not in kinds:
        close = sorted(known for known in kinds if known.startswith(flag) or flag.startswith(known) or flag in known)
        raise Failure(f"--{flag} of the space is not a flag of dtrain_main" + (f"; there is --{close[0]}" if close else ""),
                      "dtrain_main --help lists them")
    if isinstance(values, list):
        return choices(flag, values)
    if isinstance(values, dict):
        return interval(flag, values, (kinds or {}).get(flag))
    return choices(flag, [values])


def choices(flag: str, values: list) -> CategoricalDistribution:
    if not values or len(values) > MOST_VALUES or not all(isinstance(one, (bool, int, float, str)) for one in values):
        raise Failure(f"--{flag} of the space: expected 1 to {MOST_VALUES} numbers or words",
                      f"write {flag}: [VALUE, VALUE, …]")
    # A number of more digits than as_flag_value writes is passed on as a word.
    values = [repr(one) if isinstance(one, float) and float(as_flag_value(one)) != one else one for one in values]
    if len({as_flag_value(one) for one in values}) != len(values):
        raise Failure(f"--{flag} of the space names a value twice", "keep one of them")
    return CategoricalDistribution(values)


def number(flag: str, key: str, value) -> float | int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Failure(f"--{flag} of the space: {key} is {quoted(value)}, not a number", EXAMPLE)
    if abs(value) > LARGEST:
        raise Failure(f"--{flag} of the space: {key} is beyond {LARGEST:g}", EXAMPLE)
    return value


def interval(flag: str, values: dict, kind: str | None):
    strangers = sorted(set(values) - {"low", "high", "step", "log"})
    if strangers or not {"low", "high"} <= set(values):
        what = f"has {quoted(strangers[0])}" if strangers else "needs low and high"
        raise Failure(f"--{flag} of the space {what}", f"write {flag}: {{low: A, high: B}}, with step: S or log: true")
    low, high = (number(flag, key, values[key]) for key in ("low", "high"))
    step = number(flag, "step", values["step"]) if "step" in values else None
    log = values.get("log", False)
    if not isinstance(log, bool):
        raise Failure(f"--{flag} of the space: log is {quoted(log)}", "write log: true or log: false")
    whole = all(isinstance(one, int) for one in (low, high, step) if one is not None)
    if kind == "INT" and not whole:
        raise Failure(f"--{flag} takes whole numbers only", "write low, high and step without a fraction")
    problem = None
    if low >= high:
        problem = "low is not below high"
    elif log and low <= 0:
        problem = "a logarithmic range begins above 0"
    elif step is not None and (log or step <= 0 or (high - low) / step > MOST_VALUES):
        problem = "a step is above 0, fits at most a thousand times, and does not go with log"
    if problem:
        raise Failure(f"--{flag} of the space: {problem}", EXAMPLE)
    if kind == "INT" or (whole and kind is None):
        return IntDistribution(low, high, log=log, step=step or 1)
    if step is not None:  # the last step that fits becomes the end; Optuna would warn otherwise
        high = low + math.floor((high - low) / step + 1e-9) * step
    return FloatDistribution(low, high, log=log, step=step)
