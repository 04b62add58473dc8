"""Compares decoding and resizing with the reference: Pillow and torchvision on the same files.

Runs tests/decode_dump of the build in DTRAIN_BUILD_DIR (default build/release). The photos are synthesised: noise with
the 1/f spectrum of natural images, plus edges, from a fixed seed.
"""

import colorsys
import functools
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from safetensors.numpy import load_file
from torchvision.transforms import CenterCrop, InterpolationMode, Resize
from torchvision.transforms.functional import pil_to_tensor, resized_crop

from command import Answering
from truth import record

ROOT = Path(__file__).resolve().parents[2]
DUMP = Path(os.environ.get("DTRAIN_BUILD_DIR", ROOT / "build" / "release")) / "tests" / "decode_dump"

pytestmark = pytest.mark.skipif(not DUMP.exists(), reason=f"{DUMP} is not built")


@functools.cache
def photo(width: int, height: int, seed: int) -> Image.Image:
    """Made once, because noise of a large photo takes longer than its test. Not to be changed."""
    random = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :])
    frequency[0, 0] = 1
    channels = []
    for _ in range(3):
        spectrum = np.fft.fft2(random.standard_normal((height, width))) / frequency
        spectrum[0, 0] = 0
        channels.append(np.fft.ifft2(spectrum).real)
    pixels = np.stack(channels, axis=-1)
    pixels = 128 + 55 * pixels / pixels.std()
    y, x = np.mgrid[:height, :width]
    pixels[(x - width / 2) ** 2 + (y - height / 3) ** 2 < (height / 4) ** 2] += 60
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


dumper = functools.cache(lambda: Answering(DUMP))


def command(*words) -> None:
    """Does what decode_dump is told. Raises what it says otherwise."""
    answer = dumper().ask("\t".join(map(str, words)))
    if answer != "ok":
        raise ValueError(answer)


def dump(*arguments) -> np.ndarray:
    output = Path(arguments[-1]).parent / "dump.safetensors"
    kind, *rest = [str(argument) for argument in arguments]
    before = {"full": 0, "upright": 0, "crop": 5, "centre": 3, "native": 3, "hls": 3}[kind]
    command(kind, *rest[:before], output, *rest[before:])
    return load_file(output)["images"]


def mean_difference(a, b) -> float:
    return float(np.abs(np.asarray(a, np.int16) - np.asarray(b, np.int16)).mean())


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(500, 375), (375, 500), (1200, 900), (180, 150), (224, 1000)])
def test_evaluation_is_torchvisions(tmp_path, size, interpolation):
    path = tmp_path / "photo.jpg"
    photo(*size, seed=1).save(path, quality=90)
    ours = dump("centre", 224, 256, interpolation, path)[0]
    image = Image.open(path).convert("RGB")
    theirs = CenterCrop(224)(Resize(256, interpolation=InterpolationMode(interpolation))(image))
    assert ours.shape == (224, 224, 3)
    assert mean_difference(ours, theirs) <= 0.1
    tensor = pil_to_tensor(image)
    tensor = CenterCrop(224)(Resize(256, interpolation=InterpolationMode(interpolation), antialias=True)(tensor))
    record("Transforms", f"evaluation of {size[0]}x{size[1]}, {interpolation}", "Pillow by torchvision",
           "mean 0.1 of 255 levels", mean_difference(ours, theirs))
    assert mean_difference(ours, tensor.permute(1, 2, 0)) <= 0.5  # the reference computes in float32


def test_padding_of_small_images(tmp_path):
    path = tmp_path / "small.png"
    photo(90, 61, seed=2).save(path)
    ours = dump("centre", 96, 64, "bilinear", path)[0]
    theirs = CenterCrop(96)(Resize(64)(Image.open(path)))
    assert mean_difference(ours, theirs) <= 0.5
    record("Transforms", "padding of what is smaller than the crop", "Pillow by torchvision", "mean 0.5 of 255 levels",
           mean_difference(ours, theirs))


def between(pixels, x, y):
    """The bilinear means at these columns and rows of an image, edges repeated: OpenCV's resize."""
    height, width = pixels.shape[:2]
    x, y = np.clip(x, 0, width - 1), np.clip(y, 0, height - 1)
    left, top = np.minimum(x.astype(int), width - 2), np.minimum(y.astype(int), height - 2)
    right, low = (x - left)[None, :, None], (y - top)[:, None, None]
    rows = pixels[top] * (1 - low) + pixels[top + 1] * low
    return rows[:, left] * (1 - right) + rows[:, left + 1] * right


@pytest.mark.parametrize("size, scale", [((300, 250), 1), ((224, 225), 1), ((201, 150), 1), ((150, 400), 1), ((500, 375), 0.64), ((480, 601), 0.45),
                                         ((230, 199), 1.25)])
def test_native_crops_are_mxnets(tmp_path, size, scale):
    """The formulas of its ImageRecordIter: warpAffine, a resize to what is too short, the centre."""
    path = tmp_path / "photo.png"
    photo(*size, seed=7).save(path)
    pixels = np.asarray(Image.open(path), np.float64)
    if scale != 1:
        bordered = np.pad(pixels, ((0, 1), (0, 1), (0, 0)), constant_values=127)
        pixels = between(bordered, *(np.arange(int(side * scale)) / scale for side in size))
    for axis in (0, 1):
        if pixels.shape[axis] < 224:
            new = [int(np.float32(224 / pixels.shape[axis]) * side) for side in pixels.shape[:2]]
            new[axis] = 224
            pixels = between(pixels, *((np.arange(new[a]) + 0.5) * pixels.shape[a] / new[a] - 0.5 for a in (1, 0)))
    top, left = ((pixels.shape[axis] - 224) // 2 for axis in (0, 1))
    expected = pixels[top:top + 224, left:left + 224]
    ours = dump("native", 224, scale, "-", path)[0]
    found = np.abs(ours - expected)
    assert found.mean() <= (0.5 if scale != 1 or min(size) < 224 else 0)  # OpenCV has places in steps of 1/32 pixel, and rounds to levels
    assert np.abs(np.roll(ours, 1, axis=1) - expected).mean() > 2
    record("Transforms", f"native crop of {size[0]}x{size[1]}, scale {scale}", "MXNet's formulas", "mean 0.5 of 255 levels", found.mean())


@pytest.mark.parametrize("added", [(36, 50, 50), (-36, -50, -50), (20, 30, -70), (0, 0, 0)])
def test_hls_jitter_is_mxnets(tmp_path, added):
    """Python's own formulas of hue, lightness and saturation; OpenCV has them in bytes, hue in 180 steps."""
    path = tmp_path / "photo.png"
    photo(40, 30, seed=8).save(path)
    ours = dump("hls", *added, path)[0]
    expected = np.zeros_like(ours)
    for place in np.ndindex(ours.shape[:2]):
        hls = np.round(np.array(colorsys.rgb_to_hls(*np.asarray(Image.open(path))[place] / 255)) * (180, 255, 255))
        hls = np.clip(hls + added, 0, (180, 255, 255)) / (180, 255, 255)
        expected[place] = np.round(255 * np.array(colorsys.hls_to_rgb(*hls)))
    assert mean_difference(ours, expected) <= 0.5
    record("Transforms", f"HLS jitter by {added}", "Python's colorsys", "mean 0.5 of 255 levels", mean_difference(ours, expected))


@pytest.mark.parametrize("box", [(0, 0, 500, 375), (37, 51, 300, 280), (123, 77, 150, 201), (0, 0, 1600, 1200),
                                 (333, 111, 901, 1003), (5, 3, 1590, 1190)])
@pytest.mark.parametrize("target", [32, 224])
def test_training_crops_are_close_to_a_full_decode(tmp_path, box, target):
    x, y, width, height = box
    path = tmp_path / "photo.jpg"
    photo(*((500, 375) if width <= 500 else (1600, 1200)), seed=3).save(path, quality=90)
    ours = dump("crop", x, y, width, height, target, path)[0]
    theirs = resized_crop(Image.open(path), y, x, height, width, [target, target], antialias=True)
    difference = mean_difference(ours, theirs)
    assert difference <= 2
    record("Transforms", f"training crop {width}x{height} to {target}", "Pillow by torchvision, decoded in full",
           "mean 2 of 255 levels", difference)


def kinds(folder: Path) -> dict[str, Path]:
    image = photo(101, 67, seed=4)
    alpha = Image.fromarray(np.random.default_rng(5).integers(0, 256, (67, 101), np.uint8))
    rgba = image.copy()
    rgba.putalpha(alpha)
    grey_alpha = Image.merge("LA", (image.convert("L"), alpha))
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: rotated
    images = {
        "rgb.jpg": (image, {"quality": 88}),
        "rgb444.jpg": (image, {"quality": 88, "subsampling": 0}),
        "progressive.jpg": (image, {"progressive": True}),
        "grey.jpg": (image.convert("L"), {}),
        "cmyk.jpg": (image.convert("CMYK"), {}),
        "oriented.jpg": (image, {"exif": exif}),
        "rgb.png": (image, {}),
        "rgba.png": (rgba, {}),
        "palette.png": (image.quantize(17), {}),
        "palette-transparent.png": (image.quantize(17), {"transparency": 3}),
        "bilevel.png": (image.convert("1"), {}),
        "grey.png": (image.convert("L"), {}),
        "grey-alpha.png": (grey_alpha, {}),
        "rgb.bmp": (image, {}),
        "palette.bmp": (image.quantize(200), {}),
        "rgb.ppm": (image, {}),
        "grey.pgm": (image.convert("L"), {}),
        "rgb.tif": (image, {}),
        "deflated.tif": (image, {"compression": "tiff_adobe_deflate"}),
        "grey.tiff": (image.convert("L"), {}),
        "rgba.tif": (rgba, {}),
        **{f"oriented-{how}.tif": (image, {"tiffinfo": {0x0112: how}}) for how in range(2, 9)},
        "lossless.webp": (image, {"lossless": True}),
        "lossy.webp": (image, {"quality": 80}),
    }
    for name, (content, options) in images.items():
        content.save(folder / name, **options)
    (folder / "rgba-named.JPEG").write_bytes((folder / "rgba.png").read_bytes())
    return {path.name: path for path in folder.iterdir()}


# Lossy chroma conversions may round differently between builds of a library.
TOLERANCE = {"lossy.webp": 1.0}


def test_every_kind_equals_pillow(tmp_path):
    folder = tmp_path / "kinds"
    folder.mkdir()
    different = {}
    for name, path in kinds(folder).items():
        difference = mean_difference(dump("full", path)[0], Image.open(path).convert("RGB"))
        record("Transforms", f"decoding of {name}", "Pillow", f"mean {TOLERANCE.get(name, 0)} of 255 levels", difference)
        if difference > TOLERANCE.get(name, 0):
            different[name] = difference
    assert not different


@pytest.mark.parametrize("name", ["a.jpg", "progressive.jpg", "a.png", "lossless.webp"])
def test_upright_images_equal_pillow(tmp_path, name):
    path, worst = tmp_path / name, 0.0
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x010F] = "a maker whose name comes first"
        exif[0x0112] = orientation
        photo(101, 67, seed=4).save(path, exif=exif, **{"progressive": {"progressive": True}, "lossless": {"lossless": True}}.get(path.stem, {}))
        theirs = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
        ours = dump("upright", path)[0]
        assert ours.shape == np.asarray(theirs).shape
        worst = max(worst, mean_difference(ours, theirs))
    record("Transforms", f"EXIF orientations of {name}", "Pillow's exif_transpose", "mean 0 of 255 levels", worst)
    assert worst == 0
