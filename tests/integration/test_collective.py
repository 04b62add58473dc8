"""Runs dtrain_bench collective as somebody who knows nccl-tests would."""

import json
import re

import pytest

from command import BENCH, run

SMALL = ("collective", "--steps=2", "--warmup=1", "--max_bytes=1K")
NAMES = ["all_reduce", "broadcast", "all_gather", "reduce_scatter"]
# size count type redop root, then time algbw busbw #wrong twice.
ROW = re.compile(r"\s+\d+\s+\d+\s+float\s+(sum|none)\s+(-1|0)(\s+\d+\.\d+\s+\d+\.\d+\s+\d+\.\d+\s+0){2}")


def check_table(stdout: str, ranks: int) -> None:
    lines = stdout.splitlines()
    comments = [line for line in lines if line.startswith("#")]
    rows = [line for line in lines if line and not line.startswith("#")]
    assert [line.split()[2] for line in comments if " Rank " in line] == [str(rank) for rank in range(ranks)]
    assert sum(line.split() == "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong".split()
               for line in comments) == len(NAMES)
    assert len(rows) == len(NAMES) * 8 and all(ROW.fullmatch(row) for row in rows), stdout  # 8 B to 1 KiB
    assert comments[-3] == "# Out of bounds values : 0 OK"
    assert re.fullmatch(r"# Avg bus bandwidth    : \S+", comments[-2])


def test_the_table():
    check_table(run(*SMALL, "--nproc_per_node=3", program=BENCH).stdout, 3)


def test_mpirun(mpirun, tmp_path):
    """Nobody gives rank 0's address; the ranks look for it in the run directory."""
    outcome = run(*mpirun[1:], "-n", "2", BENCH, *SMALL, program=mpirun[0], cwd=tmp_path)
    check_table(outcome.stdout, 2)


def test_json_has_the_same_figures():
    """Their formulas: benches_test.cc."""
    outcome = run(*SMALL, "--operation=all_reduce", "--nproc_per_node=2", "--json", program=BENCH)
    found = json.loads(outcome.last_line)
    assert (found["world_size"], found["out_of_bounds"], len(found["ranks"])) == (2, 0, 2) and found["cpu"]
    assert [row["bytes"] for row in found["results"]] == [8 * 2**power for power in range(8)]
    both = [row[place] for row in found["results"] for place in ("out_of_place", "in_place")]
    assert found["average_bus_bandwidth"] == pytest.approx(sum(one["busbw"] for one in both) / len(both))


def test_pairs_of_one_machine():
    assert json.loads(run("pairs", "--json", program=BENCH).last_line) == {"machines": [[]], "slow": []}


@pytest.mark.parametrize("flags,said", [
    (("--operation=all_reduce",), "two ranks"),
    (("--nproc_per_node=2", "--operation=nothing"), "--operation=nothing"),
    (("--nproc_per_node=2", "--max_bytes=99999999G"), "--max_bytes=99999999G is not a size"),
    (("--nproc_per_node=2", "--min_bytes=1G", "--max_bytes=1M"), "more than"),
])
def test_bad_input(flags, said):
    assert said in run("collective", *flags, program=BENCH, check=2).stderr
