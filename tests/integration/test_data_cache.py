"""--cache=ram: after the first epoch no rank of the machine reads anything, however the ranks were started."""

import os
import shutil
from contextlib import ExitStack

import pytest

from command import TINY_RESNET, Background, free_port, run

FLAGS = (*TINY_RESNET, "--batch_size=8", "--epochs=4", "--save_every_epochs=4", "--max_bad_records=0")


def commands(started: str) -> list[tuple]:
    """Returns the flags of each process to start. Two ranks change places between epochs, so each needs the other's
    records."""
    if started == "one by one":
        port = free_port()
        return [(f"--rank={rank}", "--world_size=2", "--master_addr=127.0.0.1", f"--master_port={port}")
                for rank in range(2)]
    return [("--nproc_per_node=2",)] if started == "by the launcher" else [()]


@pytest.mark.parametrize("started, cache", [("alone", "ram"), ("by the launcher", "ram"), ("one by one", "ram"),
                                            ("alone", "none")])  # the last one shows that the cache matters
def test_the_images_are_not_needed_after_the_first_epoch(own_images, few_images, run_dir, tmp_path, started, cache):
    with ExitStack() as stack:
        ranks = [stack.enter_context(Background(*FLAGS, f"--data_dir={own_images}", f"--cache={cache}",
                                                f"--run_dir={run_dir}", *flags)) for flags in commands(started)]
        ranks[0].wait_for_line("epoch 1 took")
        shutil.rmtree(own_images / "train")
        for rank in ranks:
            outcome = rank.wait()
            assert outcome.code == (0 if cache == "ram" else 3), outcome
            assert "--cache" not in outcome.stderr, outcome
    if (started, cache) == ("alone", "ram"):  # the same training as without it
        assert outcome.last_line == run(*FLAGS, f"--data_dir={few_images}", f"--run_dir={tmp_path / 'plain'}").last_line
    assert (run_dir / "quarantine.jsonl").exists() == (cache == "none")
    assert not any("dtrain-cache" in name for name in os.listdir("/dev/shm"))
