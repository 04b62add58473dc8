"""--spike_factor and --on_spike: the images of a batch have the label of another class, so that its loss stands out."""

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from command import change_state, load_lines, run, sha256

BATCH, BEFORE = 8, 4
FLAGS = ("--log_interval=1", "--eval_every_epochs=0", "--save_every_epochs=0", "--epochs=1000", "--shuffle=none",
         f"--global_batch_size={BATCH}")
IMAGES = (*FLAGS, "--model=resnet18", "--image_size=32", "--lr=0.02", "--lr_schedule=constant", "--spike_factor=3")
POISONED = 6  # the step with such a batch


@pytest.fixture(scope="module")
def poisoned(module_dir):
    """Batches of which all but one, and the last, have a single class."""
    labels = np.zeros(20 * BATCH, np.int64)
    labels[(POISONED - 1) * BATCH:POISONED * BATCH] = labels[-1] = 1
    folder = module_dir / "poisoned"
    folder.mkdir()
    noise = np.random.default_rng(3).standard_normal((20 * BATCH, 3, 32, 32)).astype(np.float32)
    save_file({"images": noise, "labels": labels}, folder / "train.safetensors")
    return folder


def begin(run_dir, *flags, **losses) -> None:
    """Trains for some steps, and makes them count as the hundred before which no loss is a spike."""
    run(*flags, f"--run_dir={run_dir}", "--max_steps=9", f"--limit_train_steps={BEFORE}")
    change_state(run_dir / "checkpoints" / f"step-{BEFORE:09}",
                 lambda state: state["progress"]["losses"].update(count=100, **losses))


def test_log(poisoned, tmp_path):
    """A spike is listed with its samples, and changes no bit. A line between two logged ones is no reason to miss it."""
    flags, events = (*IMAGES, f"--data_dir={poisoned}", "--log_interval=5"), tmp_path / "events"
    run(*flags, "--spike_factor=0", f"--run_dir={tmp_path / 'off'}", "--max_steps=9")
    begin(tmp_path / "log", *flags)
    assert not (tmp_path / "log" / "spikes.jsonl").exists()
    outcome = run(*flags, f"--run_dir={tmp_path / 'log'}", "--max_steps=9", f"--on_event=cat > {events}")
    assert sha256(tmp_path / "off" / "model.safetensors") == sha256(tmp_path / "log" / "model.safetensors")
    [spike] = load_lines(tmp_path / "log" / "spikes.jsonl")
    assert spike["step"] == POISONED and spike["action"] == "log"
    assert spike["loss"] > spike["mean"] + 3 * spike["deviation"]
    first = (POISONED - 1) * BATCH
    assert [sample["index"] for sample in spike["samples"]] == list(range(first, first + BATCH))
    assert {sample["file"] for sample in spike["samples"]} == {str(poisoned / "train.safetensors")}
    assert len({sample["offset"] for sample in spike["samples"]}) == BATCH
    assert "the loss of step 6" in outcome.stderr and "spikes.jsonl" in outcome.stderr
    assert spike in load_lines(events)
    assert not (tmp_path / "off" / "spikes.jsonl").exists()


@pytest.mark.fault(29, "a poisoned batch, --on_spike=skip", "the step changes nothing, at 2 ranks")
def test_skip(poisoned, run_dir):
    """The skipped step leaves weights and running statistics."""
    flags = (*IMAGES, f"--data_dir={poisoned}", "--on_spike=skip", "--nproc_per_node=2", "--grad_accum_steps=2")
    begin(run_dir, *flags)
    run(*flags, f"--run_dir={run_dir}", f"--max_steps={POISONED}", "--save_every_steps=1")
    assert [(spike["step"], spike["action"]) for spike in load_lines(run_dir / "spikes.jsonl")] == [(POISONED, "skip")]
    before, after = (load_file(run_dir / "checkpoints" / f"step-{step:09}" / "model.safetensors")
                     for step in (POISONED - 1, POISONED))
    assert [name for name in before if not np.array_equal(before[name], after[name])] == [
        name for name in before if name.endswith("num_batches_tracked")]
