"""Compares blocks of a token file with those of fairseq's own code, in each mode, and with those of transformers'
run_mlm.py. fairseq_blocks.json has what fairseq's compiled function returned for lines of these sizes (its package does
not install with a current Python)."""

import json
import random
import struct
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from command import BUILD, run
from truth import record

DUMP = BUILD / "tests" / "token_blocks_dump"
GOLDEN = json.loads(Path(__file__).with_name("fairseq_blocks.json").read_text(encoding="utf-8"))
MODES = ("none", "complete", "complete_doc", "eos")

pytestmark = pytest.mark.skipif(not DUMP.exists(), reason=f"{DUMP} is not built")


def write_lines(prefix: Path, sizes: list[int]) -> None:
    """Lines whose tokens count through the file."""
    sizes = np.array(sizes, np.int32)
    pointers = 2 * (np.cumsum(sizes, dtype=np.int64) - sizes)
    uint16 = 8
    index = b"MMIDIDX\0\0" + struct.pack("<QBQ", 1, uint16, len(sizes)) + sizes.tobytes() + pointers.tobytes()
    prefix.with_suffix(".idx").write_bytes(index)
    prefix.with_suffix(".bin").write_bytes(np.arange(sizes.sum(), dtype=np.uint16).tobytes())


def blocks(prefix: Path, mode: str, tokens_per_sample: int) -> list[list[int]]:
    return [[int(token) for token in line.split()] for line in run(prefix, mode, tokens_per_sample, program=DUMP).lines]


@pytest.fixture(scope="module")
def lines(module_dir) -> Path:
    write_lines(module_dir / "train", GOLDEN["sizes"])
    return module_dir / "train"


@pytest.mark.parametrize("mode", MODES)
def test_blocks_are_fairseqs(lines, mode):
    for name, expected in GOLDEN["blocks"].items():
        if name.split()[0] != mode:
            continue
        tokens_per_sample = int(name.split()[1])
        # fairseq, too, cuts blocks that are too long, and leaves them out when it makes batches.
        fitting = [list(range(begin, end)) for begin, end in expected if end - begin < tokens_per_sample]
        assert blocks(lines, mode, tokens_per_sample) == fitting
    record("Blocks of text", f"--sample_break={mode}, blocks of 16 and 33", "fairseq's TokenBlockDataset, compiled",
           "the same tokens", 0)


BEGIN, END = 0, 2


def joined(rows: list[list[int]], length: int) -> list[list[int]]:
    """run_mlm.py's group_texts, which datasets' map calls for a thousand rows at a time."""
    pieces = []
    for first in range(0, len(rows), 1000):
        stream = list(chain(*rows[first:first + 1000]))
        total = len(stream) // length * length if len(stream) >= length else len(stream)
        pieces += [stream[at:at + length] for at in range(0, total, length)]
    return pieces


@pytest.mark.parametrize("length", (7, 16, 1009))
@pytest.mark.parametrize("count", (3, 1000, 2017))
def test_blocks_are_run_mlms(tmp_path, count, length):
    """Lines, some of which are empty, between <s> and </s>: joined, and one by one with --line_by_line."""
    choose = random.Random(count)
    sizes = [choose.choice((1, 1, 2, 5, 16, 17, 40)) for _ in range(count)]
    write_lines(tmp_path / "train", sizes)
    tokens = iter(range(sum(sizes)))
    rows = [[BEGIN, *(next(tokens) for _ in range(size))] for size in sizes]
    assert blocks(tmp_path / "train", "joined", length) == joined(rows, length)
    cut = [row[:length - 1] + [END] if len(row) >= length else row[:-1] + [END] for row in rows if len(row) > 2]
    assert blocks(tmp_path / "train", "lines", length) == [row[1:] for row in cut]
    record("Blocks of text", f"--sample_break=joined and lines, {count} lines, blocks of {length}", "run_mlm.py's group_texts, written down",
           "the same tokens", 0)
