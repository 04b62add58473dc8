"""dtrain_data from outside: all formats give the same listing for the same images, and survive damage."""

import json
import os
import re
import shutil
import tarfile

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from command import DATA, TINY, choices, inspected, load_lines, run, sha256

FORMATS = choices(DATA, "output_format")
pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not built")


def data(*flags, **options):
    return run(*flags, program=DATA, **options)


def inspect(folder, *flags):
    return inspected(f"--data_dir={folder}", *flags)


def pack(source, output, name, *flags, **options):
    return data("pack", f"--data_dir={source}", f"--output={output}", f"--output_format={name}", *flags, **options)


def shards(folder, split="train"):
    return sorted(p for p in folder.iterdir() if p.name.startswith(split + "-") and p.suffix not in (".idx", ".index"))


@pytest.fixture(scope="module")
def packs(few_images, module_dir):
    """The few images in each format, two shards per split. Not to be changed."""
    for name in FORMATS:
        pack(few_images, module_dir / name, name, "--shards=2")
    return module_dir


@pytest.fixture
def own_pack(packs, tmp_path):
    def copy(name):
        return shutil.copytree(packs / name, tmp_path / name)  # copied with its times, so its index fits
    return copy


# ---- The same in all formats -----------------------------------------------------------------------------------------

def test_inspect_is_the_same_for_all_formats(few_images, packs):
    for flags in (["--split=train", "--decode"], []):
        expected = inspect(few_images, *flags)
        for name in FORMATS:
            assert inspect(packs / name, *flags) == expected
    assert [line["index"] for line in expected[:40]] == list(range(40)) and len(expected) == 48
    assert {line["split"] for line in expected} == {"train", "val"}


def test_inspect_shows_what_pillow_sees(few_images):
    lines = inspect(few_images, "--split=train", "--decode", "--limit=3")
    assert len(lines) == 3
    for number, line in enumerate(lines):
        file = few_images / "train" / "blue" / f"{number:03}.jpg"
        assert set(line) == {"index", "label", "class", "bytes", "sha256", "width", "height", "mean_rgb"}
        assert (line["index"], line["label"], line["class"]) == (number, 0, "blue")
        assert (line["bytes"], line["sha256"]) == (file.stat().st_size, sha256(file))
        image = Image.open(file)
        assert (line["width"], line["height"]) == image.size
        channels = [sum(band.getdata()) / 1600 for band in image.convert("RGB").split()]
        assert line["mean_rgb"] == pytest.approx(channels, abs=1e-6)


# ---- pack ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", FORMATS)
def test_pack_goes_on_where_it_was_and_in_parts(few_images, packs, tmp_path, name):
    whole = {p.name: sha256(p) for p in shards(packs / name) + shards(packs / name, "val")}
    assert len(whole) == 4
    first = pack(few_images, tmp_path, name, "--shards=2", "--part=1/2")
    assert "1 of 2 shards written now; 1 are for other parts" in first.stdout
    assert re.search(r"has 1 of (0000)?2 shards", data("verify", f"--data_dir={tmp_path}", check=3).stderr)
    second = pack(few_images, tmp_path, name, "--shards=2", "--part=2/2")
    assert "1 of 2 shards written now, indexed" in second.stdout
    assert {p.name: sha256(p) for p in shards(tmp_path) + shards(tmp_path, "val")} == whole
    shards(tmp_path)[1].unlink()
    again = pack(few_images, tmp_path, name, "--shards=2")
    assert "train: 40 records, 0 left out, 1 of 2 shards written now" in again.stdout
    assert "val: 8 records, 0 left out, 0 of 2 shards" in again.stdout
    assert {p.name: sha256(p) for p in shards(tmp_path) + shards(tmp_path, "val")} == whole
    assert (tmp_path / "classes.txt").read_text() == "blue\ngreen\nred\nstripes\n"


def test_pack_resizes(few_images, tmp_path):
    pack(few_images, tmp_path, "webdataset", "--short_side=24", "--quality=90", "--split=train")
    small, large = inspect(tmp_path, "--decode"), inspect(few_images, "--decode", "--split=train")
    assert {(line["width"], line["height"]) for line in small} == {(24, 24)}
    for before, after in zip(large, small, strict=True):
        assert after["label"] == before["label"] and after["bytes"] < before["bytes"]
        assert after["mean_rgb"] == pytest.approx(before["mean_rgb"], abs=2)
    pack(few_images, tmp_path / "kept", "webdataset", "--short_side=40", "--split=train")
    assert inspect(tmp_path / "kept", "--decode") == large, "no image is made larger, or encoded again in vain"


@pytest.fixture
def pixels(tmp_path):
    """A safetensors set of planar uint8 images. Returns its folder and the images as N×H×W×3."""
    images = np.random.default_rng(1).integers(0, 256, (7, 3, 20, 12), dtype=np.uint8)
    (tmp_path / "pixels").mkdir()
    save_file({"images": images, "labels": np.arange(7) % 3}, tmp_path / "pixels" / "train.safetensors")
    return tmp_path / "pixels", images.transpose(0, 2, 3, 1)


def packed_images(folder):
    """Returns the name and the pixels of each image in the only shard."""
    with tarfile.open(folder / "train-000000.tar") as tar:
        return [(member.name, np.asarray(Image.open(tar.extractfile(member)))) for member in tar
                if not member.name.endswith(".cls")]


def test_pack_keeps_the_pixels_of_a_safetensors_file(pixels, tmp_path):
    folder, images = pixels
    for name in FORMATS:
        pack(folder, tmp_path / name, name)
    packed = packed_images(tmp_path / "webdataset")
    assert [name for name, _ in packed] == [f"{i:09}.png" for i in range(7)]
    assert all((image == original).all() for (_, image), original in zip(packed, images, strict=True))
    lines = [inspect(tmp_path / name, "--decode") for name in FORMATS]
    assert all(one == lines[0] for one in lines)
    assert [line["label"] for line in lines[0]] == [i % 3 for i in range(7)]


def test_pack_makes_jpegs_of_pixels_where_it_is_told(pixels, tmp_path):
    folder, images = pixels
    pack(folder, tmp_path / "jpeg", "webdataset", "--quality=100")
    for (name, image), original in zip(packed_images(tmp_path / "jpeg"), images, strict=True):
        assert name.endswith(".jpg") and image.shape == original.shape
    pack(folder, tmp_path / "small", "webdataset", "--short_side=6", "--quality=90")
    assert {(name[-3:], image.shape) for name, image in packed_images(tmp_path / "small")} == {("jpg", (10, 6, 3))}


def test_float32_images_are_not_packed(tmp_path):
    save_file({"images": np.zeros((2, 3, 4, 4), np.float32), "labels": np.arange(2)}, tmp_path / "train.safetensors")
    failed = pack(tmp_path, tmp_path / "out", "tfrecord", check=2)
    assert "float32" in failed.stderr and not (tmp_path / "out").exists()


def test_pack_refuses_a_folder_with_another_pack(few_images, images, tmp_path):
    pack(few_images, tmp_path, "webdataset")
    for flags in ([images, tmp_path, "webdataset"], [few_images, tmp_path, "tfrecord"],
                  [few_images, tmp_path, "webdataset", "--short_side=20"], [few_images, tmp_path, "webdataset", "--seek_points"]):
        assert "holds a pack of other data or with other settings" in pack(*flags, check=2).stderr


def test_pack_fills_no_folder_of_others(few_images, tmp_path):
    for name, content in (("pack.json", "my notes"), ("pack.json", '{"name": "mine"}'), ("pack.json.notes", "x")):
        folder = tmp_path / str(len(content))
        folder.mkdir()
        (folder / name).write_text(content)
        assert "files of another origin" in pack(few_images, folder, "webdataset", check=2).stderr
        assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(name, content)]


def test_a_split_is_packed_under_its_last_name(few_images, tmp_path):
    for split in ("val/", "./val", f"../{few_images.name}/val"):
        pack(few_images, tmp_path / split.replace("/", ""), "webdataset", f"--split={split}")
        assert len(inspect(tmp_path / split.replace("/", ""), "--split=val/")) == 8
    assert not list(few_images.glob("val-*"))


def test_pack_says_that_it_leaves_the_test_split_out(own_images, tmp_path):
    shutil.copytree(own_images / "val", own_images / "test")
    assert "test is left out: --split=test packs it" in pack(own_images, tmp_path / "pack", "webdataset").stderr


def test_calls_of_pack_share_one_budget(own_images, tmp_path):
    for number in range(0, 10, 2):
        (own_images / "train" / "red" / f"{number:03}.jpg").write_bytes(b"")
    flags = ("--split=train", "--shards=20", "--workers=1", "--max_bad_records=0.1")
    for _ in range(3):
        failed = pack(own_images, tmp_path / "a", "webdataset", *flags, check=3).stderr
        assert "and the budget is 4" in failed and ".jpg: the file is empty" in failed
    flags = (*flags[:-1], "--max_bad_records=0.2")
    assert "train: 40 records, 5 left out, " in pack(own_images, tmp_path / "a", "webdataset", *flags).stdout
    assert "train: 40 records, 5 left out, 0 of 20" in pack(own_images, tmp_path / "a", "webdataset", *flags).stdout
    data("verify", f"--data_dir={tmp_path / 'a'}")
    assert len((tmp_path / "a" / "quarantine.jsonl").read_text().splitlines()) == 5
    assert json.loads((tmp_path / "a" / "pack.json").read_text())["splits"]["train"]["packed"] == 35
    failed = pack(own_images, tmp_path / "b", "webdataset", *flags, "--shards=40", check=3)
    assert "all records for" in failed.stderr and "fewer --shards" in failed.stderr
    assert all(inspect(tmp_path / "a", "--split=train"))


def test_a_place_that_cannot_be_written_is_a_storage_error(few_images):
    outcome = pack(few_images, "/dev/full/x", "webdataset", check=5)
    assert "dtrain failed (storage, exit code 5)" in outcome.stderr


# ---- index, warm, verify ---------------------------------------------------------------------------------------------

def test_indexes_can_be_kept_elsewhere(own_pack, tmp_path):
    folder = own_pack("webdataset")
    for index in folder.glob("*.index"):
        index.unlink()
    outcome = data("index", f"--data_dir={folder}", f"--index_dir={tmp_path / 'indexes'}")
    assert "train: webdataset, 40 records, 4 classes" in outcome.stdout
    assert not list(folder.glob("*.index")) and len(list((tmp_path / "indexes").glob("*.index"))) == 2
    assert "another --index_dir" in data("index", f"--data_dir={folder}", "--index_dir=/proc/none", check=5).stderr


def test_all_is_read_and_verified(few_images, packs):
    for folder, reads in ((few_images, 48), (packs / "webdataset", 4)):
        assert f"warm: {reads} reads" in data("warm", f"--data_dir={folder}").last_line
    assert data("verify", f"--data_dir={packs / 'webdataset'}").lines == ["train: 40 records, 0 bad", "val: 8 records, 0 bad"]
    assert (packs / "webdataset" / "quarantine.jsonl").read_text() == ""


def test_tokens_are_verified_by_the_tokenizer_beside_them(tmp_path):
    """BERT's have no dict.txt."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="ascii")
    (tmp_path / "text").write_text("good bad\ngood\n", encoding="ascii")
    tokens = tmp_path / "tokens"
    data("tokenize", f"--tokenizer={tmp_path}", f"--input={tmp_path / 'text'}", f"--output={tokens / 'train'}")
    assert data("verify", f"--data_dir={tokens}").lines == ["train: 2 records, 0 bad"]
    (tokens / "vocab.txt").write_text("\n".join(words[:-1]), encoding="ascii")
    assert "token 6, but the vocabulary ends at 5" in data("verify", f"--data_dir={tokens}", check=3).stdout
    (tokens / "vocab.txt").unlink()
    assert "there is no" in data("verify", f"--data_dir={tokens}", check=3).stderr


def test_rows_of_tokens_are_verified(tmp_path):
    (tmp_path / "dict.txt").write_text("a 1\nb 1\n", encoding="ascii")
    rows = np.array([[0, 4, 2], [0, 6, 2], [0, 7, 2]])  # 6 is <mask>
    save_file({"input_ids": rows, "labels": rows - 1, "attention_mask": np.ones_like(rows)}, tmp_path / "train.safetensors")
    lines = data("verify", f"--data_dir={tmp_path}", check=3).lines
    assert "train: 3 records, 3 bad" in lines and "-1" in lines[0]
    save_file({"input_ids": rows}, tmp_path / "train.safetensors")
    lines = data("verify", f"--data_dir={tmp_path}", check=3).lines
    assert "train: 3 records, 1 bad" in lines and "7" in lines[0]
    file = f"--data_dir={tmp_path / 'train.safetensors'}"  # whose samples would be in every split
    assert not any(line.startswith("test: ") for line in data("verify", file, f"--output={tmp_path}", check=3).lines)
    refused = run("--model=roberta_tiny", "--tokens_per_sample=3", file, "--val_split=test", "--dry_run", check=3).stderr
    assert "there is no 'test' split" in refused


def test_more_texts_than_open_files(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\n", encoding="ascii")
    texts = [tmp_path / f"{number}.text" for number in range(40)]
    for text in texts:
        text.write_text("good\n", encoding="ascii")
    command = [DATA, "tokenize", f"--tokenizer={tmp_path}", f"--output={tmp_path / 'train'}"]
    run("--nofile=30", *command, *(f"--input={text}" for text in texts), program="prlimit")
    assert data("verify", f"--data_dir={tmp_path}").lines == ["train: 40 records, 0 bad"]
    texts[0].write_bytes(b"BZh91AY&SY" + bytes(100))
    assert "is compressed" in run(*command[1:], f"--input={texts[0]}", program=DATA, check=3).stderr


def test_no_fault_of_the_machine_is_a_bug(few_images, tmp_path):
    """A folder that is gone, and memory that OpenCV does not get."""
    gone = f"mkdir {tmp_path / 'x'}; cd {tmp_path / 'x'}; rmdir {tmp_path / 'x'}; "
    run("-c", gone + f"{DATA} pack --data_dir={few_images} --output_format=tfrecord --output=out", program="sh", check=5)
    (tmp_path / "train" / "a").mkdir(parents=True)
    Image.new("L", (13_000, 13_000)).save(tmp_path / "train" / "a" / "1.jpg")
    run("-c", f"ulimit -v 400000; {DATA} verify --data_dir={tmp_path} --workers=1", program="sh", check=7)


def test_damage_is_listed_and_training_goes_on(own_pack, run_dir):
    """Of one format; of each: packed_records_test.cc."""
    folder = own_pack("tfrecord")
    bad = shards(folder)[0]
    bad.write_bytes(b"\x55" + bad.read_bytes()[1:])  # the first record's length
    os.utime(bad, (1, 1))  # a time that differs from the index's
    outcome = data("verify", f"--data_dir={folder}", check=3)
    assert "train: 40 records, 1 bad" in outcome.lines and "exit code 3" in outcome.stderr
    (line,) = load_lines(folder / "quarantine.jsonl")
    assert (line["split"], line["index"]) == ("train", 0)
    assert (line["file"], line["offset"]) == (str(bad), 0) and line["reason"]
    lines = inspect(folder, "--split=train")
    assert "error" in lines[0] and all("sha256" in good for good in lines[1:])
    flags = (*TINY, f"--data_dir={folder}", f"--run_dir={run_dir}", "--max_steps=1", "--shuffle=none")
    run(*flags, "--max_bad_records=0.1")
    (line,) = load_lines(run_dir / "quarantine.jsonl")
    assert (line["file"], line["offset"]) == (str(bad), 0)
    failed = run(*flags, "--strict_data", "--resume=none", check=3)
    assert str(bad) in failed.stderr


# ---- Mistakes --------------------------------------------------------------------------------------------------------

def test_usage(few_images, tmp_path):
    def mistakes(*flags):
        outcome = data(*flags, check=2)
        assert "dtrain failed (usage, exit code 2)" in outcome.stderr
        return outcome.stderr

    assert "the first argument must be a command" in mistakes()
    assert "did you mean inspect?" in mistakes("inspekt", "--data_dir=x")
    assert "did you mean --data_dir?" in mistakes("inspect", "--data_dri=x")
    message = mistakes("pack", "--output_format=nothing", "--part=3/2", "--short_side=-1", "--limit=2")
    for part in ("--output_format=nothing: expected one of", "--part=3/2: expected I/N", "--short_side=-1", "--output is not",
                 "--limit does not apply to pack", "--data_dir is not set"):
        assert part in message
    assert "--output_format is not set" not in message and "--output_format is not set" in mistakes("pack")
    text = data("index", "--help").stdout
    assert text.startswith("Usage: dtrain_data index ") and "--data_dir" in text
    assert "--short_side" not in text and "index inspect" not in text


@pytest.fixture
def without_blue(own_images):
    """The validation images lack the first class, so places in the sorted list of folders are one too low."""
    shutil.rmtree(own_images / "val" / "blue")
    return own_images


def test_a_class_that_val_lacks_shifts_no_label(without_blue, tmp_path):
    """Packed with the training split, and alone and in parts."""
    apart = tmp_path / "apart"
    for name in FORMATS:
        pack(without_blue, tmp_path / name, name, "--seek_points")
    for part in ("1/2", "2/2"):
        pack(without_blue, apart, "webdataset", "--split=val", f"--part={part}", "--shards=2")
    for folder in (without_blue, apart, *(tmp_path / name for name in FORMATS)):
        lines = inspect(folder, "--split=val")
        assert {(line["label"], line["class"]) for line in lines} == {(1, "green"), (2, "red"), (3, "stripes")}
    assert (apart / "classes.txt").read_text() == "blue\ngreen\nred\nstripes\n"
    for folder in (without_blue, tmp_path / "tfrecord"):
        assert "val: 6 records, 0 bad" in data("verify", f"--data_dir={folder}").stdout
        assert "4 classes" in data("index", f"--data_dir={folder}", "--split=val").stdout


def test_one_list_of_classes_in_an_output(without_blue, tmp_path):
    """Splits of several folders are packed into one folder: the list that was written first counts."""
    train, val, output = tmp_path / "one", tmp_path / "two", tmp_path / "output"
    shutil.copytree(without_blue / "train", train / "train")
    shutil.copytree(without_blue / "val", val / "val")
    pack(train, output, "webdataset")
    pack(val, output, "webdataset")
    assert {line["label"] for line in inspect(output, "--split=val")} == {1, 2, 3}
    pack(val, tmp_path / "wrong order", "webdataset")
    failed = pack(train, tmp_path / "wrong order", "webdataset", check=2)
    assert "names 3 classes, which differ from the 4 of this data" in failed.stderr


def test_seek_points_keep_every_pixel(few_images, tmp_path):
    """Also those of a progressive file, which becomes a baseline file; other formats are left unchanged."""
    source = shutil.copytree(few_images, tmp_path / "source")
    paths = sorted((source / "train").rglob("*.*"))
    photo = Image.effect_noise((300, 200), 80).convert("RGB")
    photo.save(paths[0].with_suffix(".jpg"), quality=95, progressive=True)
    photo.save(paths[1].with_suffix(".png"))
    paths[1].unlink()
    output = tmp_path / "packed"
    pack(source, output, "webdataset", "--seek_points", "--split=train")
    shutil.unpack_archive(shards(output)[0], tmp_path / "members", "tar")
    members = sorted(p for p in (tmp_path / "members").iterdir() if p.suffix != ".cls")
    originals = sorted((source / "train").rglob("*.*"))
    assert len(members) == len(originals)
    for member, original in zip(members, originals):
        assert list(Image.open(member).getdata()) == list(Image.open(original).getdata())
        is_jpeg = original.suffix == ".jpg"
        assert (b"dtrain seek 1\0" in member.read_bytes()) == is_jpeg
        assert is_jpeg or member.read_bytes() == original.read_bytes()
    assert inspect(output, "--split=train")[0]["sha256"] != inspect(source, "--split=train")[0]["sha256"]
