"""The means to follow a run: TensorBoard, the use of a step's time, and the use of the time of all attempts. The run
here ended early, was started again and killed, and was started a third time."""

import io
import re
import sys
import types

import numpy as np
import pytest
from PIL import Image

from command import TINY, kill_at, load_json, losses, metrics, run

# TensorBoard has a reader of its own for systems without TensorFlow; importing TensorFlow takes seconds.
sys.modules.setdefault("tensorboard.compat.notf", types.ModuleType("notf"))
accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
from tensorboard.plugins.hparams import metadata as hparams  # noqa: E402

ENDED, KILLED, LAST = 3, 6, 7  # steps
PARTS = ("data_seconds", "forward_seconds", "backward_seconds", "communication_seconds", "update_seconds", "other_seconds")


@pytest.fixture(scope="module")
def followed(few_images, module_dir):
    """Returns (folder, console of the first and last attempt, a TensorBoard that read the run when it was killed)."""
    folder = module_dir / "run"
    flags = (*TINY, f"--data_dir={few_images}", "--max_steps=400", "--save_every_epochs=1000", "--tensorboard", "--random_erasing=0.3",
             "--mixup=0.2", f"--run_dir={folder}")
    first = run(*flags, f"--limit_train_steps={ENDED}", f"--profile_steps=2:{ENDED + 2}")  # also of a start that ends or begins within them
    kill_at(KILLED, *flags)
    open_board = board(folder)
    last = run(*flags, f"--limit_train_steps={LAST - ENDED}", f"--profile_steps=2:{ENDED + 2}")
    return folder, first.stdout + last.stdout, open_board


def board(folder):
    everything = dict.fromkeys(("scalars", "images", "tensors"), 0)
    reader = accumulators.EventAccumulator(str(folder), size_guidance=everything)
    return reader.Reload()


def scalars(reader, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in reader.Scalars(tag)]


def test_tensorboard_has_every_number_once(followed):
    folder, _, _ = followed
    reader = board(folder)
    logged = metrics(folder, "train")
    assert [point["step"] for point in logged] == list(range(1, LAST + 1))
    for tag, key in (("train/loss", "loss"), ("train/lr", "lr"), ("train/images_per_second", "images_per_second")):
        assert scalars(reader, tag) == [(point["step"], np.float32(point[key])) for point in logged], tag
    for name in ("top1", "loss"):
        assert scalars(reader, f"val/{name}") == [(point["step"], np.float32(point[name])) for point in metrics(folder, "val")]
    assert scalars(reader, "val/top1")[-1][0] == LAST


def test_a_tensorboard_that_looks_on_forgets_what_was_lost(followed):
    folder, _, reader = followed
    before = scalars(reader, "train/loss")
    assert before[-1][0] >= KILLED
    assert scalars(reader.Reload(), "train/loss") == [(step, np.float32(loss)) for step, loss in losses(folder)]


def test_events_of_another_program_stay(few_images, run_dir):
    run_dir.mkdir(exist_ok=True)
    events = run_dir / "events.out.tfevents.0000000001.host.1"
    events.write_bytes(b"of another program")
    flags = (*TINY, f"--data_dir={few_images}", "--max_steps=1", f"--run_dir={run_dir}", "--dry_run")
    run(*flags)
    assert events.name in run(*flags, "--tensorboard", check=2).stderr
    assert events.read_bytes() == b"of another program"


def test_tensorboard_shows_configuration_and_the_first_batch(followed):
    reader = board(followed[0])
    assert reader.summary_metadata["config"].plugin_data.plugin_name == "text"
    texts = reader.Tensors("config")
    assert [text.step for text in texts] == [1, ENDED + 1]  # nothing is left of the killed attempt
    assert '"max_steps": 400' in texts[0].tensor_proto.string_val[0].decode()
    picture, = reader.Images("train/first_batch")
    assert picture.step == 1
    pixels = np.asarray(Image.open(io.BytesIO(picture.encoded_image_string)))
    assert pixels.shape == (2 * 32 + 2, 8 * 32 + 7 * 2, 3) == (picture.height, picture.width, 3)  # a batch of 16
    assert pixels[:32, :32].std() > 5 and not pixels[:, 32:34].any()


def test_tensorboard_knows_the_hyperparameters(followed):
    reader = board(followed[0])

    def content(tag):
        assert reader.summary_metadata[tag].plugin_data.plugin_name == hparams.PLUGIN_NAME
        return reader.summary_metadata[tag].plugin_data.content

    start = hparams.parse_session_start_info_plugin_data(content("_hparams_/session_start_info"))
    assert start.hparams["lr"].number_value == 0.005
    assert start.hparams["model"].string_value == "efficientnet_b0"
    assert start.hparams["nesterov"].bool_value is False
    assert hparams.parse_session_end_info_plugin_data(content("_hparams_/session_end_info")).status == 1


def test_parts_of_a_step_add_up(followed):
    for point in metrics(followed[0], "train"):
        assert sum(point[part] for part in PARTS) == pytest.approx(point["step_seconds"], rel=1e-3)
        assert min(point["forward_seconds"], point["backward_seconds"], point["update_seconds"]) > 0
        assert point["communication_seconds"] == 0  # of one rank


def test_profiled_steps_have_a_table(followed):
    folder, console, _ = followed
    table = (folder / "profile" / "rank-0.txt").read_text(encoding="utf-8")
    assert table in console and f"where the time of steps 2 to {ENDED} went" in console
    assert table.startswith(f"where the time of steps {ENDED + 1} to {ENDED + 2} went")
    rows = {name: (float(milliseconds), float(share)) for name, milliseconds, share
            in re.findall(r"^  (\S.*?) +([\d.]+) ms +([\d.]+) %$", table, re.MULTILINE)}
    step = rows.pop("a step")
    assert [*rows] == ["waiting for data", "forward", "backward", "exposed communication", "update", "other"]
    for column in (0, 1):
        assert sum(row[column] for row in rows.values()) == pytest.approx(step[column], abs=0.35)  # rounded
    assert rows["backward"][0] > 0


def test_result_says_what_became_of_the_time(followed):
    result = load_json(followed[0] / "result.json")
    split = result["time_split"]
    total = split.pop("total_seconds")
    assert sum(split.values()) == pytest.approx(total)
    assert result["attempts"] == 3
    assert {*split} == {f"{part}_seconds" for part in ("startup", "data_wait", "compute", "checkpoint", "evaluation", "other", "lost")}
    assert min(split.values()) > 0
    assert result["goodput"] == pytest.approx(split["compute_seconds"] / total)
