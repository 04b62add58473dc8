"""Compares the loader's crops with Pillow's, and augmentation with torchvision's and timm's, operator by operator."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from PIL import Image
from safetensors.numpy import load_file
from timm.data import auto_augment
from torchvision.transforms.autoaugment import _apply_op
from torchvision.transforms.functional import InterpolationMode, adjust_hue, gaussian_blur

from command import BENCH, run
from test_image_preprocessing import command, mean_difference, photo
from truth import record

needs_bench = pytest.mark.skipif(not BENCH.exists(), reason=f"{BENCH} is not built")


def bench(*flags) -> dict:
    return json.loads(run("loader", *flags, "--json", program=BENCH, threads=None).last_line)


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """JPEGs as cameras and encoders write them, and a PNG. Each takes another path through the decoder."""
    folder = tmp_path_factory.mktemp("photos")
    ways = [{"quality": 90}, {"quality": 95, "subsampling": 0}, {"quality": 90, "subsampling": 1},
            {"quality": 85, "progressive": True}, {"quality": 75, "optimize": True},
            {"quality": 92, "restart_marker_rows": 1}, {"quality": 92, "restart_marker_blocks": 5}]
    for number, way in enumerate(ways * 2):
        target = folder / "train" / f"class{number % 2}" / f"{number:02}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        size = [(500, 375), (375, 500), (333, 251), (1000, 700)][number % 4]
        photo(*size, seed=number).save(target, **way)
    photo(300, 200, seed=50).convert("L").save(folder / "train" / "class0" / "grey.jpg")
    photo(300, 200, seed=51).save(folder / "train" / "class1" / "photo.png")
    return folder


@needs_bench
@pytest.mark.parametrize("size, interpolation", [(96, "bilinear"), (224, "bicubic")])
def test_dumped_crops_are_pillows(photos, tmp_path, interpolation, size):
    files = sorted((photos / "train").rglob("*.*"))
    dump = tmp_path / "dump.safetensors"
    bench(f"--data_dir={photos}", "--batch_size=64", "--steps=1", "--warmup=0", f"--image_size={size}",
          f"--interpolation={interpolation}", f"--dump={dump}")
    batch = load_file(dump)
    assert batch["images"].shape == (64, size, size, 3) and batch["images"].dtype == np.uint8
    assert batch["crop"].shape == (64, 4) and batch["crop"].dtype == np.int32 and batch["flip"].dtype == np.uint8
    assert 10 < batch["flip"].sum() < 54
    differences = []
    for ours, index, label, (x, y, width, height), flip in zip(
            batch["images"], batch["index"], batch["labels"], batch["crop"], batch["flip"], strict=True):
        assert files[index].parent.name == f"class{label}"
        image = Image.open(files[index]).convert("RGB").crop((x, y, x + width, y + height))
        theirs = image.resize((size, size), getattr(Image.Resampling, interpolation.upper()))
        if flip:
            theirs = theirs.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        differences.append(mean_difference(ours, theirs))
    assert np.mean(differences) <= 2
    assert np.max(differences) <= 3
    record("Transforms", f"64 crops of the loader to {size}, {interpolation}, flipped or not", "Pillow",
           "an image's mean 3 of 255 levels", np.max(differences))


OPERATORS = [
    ("ShearX", 0.3), ("ShearX", -0.17), ("ShearY", 0.99), ("ShearY", -0.3), ("TranslateX", 32.7), ("TranslateX", -11.2),
    ("TranslateY", 101.5), ("TranslateY", -8), ("Rotate", 30), ("Rotate", -135), ("Rotate", 90), ("Brightness", 0.9),
    ("Brightness", -0.6), ("Color", 0.99), ("Color", -0.45), ("Contrast", 0.7), ("Contrast", -0.99), ("Sharpness", 0.9),
    ("Sharpness", -0.8), ("Posterize", 2), ("Posterize", 8), ("Solarize", 255), ("Solarize", 110.5), ("AutoContrast", 0),
    ("Equalize", 0), ("Invert", 0)]


def operate(image: Image.Image, name: str, magnitude: float, folder: Path, *between: str) -> np.ndarray:
    image.save(folder / "in.png")
    command("op", name, magnitude, folder / "out", folder / "in.png", *between)
    return load_file(folder / "out")["images"][0].astype(int)


@pytest.mark.parametrize("name, magnitude", OPERATORS)
def test_operators_are_torchvisions(tmp_path, name, magnitude):
    image = photo(224, 224, seed=60)
    ours = operate(image, name, magnitude, tmp_path)
    theirs = np.asarray(_apply_op(image, name, magnitude, InterpolationMode.NEAREST, None), int)
    wrong = np.abs(ours - theirs)
    # In geometry, a pixel may fall on the other side of a boundary. Values are equal to the bit, or differ by one
    # through rounding.
    if name in ("ShearX", "ShearY", "Rotate"):
        assert (wrong.max(axis=-1) > 0).mean() <= 0.002
    else:
        assert wrong.max() <= (1 if name in ("AutoContrast", "Sharpness") else 0)
        assert wrong.mean() <= 0.01
    record("Augmentation", f"{name} {magnitude:g}", "torchvision's AutoAugment operators",
           "mean 0.01 of 255 levels; geometry: 0.002 of the pixels",
           (wrong.max(axis=-1) > 0).mean() if name in ("ShearX", "ShearY", "Rotate") else wrong.mean())


@pytest.mark.parametrize("name, magnitude", [operator for operator in OPERATORS if operator[0][:5] in
                                             ("Shear", "Trans", "Rotat")] + [("Rotate", 0), ("Rotate", -90), ("ShearX", 0)])
def test_bilinear_geometry_is_torchvisions(tmp_path, name, magnitude):
    image = photo(97, 60, seed=63)
    ours = operate(image, name, magnitude, tmp_path, "bilinear")
    theirs = np.asarray(_apply_op(image, name, magnitude, InterpolationMode.BILINEAR, None), int)
    wrong = np.abs(ours - theirs)
    assert (wrong.max(axis=-1) > 1).mean() <= 0.001 and (wrong > 0).mean() <= 0.001
    record("Augmentation", f"{name} {magnitude:g} of 97x60, bilinear", "torchvision's AutoAugment operators",
           "0.001 of the values", (wrong > 0).mean())


TIMMS = [("AutoContrast", 5), ("Equalize", 5), ("Invert", 5), ("Rotate", 9), ("Rotate", -3.5), ("Posterize", 7), ("Posterize", 0),
         ("PosterizeIncreasing", 9), ("PosterizeOriginal", 6), ("PosterizeOriginal", 10), ("Solarize", 4),
         ("SolarizeIncreasing", 9), ("SolarizeIncreasing", 0), ("SolarizeAdd", 9.3), ("Color", 9), ("ColorIncreasing", -9),
         ("Contrast", 1), ("ContrastIncreasing", 12), ("Brightness", 9), ("BrightnessIncreasing", -9.5), ("Sharpness", 9),
         ("SharpnessIncreasing", -9), ("ShearX", 9), ("ShearY", -9), ("TranslateXRel", 4.7), ("TranslateYRel", -9)]


@pytest.mark.parametrize("between", ["bilinear", "bicubic"])
def test_operators_are_timms(tmp_path, between, monkeypatch):
    image = photo(97, 97, seed=64)
    image.save(tmp_path / "in.png")
    for name, level in TIMMS if between == "bicubic" else [one for one in TIMMS if one[0][:5] in ("Rotat", "Shear", "Trans")]:
        command("timm", name, level, between, tmp_path / "out", tmp_path / "in.png")
        ours = load_file(tmp_path / "out")["images"][0].astype(int)
        monkeypatch.setattr(auto_augment, "_randomly_negate", lambda value, negative=level < 0: -value if negative else value)
        hparams = {"img_mean": (124, 116, 104), "interpolation": getattr(Image.Resampling, between.upper()), "magnitude_max": 20}
        theirs = auto_augment.AugmentOp(name, prob=1.0, magnitude=abs(level), hparams=hparams)(image)
        wrong = np.abs(ours - np.asarray(theirs, int))
        record("Augmentation", f"{name} {level:g}, {between}", "timm's auto_augment", "mean 0.02 of 255 levels", wrong.mean())
        assert wrong.mean() <= 0.02, (name, level)


POLICIES = ["rand-m9-mstd0.5-inc1", "rand-m7-n3-p0.8", "rand-mstd101-tweights", "rand-m15-mmax20-n1", "original-mstd0.5", "v0",
            "v0r", "originalr", "augmix-m5-w4-d2", "augmix"]


@pytest.mark.parametrize("text", POLICIES)
def test_policies_draw_as_timms(tmp_path, text):
    """How much images change on average, and how that is distributed, is timm's: 250 draws of each."""
    image = photo(24, 24, seed=65)
    image.save(tmp_path / "in.png")
    command("policy", text, 250, tmp_path / "out", tmp_path / "in.png")
    make = {"rand": auto_augment.rand_augment_transform, "augmix": auto_augment.augment_and_mix_transform}.get(
        text.split("-")[0], auto_augment.auto_augment_transform)
    translation = {"translate_pct": 0.3} if text.startswith("augmix") else {}
    transform = make(text, {"translate_const": 10, "img_mean": (124, 116, 104), **translation})
    random.seed(1)
    np.random.seed(1)
    theirs = np.stack([np.asarray(transform(image), int) for _ in range(250)])
    change = [np.abs(images - np.asarray(image, int)).mean(axis=(1, 2, 3)) for images in
              (load_file(tmp_path / "out")["images"].astype(int), theirs)]
    distance = scipy.stats.ks_2samp(*change)
    record("Augmentation", f"how much {text} changes an image", "timm's auto_augment", "0.175, Kolmogorov and Smirnov", distance.statistic)
    assert distance.pvalue > 1e-3


@pytest.mark.parametrize("turns", [-0.5, -0.1, 0.03, 0.5])
def test_hue_is_torchvisions(tmp_path, turns):
    image = photo(120, 90, seed=61)
    wrong = np.abs(operate(image, "Hue", turns, tmp_path) - np.asarray(adjust_hue(image, turns), int))
    assert wrong.max() <= 1 and wrong.mean() <= 0.01
    record("Augmentation", f"Hue {turns:g}", "torchvision's adjust_hue", "mean 0.01 of 255 levels", wrong.mean())


@pytest.mark.parametrize("sigma", [0.1, 0.7, 2.0])
def test_blur_is_torchvisions(tmp_path, sigma):
    image = photo(120, 90, seed=62)
    wrong = np.abs(operate(image, "Blur", sigma, tmp_path) - np.asarray(gaussian_blur(image, [23, 23], [sigma] * 2), int))
    assert wrong.max() <= 1 and wrong.mean() <= 0.01
    record("Augmentation", f"Blur {sigma:g}", "torchvision's gaussian_blur", "mean 0.01 of 255 levels", wrong.mean())


def test_lighting_follows_the_first_component(tmp_path):
    image = Image.new("RGB", (4, 4), (100, 100, 100))
    shift = 255 * 0.3 * 0.2175 * np.array([-0.5675, -0.5808, -0.5836])
    assert np.array_equal(operate(image, "Lighting", 0.3, tmp_path)[0, 0], np.rint(100 + shift))
