"""The options of scripts/sweep.py. A mistake is said like every other one: in one sentence, with what to do."""

import argparse
import re
from pathlib import Path

from safe_files import Parser
from sweeps.plain_yaml import quoted
from sweeps.study import SEEDS

WHOLE = re.compile("[0-9]{1,10}")


def whole(least: int, most: int):
    """Returns a reader of whole numbers from `least` to `most`."""
    def read(text: str) -> int:
        if not WHOLE.fullmatch(text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{quoted(text)}: expected {least} to {most}")
        return int(text)

    return read


positive = whole(1, 1_000_000)


def name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a name")
    return text


def parse_arguments(arguments: list[str], description: str = "") -> tuple[argparse.Namespace, list[str]]:
    """Returns the options before -- and the words after it."""
    before = arguments[:arguments.index("--")] if "--" in arguments else arguments
    parser = Parser(description=description, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--space", required=True, metavar="FILE.yaml",
                        help="file that says which flags vary and which metric to optimise; or its text")
    parser.add_argument("--trials", type=positive, required=True, help="number of trials of the whole sweep, over all workers and calls")
    parser.add_argument("--sampler", choices=["grid", "random", "tpe"],
                        help="grid: every combination in order; random: drawn at random; tpe (default): near the best trials so far")
    parser.add_argument("--average_over", type=name, metavar="FLAG",
                        help="choose the best by the mean over the values of this flag, such as seed, or val_fold with "
                             "[1/5, 2/5, …] in the space, which cross-validates each setting; implies --sampler=grid")
    parser.add_argument("--jobs", type=positive, default=1,
                        help="trials to run at a time on this machine; cores and GPUs are divided among them")
    parser.add_argument("--at_most", type=positive, help="most trials that this call runs, such as one for a task of an array job")
    parser.add_argument("--study", type=name, help="file or URL of the Optuna study (postgresql://…); default: DIR/study.journal")
    parser.add_argument("--output", type=name, default="sweeps", metavar="DIR", help="default: sweeps")
    parser.add_argument("--prune", action="store_true", help="stop trials whose validations are worse than the median")
    parser.add_argument("--seed", type=whole(0, SEEDS - 1), default=0, help="seed of the sampler, 0 to 4294967295")
    parser.add_argument("--program", type=name, help="path of dtrain_main, which is asked for its flags, if the command does not name it")
    options = parser.parse_args(before)
    options.output = Path(options.output)
    if options.average_over:
        options.average_over = options.average_over.lstrip("-").replace("-", "_")
    options.sampler = options.sampler or ("grid" if options.average_over else "tpe")
    return options, arguments[len(before) + 1:]
