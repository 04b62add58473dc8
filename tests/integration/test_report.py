"""scripts/report.py on real runs, and on made-up ones with data that would take many machines."""

import csv
import json
import math
import re
import sys

import pytest

from command import ROOT, TINY, run

pytest.importorskip("matplotlib", reason="scripts/setup.sh --tests installs it")
sys.path.insert(0, str(ROOT / "scripts"))

import report as script  # noqa: E402
from reports import charts  # noqa: E402
from reports.run import NoRun, name_apart, read_run  # noqa: E402

# Step times of an imaginary model on 1, 2, 4 … devices: computing, and communication that grows.
COMPUTE, COMMUNICATION, DATA = 0.300, 0.012, 0.004


def made_up_run(folder, devices=1, epochs=3, steps=300, text=False, model="resnet50", finished=True, attempts=0):
    """Writes the files of a training of so many steps on so many devices."""
    folder.mkdir(parents=True)
    exposed = COMMUNICATION * math.log2(devices)
    seconds = COMPUTE + exposed + DATA
    speed = 64 * devices / seconds
    unit = "tokens" if text else "images"
    lines = []
    for step in range(1, steps + 1):
        epoch = epochs * step / steps
        noise = 0.1 * math.sin(37.0 * step)
        lines.append({"kind": "train", "step": step, "epoch": epoch, "loss": 0.5 + 6 * math.exp(-2 * epoch) + noise,
                      "lr": 0.1 * devices * min(step / 30, 1 - step / (steps + 1)), f"{unit}_per_second": speed * (1 + noise / 4),
                      "data_seconds": DATA, "forward_seconds": COMPUTE / 3, "backward_seconds": COMPUTE / 2,
                      "communication_seconds": exposed, "update_seconds": COMPUTE / 10, "step_seconds": seconds, "time": 1.7e9 + step})
        if step % (steps // epochs) == 0:
            quality = {"perplexity": math.exp(8 - 2 * epoch), "accuracy": 0.3} if text else {"top1": 90 - 60 / epoch, "top5": 96.0}
            lines.append({"kind": "val", "step": step, "epoch": epoch, **quality, "loss": 0.6 + 6 * math.exp(-2 * epoch)})
            lines.append({"kind": "epoch", "epoch": round(epoch), "epoch_seconds": 1.28e6 / speed})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model": model, "global_batch_size": 64 * devices}), encoding="utf-8")
    if finished:
        total = steps * seconds
        result = {"val_perplexity": 7.4, "val_loss": 2.0} if text else {"val_top1": 70.0, "val_top5": 96.0, "val_loss": 0.61}
        result |= {"step": steps, "epoch": float(epochs), "seconds": total, "world_size": devices, f"{unit}_per_second": speed,
                   "attempts": attempts, "goodput": 0.5, "time_split": {"compute_seconds": steps * COMPUTE, "communication_seconds": steps * exposed,
                                  "data_wait_seconds": steps * DATA, "checkpoint_seconds": 2.0, "evaluation_seconds": 6.0,
                                  "startup_seconds": 1 + 2 * devices, "lost_seconds": 7.0 * attempts, "total_seconds": total}}
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return folder


def write_confusion(folder, classes=10):
    names = [str(number) for number in range(classes)]
    with (folder / "confusion_matrix.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["true class", *names])
        for row in range(classes):
            table.writerow([names[row], *(95 if row == column else 5 if (row + 3) % classes == column else 0 for column in range(classes))])


@pytest.fixture
def draw(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["report.py", *map(str, words)])
        return (script.main(), *capsys.readouterr())

    return call


def test_a_real_run(draw, few_images, run_dir, tmp_path):
    run(*TINY, f"--data_dir={few_images}", "--max_steps=3", f"--run_dir={run_dir}")
    code, said, _ = draw(run_dir, f"--output={tmp_path / 'report'}")
    assert code == 0 and said.startswith(str(tmp_path / "report" / "report.html"))
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    names = {path.stem for path in (tmp_path / "report").glob("*.png")}
    assert {"loss", "metric", "learning_rate", "throughput", "step_time"} <= names
    assert set(re.findall(r'<figure id="(\w+)"', page)) == names
    assert all(source.startswith("data:image/png;base64,") for source in re.findall(r'src="([^"]*)"', page))
    assert "<link" not in page and "<script" not in page and "url(" not in page
    assert "resnet18" in page and "finished" in page and "val top1" in page


def test_scaling_and_what_only_large_runs_have(draw, tmp_path):
    """Runs of three sizes, one of them restarted and one failed, and class names that look like HTML."""
    runs = [made_up_run(tmp_path / f"on-{devices}", devices, steps=60, attempts=devices == 4) for devices in (1, 2, 4)]
    broken = made_up_run(tmp_path / "<b>broken</b>", steps=30, finished=False)
    (broken / "error.json").write_text('{"exit_code": 6, "message": "the loss is <inf>"}', encoding="utf-8")
    with (broken / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind":"train","step":31,"loss":null}\n{"kind":"tra')
    write_confusion(runs[0])
    code, _, _ = draw(*runs, broken, f"--output={tmp_path / 'report'}")
    assert code == 0
    assert {path.stem for path in (tmp_path / "report").glob("*.png")} == {
        "loss", "metric", "learning_rate", "throughput", "step_time", "wall_time", "scaling_speed", "scaling_efficiency",
        "scaling_epoch_time", "scaling_shares", "confusion_1"}
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "failed (6)" in page and "the loss is &lt;inf&gt;" in page and "<b>broken" not in page and "goodput" in page


def test_scaling_figures_are_those_of_the_runs(tmp_path):
    runs = [read_run(made_up_run(tmp_path / f"on-{devices}", devices, steps=30)) for devices in (1, 4)]
    line = charts.efficiency(runs).axes[0].lines[0]
    assert list(line.get_xdata()) == [1, 4]
    one, four = COMPUTE + DATA, COMPUTE + DATA + 2 * COMMUNICATION
    assert list(line.get_ydata()) == pytest.approx([100, 100 * one / four])
    assert runs[1].step_parts()["communication"] == pytest.approx(2 * COMMUNICATION)
    assert sum(runs[1].step_parts().values()) == pytest.approx(four)


def test_text_has_perplexity(tmp_path):
    run_of_text = read_run(made_up_run(tmp_path / "text", text=True, steps=30))
    assert run_of_text.metric == "perplexity" and run_of_text.speed_key == "tokens_per_second"
    assert charts.metric([run_of_text]).axes[0].get_yscale() == "log"


def test_runs_of_the_same_name_are_told_apart(tmp_path):
    runs = [read_run(made_up_run(tmp_path / parent / "run", steps=3)) for parent in ("a", "b")]
    name_apart(runs)
    assert [one.name for one in runs] == ["a/run", "b/run"]


@pytest.mark.parametrize(("make", "words"), [
    (lambda path: path / "nowhere", "does not exist"),
    (lambda path: path, "has no metrics.jsonl"),
    (lambda path: (path / "metrics.jsonl").write_text("{}\nnonsense\n") and path, "has nothing to show"),
])
def test_a_folder_that_is_no_run(draw, tmp_path, make, words):
    code, _, said = draw(make(tmp_path), f"--output={tmp_path / 'report'}")
    assert code == 2 and words in said and "what to do: " in said
    assert not (tmp_path / "report").exists()


def test_a_matrix_that_is_none_is_left_out(tmp_path):
    folder = made_up_run(tmp_path / "run", steps=3)
    (folder / "confusion_matrix.csv").write_text("true,a,b\na,1\n", encoding="utf-8")
    found = read_run(folder)
    assert found.confusion is None and charts.confusion(found) is None
    with pytest.raises(NoRun):
        read_run(folder / "metrics.jsonl")
