"""Nothing is written over what is read, or over a run, whatever name it is given; and what is unfinished is removed."""

import os
import shutil
import signal

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from command import BENCH, DATA, TINY, Background, load_json, run, sha256, wait_until
from text_data import TEXT, write_tokenizer


@pytest.fixture(scope="module")
def trained(few_images, module_dir):
    run(*TINY, f"--data_dir={few_images}", "--max_steps=1", f"--run_dir={module_dir / 'r'}")
    (module_dir / "link").symlink_to("r")
    return module_dir / "r"


@pytest.fixture
def unchanged(trained):
    """Compares the run's files after the test with those before it."""
    def state():
        return {path: sha256(path) for path in trained.rglob("*") if path.is_file()}
    before = state()
    yield
    assert state() == before


def refused(*flags, code=2, **options):
    outcome = run(*flags, check=code, **options)
    assert f"exit code {code})" in outcome.stderr and "what to do: " in outcome.stderr, outcome
    return outcome.stderr


def export(source, target, *flags, check=0):
    return run("--mode=export", f"--input={source}", f"--output={target}", *flags, check=check)


@pytest.mark.usefixtures("unchanged")
def test_a_run_is_not_exported_onto_itself(trained):
    folder = trained.parent
    for output in ("r", "link/checkpoints", "r/model.safetensors"):  # data/outputs_test.cc has more names
        said = refused("--mode=export", f"--input={trained}", f"--output={folder}/{output}")
        assert "belongs to the run in" in said or "is read" in said


@pytest.mark.usefixtures("unchanged")
def test_predictions_replace_no_file_of_a_run(trained, few_images, tmp_path):
    (tmp_path / "m.jsonl").symlink_to(trained / "metrics.jsonl")
    predict = ("--mode=predict", f"--run_dir={trained}", f"--input={few_images / 'val' / 'red'}")
    for output in (trained / "metrics.jsonl", trained.parent / "link" / "class_accuracy.csv", tmp_path / "m.jsonl"):
        assert "belongs to the run in" in refused(*predict, f"--output={output}")
    other = shutil.copytree(trained, tmp_path / "other")
    assert "belongs to the run in" in refused("--mode=eval", f"--data_dir={few_images}", f"--run_dir={trained}",
                                              f"--output={other}")
    shutil.rmtree(other / "checkpoints")  # still a run: its result.json is that of the training
    before = sha256(other / "result.json")
    run("--mode=eval", f"--data_dir={few_images}", f"--run_dir={other}")
    assert sha256(other / "result.json") == before
    shutil.rmtree(other)


def test_an_export_replaces_only_an_export(trained, tmp_path):
    folder = tmp_path / "exported"
    for _ in range(2):
        export(trained, folder)
    first = sha256(folder / "model.safetensors")
    assert load_json(folder / "config.json")["exported_by"] == "dtrain"
    for source in (folder, folder / "model.safetensors"):
        assert "is read" in export(source, folder, check=2).stderr
    assert "is read" in export(folder, folder / "model.safetensors", check=2).stderr
    (folder / "config.json").write_text('{"model_type": "roberta"}', encoding="utf-8")
    assert "files of another origin" in export(trained, folder, check=2).stderr
    # A training does not replace it either, nor what it starts from.
    train = (*TINY, "--data_format=synthetic", "--num_classes=4", "--max_steps=1", f"--run_dir={folder}")
    assert "config.json exists, and this command did not write it" in refused(*train)
    (folder / "config.json").unlink()
    assert "which is read" in refused(*train, f"--init_weights={folder / 'model.safetensors'}")
    assert sha256(folder / "model.safetensors") == first and len(list(folder.iterdir())) == 1


def test_an_evaluation_quotes_no_defaults(trained, few_images, tmp_path):
    export(trained, tmp_path / "timm")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "config.json").write_text('{"model": "roberta_tiny", "image_size": 224}', encoding="utf-8")
    for folder, missing in (("timm", "model"), ("text", "tokens_per_sample")):
        message = refused("--mode=eval", f"--data_dir={few_images}", f"--run_dir={tmp_path / folder}")
        assert f"is not the configuration of a run: it has no {missing}" in message
        assert "--image_size=224" not in message


def test_what_is_no_file_is_not_exported(trained, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.safetensors")
    for name in ("pipe", "pipe.safetensors"):
        assert "no regular file" in export(tmp_path / name, tmp_path / "x", check=2).stderr
    assert "no regular file" in export(trained, tmp_path / "pipe.safetensors", check=2).stderr
    assert "scripts/export_onnx.py" in export(trained, tmp_path / "x.onnx", check=2).stderr
    assert "end it in /" in export(trained, tmp_path / "x.bin", check=2).stderr
    assert not list(tmp_path.glob("x*"))
    for folder in ("v1.0", "x.bin/"):
        export(trained, f"{tmp_path}/{folder}")
        assert (tmp_path / folder / "config.json").exists()


def test_images_and_tensors_are_not_replaced(trained, few_images, tmp_path):
    shutil.copy(few_images / "val" / "red" / "000.jpg", tmp_path / "photo.jpg")
    (tmp_path / "out.csv").symlink_to("photo.jpg")
    os.link(tmp_path / "photo.jpg", tmp_path / "out.jsonl")
    predict = ("--mode=predict", f"--run_dir={trained}")
    for output in ("out.csv", "out.jsonl"):
        assert "which is read" in refused(*predict, f"--input={tmp_path / 'photo.jpg'}", f"--output={tmp_path / output}")
    tensors = tmp_path / "train.safetensors"
    save_file({"images": np.zeros((2, 3, 32, 32), np.float32), "labels": np.arange(2)}, tensors)
    assert "which is read" in refused(*predict, f"--input={tensors}", f"--output={tmp_path}/./{tensors.name}")
    if BENCH.exists():
        assert "which is read" in refused("loader", *TINY, f"--data_dir={tensors}", "--batch_size=1", "--steps=1",
                                          f"--dump={tensors}", program=BENCH)
    assert set(load_file(tensors)) == {"images", "labels"}


def test_text_is_not_replaced_by_its_tokens(tmp_path):
    tokenizer = write_tokenizer(tmp_path / "tokenizer")

    def tokenize(source, output, *flags, **options):
        return run("tokenize", *tokenizer, f"--input={tmp_path / source}", f"--output={tmp_path / output}", *flags,
                   program=DATA, **options)

    for name in ("t.bin", "t.idx", "t.bin.partial", "t.ids", "dict.txt"):
        (tmp_path / name).write_text(TEXT, encoding="utf-8")
        assert "which is read" in tokenize(name, "t", check=2).stderr
        assert (tmp_path / name).read_text(encoding="utf-8") == TEXT
        (tmp_path / name).rename(tmp_path / "text")
    outcome = tokenize("text", "data/a\x1b[2Jb")
    assert "\x1b" not in outcome.stdout and "a\\x1b[2Jb: " in outcome.stdout, outcome
    (tmp_path / "data" / "dict.txt").rename(tmp_path / "data" / "d")
    (tmp_path / "data" / "dict.txt").symlink_to("d")  # a dictionary in its place stays as it is
    tokenize("text", "data/b", f"--dict={tmp_path / 'data' / 'dict.txt'}")
    assert (tmp_path / "data" / "dict.txt").is_symlink()


def test_data_are_not_replaced_by_their_pack_or_list(trained, own_images, tmp_path):
    def data(*flags, check=2):
        return run(*flags, program=DATA, check=check).stderr

    pack = ("pack", f"--data_dir={own_images}", "--output_format=recordio")
    for output in (own_images, f"{own_images}/../{own_images.name}/."):
        assert "is read" in data(*pack, f"--output={output}")
    assert "belongs to the run" in data(*pack, f"--output={trained}")
    assert "files of another origin" in data(*pack, f"--output={own_images / 'train'}")
    assert not list(own_images.rglob("*.rec")) and not list(own_images.rglob("pack.json*"))
    for run_dir in (own_images / "train", own_images / "train" / "new"):  # its folders would be classes
        assert "lies among the data" in refused(*TINY, f"--data_dir={own_images}", "--max_steps=1", f"--run_dir={run_dir}")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "pack.json.partial.1").touch()  # another machine begins at the same time
    data(*pack, f"--output={tmp_path / 'begun'}", check=0)
    verify = ("verify", f"--data_dir={own_images}")
    assert "belongs to the run" in data(*verify, f"--output={trained}")
    save_file({"images": np.zeros((2, 3, 8, 8), np.uint8), "labels": np.arange(2)}, tmp_path / "quarantine.jsonl")
    assert "which is read" in data("verify", f"--data_dir={tmp_path / 'quarantine.jsonl'}", f"--output={tmp_path}",
                                   "--data_format=safetensors")
    assert set(load_file(tmp_path / "quarantine.jsonl")) == {"images", "labels"}


@pytest.mark.parametrize("program", ["predict", "pack"])
def test_a_signal_leaves_nothing_unfinished(trained, few_images, tmp_path, program):
    folder = tmp_path / "photos" / "train" / "red"
    folder.mkdir(parents=True)
    for number in range(2000):
        os.link(few_images / "val" / "red" / "000.jpg", folder / f"{number}.jpg")
    out = tmp_path / "out"
    out.mkdir()
    command = (("--mode=predict", f"--run_dir={trained}", f"--input={folder}", f"--output={out / 'x.csv'}", "--batch_size=1")
               if program == "predict" else ("pack", f"--data_dir={folder.parents[1]}", f"--output={out}", "--shards=1",
                                             "--output_format=webdataset", "--short_side=20", "--workers=1"))
    unfinished = out / (".x.csv.tmp" if program == "predict" else "train-000000.tar.partial")
    with Background(*command, **({"program": DATA} if program == "pack" else {})) as process:
        wait_until(unfinished.exists, "the unfinished file")
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait().code == -signal.SIGTERM
    assert not unfinished.exists() and not (out / "x.csv").exists()
    assert {path.name for path in out.iterdir()} <= {"pack.json", "classes.txt"}
