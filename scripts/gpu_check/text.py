"""Compares tokens/s and memory of a masked language model with Hugging Face's, eager and compiled, and shows the gain
from not computing on padding."""

import importlib.util

import compare
from inputs import make_tokens
from programs import Machine
from processes import LeftOut
from rows import Row
from workloads import ROBERTA, ROBERTA_LARGE, Case, cases

BESIDE = (Case(ROBERTA, 32), Case(ROBERTA, 8), Case(ROBERTA_LARGE, 8))
# Flash attention supports only half types; packed fp32 takes another kernel.
PADDED = (Case(ROBERTA, 32), Case(ROBERTA, 32, "fp32"))


def unpadding(arguments, machine: Machine, case: Case) -> dict:
    """Uses rows of all lengths, half of whose places are padding. Only tokens that are not padding count."""
    folder = make_tokens(machine, case.workload, padded=True)

    def trained(*flags: str) -> dict:
        lines, _ = compare.timed_training(machine, *case.flags(), f"--data_dir={folder}", *flags)
        seconds = sum(line["step_seconds"] for line in lines)
        tokens = sum(line["tokens_per_second"] * line["step_seconds"] for line in lines)
        return {"tokens_per_second": tokens / seconds, "loss": lines[-1]["loss"]}

    return compare.compare(machine, {"dtrain": trained, "dtrain --unpad": lambda: trained("--unpad")}, arguments.rounds,
                           "tokens")


def without_transformers() -> dict:
    raise LeftOut("this python3 has no transformers")


def rows(arguments, machine: Machine):
    if importlib.util.find_spec("transformers") is None:
        yield Row("beside Hugging Face", 0, without_transformers)
    else:
        yield Row("compiling", 0, lambda: compare.compiled_ahead(machine, list(BESIDE)))
        contest = compare.Contest(machine, arguments.rounds)
        for case in cases(arguments.smoke, *BESIDE):
            yield contest.row(case)
    for case in cases(arguments.smoke, *PADDED):
        yield Row(f"half of it padding, {case.name}", 0 if arguments.smoke else 40,
                  lambda case=case: unpadding(arguments, machine, case))
