"""TensorFlow, MXNet and webdataset read what dtrain_data packs, and their files are read here."""

import functools
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from command import DATA, Answering, inspected, run, sha256
from truth import record

PEERS = Path(__file__).with_name("record_peers.py")
MODULES = {"tfrecord": "tensorflow", "recordio": "mxnet", "webdataset": "webdataset"}
SHARDS = {"tfrecord": "train-0*-of-*", "recordio": "train-*.rec", "webdataset": "train-*.tar"}
FIRST_LABEL = {"tfrecord": 1, "recordio": 0, "webdataset": 0}  # TensorFlow's ImageNet scripts count from 1
MAGIC = b"\x0a\x23\xd7\xce"  # RecordIO's

pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not built")
each_format = pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.skipif(importlib.util.find_spec(module) is None,
                                                reason=f"{module} is not installed"))
    for name, module in MODULES.items()])


process_of = functools.cache(lambda format_name: Answering(sys.executable, PEERS))


def peer(what, *arguments):
    asked = process_of(what.removeprefix("write-").removesuffix("-lists"))
    return json.loads(asked.ask(json.dumps([what, *map(str, arguments)])))


def lists_of(name):
    """The label of each image: several classes, or none, and two numbers."""
    several = [[first + FIRST_LABEL[name] for first in row] for row in ([0, 2], [1], [], [0, 1, 2])]
    return {"image_multilabel": several, "image_regression": [[0.5, -3.0], [1e-3, 7.25], [0.1, 0.0], [2.0, 5.0]]}


@each_format
def test_peers_read_what_is_packed(images, tmp_path, name):
    run("pack", f"--data_dir={images}", f"--output={tmp_path}", f"--output_format={name}", "--shards=3", program=DATA)
    shards = sorted(tmp_path.glob(SHARDS[name]))
    assert len(shards) == 3
    expected = [[line["label"] + FIRST_LABEL[name], line["sha256"]]
                for line in inspected(f"--data_dir={images}", "--split=train")]
    assert len(expected) == 160
    assert peer(name, *shards) == expected
    record("Files", f"{name}, packed here", f"{MODULES[name]} reads it", "the same labels and bytes", 0)


@each_format
def test_what_peers_write_is_read(images, tmp_path, name):
    sources = sorted((images / "train").glob("*/*.jpg"))[::20]
    # Bytes that RecordIO has to split, before, after and between others.
    (tmp_path / "magic").write_bytes(MAGIC + b"1234" + MAGIC + MAGIC + np.random.default_rng(1).bytes(5) + MAGIC)
    sources.append(tmp_path / "magic")
    labels = [number % 3 for number in range(len(sources))]
    path = tmp_path / {"tfrecord": "train.tfrecord", "recordio": "train.rec", "webdataset": "train.tar"}[name]
    peer(f"write-{name}", path, *(text for pair in zip(sources, labels) for text in pair))
    found = inspected(f"--data_dir={tmp_path}", f"--data_format={name}")
    assert [line["label"] for line in found] == labels
    assert [line["sha256"] for line in found] == [sha256(path) for path in sources]
    record("Files", f"{name}, read here", f"{MODULES[name]} wrote it", "the same labels and bytes", 0)


@each_format
@pytest.mark.parametrize("task", ["image_multilabel", "image_regression"])
def test_labels_that_are_lists(images, tmp_path, name, task):
    """What the format's own program writes is read here, and what is packed of it is read there."""
    if name == "recordio":
        pytest.skip("has one class for each image")
    sources, labels = sorted((images / "train").glob("*/*.jpg"))[::40], lists_of(name)[task]
    (tmp_path / "theirs").mkdir()
    path = tmp_path / "theirs" / {"tfrecord": "train.tfrecord", "webdataset": "train.tar"}[name]
    peer(f"write-{name}", path, *(text for pair in zip(sources, map(json.dumps, labels)) for text in pair))
    found = inspected(f"--data_dir={path.parent}", f"--task={task}", f"--data_format={name}")
    first = FIRST_LABEL[name]
    held = [[float(number + first in row) for number in range(3)] for row in labels]
    expected = held if task == "image_multilabel" else np.float32(labels).tolist()
    assert [line["targets"] for line in found] == expected
    assert [line["sha256"] for line in found] == [sha256(source) for source in sources]
    run("pack", f"--data_dir={path.parent}", f"--data_format={name}", f"--task={task}", f"--output={tmp_path / 'ours'}",
        f"--output_format={name}", program=DATA)
    again = peer(f"{name}-lists", *sorted((tmp_path / "ours").glob(SHARDS[name])))
    assert again == [[np.float32(label).tolist() if task == "image_regression" else label, sha256(source)]
                     for label, source in zip(labels, sources)]
    record("Files", f"{name}, {task}", f"{MODULES[name]} writes and reads it", "the same labels and bytes", 0)
