#!/usr/bin/env python3
"""Makes the seeds of the fuzz targets, FOLDER/TARGET/NAME: small inputs of every kind that a parser knows.

    .venv/bin/python tests/fuzz/make_corpus.py FOLDER

Needs Pillow and torch (scripts/setup.sh --tests installs them)."""

import argparse
import io
import json
import pickle
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

import torch
from PIL import Image

FOLDER = Path(sys.argv[1])
RECORDIO_MAGIC = 0xCED7230A


def write(target: str, name: str, content: bytes) -> None:
    folder = FOLDER / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    image = Image.new("RGB", (width, height))
    image.putdata([(x * 255 // width, y * 255 // height, (x * y) % 256) for y in range(height) for x in range(width)])
    return image.convert(mode)


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


# ---- Images ----

def jpegs() -> dict[str, bytes]:
    small = picture(40, 24)
    return {
        "420": encoded(small, "JPEG", quality=80),
        "444": encoded(small, "JPEG", quality=80, subsampling=0),
        "422": encoded(small, "JPEG", quality=30, subsampling=1),
        "grey": encoded(picture(33, 17, "L"), "JPEG"),
        "cmyk": encoded(picture(20, 20, "CMYK"), "JPEG"),
        "progressive": encoded(small, "JPEG", progressive=True),
        "optimized": encoded(small, "JPEG", optimize=True),
        "larger": encoded(picture(160, 96), "JPEG", quality=20),
        "larger-progressive": encoded(picture(160, 96), "JPEG", quality=20, progressive=True),
        "restarts": encoded(picture(48, 48), "JPEG", restart_marker_blocks=1),
        "one-pixel": encoded(picture(1, 1), "JPEG"),
    }


def images() -> dict[str, bytes]:
    small = picture(20, 12)
    kinds = {f"jpeg-{name}": content for name, content in jpegs().items() if name in ("420", "cmyk", "progressive")}
    for mode in ("RGB", "RGBA", "L", "LA", "P", "1", "I;16"):
        source = Image.frombytes("I;16", (2, 2), bytes(range(8))) if mode == "I;16" else small.convert(mode)
        kinds[f"png-{mode.lower().replace(';', '')}"] = encoded(source, "PNG")
    kinds["webp-lossy"] = encoded(small, "WEBP", quality=50)
    kinds["webp-lossless"] = encoded(small.convert("RGBA"), "WEBP", lossless=True)
    for compression in ("raw", "tiff_lzw", "tiff_deflate", "packbits", "jpeg"):
        kinds[f"tiff-{compression.removeprefix('tiff_')}"] = encoded(small, "TIFF", compression=compression)
    kinds["tiff-group4"] = encoded(small.convert("1"), "TIFF", compression="group4")
    for mode in ("RGB", "L", "P", "1"):
        kinds[f"bmp-{mode.lower()}"] = encoded(small.convert(mode), "BMP")
    kinds["ppm"] = encoded(small, "PPM")
    kinds["pgm"] = encoded(small.convert("L"), "PPM")
    kinds["pgm-16"] = b"P5\n# a comment\n2 2\n65535\n" + bytes(range(8))
    kinds["gif"] = encoded(small.convert("P"), "GIF")
    return kinds


# ---- Record files ----

def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(name: str, values: bytes) -> bytes:
    return field(1, field(1, name.encode()) + field(2, values))


def example(image: bytes, label: int, packed: bool = True) -> bytes:
    integers = field(1, varint(label)) if packed else varint(1 << 3) + varint(label)
    return field(1, feature("image/class/label", field(3, integers)) + feature("image/encoded", field(1, field(1, image)))
                 + feature("image/height", field(3, field(1, varint(224)))) +
                 feature("image/object/area", field(2, field(1, struct.pack("<2f", 1, 2)))))


def tfrecord(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(crc32c(length))) + data + struct.pack("<I", masked(crc32c(data)))


def recordio_part(kind: int, data: bytes) -> bytes:
    return struct.pack("<II", RECORDIO_MAGIC, kind << 29 | len(data)) + data + bytes(-len(data) % 4)


def recordio(label: float, image: bytes, labels: tuple[float, ...] = ()) -> bytes:
    data = struct.pack("<IfQQ", len(labels), label, 7, 0) + struct.pack(f"<{len(labels)}f", *labels) + image
    parts = []
    begin = 0
    for at in range(0, len(data) - 3, 4):
        if data[at:at + 4] == struct.pack("<I", RECORDIO_MAGIC):
            parts.append(data[begin:at])
            begin = at + 4
    parts.append(data[begin:])
    if len(parts) == 1:
        return recordio_part(0, data)
    kinds = [1] + [2] * (len(parts) - 2) + [3]
    return b"".join(recordio_part(kind, part) for kind, part in zip(kinds, parts))


def tar(members: dict[str, bytes], kind: int = tarfile.USTAR_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()[:sum(512 + -(-len(c) // 512) * 512 for c in members.values()) + 3072]


def index(head: dict, entries: list[tuple[int, int, int, int]], names: bytes = b"") -> bytes:
    text = json.dumps({"format": "recordio", "fingerprint": "00", "class_names": [], "files": [],
                       "records": len(entries), "name_bytes": len(names)} | head).encode()
    return (b"DTINDEX1" + struct.pack("<Q", len(text)) + text +
            b"".join(struct.pack("<QQIi", *entry) for entry in entries) + names)


def safetensors(header: dict, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def record_files() -> None:
    magic = struct.pack("<I", RECORDIO_MAGIC)
    two = tfrecord(example(b"first", 1)) + tfrecord(example(b"second", 2, packed=False))
    write("tfrecord", "two", b"\0" + two)
    write("tfrecord", "damaged-between", b"\0" + two[:5] + b"x" + two[6:])
    write("tfrecord", "truncated", b"\0" + two[:-3])
    write("tfrecord", "framed", b"\1" + b"".join(
        struct.pack("<H", len(e)) + e for e in (example(b"first", 1), example(b"", 0), b"text")))
    write("tf_example", "packed", example(b"image", 300))
    write("tf_example", "unpacked", example(b"", 1, packed=False))
    write("tf_example", "numbers", field(1, feature("image/class/label", field(2, field(1, struct.pack("<2f", 0.5, -3)))) +
                                          feature("image/encoded", field(1, field(1, b"image")))))
    write("tf_example", "other-schema", field(1, feature("jpeg", field(1, field(1, b"image")))))

    plain = recordio(3, b"image")
    parts = recordio(0, b"abc" + bytes(1) + magic + b"more" + magic + b"end", labels=(2, 1))
    write("recordio", "plain", struct.pack("<H", 0) + plain + parts)
    offsets = f"0\t0\n1\t{len(plain)}\n".encode()
    write("recordio", "with-idx", struct.pack("<H", len(offsets)) + offsets + plain + parts)
    damaged = plain[:4] + b"\xff" + plain[5:]
    write("recordio", "damaged-with-idx", struct.pack("<H", len(offsets)) + offsets + damaged + parts)
    write("recordio", "text", struct.pack("<H", 0) + b"0\t1.0\timage.jpg\n" * 4)

    samples = {"a/one.jpg": b"image", "a/one.cls": b"3", "a/two.png": b"image 2", "a/two.json": b'{"label": 4}'}
    write("webdataset", "ustar", b"\0" + tar(samples))
    write("webdataset", "ustar-fixed", b"\1" + tar(samples))
    write("webdataset", "pax", b"\1" + tar({"x" * 120 + ".jpg": b"i", "x" * 120 + ".cls": b"0"}, tarfile.PAX_FORMAT))
    write("webdataset", "gnu", b"\1" + tar({"y" * 120 + ".jpg": b"i", "y" * 120 + ".cls": b"0"}, tarfile.GNU_FORMAT))
    write("webdataset", "several", b"\1" + tar({"1.jpg": b"i", "1.json": b'{"label": [0, 2.5]}', "2.jpg": b"i", "2.json": b"[]"}))
    write("webdataset", "two-archives", b"\1" + 2 * tar(samples))
    write("webdataset", "no-label", b"\1" + tar({"one.jpg": b"image"}))

    packed = index({"files": [["train-00000.rec", 100, 5], ["classes.txt", 0, 0]]}, [(0, 40, 0, 1), (40, 60, 0, 0)])
    folder = index({"format": "imagefolder", "class_names": ["a", "b"], "files": [[".", 0, 1], ["a", 0, 2], ["b", 0, 3]]},
                   [(0, 10, 1, 0), (6, 11, 2, 1)], b"1.jpg\x002.jpg\0")
    numbers = index({"format": "tfrecord.numbers", "files": [["train", 100, 5]], "values": 2}, [(0, 40, 0, 1), (40, 60, 0, 1)],
                    b"") + struct.pack("<2f", 0.5, -3)
    nameless = index({"format": "imagefolder", "class_names": ["a"], "files": [["a", 1000, 2]]}, [(900, 10, 0, 5)])
    for name, content in (("packed", packed), ("folder", folder), ("nameless-folder", nameless), ("numbers", numbers)):
        write("record_index", name, b"\1" + content)
        write("record_index", f"{name}-with-crc", b"\0" + content + struct.pack("<I", crc32c(content)))

    labels = struct.pack("<2q", 0, 1)
    write("safetensors", "uint8", safetensors(
        {"labels": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]},
         "images": {"dtype": "U8", "shape": [2, 2, 2, 3], "data_offsets": [16, 40]}}, labels + bytes(24)))
    write("safetensors", "float32", safetensors(
        {"__metadata__": {"format": "pt"}, "images": {"dtype": "F32", "shape": [1, 3, 2, 2], "data_offsets": [0, 48]},
         "labels": {"dtype": "I32", "shape": [1], "data_offsets": [48, 52]}}, bytes(52)))
    write("safetensors", "weights", safetensors(
        {"fc.bias": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]},
         "scalar": {"dtype": "F64", "shape": [], "data_offsets": [6, 14]},
         "empty": {"dtype": "I8", "shape": [0, 5], "data_offsets": [14, 14]}}, bytes(14)))


# ---- What torch.save writes ----

class Caller:
    """Its pickle calls a function."""

    def __reduce__(self):
        return print, ("a pickle has been run",)


def torch_files() -> None:
    """Seeds by kind: a whole file (0, or 3 if averaged weights are preferred), a pickle, an archive."""
    def saved(content, archive: bool = True) -> bytes:
        buffer = io.BytesIO()
        torch.save(content, buffer, _use_new_zipfile_serialization=archive)
        return buffer.getvalue()

    weights = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).state_dict()
    base = torch.arange(12.0).reshape(3, 4)
    others = {"view": base.t(), "part": base[1:, 2], "half": torch.ones(2).half(), "bf16": torch.ones(2).bfloat16(),
              "bool": torch.tensor([True]), "scalar": torch.tensor(1.5), "empty": torch.empty(0, 3), "step": 7,
              "parameter": torch.nn.Parameter(torch.ones(2)), "size": torch.Size([2, 3]), "i8": torch.ones(2).char()}
    checkpoint = {"model": weights, "model_ema": {f"module.{name}": tensor for name, tensor in weights.items()},
                  "optimizer": {"state": {0: {"momentum_buffer": torch.ones(2)}}, "param_groups": [{"lr": 0.1}]},
                  "args": argparse.Namespace(lr=0.1, device=torch.device("cpu"), dtype=torch.float32), "epoch": 2**40}
    archive = saved(weights)
    members = zipfile.ZipFile(io.BytesIO(archive))
    write("torch_file", "weights", b"\0" + archive)
    write("torch_file", "weights-legacy", b"\0" + saved(weights, archive=False))
    write("torch_file", "others", b"\0" + saved(others))
    write("torch_file", "others-legacy", b"\0" + saved(others, archive=False))
    write("torch_file", "checkpoint", b"\0" + saved(checkpoint))
    write("torch_file", "checkpoint-average", b"\3" + saved(checkpoint))
    write("torch_file", "checkpoint-legacy", b"\3" + saved(checkpoint, archive=False))
    write("torch_file", "code", b"\0" + saved({"a": torch.ones(1), "b": Caller()}))
    write("torch_file", "archive", b"\2" + archive)
    write("torch_file", "pickle", b"\1" + next(members.read(name) for name in members.namelist() if "data.pkl" in name))
    values = {"a": [1, -1, 2**20, 2**80, 1.5, None, True, "x" * 300, b"bytes", (1, 2, 3, 4), {}]}
    values["itself"] = values
    for protocol in (2, 4, 5):
        write("torch_file", f"pickle-{protocol}", b"\1" + pickle.dumps(values, protocol))


# ---- What ranks tell each other ----

def control_lines() -> None:
    """Seeds by sender: client, launcher, rank, the server to a client, the server."""
    position = [3, 7, 2, 4, 0.25]
    spoken = {
        "client": (0, [{"kind": "hello", "magic": "dtrain control", "version": 2, "nonce": "00ff", "rank": 1,
                        "world_size": 2, "host": "h", "pid": 7}, {"kind": "proof", "proof": "ab" * 32}]),
        "launcher": (1, [{"kind": "death", "rank": 1, "reason": "killed by signal 9"}]),
        "rank": (2, [{"kind": "config", "config": {"lr": 0.1, "mean": [0, 0.5], "data": {"train": "aa"}}},
                     {"kind": "at", "at": position}, {"kind": "stop"}, {"kind": "accept", "point": 9},
                     {"kind": "reject", "point": 9, "passed": 11},
                     {"kind": "bad_record", "split": "train", "index": 5, "file": "a.tar", "offset": 512,
                      "reason": "truncated", "dataset_size": 100, "max_bad_records": 0.01, "strict": False},
                     {"kind": "lost", "message": "broken pipe"},
                     {"kind": "failed", "code": 3, "message": "\x1b[2J"}, {"kind": "leave"}]),
        "greeting": (3, [{"kind": "challenge", "nonce": "00"}, {"kind": "welcome", "store_port": 4000, "proof": "00"},
                         {"kind": "refused", "message": "it belongs to another run"}]),
        "server": (4, [{"kind": "tick", "at": position}, {"kind": "go"}, {"kind": "propose", "point": 12},
                       {"kind": "commit", "point": 12}, {"kind": "bad_records", "split": "val", "count": 1},
                       {"kind": "bye"}, {"kind": "noted"},
                       {"kind": "end", "code": 4, "message": "rank 1 is gone", "hint": "", "rank": 1, "cause": 3}]),
    }
    for name, (speaker, messages) in spoken.items():
        lines = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        write("control", name, bytes([speaker]) + lines)
        write("control", f"{name}-in-pieces", bytes([speaker + 130]) + lines)
    hostile = {
        "deep": (2, b'{"kind":"config","config":' + b'{"a":' * 1200 + b"0" + b"}" * 1200 + b"}"),
        "deep-brackets": (4, b"[" * 7000),
        "phase": (2, b'{"kind":"at","at":[1,2,3,100000000,0.5]}'),
        "large-integer": (2, b'{"kind":"accept","point":9223372036854775808}'),
        "large-real": (2, b'{"kind":"at","at":[1,2,3,4,1e300]}'),
        "larger-real": (2, b'{"kind":"at","at":[1,2,3,4,1e999]}'),
        "end-with-0": (4, b'{"kind":"end","code":0,"message":"","hint":"","rank":0}'),
        "end-with-99999": (4, b'{"kind":"end","code":99999,"message":"","hint":"","rank":0}'),
        "types": (0, b'{"kind":["hello"],"rank":{}}'),
    }
    for name, (speaker, line) in hostile.items():
        write("control", name, bytes([speaker]) + line + b"\n")


# ---- Text ----

def texts() -> None:
    # As ManifestText writes it. The sum over the text is wrong, as in most inputs.
    manifest = {"format": 1, "step": 12, "files": {"model.safetensors": {"bytes": 100, "sha256": "00" * 32}},
                "sha256": "11" * 32}
    write("manifest", "text", b"\0" + json.dumps(manifest, indent=2).encode() + b"\n")
    write("manifest", "made", b"\1\x0c\x80" + b"\x05state\x40" + b"0" * 64 + b"\x64\0")
    write("command_line", "main", b"\0--data_dir=data\n--model=resnet50\n--batch-size\n64\n--nesterov\n--lr=0.1\n"
          b"--epochs=90\n--mean=0.5,0.5,0.5\n\n# a recipe\n--lr_schedule poly\n--warmup_epochs=5\n")
    write("command_line", "main-mistakes", b"\0--modle=resnet50\n--lr=fast\n--noepochs\nword\n--adam_betas=(0.9,0.98)\n")
    write("command_line", "data", b"\1pack\n--data_dir=a\n--output=b\n--output_format=tfrecord\n--part=1/2\n"
          b"--label_offset=auto\n--max_bad_records=0.5\n\n--quality 80\n--nostrict_data\n")
    write("command_line", "help", b"\1--help\n")


def token_files() -> None:
    def index(code: int, width: int, sizes: list[int]) -> bytes:
        places = [width * sum(sizes[:i]) for i in range(len(sizes))]
        return (b"MMIDIDX\0\0" + struct.pack("<QBQ", 1, code, len(sizes)) + struct.pack(f"<{len(sizes)}i", *sizes)
                + struct.pack(f"<{len(sizes)}q", *places))

    def case(name: str, head: bytes, tokens: bytes) -> None:
        write("tokens", name, struct.pack("<H", len(head)) + head + tokens)

    sizes = [3, 1, 8, 2, 1, 1, 12, 0, 2]
    tokens = range(5, 5 + sum(sizes))
    for name, code, letter, width in (("u16", 8, "H", 2), ("u32", 9, "I", 4), ("i64", 5, "q", 8), ("u8", 1, "B", 1)):
        case(name, index(code, width, sizes), struct.pack(f"<{len(tokens)}{letter}", *tokens))
    case("cut", index(8, 2, sizes), struct.pack("<9H", *tokens[:9]))
    case("old", b"TNTIDX\0\0" + bytes(40), b"")
    case("huge", b"MMIDIDX\0\0" + struct.pack("<QBQ", 1, 8, 2**63) + bytes(24), b"")


def tokenizers() -> None:
    write("text", "dictionary", b"\x00" + b"13 185\n262 180\na b 3\nmadeupword0000 0\n")
    write("text", "dictionary-wrong", b"\x00" + b"13 185\n13 1\n<s> x\n")
    printable = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    written = [chr(b) for b in printable] + [chr(0x100 + k) for k in range(256 - len(printable))]
    vocabulary = {token: id for id, token in enumerate([*written, "ab", "abc", "\u0120a"])}
    merges = "#version: 0.2\na b\nab c\n\u0120 a\n"
    write("text", "tokenizer", b"\x01" + json.dumps(vocabulary).encode() + b"\0" + merges.encode())
    write("text", "tokenizer-no-byte", b"\x01" + json.dumps(dict(list(vocabulary.items())[1:])).encode() + b"\0" + merges.encode())
    write("text", "tokenizer-json", b"\x03" + tokenizer_json(vocabulary, [["a", "b"], "ab c"]))
    write("text", "tokenizer-json-wordpiece", b"\x03" + tokenizer_json(vocabulary, []).replace(b'"BPE"', b'"WordPiece"'))
    write("text", "vocab-txt", b"\x04" + "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nsome\nwor\n##d\n##s\n,\ns\n##o\n##m\n##e\n日\n".encode())
    write("text", "vocab-txt-without-special", b"\x04some\nwords\n")
    bert = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "s": 4, "##o": 5}
    write("text", "tokenizer-json-unigram", b"\x03" + unigram_tokenizer_json())
    write("text", "tokenizer-json-bert", b"\x03" + bert_tokenizer_json(bert))
    write("text", "tokenizer-json-modern", b"\x03" + modern_tokenizer_json({**vocabulary, "[PAD]": 300, "[CLS]": 301, "[SEP]": 302}))
    write("text", "sentencepiece", b"\x05" + sentencepiece_model(b"\0" * 1024))
    write("text", "sentencepiece-table-leads-outside", b"\x05" + sentencepiece_model(struct.pack("<256I", *[0x3FF << 10] * 256)))
    write("text", "sentencepiece-cut", b"\x05" + sentencepiece_model(b"\0" * 1024)[:-700])
    write("text", "lines", b"\x02" + " it's 2024 abab\r\n\n na\u00efve \u65e5\u672c \U0001f917\u3000\rx".encode() + b"\xff\xe2\x82 \xf0\x9f")
    write("text", "long", b"\x02" + b"abcab" * 40 + b"  " * 9)


def unigram_tokenizer_json() -> bytes:
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [[token, 0.0] for token in special] + [["\u2581", -1.5], ["a", -2.0], ["\u2581ab", -2.5], ["b", -3.0], ["<mask>", 0.0]]
    steps = [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}]
    rows = {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]}
    return json.dumps({"model": {"type": "Unigram", "unk_id": 3, "vocab": pieces}, "normalizer": None, "post_processor": rows,
                       "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
                       "added_tokens": [{"id": id, "content": token} for id, token in enumerate(special)]}).encode()


def bert_tokenizer_json(vocabulary: dict) -> bytes:
    return json.dumps({"added_tokens": [{"id": 1, "content": "[UNK]", "special": True}, {"id": 6, "content": "Some", "normalized": True, "lstrip": True}],
                       "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
                       "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
                       "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary}}).encode()


def modern_tokenizer_json(vocabulary: dict) -> bytes:
    special = {name: {"id": name, "ids": [vocabulary[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    a, b = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    cls, sep = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]"))
    return json.dumps({"added_tokens": [{"id": 303, "content": "  ", "normalized": True}, {"id": 301, "content": "[CLS]", "rstrip": True}], "normalizer": {"type": "NFC"},
                       "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                       "post_processor": {"type": "TemplateProcessing", "single": [cls, a, sep], "pair": [cls, a, sep, b, sep], "special_tokens": special},
                       "model": {"type": "BPE", "vocab": vocabulary, "merges": [["a", "b"]]}}).encode()


def sentencepiece_model(trie: bytes) -> bytes:
    """A model of four pieces, with a table of characters that has this trie."""
    kinds = {"<unk>": b"\x18\x02", "<s>": b"\x18\x03", "</s>": b"\x18\x03", "\u2581": b""}
    pieces = b"".join(field(1, field(1, name.encode()) + b"\x15" + struct.pack("<f", -1) + kind) for name, kind in kinds.items())
    return pieces + field(3, field(2, struct.pack("<I", len(trie)) + trie + b"a\0"))


def tokenizer_json(vocabulary: dict, merges: list) -> bytes:
    return json.dumps({"added_tokens": [{"id": len(vocabulary), "content": "<mask>"}], "normalizer": None,
                       "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                       "model": {"type": "BPE", "vocab": vocabulary, "merges": merges}}).encode()


def tables() -> None:
    write("table", "tsv", b"\x00" + b"\xef\xbb\xbflabel\ttext\r\n1\t\"a \"\" b\r\n0\t'c,\n\n")
    write("table", "cola", b"\x00" + b"gj04\t1\t\tOur friends.\ngj04\t0\t*\tOur friend.\n")
    write("table", "qqp", b"\x00" + b"id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\ta?\tb?\t0\n1\t2\t3\ta?\n")
    write("table", "csv", b"\x01" + b'sentence1,sentence2,score\r\n"x, ""y""","line\n\nline",3.8\n,a "b",\n')
    write("table", "csv-open", b"\x01" + b'a,b\n1,"x\ny')
    write("table", "jsonl", b"\x02" + b'{"text": "a\\u00e9", "label": 1}\n{"label": 0.5, "text": null, "more": [{}]}\n')
    write("table", "jsonl-deep", b"\x02" + b'{"a": 1}\n{"a": ' + b"[" * 4000)
    write("table", "lines", b"\x03" + "one\n\nna\u00efve\ttwo\n".encode() + b"\xff\n")


def words() -> None:
    columns = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nabab VB O\n\n, , O\r\nna\u00efve\tJJ\tI-X\n"
    objects = '{"tokens": ["EU", "abab", "a"], "tags": ["B-ORG", "O", "O"], "id": [{}]}\n\n{"tokens": [], "tags": []}\n'
    for name, kind, row, content in (
            ("conll", 0, 13, columns), ("conll-short-rows", 0, 1, "abba O\n" * 9), ("conll-unlabelled", 129, 9, columns),
            ("conll-ragged", 0, 9, "a O\nb\n"), ("conll-nul", 0, 9, "a O\nb \0\n"), ("conll-invisible", 0, 9, "\u200b O\n"),
            ("jsonl", 1, 9, objects), ("jsonl-unlabelled", 130, 0, objects), ("jsonl-uneven", 1, 9, '{"tokens": ["a"], "tags": []}'),
            ("jsonl-numbers", 1, 9, '{"tokens": ["a"], "ner_tags": [3]}'), ("jsonl-deep", 1, 9, '{"tokens": ' + "[" * 4000),
            ("text", 2, 9, "a\n"), ("text-unlabelled", 131, 2, " abab ab, EU\n\n\u00efb\n")):
        write("words", name, bytes([kind, row]) + content.encode())


def main() -> None:
    for name, content in jpegs().items():
        write("jpeg", name, bytes([0, 64, 128, 255, 0, 0, 0, 0]) + content)
        if "larger" in name or name in ("444", "grey"):
            write("jpeg", f"{name}-seekable", bytes([100, 150, 64, 64, 1, 0, 0, 0]) + content)
            for mode, what in ((1, "damaged"), (3, "wrong")):
                write("jpeg", f"{name}-seekable-{what}", bytes([100, 150, 64, 64, mode, 0, 1, 1]) + content)
    for name, content in images().items():
        write("image", name, content)
    record_files()
    torch_files()
    control_lines()
    texts()
    token_files()
    tokenizers()
    tables()
    words()


if __name__ == "__main__":
    main()
