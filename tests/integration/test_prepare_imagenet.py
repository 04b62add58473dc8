"""Tests scripts/prepare_imagenet.py on small made-up archives: layouts, resuming, hostile names, damage, counts."""

import bz2
import gzip
import hashlib
import io
import lzma
import sys
import tarfile

import pytest

import command

SCRIPT = command.ROOT / "scripts" / "prepare_imagenet.py"
CLASSES = ("n01440764", "n01443537")


def tar_bytes(members) -> bytes:
    """An archive of members by name and content, or of a TarInfo alone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def write_tar(path, members, compress=bytes):
    path.write_bytes(compress(tar_bytes(members)))
    return path


def run(*arguments):
    return command.run(SCRIPT, *arguments, program=sys.executable, check=None)


def images(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def imagenette(tmp_path):
    members = [(f"imagenette2-160/{split}/{wnid}/{wnid}_{i}.JPEG", f"{split}{wnid}{i}".encode())
               for split in ("train", "val") for wnid in CLASSES for i in range(3)]
    members.append(("imagenette2-160/noisy_imagenette.csv", b"a,b"))
    return write_tar(tmp_path / "imagenette2-160.tgz", members, gzip.compress)


@pytest.fixture
def imagenet(tmp_path):
    train = write_tar(tmp_path / "ILSVRC2012_img_train.tar", [
        (f"{wnid}.tar", tar_bytes([(f"{wnid}_{i}.JPEG", f"{wnid}{i}".encode()) for i in range(2)]))
        for wnid in CLASSES])
    val = write_tar(tmp_path / "ILSVRC2012_img_val.tar", [
        (f"ILSVRC2012_val_{i:08d}.JPEG", f"val{i}".encode()) for i in (1, 2)])
    return train, val


def test_imagenette_keeps_its_folders(imagenette, tmp_path):
    result = run("--output", tmp_path / "out", imagenette)
    assert result.code == 3  # twelve images are not Imagenette's counts, and the script says so
    assert "train 6 images in 2 classes, val 6 in 2" in result.stdout
    assert "NOT complete: Imagenette has 10 classes" in result.stdout
    written = images(tmp_path / "out")
    assert len(written) == 12
    assert written["val/n01443537/n01443537_2.JPEG"] == b"valn014435372"


@pytest.mark.parametrize("val_map", [
    "ILSVRC2012_val_00000001.JPEG n01443537\nILSVRC2012_val_00000002.JPEG n01440764\n",
    "# file class\n\nILSVRC2012_val_00000001.JPEG,n01443537\nILSVRC2012_val_00000002,n01440764\n",
    "ImageId,PredictionString\nILSVRC2012_val_00000002,n01440764 1 2 3 4 \nILSVRC2012_val_00000001,n01443537 1 2 3 4\n",
])
def test_imagenet_makes_class_folders(imagenet, tmp_path, val_map):
    (tmp_path / "map.txt").write_text(val_map)
    result = run("--output", tmp_path / "out", "--val_map", tmp_path / "map.txt", *imagenet)
    assert "ImageNet has 1,000 classes, 1,281,167 images to train and 50,000 to validate" in result.stdout
    assert images(tmp_path / "out") == {
        "train/n01440764/n01440764_0.JPEG": b"n014407640",
        "train/n01440764/n01440764_1.JPEG": b"n014407641",
        "train/n01443537/n01443537_0.JPEG": b"n014435370",
        "train/n01443537/n01443537_1.JPEG": b"n014435371",
        "val/n01440764/ILSVRC2012_val_00000002.JPEG": b"val2",
        "val/n01443537/ILSVRC2012_val_00000001.JPEG": b"val1",
    }


def write_devkit(path, numbers, wnids=CLASSES, meta=None):
    """Writes a devkit like the official one: more synsets than classes, numbers from 1 in meta.mat, one number per
    image in the text."""
    if meta is None:
        np, io_ = pytest.importorskip("numpy"), pytest.importorskip("scipy.io", reason="writes meta.mat")
        fields = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O"), ("children", "O")]
        rows = [(float(i), wnid, f"class {i}, with a name", 0.0, np.zeros(0)) for i, wnid in enumerate(wnids, start=1)]
        rows.append((1001.0, "n00001740", "entity", 2.0, np.array([1.0, 2.0])))
        buffer = io.BytesIO()
        io_.savemat(buffer, {"synsets": np.array(rows, dtype=fields).reshape(-1, 1)}, do_compression=True)
        meta = buffer.getvalue()
    top = "ILSVRC2012_devkit_t12"
    return write_tar(path, [(f"{top}/readme.txt", b"text"), (f"{top}/data/meta.mat", meta),
                            (f"{top}/data/ILSVRC2012_validation_ground_truth.txt", numbers)], gzip.compress)


def test_the_devkit_names_the_classes(imagenet, tmp_path):
    devkit = write_devkit(tmp_path / "ILSVRC2012_devkit_t12.tar.gz", b"2\n1\n")
    result = run("--output", tmp_path / "out", devkit, *imagenet)
    assert "train 4 images in 2 classes, val 2 in 2" in result.stdout, result.stderr
    assert [name for name in images(tmp_path / "out") if name.startswith("val")] == [
        "val/n01440764/ILSVRC2012_val_00000002.JPEG", "val/n01443537/ILSVRC2012_val_00000001.JPEG"]


# By what is said: what a devkit holds, or a map of classes.
MISTAKES = {
    "ground truth of image 2: '7' is not a class": {"numbers": b"2\n7\n"},
    "' is not a class": {"numbers": b"2\n" + b"9" * 5000 + b"\n"},
    "ILSVRC2012_val_00000002.JPEG is not in the devkit": {"numbers": b"2\n"},
    "holds the name '../../etc'": {"numbers": b"2\n1\n", "wnids": ("n01440764", "../../etc")},
    "not the devkit's list of classes": {"numbers": b"1\n2\n", "meta": b"no MATLAB file"},
    "map.txt:1: expected": "ILSVRC2012_val_00000001.JPEG dog\n",
    "has two classes": "ILSVRC2012_val_00000001 n01440764\nILSVRC2012_val_00000001 n01443537\n",
    "is not in the devkit or the --val_map": "ILSVRC2012_val_00000001 n01440764\n",
    "names no image": "",
    "map.txt:1: ": "\udcff\n",
}


@pytest.mark.parametrize("said", MISTAKES)
def test_mistakes_in_devkits_and_maps_are_named(imagenet, tmp_path, said):
    given = MISTAKES[said]
    if isinstance(given, dict):
        pytest.importorskip("scipy")
        words = [write_devkit(tmp_path / "devkit.tar.gz", **given)]
    else:
        (tmp_path / "map.txt").write_text(given, errors="surrogateescape")
        words = ["--val_map", tmp_path / "map.txt"]
    result = run("--output", tmp_path / "out", *words, imagenet[1])
    assert result.code == 3 and said in result.stderr and not (tmp_path / "etc").exists()


def test_without_scipy_it_is_said_how_to_get_it(imagenet, tmp_path):
    devkit = write_devkit(tmp_path / "devkit.tar.gz", b"1\n2\n", meta=b"x")
    script = f"import sys; sys.modules['scipy'] = None; sys.argv[0] = '{SCRIPT}'; sys.path.insert(0, '{SCRIPT.parent}'); " \
             f"import runpy; runpy.run_path('{SCRIPT}', run_name='__main__')"
    result = command.run("-c", script, "--output", tmp_path / "out", devkit, imagenet[1], program=sys.executable, check=None)
    assert result.code == 3 and "-m pip install scipy" in result.stderr and "--val_map" in result.stderr


def test_goes_on_where_it_stopped(imagenette, tmp_path):
    out = tmp_path / "out"
    run("--output", out, imagenette)
    before = images(out)
    (out / "train/n01440764/n01440764_1.JPEG").unlink()
    (out / "val/n01440764/n01440764_0.JPEG").write_bytes(b"valn")  # cut
    result = run("--output", out, imagenette)
    assert "12 images (10 there already)" in result.stdout
    assert images(out) == before


def test_images_of_the_user_are_not_replaced(imagenette, tmp_path):
    """The same names, resized by another program; shorter or longer."""
    for content in (b"small", b"a much longer image than that"):
        own = tmp_path / "out" / "train" / "n01443537" / "n01443537_1.JPEG"
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_bytes(content)
        result = run("--output", tmp_path / "out", imagenette)
        assert result.code == 3 and "Nothing was replaced" in result.stderr
        assert own.read_bytes() == content


@pytest.mark.parametrize("compress, place", [(gzip.compress, 0.6), (lzma.compress, 0.6), (bz2.compress, 0.3)])
def test_damaged_compression_is_named(tmp_path, compress, place):
    content = b"".join(hashlib.sha256(bytes([place])).digest() + bytes(20) for place in range(256)) * 5
    archive = write_tar(tmp_path / "good.tgz", [("imagenette2/train/n01440764/a.JPEG", content)], compress)
    content = bytearray(archive.read_bytes())
    middle = int(place * len(content))
    content[middle:middle + 200] = b"\xff" * 200
    (tmp_path / "bad.tgz").write_bytes(content)
    result = run("--output", tmp_path / "out", tmp_path / "bad.tgz")
    assert result.code == 3 and result.stderr.startswith("error: ") and "Traceback" not in result.stderr


GOOD = ("imagenette2/train/n01440764/first.JPEG", b"1")
LINK = tarfile.TarInfo("imagenette2/train/n01440764/a.JPEG")
LINK.type, LINK.linkname = tarfile.SYMTYPE, "/etc/passwd"
TERABYTES = tarfile.TarInfo("imagenette2/train/n01440764/b.JPEG")
TERABYTES.size = 1 << 42
BAD_ARCHIVES = {
    **{repr(name): (tar_bytes([GOOD, (name, b"x")]), "bad.tar holds the ") for name in (
        "imagenette2/train/n01440764/../../../../escaped.JPEG", "imagenette2/train/../n01440764.JPEG", "imagenette2/train/n01440764/.JPEG",
        "imagenette2/train/n01440764/a\n.JPEG", "/imagenette2/train/n01440764/a.JPEG", "imagenette2/train/dogs/a.JPEG")},
    "a name in the archive of a class": (tar_bytes([("n01440764.tar", tar_bytes([("../x.JPEG", b"x")]))]), "'../x.JPEG'"),
    "the name of a class": (tar_bytes([("../n01440764.tar", tar_bytes([("x.JPEG", b"x")]))]), "'../n01440764'"),
    "an image of terabytes": (tar_bytes([GOOD])[:1024] + TERABYTES.tobuf(), "Is it the right archive?"),
    "cut": (gzip.compress(tar_bytes([(GOOD[0], bytes(range(256)) * 999)]))[:-60], "Get it again"),
}


@pytest.mark.parametrize("name", BAD_ARCHIVES)
def test_names_in_archives_are_not_paths_and_archives_may_be_cut(tmp_path, name):
    content, said = BAD_ARCHIVES[name]
    (tmp_path / "bad.tar").write_bytes(content)
    result = run("--output", tmp_path / "deep" / "out", tmp_path / "bad.tar")
    assert result.code == 3 and said in result.stderr and result.stderr.startswith("error: ") and "Traceback" not in result.stderr
    assert set(images(tmp_path / "deep")) <= {"out/train/n01440764/first.JPEG"} and not list(tmp_path.rglob("escaped*"))


def test_links_are_not_followed(tmp_path):
    run("--output", tmp_path / "out", write_tar(tmp_path / "links.tar", [(LINK, b""), GOOD]))
    assert list(images(tmp_path / "out")) == ["train/n01440764/first.JPEG"]


def test_validation_needs_a_map_and_archives_must_be_archives(imagenet, tmp_path):
    assert "--val_map=FILE" in run("--output", tmp_path / "out", imagenet[1]).stderr
    assert "there is no archive" in run("--output", tmp_path / "out", tmp_path / "none.tar").stderr
    (tmp_path / "text.tar").write_text("no archive")
    assert "cannot be read" in run("--output", tmp_path / "out", tmp_path / "text.tar").stderr
    other = write_tar(tmp_path / "other.tar", [("readme.txt", b"x")])
    assert "neither Imagenette nor" in run("--output", tmp_path / "out", other).stderr
