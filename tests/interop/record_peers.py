"""Reads record files with the programs that defined them and prints their records as JSON. It runs in a process of its
own, because TensorFlow and PyTorch clash in one process.

It takes lists of words, one a line as JSON, and answers each with a line:

    tfrecord|recordio|webdataset FILE…   →   [[label, sha256 of the image], …]
    write-tfrecord|write-recordio|write-webdataset FILE IMAGE LABEL [IMAGE LABEL …]   →   null

A label is JSON. tfrecord-lists and webdataset-lists have a list for each, of whole numbers or of floats.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")


def mxnet_recordio():
    """Returns MXNet's recordio. MXNet's last release names parts of NumPy that NumPy 2 has dropped, but recordio uses
    none of them."""
    import numpy

    known = numpy.__getattr__

    def with_dropped_names(name):
        try:
            return known(name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return 0.0 if name.isupper() else numpy.any

    numpy.__getattr__ = with_dropped_names
    from mxnet import recordio

    return recordio


def read_tfrecord(paths):
    import tensorflow as tf

    features = {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                "image/class/label": tf.io.FixedLenFeature([], tf.int64)}
    for record in tf.data.TFRecordDataset(paths):
        example = tf.io.parse_single_example(record, features)
        yield int(example["image/class/label"]), example["image/encoded"].numpy()


def read_tfrecord_lists(paths):
    import tensorflow as tf

    for record in tf.data.TFRecordDataset(paths):
        is_float = len(tf.train.Example.FromString(record.numpy()).features.feature["image/class/label"].float_list.value) > 0
        features = {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                    "image/class/label": tf.io.VarLenFeature(tf.float32 if is_float else tf.int64)}
        example = tf.io.parse_single_example(record, features)
        yield example["image/class/label"].values.numpy().tolist(), example["image/encoded"].numpy()


def read_recordio(paths):
    recordio = mxnet_recordio()
    for path in paths:
        reader = recordio.MXIndexedRecordIO(str(Path(path).with_suffix(".idx")), path, "r")
        for key in reader.keys:
            header, image = recordio.unpack(reader.read_idx(key))
            yield int(header.label), image


def read_webdataset(paths):
    import webdataset

    for sample in webdataset.WebDataset(paths, shardshuffle=False, empty_check=False):
        yield int(sample["cls"]), sample["jpg"]


def read_webdataset_lists(paths):
    import webdataset

    for sample in webdataset.WebDataset(paths, shardshuffle=False, empty_check=False):
        yield json.loads(sample["json"])["label"], sample["jpg"]


def write_tfrecord(path, samples):
    import tensorflow as tf

    def label_of(label):
        values = label if isinstance(label, list) else [label]
        if any(isinstance(value, float) for value in values):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    with tf.io.TFRecordWriter(path) as writer:
        for label, image in samples:
            features = {
                "image/class/label": label_of(label),
                "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                "image/object/bbox/xmin": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5, 0.25])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


def write_recordio(path, samples):
    recordio = mxnet_recordio()
    writer = recordio.MXIndexedRecordIO(str(Path(path).with_suffix(".idx")), path, "w")
    for number, (label, image) in enumerate(samples):
        # Every other label is an array, as with im2rec's --pack-label.
        header = recordio.IRHeader(0, [float(label), 0.5] if number % 2 else float(label), number, 0)
        writer.write_idx(number, recordio.pack(header, image))
    writer.close()


def write_webdataset(path, samples):
    import webdataset

    def label_of(label):
        return {"json": {"label": label}} if isinstance(label, list) else {"cls": label}

    with webdataset.TarWriter(path) as writer:
        for number, (label, image) in enumerate(samples):
            writer.write({"__key__": f"folder/{number:04}" + "x" * 100, "jpg": image, **label_of(label)})


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    for line in sys.stdin:
        what, *rest = json.loads(line)
        if what.startswith("write-"):
            path, *pairs = rest
            samples = [(json.loads(label), Path(image).read_bytes()) for image, label in zip(pairs[::2], pairs[1::2])]
            answer = globals()[what.replace("-", "_")](path, samples)
        else:
            found = globals()["read_" + what.replace("-", "_")](rest)
            answer = [[label, hashlib.sha256(image).hexdigest()] for label, image in found]
        print(json.dumps(answer), file=answers, flush=True)
