"""scripts/safe_files.py: what the scripts print, read and write is held to the rules of the programs."""

import argparse
import gzip
import os
import shutil
import sys

import pytest

from command import ROOT, run

sys.path.insert(0, str(ROOT / "scripts"))

import prepare_fashion  # noqa: E402
import safe_files  # noqa: E402
from safe_files import Failure, shown  # noqa: E402


@pytest.mark.parametrize(("text", "escaped"), [
    ("Übergröße 日本語 🦊 C:\\photos", "Übergröße 日本語 🦊 C:\\photos"),
    ("a\x1b[2Jb\0\x7f\x9b31m", "a\\x1b[2Jb\\x00\\x7f\\u009b31m"),
    ("one\ntwo\r\tthree", "one\\ntwo\\r\\tthree"),
    ("a\u202egpj\u2028\u200b\U000e0041", "a\\u202egpj\\u2028\\u200b\\U000e0041"),
    (b"\xff\xc0\x8a\xe0\x80\x8a\xf4\x90\x80\x80a\xe6\x97", "\\xff\\xc0\\x8a\\xe0\\x80\\x8a\\xf4\\x90\\x80\\x80a\\xe6\\x97"),
    ("\udcff", "\\xff"),
    (os.fsdecode(b"\xff.jpg"), "\\xff.jpg"),
    ("\ud800", "\\xed\\xa0\\x80"),
])
def test_names_of_others_are_shown_escaped(text, escaped):
    assert shown(text) == escaped and shown(escaped) == escaped


def test_the_programs_show_the_same():
    name = "--x\x1b[2J\t\x9b\u061c\u200b\u200c\u2028\u202e\u2060\ufeff\U000e0001日" + os.fsdecode(b"\xff\xc0\x8a\xed\xa0\x80\xe6\x97")
    assert shown(name.removeprefix("--")) in run(name, check=2).stderr


def test_long_texts_are_cut():
    assert [shown("abcdefg", 6), shown("abcdef", 6), shown("ab日", 3)] == ["abcdef... (7 bytes)", "abcdef", "ab日"]


def test_only_regular_files_within_limits_are_read(tmp_path):
    whole, big, pipe, link = (tmp_path / name for name in ("whole", "big", "pipe", "link"))
    whole.write_bytes(b"x" * 100_000)
    with big.open("wb") as file:
        file.truncate(1 << 40)
    os.mkfifo(pipe)
    link.symlink_to(whole)
    assert safe_files.read_bounded(whole, 100_000) == b"x" * 100_000
    assert len(safe_files.read_bounded(link, 100_000, links=True)) == 100_000
    for path, limit, words in ((whole, 99_999, "more than 99999 bytes"), (big, 100_000, "more than"), (link, 100_000, "it is a link"),
                               (pipe, 1, "no regular file"), (tmp_path, 1, "a folder"), ("/dev/zero", 1, "no regular file"),
                               (tmp_path / "none", 1, "No such file")):
        with pytest.raises(Failure, match=words) as problem:
            safe_files.read_bounded(path, limit)
        assert problem.value.code == 3


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[" * 66 + "]" * 66, '{"a":' * 66 + "1" + "}" * 66, b"\xff", b"[\"\xff\"]"])
def test_json_that_is_none(text):
    with pytest.raises(ValueError, match="."):
        safe_files.parse_json(text)


def test_json_of_many_digits():
    assert safe_files.parse_json('{"a": [%s, 12, "]]"]}' % ("1" * 5000)) == {"a": [float("inf"), 12, "]]"]}


def test_what_is_written_goes_through_no_link(tmp_path):
    precious = tmp_path / "precious"
    for place, make in enumerate((lambda path: path.symlink_to(precious), lambda path: path.hardlink_to(precious), os.mkfifo)):
        precious.write_text("mine", encoding="utf-8")
        path = tmp_path / str(place)
        make(path)
        with pytest.raises(OSError, match="."):
            safe_files.open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        safe_files.replace(path, "new\n\udcff")
        assert precious.read_text(encoding="utf-8") == "mine" and path.read_text(encoding="utf-8") == "new\n\\udcff"
    with pytest.raises(Failure) as problem:
        safe_files.replace(tmp_path / "no" / "folder", "")
    assert problem.value.code == 5 and len(list(tmp_path.iterdir())) == 4


def test_what_may_be_written(tmp_path):
    precious, pipe, link = tmp_path / "precious.svg", tmp_path / "pipe.svg", tmp_path / "link.svg"
    precious.write_text("mine", encoding="utf-8")
    (tmp_path / "hard.svg").hardlink_to(precious)
    (tmp_path / "folder.svg").mkdir()
    os.mkfifo(pipe)
    link.symlink_to(precious)
    for path, words in ((precious, "is an input"), (tmp_path / "hard.svg", "is an input"), (pipe, "no regular file"),
                        (tmp_path / "folder.svg", "no regular file"), (tmp_path / "none" / "a.svg", "is no folder"),
                        (tmp_path / "a.json", "does not end in .svg")):
        with pytest.raises(Failure, match=words):
            safe_files.output_file(path, [".svg"], [tmp_path / "missing", precious], b"mine")
    for path in (link, tmp_path / "new.svg", tmp_path / "NEW.SVG"):
        safe_files.output_file(path, [".svg"], [precious], b"mine")
    own, empty = tmp_path / "own.svg", tmp_path / "empty.svg"
    own.write_bytes(bytes(safe_files.CHUNK) + b"mark" + bytes(5))
    empty.touch()
    for path in (own, empty):
        safe_files.output_file(path, [".svg"], [], b"mark")
    with pytest.raises(Failure, match="did not write it"):
        safe_files.output_file(own, [".svg"], [], b"another mark")


def test_numbers_of_options():
    read = safe_files.number(0, 10)
    for text in ("", "x", "nan", "inf", "-1", "1e9"):
        with pytest.raises(argparse.ArgumentTypeError):
            read(text)
    assert read("2.5") == 2.5


def test_the_digits_replace_only_digits(tmp_path):
    """A folder of the user, which has a README.txt of its own, or the name of an unfinished one."""
    for name in ("digits", "digits.partial"):
        own = tmp_path / name
        own.mkdir()
        (own / "README.txt").write_text("my photos", encoding="utf-8")
        outcome = run(ROOT / "scripts" / "prepare_digits.py", f"--output={tmp_path / 'digits'}", program=sys.executable, check=2)
        assert f"{own} exists and was not made by this script" in outcome.stderr
        assert (own / "README.txt").read_text(encoding="utf-8") == "my photos"
        shutil.rmtree(own)


def test_clothes_are_read_from_whole_files_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare_fashion, "SOURCE", tmp_path)
    monkeypatch.setattr(prepare_fashion, "COUNTS", {"train": 1, "val": 1})
    for stem in ("train", "t10k"):
        for name, numbers, content in (("images-idx3", (10, 28, 28), bytes(784) * 9 + b"\x07" * 784), ("labels-idx1", (10,), bytes(range(10)))):
            head = bytes([0, 0, 8, len(numbers)]) + b"".join(number.to_bytes(4, "big") for number in numbers)
            (tmp_path / f"{stem}-{name}-ubyte.gz").write_bytes(gzip.compress(head + content))
    pictures = prepare_fashion.read_fashion()
    assert [(one.split, one.label) for one in (pictures[0], pictures[-1])] == [("train", "t-shirt"), ("val", "ankle_boot")]
    assert len(pictures) == 20 and set(pictures[-1].pixels) == {7}
    images = tmp_path / "t10k-images-idx3-ubyte.gz"
    whole = images.read_bytes()
    for damaged in (whole[:-9], gzip.compress(gzip.decompress(whole)[:-1]), b"no gzip"):
        images.write_bytes(damaged)
        with pytest.raises(Failure, match="t10k-images"):
            prepare_fashion.read_fashion()
    images.unlink()
    with pytest.raises(Failure, match="there is no"):
        prepare_fashion.read_fashion()


@pytest.mark.parametrize("script, page", [("truth.py", "truth.md"), ("fault_matrix.py", "faults.md")])
def test_pages_have_no_broken_records(tmp_path, script, page):
    (tmp_path / "a.json").write_text('{"kind": "Models"}', encoding="utf-8")
    outcome = run(ROOT / "scripts" / "dev" / script, f"--records={tmp_path}", f"--output={tmp_path / page}", program=sys.executable,
                  check=3)
    assert "is no record" in outcome.stderr and not (tmp_path / page).exists()


def test_every_script_tells_what_it_is_for():
    scripts = [path for path in (ROOT / "scripts").rglob("*.py") if os.access(path, os.X_OK) and "dev" not in path.parts]
    assert len(scripts) > 10
    for path in scripts:
        done = run(path, "--help", program=sys.executable, check=None)
        if "pip install" not in done.stderr:  # of packages that only some users have
            assert done.code == 0 and done.stdout.startswith("usage: ") and not done.stderr, (path, done)


def test_a_script_ends_with_the_programs_codes(capsys):
    def ending(error):
        def main():
            raise error
        return safe_files.exit_code(main), capsys.readouterr().err

    assert ending(Failure("no \x1b[2J", "go\naway", 3)) == (3, "error: no \\x1b[2J\n  what to do: go\\naway\n")
    code, said = ending(OSError(28, "No space left on device", "a\x1b"))
    assert code == 5 and said.startswith("error: a\\x1b: No space left on device\n  what to do: ")
    code, said = ending(KeyError("\x1b"))
    assert code == 70 and "KeyError" in said and "\x1b" not in said and "what to do" in said
