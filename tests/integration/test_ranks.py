"""Several ranks give the same numbers as one; a run resumes on more or fewer of them, with the same samples in the same global
batches; and with --deterministic=elastic the bits are the same on any number of ranks and threads. That this is so when ranks are
killed and their number changes in mid-epoch is tested by faults/test_killed_ranks.py."""

import json
import os
import shutil

import pytest

from command import TINY_RESNET, TINY_STEADY, Background, free_port, load_json, losses, metrics, run, sha256

GENTLE = (*TINY_STEADY, "--lr=0.0005", "--max_steps=3")


def values(run_dir) -> list[float]:
    return [loss for _, loss in losses(run_dir)]


def test_synchronised_statistics_make_ranks_equal_one(few_images, tmp_path):
    """Of a ResNet, since an EfficientNet amplifies rounding."""
    flags = (*TINY_RESNET, *GENTLE[-2:], f"--data_dir={few_images}", "--augment=basic")
    run(*flags, f"--run_dir={tmp_path / 'one'}")
    outcome = run(*flags, "--sync_bn", "--batch_size=4", "--nproc_per_node=4", f"--run_dir={tmp_path / 'several'}")
    assert "4 ranks" in outcome.stdout
    assert values(tmp_path / "several") == pytest.approx(values(tmp_path / "one"), rel=1e-4)
    one, several = (metrics(tmp_path / name, "val")[-1]["loss"] for name in ("one", "several"))
    assert several == pytest.approx(one, rel=1e-3)  # the running statistics are the same, too
    assert load_json(tmp_path / "several" / "result.json")["world_size"] == 4


def test_evaluation_counts_every_sample_once_whatever_the_ranks(images, run_dir):
    """40 samples in batches of 7 make unequal shares and short last batches."""
    run(*GENTLE, f"--data_dir={images}", f"--run_dir={run_dir}", "--limit_val_steps=1")
    flags = ("--mode=eval", f"--data_dir={images}", f"--init_weights={run_dir / 'model.safetensors'}", *TINY_STEADY,
             "--batch_size=7", "--log_format=json")
    points = [json.loads(run(*flags, f"--nproc_per_node={world}").lines[0]) for world in (1, 2, 3, 4)]
    assert points[0]["top1"] * 40 / 100 == pytest.approx(round(points[0]["top1"] * 40 / 100))
    loss, first = points[0].pop("loss"), {name: value for name, value in points[0].items() if "second" not in name}
    for point in points[1:]:
        assert point.pop("loss") == pytest.approx(loss, rel=1e-6)  # batches are cut differently
        assert {name: value for name, value in point.items() if "second" not in name} == first


def test_the_newest_checkpoint_counts_on_whosever_disk_it_is(few_images, tmp_path):
    """Two machines with a run directory of their own; after the first steps they change their ranks."""
    def start(first, second, *flags):
        port = str(free_port())
        ranks = [{"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": str(rank),
                  "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} for rank in range(2)]
        command = (*GENTLE, f"--data_dir={few_images}", "--batch_size=4", *flags)
        with Background(*command, f"--run_dir={tmp_path / second}", env=ranks[1]) as other:
            outcome = run(*command, f"--run_dir={tmp_path / first}", env=ranks[0])
            ended = other.wait()
            assert ended.code == 0, ended
        return outcome

    start("one", "one")
    start("here", "there", "--limit_train_steps=1")
    assert not (tmp_path / "there" / "checkpoints").exists()
    start("here", "there", "--limit_train_steps=1")
    damaged = tmp_path / "there" / "checkpoints" / "step-000000009"
    shutil.copytree(tmp_path / "here" / "checkpoints" / "step-000000002", damaged)
    outcome = start("there", "here", "--eval_every_epochs=0")
    assert f"checkpoint {damaged} cannot be used" in outcome.stderr
    assert "rank 1 has the newest checkpoint, of step 2" in outcome.stderr
    assert sha256(tmp_path / "there" / "model.safetensors") == sha256(tmp_path / "one" / "model.safetensors")
    assert [step for step, _ in losses(tmp_path / "there")] == [3]
    found = sorted(path.name for path in (tmp_path / "there" / "checkpoints").iterdir())
    assert found == ["aside-1-step-000000009", "step-000000003"]
    # A run that begins anew does so on both disks; then the machines change their ranks once more.
    start("here", "there", "--resume=none", "--limit_train_steps=1")
    assert {path.name.partition("-")[0] for path in (tmp_path / "there" / "checkpoints").iterdir()} == {"aside"}
    assert "rank 1 has the newest checkpoint, of step 1" in start("there", "here", "--limit_train_steps=1").stderr
    # Both evaluate the weights of rank 0.
    found = []
    for name, other in (("there", None), ("one", None), ("one", "there")):
        if other:
            start(name, other, "--mode=eval")
        else:
            run("--mode=eval", f"--data_dir={few_images}", f"--run_dir={tmp_path / name}")
        found.append(load_json(tmp_path / name / "eval-val" / "result.json")["val_loss"])
    assert found[2] == pytest.approx(found[1], rel=1e-6) and found[0] != pytest.approx(found[1], rel=1e-4)


IS_LONG = os.environ.get("DTRAIN_LONG_TESTS") == "1"
# Ranks in each step. Twice one rank: what the first resumed run has kept is kept again.
WORLDS = (3, 1, 1, 2, 4) if IS_LONG else (3, 1, 1, 2)
BATCH = {1: "--batch_size=4 --grad_accum_steps=3", 2: "--batch_size=3 --grad_accum_steps=2",
         4: "--batch_size=3 --grad_accum_steps=1"}  # of the global batch of the first step, 12


def flags_of(data, *flags) -> tuple:
    """The weights do not change, so that the losses depend only on the samples, and on which of them are normalised
    together: rounding, which differs, would grow from step to step."""
    tiny = (flag for flag in TINY_STEADY if not flag.startswith(("--batch_size", "--lr")))
    return (*tiny, "--lr=0", f"--data_dir={data}", "--image_size=16", "--batch_size=4", f"--max_steps={len(WORLDS) + 1}",
            *flags)


def alone(data, folder) -> list:
    """The losses of one rank."""
    run(*flags_of(data, f"--run_dir={folder}", "--global_batch_size=12", f"--limit_train_steps={len(WORLDS)}"))
    return losses(folder)


def test_ranks_may_come_and_go(few_images, tmp_path, run_dir):
    """One command, which does not name the global batch, starts all runs, as an elastic launcher does."""
    expected = alone(few_images, tmp_path / "one")
    assert max(loss for _, loss in expected) > 1.02 * min(loss for _, loss in expected)  # of other samples it is another one
    flags = flags_of(few_images, f"--run_dir={run_dir}", "--limit_train_steps=1")
    for until, world in enumerate(WORLDS, 1):
        ranks = (f"--nproc_per_node={world}",) if world > 1 else ()
        outcome = run(*flags, *ranks)
        if until == 1:
            assert "global batch of 12 is kept" not in outcome.stderr
        else:
            kept = f"the run's global batch of 12 is kept on {world} rank{'s' * (world > 1)}: {BATCH[world]}"
            assert kept in outcome.stderr, outcome
        result = load_json(run_dir / "result.json")
        assert (result["step"], result["world_size"]) == (until, world)
    assert load_json(run_dir / "config.json")["global_batch_size"] == 12
    found = losses(run_dir)
    assert [step for step, _ in found] == [step for step, _ in expected]
    batches_of_four = slice(0, 3)
    assert [loss for _, loss in found[batches_of_four]] == pytest.approx(
        [loss for _, loss in expected[batches_of_four]], rel=1e-5)
    assert "global_batch_size = 12" in run(*flags, "--nproc_per_node=5", check=2).stderr
    assert "global_batch_size = 12" in run(*flags, "--batch_size=5", check=2).stderr  # a change that somebody typed


ELASTIC = ("--deterministic=elastic", "--epochs=1000", "--log_interval=1", "--save_every_epochs=0", "--eval_every_epochs=0",
           "--ema_decay=0.9", "--clip_norm=0.1")
# 5 shards of 2 or 3 images; the network has batch normalisation, dropout and stochastic depth.
IMAGES = (*ELASTIC, "--model=efficientnet_b0", "--image_size=32", "--global_batch_size=11", "--elastic_shards=5",
          "--optimizer=lamb", "--lr=0.01", "--mixup=0.2", "--cutmix=1", "--max_steps=4")
# 8 shards of 2 or 3 blocks
TEXTS = (*ELASTIC, "--model=roberta_tiny", "--tokens_per_sample=32", "--global_batch_size=19", "--optimizer=adam", "--lr=0.002",
         "--dropout=0.1", "--attention_dropout=0.1", "--max_steps=6", "--precision=bf16")


def ranks(count: int) -> tuple:
    return (f"--nproc_per_node={count}",) if count > 1 else ()


def outcome_of(run_dir) -> tuple:
    """Returns everything that must be the same: weights, their average, all losses and the last validation."""
    last = metrics(run_dir, "val")[-1]
    values = {name: value for name, value in last.items() if not name.endswith("seconds") and name not in ("time", "speed")}
    return sha256(run_dir / "model.safetensors"), sha256(run_dir / "model_ema.safetensors"), losses(run_dir), values


@pytest.mark.parametrize("kind, flags, worlds", [
    pytest.param(kind, flags, worlds, id=kind, marks=pytest.mark.fault(26, f"{kind} at {', '.join(map(str, worlds[:-1]))} and {worlds[-1]} ranks, "
                                                                       "--deterministic=elastic", "the same bits"))
    for kind, flags, worlds in (("images", IMAGES, (1, 3, 5) if IS_LONG else (1, 5)), ("texts", TEXTS, (1, 8)))])
def test_any_number_of_ranks_and_threads_has_the_same_bits(few_images, tokens, tmp_path, kind, flags, worlds):
    found = []
    for world in worlds:
        run(*flags, *ranks(world), f"--data_dir={few_images if kind == 'images' else tokens}", f"--run_dir={tmp_path / str(world)}",
            threads=world % 3 + 1)
        found.append(outcome_of(tmp_path / str(world)))
    assert len(found[0][2]) >= 4 and all(one == found[0] for one in found), worlds


def test_what_is_not_the_same_run_is_refused(few_images, run_dir):
    plain = (f"--data_dir={few_images}", "--model=efficientnet_b0", "--image_size=16", "--lr=0.001", "--global_batch_size=8",
             "--eval_every_epochs=0", f"--run_dir={run_dir}", "--limit_train_steps=1")
    elastic = (*plain, "--deterministic=elastic")

    def refusal(*flags) -> str:
        return run(*flags, check=2).stderr

    run(*elastic, "--elastic_shards=2")
    run(*elastic)  # the shards are those of the checkpoint
    assert "elastic_shards = 2, but this run has 4" in refusal(*elastic, "--elastic_shards=4")
    assert "2 shards of the global batch, too few for 3 ranks" in refusal(*elastic, *ranks(3))
    message = refusal(*plain)
    assert "with --deterministic=elastic, but this run is without it" in message and "--resume=none" in message
    assert load_json(run_dir / "result.json")["step"] == 2
    assert "a single value of each channel" in refusal(*elastic, "--elastic_shards=8", "--resume=none")
