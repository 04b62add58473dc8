"""scripts/sweep.py: its refusals; trials that end in every way; a sweep that is killed half-way and resumed."""

import os
import re
import shlex
import signal
import subprocess
import sys

import pytest

from command import MAIN, ROOT, TINY, Background, load_json, load_table, make_program, run, wait_until
from sweep_parts import Command, Failure, Share, exit_code, read_space, script
from sweeps import machine

SWEEP = ROOT / "scripts" / "sweep.py"
KINDS = {"lr": "NUMBER", "batch_size": "INT", "nesterov": "BOOL", "lr_schedule": "TEXT", "run_dir": "TEXT"}


def space_file(folder, text):
    file = folder / "space.yaml"
    file.write_text(text, encoding="utf-8")
    return file


# ---- The space -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "words"), [
    ("metric: [", "line 1 of the space is no YAML"),
    ("flags: {lr: [1]}", "does not say which metric"),
    ("{metric: val_top1, flags: {lr: [1]}, trials: 3}", "'trials', which is not a known key"),
    ("{metric: val_top1, direction: up, flags: {lr: [1]}}", "direction: up"),
    ("{metric: val_top1, flags: {lrate: [1]}}", "--lrate of the space is not a flag"),
    ("{metric: val_top1, flags: {run_dir: [a]}}", "belongs to the sweep itself"),
    ("{metric: val_top1, flags: {lr: [1, 1.0]}}", "names a value twice"),
    ("{metric: val_top1, flags: {lr: {low: 1}}}", "needs low and high"),
    ("{metric: val_top1, flags: {lr: {low: 1, high: 1}}}", "low is not below high"),
    ("{metric: val_top1, flags: {lr: {low: 0, high: 1, log: true}}}", "begins above 0"),
    ("{metric: val_top1, flags: {lr: {low: 0, high: 1, step: 0}}}", "a step is above 0"),
    ("{metric: val_top1, flags: {lr: {low: .nan, high: 1}}}", "not a number"),
    ("{metric: val_top1, flags: {batch_size: {low: 1.5, high: 3}}}", "whole numbers only"),
    ("{metric: val_top1, flags: {lr: [1], --lr: [2]}}", "has --lr twice"),
])
def test_a_bad_space_is_named(tmp_path, text, words):
    with pytest.raises(Failure, match=".*") as problem:
        read_space(space_file(tmp_path, text), KINDS)
    assert words in str(problem.value) and problem.value.remedy and problem.value.code == 2


def test_the_program_says_which_numbers_are_to_be_small(tmp_path):
    program = make_program(tmp_path / "dtrain_main", """#!/bin/sh
echo '{"spawns": 0, "local_world_size": 1, "smaller_is_better": ["val_x"]}'
""")
    command = Command.parse([str(program)], None)
    for metric, maximize in (("val_x", False), ("val_y_loss", True), ("val_x, direction: maximize", True)):
        space = read_space(f"{{metric: {metric}, flags: {{lr: [1]}}}}", KINDS)
        command.check(space, tmp_path)
        assert space.directed(command.smaller_is_better).maximize == maximize


def test_a_grid_has_every_combination(tmp_path):
    space = read_space(space_file(tmp_path, "metric: val_loss\nflags:\n  lr: {low: 1e-3, high: 0.0035, step: 0.001}\n"
                                            "  batch-size: {low: 8, high: 24, step: 8}\n  nesterov: [true, false]\n"), KINDS)
    assert not space.maximize
    grid = space.grid()
    assert len(grid) == 3 * 3 * 2
    assert [one["batch_size"] for one in grid[:6]] == [8, 8, 16, 16, 24, 24]
    assert sorted({round(one["lr"], 6) for one in grid}) == [0.001, 0.002, 0.003]
    command = Command(["dtrain_main"], ["--epochs=1"], None)
    assert command.text(grid[0], {}, []) == "dtrain_main --epochs=1 --lr=0.001 --batch_size=8 --nesterov=true"


@pytest.mark.parametrize("text", ["{metric: val_top1, flags: {lr: {low: 0.1, high: 1}}}",
                                  "metric: val_top1\nflags:\n  lr: {low: 0.1, high: 1}"])
def test_a_range_without_end_has_no_grid(text):
    space = read_space(text, KINDS)  # the text itself, as jobs of an array get it
    with pytest.raises(Failure, match="lr has infinitely many values"):
        space.grid()


def test_cores_and_gpus_are_shared():
    assert machine.shares(1, [0, 1], ["0"]) == [Share(2)]
    assert machine.shares(2, [0, 1, 2, 3], ["4", "5"]) == [Share(2, [0, 1], ["4"]), Share(2, [2, 3], ["5"])]
    assert machine.shares(2, [0, 1, 2, 3], [], granted=2) == [Share(1, [0, 1]), Share(1, [2, 3])]
    assert machine.shares(3, [0, 1], []) == [Share(1)] * 3
    with pytest.raises(Failure, match="more than the 1 GPUs"):
        machine.shares(2, [0, 1], ["0"])


# ---- The program -----------------------------------------------------------------------------------------------------


def arguments(folder, space, *more, trials=3, command=()):
    return [SWEEP, f"--space={space}", f"--trials={trials}", f"--output={folder}", *more, "--", *command]


@pytest.fixture
def sweep(monkeypatch, capsys):
    """Runs it in this process, which has imported its packages already. Returns the exit code, stdout and stderr."""
    handlers = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)}

    def call(*words):
        monkeypatch.setattr(sys, "argv", [str(word) for word in words])
        return (exit_code(script.main), *capsys.readouterr())

    yield call
    for one, handler in handlers.items():
        signal.signal(one, handler)


def outcomes(folder):
    return {int(row["trial"]): row["outcome"] for row in load_table(folder / "trials.csv")}


def test_killed_half_way_and_taken_up_again(sweep, few_images, tmp_path):
    """One trial diverges, which is a result. The trial that is under way at the kill resumes, and none is run twice."""
    folder = tmp_path / "sweep"
    space = space_file(tmp_path, "metric: val_top1\nflags:\n  lr: [0.004, 1.0e+30, 0.002]\n")
    (tmp_path / "mine.flags").write_text("--resume=none\n", encoding="utf-8")  # of trials the sweep decides
    command = [MAIN, *(flag for flag in TINY if not flag.startswith("--lr")), f"--data_dir={few_images}", "--max_steps=3",
               "--save_every_epochs=0.01", "--max_skipped_steps=1", f"--flagfile={tmp_path / 'mine.flags'}"]
    words = arguments(folder, space, "--sampler=grid", command=command)
    with Background(*words, program=sys.executable) as first:
        wait_until(lambda: (folder / "trial-0000" / "latest").exists(), "a checkpoint")
        os.kill(first.pid, signal.SIGKILL)
        first.process.wait()
        # The training notices it by itself, and holds its trial until it has ended.
        code, again, _ = sweep(*words)
    assert code == 0 and outcomes(folder) == {0: "finished", 1: "diverged", 2: "finished"}, again
    assert "trial 0: lr=0.004 (goes on)" in again and not (folder / "trial-0000" / "aside-1").exists()
    best = load_json(folder / "best.json")
    assert best["params"]["lr"] in (0.004, 0.002) and best["value"] == load_json(folder / f"trial-{best['trial']:04}" /
                                                                              "result.json")["val_top1"]
    assert str(MAIN) in best["command"] and f"--lr={best['params']['lr']}" in best["command"]
    last = again.splitlines()[-1]
    assert last.startswith("val_top1=") and last.endswith(f"lr={best['params']['lr']}")
    for picture in ("parallel_coordinates.png", "history.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    # Another space: a value was added.
    other = space_file(tmp_path, "metric: val_top1\nflags:\n  lr: [0.004, 1.0e+30, 0.002, 0.001]\n")
    code, _, refusal = sweep(*arguments(folder, other, "--sampler=grid", command=command))
    assert code == 2 and "belongs to another space: it differs in --lr" in refusal and "what to do: " in refusal


@pytest.mark.parametrize(("flags", "command", "code", "words"), [
    ("learning_rate: [1]", "--data_format=synthetic", 2, "--learning_rate of the space is not a flag"),
    ("lr: [0.1, -1]", "--data_format=synthetic", 2, "--lr=-1: expected"),
    ("lr: [0.1]", "--data_dir=/nonexistent", 3, "exit code 3"),
    ("lr: [0.1, 0.2]", "--data_format=synthetic --schedule_steps=2 --warmup_epochs=1", 2, "--warmup_epochs is a warmup of"),
    ("lr: [0.1]", "--run_dir=mine", 2, "--run_dir belongs to the sweep"),
])
def test_flags_and_values_are_held_against_the_program(sweep, tmp_path, flags, command, code, words):
    space = space_file(tmp_path, f"metric: val_top1\nflags:\n  {flags}\n")
    ended, _, said = sweep(*arguments(tmp_path / "a", space, command=[MAIN, *command.split()]))
    assert ended == code and words in said and "what to do: " in said
    assert not (tmp_path / "a").exists()


# What begins a program that answers a sweep's questions as dtrain_main does, which itself would take a second for each.
ANSWERS = r"""#!/bin/bash
case " $* " in
  *" --help "*) printf "  --%s\n" run_dir=TEXT momentum=NUMBER lr=NUMBER seed=INT; exit ;;
  *" --dry_run "*) echo '{"spawns": 0, "local_world_size": 1}'; exit ;;
  *" --print_config "*) exit ;;
esac
"""
# A training that takes no time and whose validations and end are chosen by --momentum.
PLAYED = ANSWERS + r"""
for word; do case $word in --run_dir=*) run=${word#*=} ;; --momentum=*) top1=${word#*=} ;; esac; done
mkdir -p "$run"
trap 'exit 75' TERM
if [ "$top1" = 0.7 ]; then exit 7; fi
if [ "$top1" = 0.5 ] && [ ! -e "$run/full" ]; then touch "$run/full"; echo no space; exit 5; fi
if [ "$top1" = 0.8 ] && [ ! -e "$run/lost" ]; then touch "$run/lost"; kill -9 $$; fi
for n in 1 2; do printf '{"kind":"val","step":%s,"top1":%s,"loss":1}\n' $n $top1 >>"$run/metrics.jsonl"; done
if [ "$top1" = 0.1 ]; then while true; do sleep 0.01; done; fi    # only a pruner ends it
printf '{"val_top1": %s}' "$top1" >"$run/result.json"
"""


def test_what_becomes_of_trials(sweep, tmp_path):
    """Trials that are pruned, run out of memory, lose their process once, or find the disk full, which ends the sweep
    until there is space; a worker of an array, which takes one trial; nothing left to do."""
    program = make_program(tmp_path / "dtrain_main", PLAYED)
    folder = tmp_path / "sweep"
    space = space_file(tmp_path, "metric: val_top1\nflags:\n  momentum: [0.8, 0.3, 0.4, 0.7, 0.5, 0.1]\n")
    words = arguments(folder, space, "--sampler=grid", "--prune", trials=100, command=[program, "--data_format=synthetic"])
    code, said, _ = sweep(words[0], "--at_most=1", *words[1:])
    assert code == 0 and "trial 0: lost (-9), is begun again" in said and outcomes(folder) == {0: "finished"}
    code, full, _ = sweep(*words)
    assert code == 5 and "trial 4: no space" in full and "stopping: free space" in full
    code, rest, _ = sweep(*words)
    assert code == 0
    assert outcomes(folder) == {0: "finished", 1: "finished", 2: "finished", 3: "out of memory", 4: "finished", 5: "pruned"}, rest
    assert rest.splitlines()[-1] == "val_top1=0.8 momentum=0.8"
    assert "trial 5: pruned after validation" in rest
    assert load_json(folder / "best.json")["trial"] == 0


def test_a_sweep_that_begins_no_more_still_passes_signals_on(sweep, tmp_path):
    program = make_program(tmp_path / "dtrain_main", ANSWERS + r"""
for word; do case $word in --run_dir=*) run=${word#*=} ;; --momentum=*) kind=${word#*=} ;; esac; done
mkdir -p "$run"
if [ "$kind" = 0.1 ]; then trap 'exit 75' TERM; while true; do sleep 0.01; done; fi
if [ "$kind" = 0.4 ]; then (sleep 1; kill -INT $PPID) >"$run/log" 2>&1 & fi
exit 3
""")
    space = space_file(tmp_path, "metric: val_top1\nflags:\n  momentum: [0.1, 0.2, 0.3, 0.4]\n")
    code, said, _ = sweep(*arguments(tmp_path / "sweep", space, "--sampler=grid", "--jobs=2", trials=100, command=[program, "--data_format=synthetic"]))
    assert code == 3 and "no more are begun" in said and outcomes(tmp_path / "sweep")[0] == "running", said


def test_a_launcher_hides_what_a_trial_ended_with(sweep, tmp_path):
    """As torchrun does, which ends with 1, and a shell, which makes 137 of a kill."""
    program = make_program(tmp_path / "dtrain_main", ANSWERS + r"""
for word; do case $word in --run_dir=*) run=${word#*=} ;; --momentum=*) kind=${word#*=} ;; esac; done
case $kind in 0.1*) exit 2 ;; esac                               # refused before it has a folder
mkdir -p "$run"
case $kind in 0.6*) code=6 ;; 0.7) code=7 ;; 0.4) code=4 ;; 0.5) code=5 ;; esac
if [ "$code" ] && [ ! -e "$run/error.json" ]; then echo "{\"exit_code\": $code, \"message\": \"no more\"}" >"$run/error.json"; exit 3; fi
if [ "$kind" = 0.9 ] && [ ! -e "$run/lost" ]; then touch "$run/lost"; kill -9 $$; fi
if [ "$kind" = 0.2 ] && [ ! -e "$run/told" ]; then touch "$run/told"; echo "dtrain stopped (preempted, exit code 75) after step 3: told to"; exit 75; fi
if [ "$kind" = 0.8 ] && [ ! -e "$run/lost" ]; then touch "$run/lost"; exit 137; fi
echo "{\"val_top1\": $kind}" >"$run/result.json"
if [ "$kind" = 0.3 ]; then exit 9; fi                           # a step after the training
""")
    launcher = make_program(tmp_path / "launcher", "#!/bin/sh\n\"$@\"\ncode=$?\n[ $code = 137 ] && exit 137\nexit $((code != 0))\n")
    folder = tmp_path / "sweep"
    space = space_file(tmp_path, "metric: val_top1\nflags:\n  momentum: [0.6, 0.61, 0.62, 0.7, 0.4, 0.9, 0.8, 0.3, 0.1, 0.5, 0.2]\n")
    words = arguments(folder, space, "--sampler=grid", trials=100, command=[launcher, program, "--data_format=synthetic"])
    code, said, _ = sweep(*words)
    assert code == 5 and "trial 9: no more" in said and "stopping: free space" in said
    assert outcomes(folder) == {**{one: "diverged" for one in range(3)}, 3: "out of memory", 4: "finished", 5: "finished", 6: "finished",
                                7: "failed", 8: "failed", 9: "running"}, said
    assert "trial 5: lost" in said and "trial 6: lost (-9)" in said and "trial 4: lost (4)" in said
    assert "trial 7: lost" not in said and "trial 8: lost" not in said
    code, said, _ = sweep(*words)
    assert code == 75 and outcomes(folder)[9] == "finished" and "stopping: trial 10 was told to save" in said
    code, said, _ = sweep(*words)
    assert code == 0 and outcomes(folder)[10] == "finished", said


def test_the_best_command_gives_the_same_value(sweep, few_images, tmp_path, monkeypatch):
    """Two trials at once have half of the cores each. By hand it has all of them, and another sum of the same numbers."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    flags = [*TINY[:3], "--seed=3", f"--data_dir={few_images}", "--max_steps=2"]
    code, said, refusal = sweep(*arguments(tmp_path / "sweep", "{metric: val_loss, flags: {lr: [0.0051234567]}}", "--jobs=2", trials=1,
                                           command=[MAIN, *flags]))
    assert code == 0, said + refusal
    best = load_json(tmp_path / "sweep" / "best.json")
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert best["environment"]["OMP_NUM_THREADS"] == str(threads) and best["params"] == {"lr": "0.0051234567"}
    words = [*shlex.split(best["command"]), f"--run_dir={tmp_path / 'hand'}"]
    run(*words[1:], program=words[0], threads=None)
    assert load_json(tmp_path / "hand" / "result.json")["val_loss"] == best["value"]


def test_the_command_of_a_launcher_names_its_cores():
    command = Command(["torchrun", "dtrain_main"], ["--epochs=1"], "dtrain_main")
    assert command.text({"lr": 0.5}, {"MKL_CBWR": "AVX2"}, [2, 3]) == \
        "env MKL_CBWR=AVX2 taskset -c 2,3 torchrun dtrain_main --epochs=1 --lr=0.5"
    assert not command.is_direct


def test_others_read_the_last_line():
    """Katib's filter and SageMaker's expressions, as in the examples, read the last line."""
    yaml = pytest.importorskip("yaml")
    last = "val_top1=75.93 val_top5=92.91 val_loss=0.9912"
    examples = ROOT / "scripts" / "sweeps" / "examples"
    katib = yaml.safe_load((examples / "katib.yaml").read_text(encoding="utf-8"))["spec"]
    pattern, = katib["metricsCollectorSpec"]["source"]["filter"]["metricsFormat"]
    found = {name: value for name, value, *_ in re.findall(pattern, last)}
    wanted = [katib["objective"]["objectiveMetricName"], *katib["objective"]["additionalMetricNames"]]
    assert [found[name] for name in wanted] == ["75.93", "0.9912"]
    tuning = load_json(examples / "sagemaker.json")["TrainingJobDefinition"]["AlgorithmSpecification"]
    assert [re.search(one["Regex"], last)[1] for one in tuning["MetricDefinitions"]] == ["75.93", "0.9912"]
    for step in ("step 7/100 epoch 0.1 loss 2.1", "validation step 7 epoch 1 top1 75.93 loss 1"):
        assert not any(re.search(one["Regex"], step) for one in tuning["MetricDefinitions"])


def test_without_its_packages_it_says_so(tmp_path):
    done = subprocess.run([sys.executable, "-S", SWEEP], capture_output=True, text=True, check=False,
                          env={"PATH": os.environ["PATH"]})
    assert done.returncode == 2 and "pip install -r" in done.stderr


def test_the_best_mean_over_seeds_wins(sweep, tmp_path):
    """The best single value is of lr 2, whose other seed is bad; one seed of lr 3 diverges."""
    program = make_program(tmp_path / "dtrain_main", ANSWERS + """
for flag; do case $flag in --run_dir=*) run=${flag#*=};; --lr=*) lr=${flag#*=};; --seed=*) seed=${flag#*=};; esac; done
mkdir -p "$run"
case $lr,$seed in 1,*) top1=50.$seed;; 2,0) top1=60;; 3,0) top1=90;; 3,1) exit 6;; *) top1=10;; esac
echo "{\\"val_top1\\": $top1}" > "$run/result.json"
""")
    space = space_file(tmp_path, "metric: val_top1\nflags:\n  lr: [2, 1, 3]\n  seed: [0, 1]\n")
    words = arguments(tmp_path / "a", space, "--average_over=seed", trials=100, command=[program, "--data_format=synthetic"])
    code, said, _ = sweep(*words)
    assert code == 0 and "val_top1 50.05 ± 0.071 over 2 trials: lr=1" in said
    best = load_json(tmp_path / "a" / "best.json")
    assert best["params"]["lr"] == 1 and best["mean"] == pytest.approx(50.05) and len(best["trials"]) == 2
    assert [(row["lr"], row["trials"]) for row in load_table(tmp_path / "a" / "averages.csv")] == [("1", "2"), ("2", "2"), ("3", "1")]
    refused = arguments(tmp_path / "b", space, "--average_over=momentum", command=[program, "--data_format=synthetic"])
    assert sweep(*refused)[0] == 2
