"""Compares blocks of a token file with those of fairseq's own code, in each mode. fairseq_blocks.json has what its
compiled function returned for lines of these sizes (its package does not install with a current Python)."""

import json
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from command import BUILD
from truth import record

DUMP = BUILD / "tests" / "token_blocks_dump"
GOLDEN = json.loads(Path(__file__).with_name("fairseq_blocks.json").read_text(encoding="utf-8"))
MODES = ("none", "complete", "complete_doc", "eos")

pytestmark = pytest.mark.skipif(not DUMP.exists(), reason=f"{DUMP} is not built")


@pytest.fixture(scope="module")
def lines(module_dir) -> Path:
    """Lines of those sizes, whose tokens count through the file."""
    sizes = np.array(GOLDEN["sizes"], np.int32)
    pointers = 2 * (np.cumsum(sizes, dtype=np.int64) - sizes)
    uint16 = 8
    index = b"MMIDIDX\0\0" + struct.pack("<QBQ", 1, uint16, len(sizes)) + sizes.tobytes() + pointers.tobytes()
    (module_dir / "train.idx").write_bytes(index)
    (module_dir / "train.bin").write_bytes(np.arange(sizes.sum(), dtype=np.uint16).tobytes())
    return module_dir / "train"


@pytest.mark.parametrize("mode", MODES)
def test_blocks_are_fairseqs(lines, mode):
    for name, expected in GOLDEN["blocks"].items():
        if name.split()[0] != mode:
            continue
        tokens_per_sample = int(name.split()[1])
        done = subprocess.run([DUMP, lines, mode, str(tokens_per_sample)], capture_output=True, text=True, check=True)
        found = [[int(token) for token in line.split()] for line in done.stdout.splitlines()]
        # fairseq, too, cuts blocks that are too long, and leaves them out when it makes batches.
        fitting = [list(range(begin, end)) for begin, end in expected if end - begin < tokens_per_sample]
        assert found == fitting
    record("Blocks of text", f"--sample_break={mode}, blocks of 16 and 33", "fairseq's TokenBlockDataset, compiled",
           "the same tokens", 0)


def test_modes_differ():
    """The modes differ, so that no two can be mistaken for each other."""
    for size in (16, 33):
        assert len({json.dumps(GOLDEN["blocks"][f"{mode} {size}"]) for mode in MODES}) == len(MODES)
