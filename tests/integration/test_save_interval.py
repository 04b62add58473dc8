"""scripts/save_interval.py: the formulas, the simulation, and what is read from a run's times.jsonl."""

import json
import math
import random
import sys

import pytest

from command import ROOT, TINY, run

sys.path.insert(0, str(ROOT / "scripts"))

import save_interval  # noqa: E402
from save_interval import Costs  # noqa: E402

HALF_AN_HOUR = 1800.0
PUBLISHED = 3600 * 54 * 24 * 16384 / 419 / 256  # seconds between faults on 256 GPUs, as many as in Llama 3's training

# The lines of the table in docs/runs.md: costs, seconds between faults, least goodput.
QUICK_START, RESNET50, ROBERTA_LARGE = Costs(0.049, 1.75, 0.96), Costs(0.01, 0.2, 30), Costs(0.22, 4.3, 30)
CASES = [(QUICK_START, HALF_AN_HOUR, 0.99), (RESNET50, HALF_AN_HOUR, 0.979), (RESNET50, PUBLISHED, 0.999),
         (Costs(0.22, 4.3, 20), HALF_AN_HOUR, 0.97), (ROBERTA_LARGE, PUBLISHED, 0.999), (Costs(60, 10, 300), 3600, 0.7)]


def script(*arguments, code=0):
    outcome = run(ROOT / "scripts" / "save_interval.py", *arguments, program=sys.executable, check=code)
    assert "Traceback" not in outcome.stderr
    return outcome


def walked(costs, interval, between_faults, faults, step):
    """Runs a training in steps, one event at a time: a save begins after the step in which the interval ends."""
    source, clock, advance, kept = random.Random(7), 0.0, 0.0, 0.0
    for _ in range(faults):
        fault = clock + source.expovariate(1 / between_faults)
        clock += costs.restart
        advance = saved_at = kept
        waiting = []  # saves that are being written: (when they are on the disk, what they hold)
        while clock + step <= fault:
            clock, advance = clock + step, advance + step
            if advance - saved_at >= interval:
                clock, saved_at = clock + costs.stall, advance
                waiting.append((clock + costs.write, advance))
        kept = max([kept, *(held for ready, held in waiting if ready <= fault)])
        clock = fault
    return kept / clock


@pytest.mark.parametrize(("costs", "between", "least"), CASES)
def test_faults_cost_what_the_formula_says(costs, between, least):
    best = costs.daly(between)
    found = {interval: (costs.goodput(interval, between), costs.simulated(interval, between)) for interval in (best, best * 3, best / 3)}
    for interval, (predicted, simulated) in found.items():
        if interval >= costs.write:
            assert 1 - simulated == pytest.approx(1 - predicted, rel=0.05)
    assert found[best] == max(found.values()) and min(found[best]) >= least


@pytest.mark.parametrize(("costs", "between"), [(costs, between) for costs, between, _ in CASES if between < PUBLISHED])
def test_step_by_step_it_is_the_same(costs, between):
    best = costs.daly(between)
    assert 1 - walked(costs, best, between, faults=2000, step=best / 20) == pytest.approx(1 - costs.goodput(best, between), rel=0.2)


def test_young_and_daly():
    costs = Costs(5, 0, 0)
    assert costs.young(1000) == 100
    assert costs.daly(1000) == pytest.approx(100 * (1 + math.sqrt(0.0025) / 3 + 0.0025 / 9) - 5)
    grid = [costs.daly(1000) * (0.5 + place / 1000) for place in range(1000)]  # the model's own best, by trying
    assert costs.daly(1000) == pytest.approx(max(grid, key=lambda interval: costs.goodput(interval, 1000)), rel=0.01)
    assert Costs(5, 300, 0).daly(1000) == 300  # no save begins before the last one is written
    assert Costs(3000, 0, 0).daly(1000) == 1000
    longest = costs.longest_restart(100, 1000, 0.8)
    assert Costs(5, 0, longest).goodput(100, 1000) == pytest.approx(0.8)


def test_a_record_tells_the_costs(tmp_path):
    def line(attempt, step, **seconds):
        return {"attempt": attempt, "step": step, "startup_seconds": 2.0 * attempt} | {f"{name}_seconds": one for name, one in seconds.items()}

    lines = [line(1, 0), line(1, 5), line(1, 5, checkpoint=0.5), line(1, 9, checkpoint=0.5, forward=3),
             line(1, 10, checkpoint=0.9, evaluation=4), line(1, 10, checkpoint=1.1, evaluation=4),  # the best weights; a save
             line(2, 10), line(2, 12, checkpoint=0.3), line(2, 12, checkpoint=7.3)]               # the last one is waited for
    assert save_interval.measured(lines) == (pytest.approx([0.5, 0.2, 0.3]), pytest.approx([7.0]), [2, 4])
    (tmp_path / "times.jsonl").write_bytes(b"\n".join([b'{"attempt":1,"st', b"[" * 5000, b'{"attempt":1,"step":0,"x":NaN}', b"\xff",
                                                       b'{"attempt":1,"step":3,"x":1e300}', *(json.dumps(one).encode() for one in lines)]))
    said = script(tmp_path, "--mtbf_hours=128", "--gpus=256").stdout
    assert "stall 0.3 s (median of 3), write 7 s (median of 1); restart 3 s (median of 2)" in said and "every 0.5 hours" in said


def test_a_run_is_told_its_interval(few_images, run_dir):
    run(*TINY, f"--data_dir={few_images}", "--max_steps=6", "--save_every_seconds=0.2", "--save_every_epochs=0", f"--run_dir={run_dir}")
    outcome = script(run_dir, "--faults_per_hour=2")
    flag = outcome.last_line.split()[-1]
    assert flag.startswith("--save_every_seconds=")
    run(*TINY, f"--data_dir={few_images}", "--max_steps=6", flag, "--dry_run", f"--run_dir={run_dir}")


def test_a_run_chooses_its_interval_by_itself(few_images, run_dir):
    """With a fault every few milliseconds it saves whenever the last save is on the disk, once it knows what a save costs: here from
    those by epochs, for the first one by time would be after half a minute."""
    run(*TINY, f"--data_dir={few_images}", "--max_steps=16", "--save_every_epochs=2", "--keep_checkpoints=100", f"--run_dir={run_dir}",
        "--save_every_seconds=auto", "--expected_hours_between_faults=1e-9")
    steps = {int(path.name.removeprefix("step-")) for path in (run_dir / "checkpoints").iterdir()}
    assert {5, 10, 15, 16} < steps and min(steps) == 5


@pytest.mark.parametrize(("code", "arguments"), [
    (2, []), (2, ["--faults_per_hour=1"]), (2, ["--faults_per_hour=1", "--mtbf_hours=1"]), (2, ["--faults_per_hour=nan"]),
    (2, ["--faults_per_hour=0"]), (2, ["--faults_per_hour=1e300"]), (3, ["none", "--faults_per_hour=1"]),
    (0, ["--faults_per_hour=1e9", "--stall_seconds=1e9", "--write_seconds=1e9", "--restart_seconds=1e9"])])
def test_what_makes_no_sense_is_said(code, arguments):
    outcome = script(*arguments, code=code)
    assert code == 0 or "what to do" in outcome.stderr


def test_a_run_that_has_not_saved(tmp_path):
    (tmp_path / "times.jsonl").write_text('{"attempt":1,"step":0,"startup_seconds":1}\n', encoding="utf-8")
    assert "--stall_seconds" in script(tmp_path, "--faults_per_hour=1", code=3).stderr
