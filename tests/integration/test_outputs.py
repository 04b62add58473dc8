"""Nothing is written over what is read, whatever name it is given; and what is unfinished is removed. What a run keeps:
data/outputs_test.cc, of every flag test_every_output.py."""

import os
import shutil
import signal

import pytest

from command import DATA, TINY, Background, load_json, run, sha256, wait_until


def refused(*flags, code=2, **options):
    outcome = run(*flags, check=code, **options)
    assert f"exit code {code})" in outcome.stderr and "what to do: " in outcome.stderr, outcome
    return outcome.stderr


def export(source, target, *flags, check=0):
    return run("--mode=export", f"--input={source}", f"--output={target}", *flags, check=check)


def test_an_export_replaces_only_an_export(one_step, tmp_path):
    folder = tmp_path / "exported"
    for _ in range(2):
        export(one_step, folder)
    first = sha256(folder / "model.safetensors")
    assert load_json(folder / "config.json")["exported_by"] == "dtrain"
    for source in (folder, folder / "model.safetensors"):
        assert "is read" in export(source, folder, check=2).stderr
    assert "is read" in export(folder, folder / "model.safetensors", check=2).stderr
    (folder / "config.json").write_text('{"model_type": "roberta"}', encoding="utf-8")
    assert "files of another origin" in export(one_step, folder, check=2).stderr
    # A training does not replace it either, nor what it starts from.
    train = (*TINY, "--data_format=synthetic", "--num_classes=4", "--max_steps=1", f"--run_dir={folder}")
    assert "config.json exists, and this command did not write it" in refused(*train)
    (folder / "config.json").unlink()
    assert "which is read" in refused(*train, f"--init_weights={folder / 'model.safetensors'}")
    assert sha256(folder / "model.safetensors") == first and len(list(folder.iterdir())) == 1


def test_a_run_that_lost_a_file_is_told_what_to_do(tmp_path):
    train = (*TINY, "--data_format=synthetic", "--num_classes=4", "--max_steps=1", f"--run_dir={tmp_path}")
    run(*train)
    (tmp_path / "config.json").unlink()
    assert "the config.json of this run is missing: copy the last file of its attempts there" in refused(*train)
    shutil.copy(max((tmp_path / "attempts").iterdir()), tmp_path / "config.json")
    run(*train)
    (tmp_path / "times.jsonl").unlink()
    (tmp_path / "times.jsonl").mkdir()
    assert "something of another kind has this name" in refused(*train, code=5)


def test_a_link_to_what_is_not_mounted_stays(tmp_path):
    """What a retry would write beside it would be on another disk."""
    (tmp_path / "runs").symlink_to(tmp_path / "unmounted/runs")
    for more in ((), ("--dry_run",)):
        said = refused(*TINY, "--data_format=synthetic", "--num_classes=4", "--max_steps=1", f"--run_dir={tmp_path / 'runs/1'}", *more, code=5)
        assert f"{tmp_path / 'runs'} is a link to {tmp_path / 'unmounted/runs'}, which is not there" in said
    assert (tmp_path / "runs").is_symlink()


def test_an_evaluation_quotes_no_defaults(one_step, few_images, tmp_path):
    export(one_step, tmp_path / "timm")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "config.json").write_text('{"model": "roberta_tiny", "image_size": 224}', encoding="utf-8")
    for folder, missing in (("timm", "model"), ("text", "tokens_per_sample")):
        message = refused("--mode=eval", f"--data_dir={few_images}", f"--run_dir={tmp_path / folder}")
        assert f"is not the configuration of a run: it has no {missing}" in message
        assert "--image_size=224" not in message


def test_what_is_no_file_is_not_exported(one_step, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.safetensors")
    for name in ("pipe", "pipe.safetensors"):
        assert "no regular file" in export(tmp_path / name, tmp_path / "x", check=2).stderr
    assert "no regular file" in export(one_step, tmp_path / "pipe.safetensors", check=2).stderr
    assert "scripts/export_onnx.py" in export(one_step, tmp_path / "x.onnx", check=2).stderr
    assert "end it in /" in export(one_step, tmp_path / "x.bin", check=2).stderr
    assert "a model of images" in export(one_step / "model.safetensors", tmp_path / "x", "--task=masked_lm", check=2).stderr
    assert not list(tmp_path.glob("x*"))
    for folder in ("v1.0", "x.bin/"):
        export(one_step, f"{tmp_path}/{folder}")
        assert (tmp_path / folder / "config.json").exists()


def test_nothing_is_written_among_the_data(own_images):
    """Its folders would be classes."""
    train, data_dir = own_images / "train", f"--data_dir={own_images}"
    for flag in (f"--run_dir={train}", f"--run_dir={train / 'new'}", f"--index_dir={train / 'new'}"):
        assert "lies in the data" in refused(*TINY, data_dir, "--max_steps=1", flag)
    for command in (("pack", f"--output={train / 'a' / 'b'}", "--output_format=tfrecord"), ("index", f"--index_dir={train / 'x'}"),
                    ("verify", f"--output={own_images / 'val' / 'x'}")):
        assert "lies in the data" in run(*command, data_dir, program=DATA, check=2).stderr
    assert sorted(path.name for path in train.iterdir()) == ["blue", "green", "red", "stripes"]
    run("index", data_dir, f"--index_dir={train / '.hidden'}", program=DATA)
    run("verify", data_dir, f"--output={own_images / 'new'}", program=DATA)
    (own_images / "texts" / "train" / "a").mkdir(parents=True)
    (own_images / "texts" / "train" / "a" / "x.txt").write_text("x", encoding="utf-8")
    texts = (f"--data_dir={own_images / 'texts'}", "--task=text_classification", f"--run_dir={own_images / 'texts' / 'train' / 'run'}")
    assert "lies in the data" in run("--model=bert_tiny", *texts, check=2).stderr
    shards = own_images / "shards"
    run("pack", data_dir, f"--output={shards}", "--output_format=tfrecord", program=DATA)
    run(*TINY, f"--data_dir={shards}", "--data_format=tfrecord", "--train_split=.", "--max_steps=1", f"--index_dir={shards / 'i'}", f"--run_dir={shards / 'run'}")


@pytest.mark.parametrize("program", ["predict", "pack"])
def test_a_signal_leaves_nothing_unfinished(one_step, few_images, tmp_path, program):
    folder = tmp_path / "photos" / "train" / "red"
    folder.mkdir(parents=True)
    for number in range(2000):
        os.link(few_images / "val" / "red" / "000.jpg", folder / f"{number}.jpg")
    out = tmp_path / "out"
    out.mkdir()
    command = (("--mode=predict", f"--run_dir={one_step}", f"--input={folder}", f"--output={out / 'x.csv'}", "--batch_size=1")
               if program == "predict" else ("pack", f"--data_dir={folder.parents[1]}", f"--output={out}", "--shards=1",
                                             "--output_format=webdataset", "--short_side=20", "--workers=1"))
    unfinished = out / (".x.csv.tmp" if program == "predict" else "train-000000.tar.partial")
    with Background(*command, **({"program": DATA} if program == "pack" else {})) as process:
        wait_until(unfinished.exists, "the unfinished file")
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait().code == -signal.SIGTERM
    assert not unfinished.exists() and not (out / "x.csv").exists()
    assert {path.name for path in out.iterdir()} <= {"pack.json", "classes.txt"}
