"""An interrupted run resumes as if nothing had happened: the same weights and losses, bit for bit."""

import fcntl
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from command import Background, TINY, change_state, kill_at, load_json, losses, metrics, run, sha256, wait_until, weights_and_losses
from conftest import picture
from text_data import TEXT, write_roberta_tokenizer

STEPS = 7  # 3 epochs of 2.5 steps; the ends of the epochs are at steps 3, 5 and (after the last) 8


def flags_of(data: Path, world: int = 1) -> tuple:
    """Three ranks have 15 images per step, so their epochs end at steps 3, 6 and 8."""
    return (*TINY, f"--data_dir={data}", "--epochs=3", f"--max_steps={STEPS}", f"--batch_size={16 // world}",
            *((f"--nproc_per_node={world}",) if world > 1 else ()))


@pytest.fixture(scope="module")
def undisturbed(few_images, module_dir):
    """Returns, by world size, the result of an undisturbed run on that many ranks."""
    made = {}

    def get(world: int = 1):
        if world not in made:
            folder = module_dir / f"undisturbed-{world}"
            run(*flags_of(few_images, world), f"--run_dir={folder}")
            made[world] = weights_and_losses(folder)
            assert [step for step, _ in made[world][1]] == list(range(1, STEPS + 1))
            shutil.rmtree(folder / "checkpoints")
        return made[world]

    return get


@pytest.fixture(scope="module")
def stopped(few_images, module_dir):
    """A run of one rank with checkpoints of steps 1 to 4. Tests copy it and do not change it."""
    folder = module_dir / "stopped"
    run(*flags_of(few_images), "--limit_train_steps=4", "--save_every_epochs=0.4", "--keep_checkpoints=9",
        f"--run_dir={folder}")
    return folder


@pytest.fixture
def own_stopped(stopped, run_dir):
    shutil.copytree(stopped, run_dir)
    return run_dir


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


# ---- Stopped in an orderly way ---------------------------------------------------------------------------------------


EVERY_STEP = ["--save_every_epochs=0", "--save_every_seconds=0.000001"]


@pytest.mark.parametrize("world, stops", [
    # At an epoch's end, and after the first step of the next; each time with other times between saves.
    (1, [(3, ["--save_every_epochs=0.3"]), (4, EVERY_STEP)]),
    (3, [(4, ["--save_every_epochs=0.3"])]),
])
def test_going_on_equals_never_having_stopped(undisturbed, few_images, run_dir, world, stops):
    command, done = (*flags_of(few_images, world), f"--run_dir={run_dir}"), 0
    for step, cadence in stops:
        run(*command, *cadence, f"--limit_train_steps={step - done}")
        done = step
        assert load_json(run_dir / "result.json")["step"] == done
    run(*command)
    assert weights_and_losses(run_dir) == undisturbed(world)


def test_adam_and_the_loss_scale_go_on_as_they_were(few_images, tmp_path, run_dir):
    """With the default number of threads, not with the single thread of the other tests. The stop lies inside a logging interval,
    whose first half is in the checkpoint."""
    flags = (*flags_of(few_images), "--max_steps=4", "--optimizer=adamw", "--lr=0.001", "--loss_scale=1024", "--log_interval=3")
    run(*flags, f"--run_dir={run_dir}", threads=None)
    for stop in (2, 9):
        run(*flags, f"--run_dir={tmp_path / 'halting'}", f"--limit_train_steps={stop}", threads=None)
    assert weights_and_losses(tmp_path / "halting") == weights_and_losses(run_dir)
    assert [step for step, _ in losses(run_dir)] == [1, 3, 4]


def test_what_a_checkpoint_lacks_begins_anew(few_images, run_dir):
    flags = (*flags_of(few_images), f"--run_dir={run_dir}", "--limit_train_steps=1")
    run(*flags, "--momentum=0")
    assert "the checkpoint lacks " in run(*flags, "--momentum=0.9", "--precision=bf16").stderr
    for scale in (8, 64):  # a scale of its own is no state
        run(*flags, "--momentum=0.9", "--precision=bf16", f"--loss_scale={scale}")
        assert metrics(run_dir, "train")[-1]["loss_scale"] == scale


def test_a_run_chooses_its_interval_by_itself(few_images, run_dir):
    """With a fault every few milliseconds it saves whenever the last save is on the disk, once it knows what a save costs: here
    from those by epochs, for the first one by time would be after half a minute."""
    run(*TINY, f"--data_dir={few_images}", "--max_steps=16", "--save_every_epochs=2", "--keep_checkpoints=100",
        f"--run_dir={run_dir}", "--save_every_seconds=auto", "--expected_hours_between_faults=1e-9")
    steps = {int(path.name.removeprefix("step-")) for path in (run_dir / "checkpoints").iterdir()}
    assert {5, 10, 15, 16} < steps and min(steps) == 5


# ---- Killed ----------------------------------------------------------------------------------------------------------


def test_the_weights_follow_the_last_checkpoint(few_images, run_dir):
    """A kill between the last checkpoint and the weights beside it: the next start has nothing to train, and writes them."""
    command = (*TINY, f"--data_dir={few_images}", "--max_steps=2", "--ema_decay=0.5", f"--run_dir={run_dir}")
    run(*command, "--limit_train_steps=1")
    earlier = (run_dir / "model_ema.safetensors").read_bytes()
    run(*command)
    expected = [sha256(run_dir / name) for name in ("model.safetensors", "model_ema.safetensors")]
    (run_dir / "model_ema.safetensors").write_bytes(earlier)
    run(*command, "--nproc_per_node=2")
    assert [sha256(run_dir / name) for name in ("model.safetensors", "model_ema.safetensors")] == expected
    (run_dir / "model.safetensors").unlink()
    run(*command)
    assert [sha256(run_dir / name) for name in ("model.safetensors", "model_ema.safetensors")] == expected


def test_metrics_are_cut_back_to_the_restored_step(undisturbed, few_images, run_dir):
    """The run is saved only at step 3 and killed after step 4, whose line is written again, but not twice."""
    command = (*flags_of(few_images), f"--run_dir={run_dir}", "--save_every_epochs=1")
    kill_at(4, *command, saved=run_dir / "checkpoints" / "step-000000003")
    assert [path.name for path in (run_dir / "checkpoints").glob("step-*")] == ["step-000000003"]
    assert [step for step, _ in losses(run_dir)][:4] == [1, 2, 3, 4]
    with open(run_dir / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"kind":"train","step":5,"lo')  # files that a crash may leave
    run(*command)
    assert weights_and_losses(run_dir) == undisturbed()
    assert [point["epoch"] for point in metrics(run_dir, "epoch")] == [1, 2]


def write_labelled_texts(task: str, folder: Path) -> None:
    """Rows of every length, in one file each: tags of words, or lists of labels."""
    write_roberta_tokenizer(folder)
    words = TEXT.split()
    for name in ("train", "val"):
        rows = [words[3 * row:3 * row + 1 + row % 9] for row in range(90)]
        if task == "token_classification":
            blocks = ["\n".join(f"{word} {'B-X' if word == 'cat' else 'O'}" for word in row) for row in rows]
            (folder / f"{name}.conll").write_text("\n\n".join(blocks), encoding="utf-8")
        else:
            lines = [json.dumps({"text": " ".join(row), "labels": sorted({"cat", "dog"} & set(row))}) for row in rows]
            (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.fault(1, "killed while it learns tags of words, or several labels a text", "the same bits")
@pytest.mark.parametrize("task", ("token_classification", "text_multilabel"))
def test_a_killed_run_of_labelled_texts_goes_on(tmp_path, run_dir, task):
    write_labelled_texts(task, tmp_path)
    flags = (f"--task={task}", "--model=roberta_tiny", f"--data_dir={tmp_path}", "--tokens_per_sample=32", "--batch_size=8",
             "--max_steps=24", "--epochs=1000", "--optimizer=adamw", "--lr=0.002", "--dropout=0.1", "--log_interval=1",
             "--save_every_steps=4", "--eval_every_steps=12")
    run(*flags, f"--run_dir={tmp_path / 'undisturbed'}")
    kill_at(10, *flags, f"--run_dir={run_dir}", saved=run_dir / "checkpoints" / "step-000000004")
    done = max(int(path.name.removeprefix("step-")) for path in (run_dir / "checkpoints").glob("step-*"))
    assert 0 < done < 24
    outcome = run(*flags, f"--run_dir={run_dir}")
    assert f"resuming from {run_dir}/checkpoints/step-{done:09}" in outcome.stderr
    assert weights_and_losses(run_dir) == weights_and_losses(tmp_path / "undisturbed")
    one, other = (load_json(folder / "result.json") for folder in (run_dir, tmp_path / "undisturbed"))
    assert {key: one[key] for key in one if "f1" in key} == {key: other[key] for key in other if "f1" in key} != {}


def test_a_logged_line_counts_the_steps_before_a_stop(tmp_path):
    write_labelled_texts("text_multilabel", tmp_path)
    flags = ("--task=text_multilabel", "--model=roberta_tiny", f"--data_dir={tmp_path}", "--tokens_per_sample=32", "--batch_size=8",
             "--max_steps=8", "--optimizer=adamw", "--lr=0.002", "--log_interval=4", "--eval_every_epochs=0")
    lines = []
    for name, stops in (("once", [0]), ("twice", [6, 0])):
        for steps in stops:
            run(*flags, f"--limit_train_steps={steps}", f"--run_dir={tmp_path / name}")
        lines.append(metrics(tmp_path / name, "train")[-1])
    for key in ("step", "loss", "tokens", "padding_tokens"):
        assert lines[0][key] == lines[1][key], key


def test_a_limited_run_says_how_its_own_steps_went(few_images, tmp_path, run_dir):
    shutil.copytree(few_images / "train", tmp_path / "data" / "train")
    run(*TINY, f"--data_dir={tmp_path / 'data'}", "--max_steps=20", "--log_interval=10", "--limit_train_steps=5", "--lr=1e30",
        f"--run_dir={run_dir}", check=6)


# ---- Damage ----------------------------------------------------------------------------------------------------------


def test_weights_beside_and_in_checkpoints_are_what_was_written(few_images, own_stopped):
    newest = own_stopped / "checkpoints" / "step-000000004"
    for file, code in ((own_stopped / "model_best.safetensors", 3), (newest / "model.safetensors", 5)):
        flip_a_bit(file)
        assert "SHA-256" in run("--mode=eval", f"--data_dir={few_images}", f"--init_weights={file}", check=code).stderr
    start = (*flags_of(few_images), f"--run_dir={own_stopped}-2", f"--init_weights={newest}")
    assert "SHA-256" in run(*start, check=5).stderr


def test_a_run_whose_checkpoints_were_removed_is_not_trained_over(few_images, own_stopped):
    before = sha256(own_stopped / "model.safetensors")
    shutil.rmtree(own_stopped / "checkpoints")
    assert "is of the earlier run" in run(*flags_of(few_images), f"--run_dir={own_stopped}",
                                          f"--init_weights={own_stopped / 'model.safetensors'}", check=2).stderr
    assert "without a checkpoint the run begins anew" in run(*flags_of(few_images), f"--run_dir={own_stopped}").stderr
    assert sha256(own_stopped / "aside-1" / "model.safetensors") == before


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


@pytest.mark.fault(13, "the newest checkpoint is damaged", "loud fall-back to the one before; the same bits")
@pytest.mark.parametrize("damages", [
    [(flip_a_bit, "model.safetensors"), (flip_a_bit, "optimizer.safetensors"), (flip_a_bit, "state.json")],
    [(flip_a_bit, "manifest.json"), (cut, "model.safetensors"), (Path.unlink, "state.json")]])
def test_damage_is_seen_and_the_checkpoint_before_is_taken(undisturbed, few_images, own_stopped, damages):
    """The last three checkpoints are damaged, each in another way."""
    checkpoints = own_stopped / "checkpoints"
    for step, (damage, name) in zip((4, 3, 2), damages, strict=True):
        damage(checkpoints / f"step-{step:09}" / name)
    outcome = run(*flags_of(few_images), f"--run_dir={own_stopped}")
    assert all(f"step-{step:09} cannot be used" in outcome.stderr for step in (4, 3, 2)), outcome
    assert f"resuming from {checkpoints}/step-000000001" in outcome.stderr
    assert weights_and_losses(own_stopped) == undisturbed()


@pytest.mark.fault(13, "all checkpoints are damaged", "refused with 5")
def test_nothing_is_trained_when_every_checkpoint_is_damaged(few_images, own_stopped):
    for folder in (own_stopped / "checkpoints").iterdir():
        flip_a_bit(folder / "optimizer.safetensors")
    before = weights_and_losses(own_stopped)
    outcome = run(*flags_of(few_images), f"--run_dir={own_stopped}", check=5)
    assert "what to do: " in outcome.stderr
    assert load_json(own_stopped / "error.json")["exit_code"] == 5
    assert weights_and_losses(own_stopped) == before
    outcome = run(*flags_of(few_images), f"--run_dir={own_stopped}", "--resume=none", "--max_steps=1")
    assert [step for step, _ in losses(own_stopped)] == [1]


# ---- Another run -----------------------------------------------------------------------------------------------------


def test_another_configuration_does_not_go_on(few_images, own_stopped):
    before = {name: (own_stopped / name).read_bytes() for name in ("config.json", "metrics.jsonl", "latest")}
    outcome = run(*flags_of(few_images), "--repeated_augmentation=2", f"--run_dir={own_stopped}", check=2)
    assert "the checkpoint was made with repeated_augmentation = " in outcome.stderr and "--resume=none" in outcome.stderr
    assert {name: (own_stopped / name).read_bytes() for name in before} == before
    # One that is named, and refused, leaves the later ones.
    checkpoints = sorted(own_stopped.glob("checkpoints/*"))
    run(*flags_of(few_images), "--seed=5", f"--run_dir={own_stopped}", f"--resume={checkpoints[0]}", check=2)
    assert sorted(own_stopped.glob("checkpoints/*")) == checkpoints


@pytest.mark.fault(21, "the data set has changed before a resume", "refused, unless --allow_dataset_change")
def test_other_data_must_be_allowed(own_images, own_stopped):
    picture("red", np.random.default_rng(1)).save(own_images / "train" / "red" / "new.jpg")
    outcome = run(*flags_of(own_images), f"--run_dir={own_stopped}", check=3)
    assert "the data set has changed" in outcome.stderr and "--allow_dataset_change" in outcome.stderr
    run(*flags_of(own_images), f"--run_dir={own_stopped}", "--allow_dataset_change")
    assert [step for step, _ in losses(own_stopped)] == list(range(1, STEPS + 1))


def test_a_named_checkpoint_is_taken(undisturbed, few_images, stopped, run_dir):
    named = f"--resume={stopped / 'checkpoints' / 'step-000000002'}"
    assert "--resume=auto to go on" in run(*flags_of(few_images), f"--run_dir={run_dir}", named, "--max_hours=0.0000001", check=75).stderr
    said = run(*flags_of(few_images), f"--run_dir={run_dir}", named).stderr
    assert f"the earlier run in {run_dir} was moved" in said
    assert sha256(run_dir / "model.safetensors") == undisturbed()[0]
    assert [step for step, _ in losses(run_dir)] == [3, 4, 5, 6, 7]


def test_another_run_that_goes_on_here_is_not_mixed_with_the_one_before(few_images, stopped, run_dir):
    flags = (*flags_of(few_images), f"--run_dir={run_dir}")
    run(*flags, "--lr=0.2", "--limit_train_steps=3")
    assert load_json(run_dir / "result.json")["best_step"] == 3
    lines = (run_dir / "metrics.jsonl").read_bytes()
    other = run_dir.parent / "other"
    shutil.copytree(stopped, other)
    change_state(other / "checkpoints" / "step-000000004", lambda state: state["progress"]["best"].update(step=3))
    said = run(*flags, f"--resume={other / 'checkpoints' / 'step-000000004'}").stderr
    assert "the earlier run in" in said and "that of step 3, are lost" in said
    assert (run_dir / "aside-1" / "metrics.jsonl").read_bytes() == lines
    assert [step for step, _ in losses(run_dir)] == [5, 6, 7]
    # Its own checkpoint is not another run's, however it is named.
    run(*flags_of(few_images), "--run_dir=.", "--resume=checkpoints/step-000000007", "--epochs=4", "--max_steps=8", cwd=run_dir)
    assert [step for step, _ in losses(run_dir)] == [5, 6, 7, 8] and not (run_dir / "aside-2").exists()
    said = run(*flags_of(few_images), f"--run_dir={run_dir}", f"--resume={run_dir / 'checkpoints' / 'step-000000007'}", "--limit_train_steps=1").stderr
    assert "1 later checkpoint moved" in said
    # The same command again takes what the other run has done since.
    run(*flags_of(few_images), f"--run_dir={other}", "--limit_train_steps=1")
    run(*flags, f"--resume={other / 'checkpoints' / 'step-000000004'}", "--limit_train_steps=1")
    assert [step for step, _ in losses(run_dir)] == [5] and (run_dir / "aside-2").exists()


def test_the_best_weights_are_those_of_the_best_step(few_images, own_stopped, run_dir, tmp_path):
    """Going back, or on elsewhere, leaves the weights of an earlier best step behind."""
    change_state(own_stopped / "checkpoints" / "step-000000004", lambda state: state["progress"]["best"].update(step=2))
    said = run(*flags_of(few_images), f"--run_dir={tmp_path / 'new'}", f"--resume={own_stopped / 'checkpoints' / 'step-000000004'}").stderr
    assert "that of step 2, are lost" in said
    shutil.copytree(own_stopped, tmp_path / "back")
    (tmp_path / "back" / "model_best.safetensors").unlink()
    said = run(*flags_of(few_images), f"--run_dir={tmp_path / 'back'}", f"--resume={own_stopped / 'checkpoints' / 'step-000000003'}",
               "--limit_train_steps=1").stderr
    assert "are lost" not in said  # they are those of the checkpoint
    for folder in (tmp_path / "new", tmp_path / "back"):
        with safe_open(folder / "model_best.safetensors", "np") as weights:
            assert int(weights.metadata()["step"]) == load_json(folder / "result.json")["best_step"]


def test_a_run_with_fewer_steps_to_do_than_it_has_done_is_evaluated(few_images, stopped, run_dir):
    outcome = run(*flags_of(few_images), f"--run_dir={run_dir}", f"--resume={stopped / 'checkpoints' / 'step-000000002'}", "--max_steps=1")
    assert "this run is finished" in outcome.stderr and outcome.last_line.startswith("val_")


def test_another_metric_decides_by_its_own_best_value(few_images, own_stopped):
    def lower_loss(state):
        (metric,) = (metric for metric in state["progress"]["best"]["metrics"] if metric["name"] == "loss")
        metric["value"] = 0.001
    change_state(own_stopped / "checkpoints" / "step-000000004", lower_loss)
    best_step = load_json(own_stopped / "result.json")["best_step"]
    run(*flags_of(few_images), f"--run_dir={own_stopped}", "--best_metric=loss")
    result = load_json(own_stopped / "result.json")
    assert (result["best_step"], result["best_loss"]) == (best_step, 0.001)


def test_what_the_best_validation_and_the_flags_of_before_mean_now(few_images, own_stopped, run_dir):
    """Another set decides, another flag changes numbers, and weights to begin with come too late."""
    change_state(own_stopped / "checkpoints" / "step-000000004", lambda state: state["config"].update(val_split="test,val"))
    weights = run_dir / "model.safetensors"
    said = run(*flags_of(few_images), f"--run_dir={run_dir}", "--sync_bn", f"--init_weights={weights}").stderr
    assert "the best validation is that of test, and now val decides" in said
    assert (run_dir / "checkpoints" / "aside-model_best.safetensors").exists()
    assert "sync_bn false → true" in said
    assert f"--init_weights={weights} is not used" in said and "init_weights none" not in said


@pytest.mark.parametrize("job, last", (({"AWS_BATCH_JOB_ID": "a0b1"}, [1, 2]), ({"TORCHELASTIC_RUN_ID": "none"}, [1])))
def test_a_requeued_job_goes_on_with_its_own_run_alone(few_images, own_stopped, job, last):
    """The first attempt of a job that begins anew ended before it had moved another run away. Of jobs without a name, a run that has
    ended may be another job's."""
    for attempt, steps in ((2, [1]), (3, last)):
        run(*flags_of(few_images), f"--run_dir={own_stopped}", "--resume=none", "--limit_train_steps=1",
            env=job | {"AWS_BATCH_JOB_ATTEMPT": str(attempt)})
        assert [step for step, _ in losses(own_stopped)] == steps


def test_a_restarted_job_waits_for_the_lock_of_a_lost_machine(few_images, own_stopped):
    """The file system holds it for a while, with NFS 90 s. A job that is new is refused: tests/trainer/checkpoint."""
    flags = (*flags_of(few_images), f"--run_dir={own_stopped}")
    with (own_stopped / "lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(b"process 7 on host lost\n")
        lock.flush()
        with Background(*flags, env={"AWS_BATCH_JOB_ATTEMPT": "2"}) as job:
            wait_until(lambda: "is in use by process 7 on host lost: waiting up to 180 s" in job.stderr_so_far, "the warning")
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert job.wait().code == 0


@pytest.mark.parametrize("job, steps", (("77", [[1, 2]]), ("none", [[1], [1]])))
def test_a_job_without_a_run_directory_goes_on_when_it_is_started_again(few_images, tmp_path, job, steps):
    """torchrun calls every job none: of these, a run that has ended may be another job's. What cannot be read is no run."""
    unreadable = tmp_path / "runs" / "unreadable"
    (unreadable / "config.json").mkdir(parents=True)
    for attempt in (1, 2):
        run(*flags_of(few_images), "--limit_train_steps=1", cwd=tmp_path,
            env={"TORCHELASTIC_RUN_ID": job, "AWS_BATCH_JOB_ATTEMPT": str(attempt)})
    runs = sorted(set((tmp_path / "runs").iterdir()) - {unreadable})
    assert [[step for step, _ in losses(run_dir)] for run_dir in runs] == steps


def test_a_job_that_took_the_newest_run_keeps_it(few_images, tmp_path):
    new, last = (*flags_of(few_images), "--limit_train_steps=1"), (*flags_of(few_images), "--limit_train_steps=1", "--resume=last")
    for flags, job, restarts in ((new, "89", 0), (last, "90", 0), (new, "91", 0), (last, "90", 1)):
        run(*flags, cwd=tmp_path, env={"SLURM_JOB_ID": job, "SLURM_RESTART_COUNT": str(restarts)})
    assert [len(losses(run_dir)) for run_dir in sorted((tmp_path / "runs").iterdir())] == [3, 1]


def test_a_run_that_lacks_its_last_evaluation_alone_may_still_have_diverged(few_images, tmp_path, run_dir):
    shutil.copytree(few_images / "train", tmp_path / "data" / "train")
    flags = (*flags_of(tmp_path / "data"), "--lr=1e20", f"--run_dir={run_dir}")
    run(*flags, check=None)
    shutil.copytree(few_images / "val", tmp_path / "data" / "val")
    assert "not finite" in run(*flags, check=6).stderr


@pytest.mark.fault(16, "two jobs on one run directory", "the second one is refused")
def test_a_second_job_on_the_run_directory_is_refused(few_images, run_dir):
    with Background(*flags_of(few_images), "--epochs=90000", "--max_steps=100000", f"--run_dir={run_dir}") as first:
        first.wait_for_line("step 1/")
        outcome = run(*flags_of(few_images), "--epochs=90000", "--max_steps=100000", f"--run_dir={run_dir}", check=5)
        assert str(first.pid) in outcome.stderr  # names the holder
        assert not (run_dir / "error.json").exists()  # the second run must not write into it
        first.process.send_signal(signal.SIGTERM)
        ended = first.wait()
    assert ended.code == 75, ended
    steps = [step for step, _ in losses(run_dir)]
    assert steps == list(range(1, len(steps) + 1))


# ---- What changes from epoch to epoch ----------------------------------------------------------------------------------


def test_growing_images_go_on_bit_for_bit(few_images, tmp_path, run_dir):
    """Sizes change at steps 4 and 6; the run is stopped before the first and after the second one."""
    flags = (*flags_of(few_images), "--image_size_schedule=0:16,1:24,2:32", "--image_size=24")
    assert json.loads(run(*flags, "--dry_run", "--log_format=json").last_line)["image_sizes"] == [
        {"epoch": 0, "size": 16, "first_step": 1}, {"epoch": 1, "size": 24, "first_step": 4}, {"epoch": 2, "size": 32, "first_step": 6}]
    run(*flags, f"--run_dir={tmp_path / 'undisturbed'}")
    for _ in range(3):
        run(*flags, f"--run_dir={run_dir}", "--limit_train_steps=3")
    assert weights_and_losses(run_dir) == weights_and_losses(tmp_path / "undisturbed")
