"""Compares tokens/s and memory of a masked language model with Hugging Face's, eager and compiled."""

import importlib.util

import compare
from programs import Machine
from processes import LeftOut
from rows import Row
from workloads import ROBERTA, ROBERTA_LARGE, Case, cases

BESIDE = (Case(ROBERTA, 32), Case(ROBERTA, 8), Case(ROBERTA_LARGE, 8))


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
