"""--spike_factor and --on_spike: the samples of a batch are poisoned (images with the label of another class, a text of
strange letters), so that its loss stands out. Elastic determinism makes the bits comparable on any number of ranks."""

import json
import os
import random
import signal
import subprocess

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from command import Background, load_json, losses, run, sha256, wait_until
from text_data import make_tokens

BATCH, WINDOW = 8, 4
FLAGS = ("--log_interval=1", "--eval_every_epochs=0", "--save_every_epochs=0", "--save_every_steps=2", "--epochs=1000",
         "--shuffle=none", f"--global_batch_size={BATCH}", f"--spike_window={WINDOW}", "--max_steps=9")
IMAGES = (*FLAGS, "--model=resnet18", "--image_size=32", "--lr=0.02", "--spike_factor=3")
POISONED = 6  # the step with such a batch; so are those after it in a set that is poisoned throughout


def images(folder, poisoned):
    """Batches of which all but `poisoned` (counted from 1) have a single class."""
    noise = np.random.default_rng(3).standard_normal((20 * BATCH, 3, 32, 32)).astype(np.float32)
    labels = np.zeros(20 * BATCH, np.int64)
    for batch in poisoned:
        labels[(batch - 1) * BATCH:batch * BATCH] = 1
    labels[-1] = 1
    folder.mkdir()
    save_file({"images": noise, "labels": labels}, folder / "train.safetensors")
    return folder


@pytest.fixture(scope="module")
def poisoned(module_dir):
    return images(module_dir / "poisoned", [POISONED])


def spikes(run_dir) -> list[dict]:
    path = run_dir / "spikes.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def ranks(count: int) -> tuple:
    return (f"--nproc_per_node={count}",) if count > 1 else ()


def test_log(poisoned, tmp_path):
    """A spike is listed with its samples, and changes no bit."""
    flags = (*IMAGES, f"--data_dir={poisoned}", "--log_interval=5")
    run(*flags, "--spike_factor=0", f"--run_dir={tmp_path / 'off'}")
    events = tmp_path / "events"
    outcome = run(*flags, f"--run_dir={tmp_path / 'log'}", f"--on_event=cat > {events}")
    assert sha256(tmp_path / "off" / "model.safetensors") == sha256(tmp_path / "log" / "model.safetensors")
    [spike] = spikes(tmp_path / "log")
    assert spike["step"] == POISONED and spike["action"] == "log"
    assert spike["loss"] > spike["mean"] + 3 * spike["deviation"]
    first = (POISONED - 1) * BATCH
    assert [sample["index"] for sample in spike["samples"]] == list(range(first, first + BATCH))
    assert {sample["file"] for sample in spike["samples"]} == {str(poisoned / "train.safetensors")}
    assert len({sample["offset"] for sample in spike["samples"]}) == BATCH
    assert "the loss of step 6" in outcome.stderr and "spikes.jsonl" in outcome.stderr
    assert '"kind":"spike","step":6' in events.read_text(encoding="utf-8")
    assert not spikes(tmp_path / "off")


@pytest.mark.fault(29, "a poisoned batch, --on_spike=skip", "the step changes nothing, at 1 and 2 ranks")
def test_skip(poisoned, tmp_path):
    """The skipped step leaves weights and running statistics; two ranks with micro-steps skip it, too."""
    flags = (*IMAGES, f"--data_dir={poisoned}", "--on_spike=skip", "--save_every_steps=1", "--lr_schedule=constant")
    run(*flags, f"--run_dir={tmp_path / 'alone'}", f"--max_steps={POISONED}")
    assert [spike["action"] for spike in spikes(tmp_path / "alone")] == ["skip"]
    before, after = (load_file(tmp_path / "alone" / "checkpoints" / f"step-{step:09}" / "model.safetensors")
                     for step in (POISONED - 1, POISONED))
    assert [name for name in before if not np.array_equal(before[name], after[name])] == [
        name for name in before if name.endswith("num_batches_tracked")]
    run(*flags, *ranks(2), "--grad_accum_steps=2", f"--run_dir={tmp_path / 'two'}", f"--max_steps={POISONED}")
    assert [spike["step"] for spike in spikes(tmp_path / "two")] == [POISONED]


def kill_after_rewind(flags, run_dir, world: int, dice) -> None:
    """Kills a rank some time after the run has gone back."""
    with Background(*flags, *ranks(world)) as training:
        wait_until(lambda: spikes(run_dir) or training.process.poll() is not None, "a spike")
        try:
            training.process.wait(timeout=dice.uniform(0, 0.4))
        except subprocess.TimeoutExpired:  # still running, as it should be
            os.kill(dice.choice(training.children() or [training.pid]), signal.SIGKILL)
            training.wait()


def outcome_of(run_dir) -> tuple:
    return sha256(run_dir / "model.safetensors"), losses(run_dir), spikes(run_dir)


@pytest.mark.fault(29, "a poisoned batch, --on_spike=rewind, and kills after it",
                   "the same bits at 1 and 3 ranks and after kills")
def test_rewind(poisoned, tmp_path):
    """From step 6 back to 4, leaving out the fifth and the sixth batch: the same at 1 and 3 ranks, and after a kill."""
    flags = (*IMAGES, f"--data_dir={poisoned}", "--on_spike=rewind", "--deterministic=elastic", "--elastic_shards=4")
    run(*flags, f"--run_dir={tmp_path / '1'}")
    expected = outcome_of(tmp_path / "1")
    [spike] = expected[2]
    assert (spike["step"], spike["checkpoint"], spike["left_out_batches"]) == (POISONED, 4, 2)
    assert [step for step, _ in expected[1]] == list(range(1, 10))
    run(*flags, *ranks(3), f"--run_dir={tmp_path / '3'}")
    assert outcome_of(tmp_path / "3") == expected
    for life, dice in enumerate(map(random.Random, range(2))):
        killed = tmp_path / f"killed-{life}"
        kill_after_rewind((*flags, f"--run_dir={killed}"), killed, 1 + life, dice)
        run(*flags, *ranks(2 - life), f"--run_dir={killed}")
        assert outcome_of(killed) == expected
    state = load_json(tmp_path / "1" / "checkpoints" / "step-000000008" / "state.json")
    assert state["progress"]["rewinds"] == [{"step": 4, "batches": 2}]


@pytest.mark.fault(29, "batches that are all poisoned", "exit 6 after 3 rewinds")
def test_too_many_rewinds(tmp_path, run_dir):
    data = images(tmp_path / "data", range(POISONED, 20))
    outcome = run(*IMAGES, f"--data_dir={data}", "--on_spike=rewind", f"--run_dir={run_dir}", check=6)
    assert "after 3 rewinds to the checkpoint of step 4" in outcome.stderr
    assert [spike["action"] for spike in spikes(run_dir)] == ["rewind"] * 3 + ["stop"]
    assert load_json(run_dir / "error.json")["kind"] == "diverged"


def test_a_text(module_dir, tmp_path):
    """Masked words of a text in which some lines have other letters, with a loss scale and micro-steps."""
    line = "the cat sat on the mat\n"
    strange = random.Random(1).choices("QZXJKVWYFP9876543210", k=20 * 24)
    text = line * 400 + "".join(f"{''.join(strange[i:i + 20])}\n" for i in range(0, len(strange), 20)) + line * 500
    data = make_tokens(module_dir / "text", train=text, valid=line * 20)
    run(*FLAGS, "--model=roberta_tiny", f"--data_dir={data}", "--tokens_per_sample=64", "--optimizer=adam", "--lr=0.003",
        "--loss_scale=1024", "--grad_accum_steps=2", "--spike_factor=2", "--max_steps=20", *ranks(2),
        "--on_spike=rewind", f"--run_dir={tmp_path / 'run'}")
    found = spikes(tmp_path / "run")
    assert 1 <= len(found) <= 3
    for spike in found:
        assert spike["action"] == "rewind" and spike["samples_of_step"] == len(spike["samples"]) == BATCH
        assert {sample["file"] for sample in spike["samples"]} == {str(data / "train.bin")}
    assert load_json(tmp_path / "run" / "result.json")["step"] == 20
