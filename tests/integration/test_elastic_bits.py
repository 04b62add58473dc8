"""--deterministic=elastic: the final weights have the same bits on any number of ranks and threads. That this is so when
ranks are killed and their number changes in mid-epoch is tested by faults/test_killed_ranks.py."""

import pytest

from command import load_json, losses, metrics, run, sha256
from text_data import TEXT, make_tokens

ELASTIC = ("--deterministic=elastic", "--epochs=1000", "--log_interval=1", "--save_every_epochs=0", "--eval_every_epochs=0",
           "--ema_decay=0.9", "--clip_norm=0.1")
# 5 shards of 2 or 3 images; the network has batch normalisation, dropout and stochastic depth.
IMAGES = (*ELASTIC, "--model=efficientnet_b0", "--image_size=32", "--global_batch_size=11", "--elastic_shards=5",
          "--optimizer=lamb", "--lr=0.01", "--mixup=0.2", "--cutmix=1", "--max_steps=4")
# 8 shards of 2 or 3 blocks
TEXTS = (*ELASTIC, "--model=roberta_tiny", "--tokens_per_sample=32", "--global_batch_size=19", "--optimizer=adam", "--lr=0.002",
         "--dropout=0.1", "--attention_dropout=0.1", "--max_steps=6", "--precision=bf16")


@pytest.fixture(scope="module")
def tokens(module_dir):
    return make_tokens(module_dir, train=TEXT, valid="the dog and the cat sat\n" * 30)


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
    for kind, flags, worlds in (("images", IMAGES, (1, 3, 5)), ("texts", TEXTS, (1, 8)))])
def test_any_number_of_ranks_and_threads_has_the_same_bits(few_images, tokens, tmp_path, kind, flags, worlds):
    found = []
    for world in worlds:
        run(*flags, *ranks(world), f"--data_dir={few_images if kind == 'images' else tokens}", f"--run_dir={tmp_path / str(world)}",
            threads=world % 3 + 1)
        found.append(outcome_of(tmp_path / str(world)))
    assert len(found[0][2]) >= 4 and all(one == found[0] for one in found), worlds


def test_what_is_not_the_same_run_is_refused(few_images, run_dir):
    plain = (f"--data_dir={few_images}", "--model=resnet18", "--image_size=16", "--global_batch_size=8",
             "--eval_every_epochs=0", f"--run_dir={run_dir}", "--limit_train_steps=1")
    elastic = (*plain, "--deterministic=elastic")

    def refusal(*flags) -> str:
        return run(*flags, check=2).stderr

    run(*elastic, "--elastic_shards=2")
    run(*elastic)  # the shards are those of the checkpoint
    assert "elastic_shards = 2, but this run has 4" in refusal(*elastic, "--elastic_shards=4")
    assert "2 shards of the global batch, too few for 3 ranks" in refusal(*elastic, *ranks(3))
    assert "with --deterministic=elastic, but this run is without it" in refusal(*plain)
    assert load_json(run_dir / "result.json")["step"] == 2
    run(*plain, "--resume=none")
    message = refusal(*elastic)
    assert "without --deterministic=elastic, but this run is with it" in message and "--resume=none" in message
    assert "a single value of each channel" in refusal(*elastic, "--elastic_shards=8", "--resume=none")
