#!/usr/bin/env python3
"""Prepares ImageNet (ILSVRC2012) or Imagenette for training, from archives you have: DIR/{train,val}/CLASS/.

    scripts/prepare_imagenet.py --output=DIR imagenette2-320.tgz
    scripts/prepare_imagenet.py --output=DIR ILSVRC2012_img_train.tar ILSVRC2012_img_val.tar \\
        ILSVRC2012_devkit_t12.tar.gz

What an archive is, its contents say: Imagenette has train/ and val/ folders inside, ImageNet's training archive a tar
per class, its validation archive plain JPEGs. One call may get any of them, in any order.

ImageNet's validation archive has no classes: the devkit has them, in a file of MATLAB's that SciPy reads (without SciPy
the script says how to get it). Instead of the devkit, --val_map=FILE names them, one image per line in one of two forms:
    ILSVRC2012_val_00000001.JPEG n01751748                 file name and class (a comma may separate them)
    ILSVRC2012_val_00000001,n01751748 111 108 370 362      Kaggle's LOC_val_solution.csv, header and boxes ignored

Run it again after an interruption: images that are there with their full size are skipped. An image that is there with
other contents (resized, say) is not replaced: the script stops. Names inside archives are never used as paths: class and file must be plain names, everything else stops the script. At the end the counts are
compared with what the data set should have (1,000 classes, 1,281,167 and 50,000 images).
"""

import argparse
import gzip
import io
import lzma
import os
import re
import sys
import tarfile
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from safe_files import DATA, DISK, Failure, Parser, exit_code, read_bounded, shown

CLASS_NAME = re.compile(r"n\d{8}")
IMAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.(JPEG|jpeg|JPG|jpg)")

MOST_DEVKIT_BYTES = 64 << 20  # bytes of a file in the devkit; the real ones have less than one
MOST_IMAGE_BYTES = 256 << 20  # the largest of ImageNet has 15 MB
DAMAGE = (EOFError, tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)

# name: (classes, training images, validation images)
KNOWN_SETS = {"ImageNet": (1000, 1_281_167, 50_000), "Imagenette": (10, 9_469, 3_925)}


class PrepareError(Exception):
    """The archives or the map are wrong; the text is a sentence for the user."""


@dataclass
class Progress:
    """Prints counts, speed and time left, every few seconds, from the place in the (compressed) file."""

    what: str
    archive: BinaryIO
    total_bytes: int
    written: int = 0
    skipped: int = 0
    began: float = field(default_factory=time.monotonic)
    last_shown: float = field(default_factory=time.monotonic)

    def show(self, final: bool = False) -> None:
        now = time.monotonic()
        if not final and now - self.last_shown < 5:
            return
        self.last_shown = now
        seconds = max(now - self.began, 1e-3)
        fraction = min(1.0, self.archive.tell() / max(self.total_bytes, 1))
        count = self.written + self.skipped
        line = f"    {self.what}: {count:,} images ({self.skipped:,} there already), {count / seconds:,.0f}/s"
        if final:
            line += f", done in {seconds:,.0f} s"
        elif fraction > 0.01:
            line += f", {100 * fraction:.0f} %, {seconds * (1 - fraction) / fraction / 60:.0f} min left"
        print(line, flush=True)


def write_image(source: BinaryIO, size: int, path: Path, progress: Progress) -> None:
    """Copies one image to a temporary file beside `path` that is then renamed, so that a file with its name is
    complete."""
    there = path.stat().st_size if path.exists() else None
    if there == size:
        progress.skipped += 1
        return
    if size > MOST_IMAGE_BYTES:
        raise PrepareError(f"{path.name} would have {size} bytes, more than any image of the data set. Is it the right archive?")
    content = source.read(size)
    if len(content) != size:
        raise PrepareError(f"the archive ends within {path.name}; it is incomplete. Get it again.")
    if there is not None and (there > size or not content.startswith(path.read_bytes())):
        raise PrepareError(f"{path} is there, and is another image than the archive's. Nothing was replaced; choose another --output.")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    os.replace(partial, path)
    progress.written += 1


def plain(name: str, pattern: re.Pattern[str], archive: str) -> str:
    if not pattern.fullmatch(name):
        raise PrepareError(f"{archive} holds the name {name!r}, which is not one of the data set's "
                           "(a class n01234567, an image NAME.JPEG). It was not written. Is it the right archive?")
    return name


def extract_imagenette(tar: tarfile.TarFile, archive: str, output: Path, progress: Progress) -> None:
    """Members: <top>/{train,val}/<class>/<image>."""
    for member in tar:
        if not member.isfile():
            continue
        parts = member.name.removeprefix("./").split("/")
        if len(parts) != 4 or parts[1] not in ("train", "val"):
            if IMAGE_NAME.fullmatch(parts[-1]):
                raise PrepareError(f"{archive} holds the image {member.name!r} outside train/CLASS/ and val/CLASS/.")
            continue  # skips notes and lists beside the images
        path = output / parts[1] / plain(parts[2], CLASS_NAME, archive) / plain(parts[3], IMAGE_NAME, archive)
        write_image(tar.extractfile(member), member.size, path, progress)
        progress.show()


def extract_train(tar: tarfile.TarFile, archive: str, output: Path, progress: Progress) -> None:
    """Members: <class>.tar, each with <image> members."""
    for class_member in tar:
        if not class_member.isfile():
            continue
        wnid = plain(class_member.name.removeprefix("./").removesuffix(".tar"), CLASS_NAME, archive)
        where = f"{archive}, {class_member.name}"
        with tarfile.open(fileobj=tar.extractfile(class_member), mode="r:") as class_tar:
            for member in class_tar:
                if member.isfile():
                    name = plain(member.name.removeprefix("./"), IMAGE_NAME, where)
                    write_image(class_tar.extractfile(member), member.size, output / "train" / wnid / name, progress)
                    progress.show()


def extract_val(tar: tarfile.TarFile, archive: str, output: Path, progress: Progress, val_map: dict[str, str]) -> None:
    """Members: <image>; the map has the class."""
    for member in tar:
        if not member.isfile():
            continue
        name = plain(member.name.removeprefix("./"), IMAGE_NAME, archive)
        wnid = val_map.get(name.rsplit(".", 1)[0])
        if wnid is None:
            raise PrepareError(f"{name} is not in the devkit or the --val_map file; {len(val_map):,} others are.")
        write_image(tar.extractfile(member), member.size, output / "val" / wnid / name, progress)
        progress.show()


def read_val_map(path: Path) -> dict[str, str]:
    """Image name without suffix → class."""
    result: dict[str, str] = {}
    text = read_bounded(path, MOST_DEVKIT_BYTES, links=True).decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.replace(",", " ").split()
        if not fields or fields[0].startswith("#") or fields[0] == "ImageId":
            continue
        stem = re.sub(r"\.(jpe?g)$", "", fields[0], flags=re.IGNORECASE)
        if len(fields) < 2 or not CLASS_NAME.fullmatch(fields[1]) or not re.fullmatch(r"[A-Za-z0-9_-]+", stem):
            raise PrepareError(f"{path}:{number}: expected an image's name and its class (n01234567), got {line!r}.")
        if result.setdefault(stem, fields[1]) != fields[1]:
            raise PrepareError(f"{path}:{number}: {stem} has two classes, {result[stem]} and {fields[1]}.")
    if not result:
        raise PrepareError(f"{path} names no image.")
    return result


def read_synsets(meta: bytes, where: str) -> dict[int, str]:
    """Number → class, from the devkit's meta.mat."""
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise PrepareError(f"SciPy is needed to read {where}: {sys.executable} -m pip install scipy "
                           "(or name the classes with --val_map=FILE, see --help).") from error
    try:
        synsets = loadmat(io.BytesIO(meta), squeeze_me=True, variable_names=["synsets"])["synsets"]
        return {int(number): plain(str(wnid), CLASS_NAME, where)
                for number, wnid in zip(synsets["ILSVRC2012_ID"], synsets["WNID"])}
    except PrepareError:
        raise
    except Exception as error:  # SciPy raises exceptions of many kinds for damaged bytes
        raise PrepareError(f"{where} is not the devkit's list of classes ({error}).") from error


def read_devkit(path: Path) -> dict[str, str]:
    """Image name without suffix → class, from ILSVRC2012_devkit_t12.tar.gz."""
    wanted: dict[str, bytes] = {"meta.mat": b"", "ILSVRC2012_validation_ground_truth.txt": b""}
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                name = member.name.rsplit("/", 1)[-1]
                if member.isfile() and name in wanted and member.size <= MOST_DEVKIT_BYTES:
                    wanted[name] = tar.extractfile(member).read()
    except (OSError, *DAMAGE) as error:
        raise PrepareError(f"{path} is damaged or incomplete: {error}. Get it again.") from error
    for name, content in wanted.items():
        if not content:
            raise PrepareError(f"{path} has no {name}: is it ILSVRC2012_devkit_t12.tar.gz?")
    meta, truth = wanted.values()
    synsets = read_synsets(meta, f"{path.name}, meta.mat")
    result: dict[str, str] = {}
    for number, line in enumerate(truth.decode("ascii", "replace").split(), start=1):
        if not re.fullmatch("[0-9]{1,9}", line) or int(line) not in synsets:
            raise PrepareError(f"{path.name}, ground truth of image {number}: {line!r} is not a class of meta.mat.")
        result[f"ILSVRC2012_val_{number:08d}"] = synsets[int(line)]
    return result


def kind_of(path: Path) -> str:
    """Returns imagenette, train or val, from the first file inside, or devkit for the archive of the classes."""
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if "devkit" in name:
                    return "devkit"
                if not member.isfile():
                    continue
                if re.search(r"(^|/)(train|val)/", name):
                    return "imagenette"
                if name.endswith(".tar"):
                    return "train"
                if "/" not in name and IMAGE_NAME.fullmatch(name):
                    return "val"
    except (OSError, *DAMAGE) as error:
        raise PrepareError(f"{path} cannot be read: {error}.") from error
    raise PrepareError(f"{path} is neither Imagenette nor an ILSVRC2012 archive of images (train: a tar per class; "
                       "val: plain JPEGs).")


def extract(path: Path, kind: str, output: Path, val_map: dict[str, str]) -> None:
    try:
        with open(path, "rb") as raw, tarfile.open(fileobj=raw, mode="r:*") as tar:
            progress = Progress(path.name, raw, path.stat().st_size)
            if kind == "imagenette":
                extract_imagenette(tar, path.name, output, progress)
            elif kind == "train":
                extract_train(tar, path.name, output, progress)
            else:
                extract_val(tar, path.name, output, progress, val_map)
            while tar.fileobj.read(1 << 20):  # to the checksum of the compressed file, behind the last member
                pass
            progress.show(final=True)
    except gzip.BadGzipFile as error:
        raise PrepareError(f"{path} is damaged: {error}. Some of its images in {output} may be, too: remove them, and get "
                           "the archive again.") from error
    except DAMAGE as error:
        raise PrepareError(f"{path} is damaged or incomplete: {error}. Get it again; the files written so far are kept "
                           "and are skipped next time.") from error


def count(folder: Path) -> tuple[int, int]:
    """Returns (classes, images)."""
    if not folder.is_dir():
        return 0, 0
    classes = [entry for entry in folder.iterdir() if entry.is_dir()]
    return len(classes), sum(1 for c in classes for file in c.iterdir() if IMAGE_NAME.fullmatch(file.name))


def verify(output: Path, kinds: set[str]) -> bool:
    """Compares the contents of `output` with what the data set should have, and prints the result."""
    train_classes, train_images = count(output / "train")
    val_classes, val_images = count(output / "val")
    print(f"==> {output}: train {train_images:,} images in {train_classes:,} classes, "
          f"val {val_images:,} in {val_classes:,}")
    name = "Imagenette" if kinds == {"imagenette"} else "ImageNet"
    classes, train, val = KNOWN_SETS[name]
    expected = {"imagenette": {"train", "val"}, "train": {"train"}, "val": {"val"}}
    wanted = set().union(*(expected[kind] for kind in kinds))
    complete = ("train" not in wanted or (train_classes, train_images) == (classes, train)) and (
        "val" not in wanted or (val_classes, val_images) == (classes, val))
    if complete:
        print(f"    complete: these are {name}'s counts")
    else:
        print(f"    NOT complete: {name} has {classes:,} classes, {train:,} images to train and {val:,} to validate. "
              "Check the archives' checksums, then run this again.")
    return complete


def prepare(archives: list[Path], output: Path, val_map_path: Path | None) -> bool:
    kinds: dict[Path, str] = {}
    for archive in archives:
        if not archive.is_file():
            raise PrepareError(f"there is no archive {archive}.")
        kinds[archive] = kind_of(archive)
    devkits = [path for path, kind in kinds.items() if kind == "devkit"]
    kinds = {path: kind for path, kind in kinds.items() if kind != "devkit"}
    if not kinds:
        raise PrepareError("no archive of images was named.")
    val_map: dict[str, str] = {}
    if "val" in kinds.values():
        if not devkits and val_map_path is None:
            raise PrepareError("the validation archive has no classes: name ILSVRC2012_devkit_t12.tar.gz, too, or give "
                               "--val_map=FILE (see --help).")
        val_map = read_val_map(val_map_path) if val_map_path else read_devkit(devkits[0])
    print(f"==> Writing to {output}: " + ", ".join(f"{path.name} ({kind})" for path, kind in kinds.items()), flush=True)
    for path, kind in kinds.items():
        extract(path, kind, output, val_map)
    return verify(output, set(kinds.values()))


def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to write train/ and val/ to")
    parser.add_argument("--val_map", type=Path, metavar="FILE", help="file with the classes of ImageNet's validation images")
    arguments = parser.parse_args()
    try:
        return 0 if prepare(arguments.archives, arguments.output, arguments.val_map) else DATA
    except PrepareError as error:
        print(f"error: {shown(str(error))}", file=sys.stderr)
        return DATA
    except OSError as error:
        raise Failure(str(error), "if the disk is full, free some space and run this again: it continues where it stopped",
                      DISK) from None


if __name__ == "__main__":
    sys.exit(exit_code(main))
