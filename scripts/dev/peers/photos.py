"""Makes photographs like ImageNet's out of Debian's wallpapers: JPEGs of 500 x 375 or 375 x 500 pixels in class folders.

ImageNet itself may not be redistributed. These photographs are free, and their files are about as large as ImageNet's
(80 KB on average). The same files are made every time.
"""

import random
import subprocess
from pathlib import Path

from PIL import Image

PACKAGES = ("mate-backgrounds", "plasma-workspace-wallpapers")
CLASSES = 10
QUALITY = 97


def wallpapers(folder: Path) -> list[Path]:
    """Unpacks the packages' photographs below `folder` and returns them. Nothing is installed."""
    if not folder.exists():
        folder.mkdir(parents=True)
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, check=True, capture_output=True)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, folder], check=True)
            package.unlink()
    paths = [path for path in folder.rglob("*.jpg") if path.is_file() and not path.is_symlink()]
    return sorted(path for path in paths if path.stat().st_size > 300_000)


def cut(image: Image.Image, upright: bool, draw: random.Random) -> Image.Image:
    """Returns a piece of a wallpaper, halved in size to be as sharp as a photograph of that size."""
    width, height = (375, 500) if upright else (500, 375)
    left = draw.randrange(max(1, image.width - 2 * width))
    top = draw.randrange(max(1, image.height - 2 * height))
    return image.resize((width, height), Image.Resampling.LANCZOS, (left, top, left + 2 * width, top + 2 * height))


def make_photos(folder: Path, count: int) -> Path:
    """Makes folder/train/CLASS/NUMBER.jpg, `count` in all, unless they are there."""
    done = folder / f"photos-{count}"
    if done.exists():
        return folder
    draw = random.Random(0)
    sources = [path for path in wallpapers(folder / "wallpapers") if min(Image.open(path).size) >= 1000]
    opened = {}
    for number in range(count):
        path = sources[number % len(sources)]
        if path not in opened:
            opened[path] = Image.open(path).convert("RGB")
        target = folder / "train" / f"class{number % CLASSES}" / f"{number:05}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        cut(opened[path], number % 3 == 0, draw).save(target, quality=QUALITY)
    done.touch()
    return folder
