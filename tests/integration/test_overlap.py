"""Communication overlaps the backward pass, both in a trace and in the measurements of dtrain_bench step."""

import json
import re

import pytest

from command import BENCH, TINY_RESNET, load_json, metrics, run

STEP = 3


def spans(path) -> list[dict]:
    return [event for event in load_json(path)["traceEvents"] if event.get("ph") == "X"]


@pytest.fixture(scope="module")
def traces(few_images, module_dir):
    """The traces of one step of both ranks, with ResNet-18's 45 MB in buckets of 4 MiB."""
    run(*TINY_RESNET, f"--data_dir={few_images}", "--batch_size=8", "--max_steps=4", "--nproc_per_node=2",
        f"--profile_steps={STEP}:{STEP}", "--bucket_cap_mb=4", f"--run_dir={module_dir / 'run'}")
    return [spans(module_dir / "run" / "profile" / f"rank-{rank}.json") for rank in (0, 1)]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_trace_shows_buckets_reduced_while_backward_runs(traces, rank):
    events = traces[rank]
    step, = [event for event in events if event["name"] == f"train_step {STEP}"]
    in_step = [event for event in events if step["ts"] <= event["ts"] <= step["ts"] + step["dur"]]
    reductions = sorted(event["ts"] for event in in_step if event["name"] == "gloo:all_reduce")
    backward = [event for event in in_step if event["name"].startswith("autograd::engine::evaluate_function")]
    last_backward = max(event["ts"] for event in backward)
    # At least 6 buckets, and the step's exchange after them. How many overlap depends on the machine's other work;
    # without overlap there would be none.
    overlapped = [start for start in reductions if start < last_backward]
    assert len(reductions) >= 7
    assert overlapped and overlapped[0] > min(event["ts"] for event in backward)
    assert reductions[-1] > last_backward


def test_exposed_communication_is_told(traces, module_dir):
    for point in metrics(module_dir / "run", "train"):
        assert 0 < point["communication_seconds"] < point["step_seconds"]
    for rank in (0, 1):
        table = (module_dir / "run" / "profile" / f"rank-{rank}.txt").read_text(encoding="utf-8")
        assert float(re.search(r"exposed communication +([\d.]+) ms", table)[1]) > 0


def bench(*flags) -> dict:
    return json.loads(run("step", "--model=resnet18", "--image_size=32", "--batch_size=4", "--steps=2", "--warmup=1",
                          "--num_classes=10", "--json", *flags, program=BENCH).last_line)


def test_bench_step_says_what_communication_costs():
    found = bench("--nproc_per_node=2")
    assert found["world_size"] == 2
    assert found["images_per_second"] == pytest.approx(2 * 4 / (found["step_milliseconds"] / 1000))
    after, compute = found["reduced_after_milliseconds"], found["compute_milliseconds"]
    assert found["hidden_fraction"] == pytest.approx((after - found["step_milliseconds"]) / (after - compute))
    assert after > 0 and compute > 0  # on a busy machine either may be longer in a step or two


def test_bench_step_has_its_figures():
    found = bench()
    assert (found["model"], found["image_size"], found["batch_size"], found["steps"], found["world_size"]) == ("resnet18", 32, 4, 2, 1)
    assert "hidden_fraction" not in found and found["cpu"] and found["torch"] and found["cores"] >= 1
    seconds = found["step_milliseconds"] / 1000
    assert found["images_per_second"] == pytest.approx(4 / seconds)
    # 1.8 G multiply-adds at 224 px are 37 M at 32 px, with two operations each and three passes.
    assert found["achieved_tflops"] * 1e12 * seconds / 4 == pytest.approx(6 * 37e6, rel=0.05)
    assert all(found[f"{part}_milliseconds"] > 0 for part in ("forward", "backward", "update"))
