"""Compares images/s and memory with PyTorch eager and torch.compile."""

import compare
import inputs
from programs import Machine
from rows import Row
from workloads import EFFICIENTNET, RESNET50, Case, cases

SYNTHETIC = (Case(RESNET50, 256), Case(RESNET50, 64), Case(EFFICIENTNET, 256), Case(RESNET50, 256, "fp16"))
DECODED = (Case(RESNET50, 256, decoded=True), Case(RESNET50, 64, decoded=True))


def rows(arguments, machine: Machine):
    wanted = (*SYNTHETIC[:2], DECODED[0], SYNTHETIC[2], DECODED[1], SYNTHETIC[3])
    if arguments.smoke:
        wanted = DECODED  # the other parts try synthetic batches
    else:
        inputs.make_images(machine, arguments.smoke)
    yield Row("compiling", 0, lambda: compare.compiled_ahead(machine, list(SYNTHETIC)))
    contest = compare.Contest(machine, arguments.rounds)
    for case in cases(arguments.smoke, *wanted):
        yield contest.row(case)
