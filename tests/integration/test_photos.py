"""Photographs as phones make them: stored turned, with a note on how to turn them (EXIF), or in formats that are not read."""

import io
import json
import shutil
import tarfile

import pytest
from PIL import Image

from command import DATA, TINY, load_json, load_table, run

# What makes a stored image of an upright one, by the orientation that undoes it.
TURNS = {2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
         5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_270}


def save_turned(image: Image.Image, path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = image.transpose(TURNS[orientation]) if orientation in TURNS else image
    stored.save(path, exif=exif, **({"quality": 95} if path.suffix == ".jpg" else {}))


@pytest.fixture
def photos(few_images, tmp_path):
    """One picture in all orientations, and three files that are not read."""
    folder = tmp_path / "photos"
    folder.mkdir()
    with Image.open(few_images / "val" / "stripes" / "000.jpg") as image:
        for orientation in range(1, 9):
            save_turned(image, folder / f"{orientation}.png", orientation)
        image.save(folder / "x.gif")
    for name, brand in (("y.HEIC", b"heic"), ("z.avif", b"avif")):
        (folder / name).write_bytes(b"\0\0\0\x18ftyp" + brand + bytes(40))
    (folder / "notes.txt").write_text("no image", encoding="utf-8")
    return folder


def predicted(run_dir, photos, output, *flags) -> tuple[list[dict], str]:
    outcome = run("--mode=predict", f"--run_dir={run_dir}", f"--input={photos}", f"--output={output}", *flags)
    assert outcome.last_line == "predicted=8 unreadable=3"
    return load_table(output), outcome.stderr


@pytest.fixture(scope="module")
def trained(few_images, module_dir):
    said = run(*TINY, f"--data_dir={few_images}", "--max_steps=3", f"--run_dir={module_dir / 'run'}").stderr
    assert "EXIF" not in said
    return module_dir / "run"


def test_a_run_that_turns_them_predicts_so(trained, photos, tmp_path):
    rows, said = predicted(trained, photos, tmp_path / "upright.csv")
    first = [float(row["probability_1"]) for row in rows[:8]]
    assert max(first) - min(first) < 1e-6 and "EXIF" not in said  # a batch's last rows are summed otherwise on some CPUs
    assert [row["error"].split()[0] for row in rows[8:]] == ["GIF", "HEIC", "AVIF"] and "ignored: 1 *.txt" in said
    of_two_ranks = ("--nproc_per_node=2", "--batch_size=4", "--grad_accum_steps=1", "--global_batch_size=8")
    rows, said = predicted(trained, photos, tmp_path / "stored.csv", "--noexif_orientation", *of_two_ranks)
    assert len({row["probability_1"] for row in rows[:8]}) > 4
    assert "--input: 7 of 11 images have an EXIF orientation" in said
    said = run("--mode=predict", f"--run_dir={trained}", f"--input={photos / 'y.HEIC'}", f"--output={tmp_path / 'none.csv'}", check=3).stderr
    assert "(1 file tried); the first is" in said and "y.HEIC: HEIC images are not read; convert them" in said


def test_a_run_that_did_not_turn_them_does_not(trained, photos, tmp_path):
    """A run of a version that did not turn photographs has no such setting, or false. A resume: resume_test.cc."""
    own = shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    config = load_json(own / "config.json")
    assert config.pop("exif_orientation") is True
    for known in (config, {**config, "exif_orientation": False}):
        (own / "config.json").write_text(json.dumps(known), encoding="utf-8")
        rows, _ = predicted(own, photos, tmp_path / "stored.csv", "--weights=last")
        assert len({row["probability_1"] for row in rows[:8]}) > 4


def test_a_training_says_once_that_it_leaves_them(own_images, run_dir, tmp_path):
    for orientation, path in enumerate(sorted((own_images / "train" / "red").iterdir()), 1):
        with Image.open(path) as image:
            save_turned(image.resize((60, 50)), path, orientation if orientation <= 8 else 1)
    (own_images / "train" / "red" / "x.gif").touch()  # its owner takes it for a photo
    packed = tmp_path / "packed"
    run("pack", f"--data_dir={own_images}", f"--output={packed}", "--output_format=webdataset", "--short_side=30", "--seek_points",
        program=DATA)
    with tarfile.open(next(packed.glob("train*.tar"))) as tar:
        images = [Image.open(io.BytesIO(tar.extractfile(member).read())) for member in tar if member.name.endswith("jpg")]
    assert sorted(image.getexif().get(0x0112, 1) for image in images)[-8:] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert {image.size for image in images if image.getexif().get(0x0112, 1) > 4} == {(30, 36)}
    for data in (own_images, packed):
        said = run(*TINY, f"--data_dir={data}", "--max_steps=1", f"--run_dir={run_dir}", "--resume=none", "--noexif_orientation").stderr
        assert said.count("EXIF") == 1 and "train: 7 of 40 images have an EXIF orientation" in said
        assert (" 1 *.gif" in said) == (data == own_images)
        run(*TINY, f"--data_dir={data}", "--max_steps=1", f"--run_dir={run_dir}", "--resume=none")
