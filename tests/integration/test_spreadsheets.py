"""Tables of text as spreadsheets write them, and predictions that go on at a broken row; at a blank line: test_bad_text.py."""

import csv
import json
import subprocess

import pytest

from command import load_lines, run
from text_data import write_roberta_tokenizer

FLAGS = ("--model=roberta_tiny", "--tokens_per_sample=32", "--batch_size=4", "--max_steps=1", "--lr=0.001", "--optimizer=adam",
         "--save_every_epochs=0", "--eval_every_epochs=0")
ROWS = [("1", "good, very good", "yes"), ("2", "bad; really", "no")] * 8


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "Anna's data"
    folder.mkdir()
    write_roberta_tokenizer(folder)
    return folder


def write(path, rows, delimiter=",", encoding="utf-8", header=("id", "text", "label")):
    with open(path, "w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])


def dry(data, *flags, check=0):
    return run(*FLAGS, f"--data_dir={data}", "--dry_run", "--log_format=json", *flags, check=check)


@pytest.mark.parametrize(("name", "delimiter"), [("train.csv", ";"), ("train.CSV", "\t")])
def test_tables_of_spreadsheets(data, name, delimiter):
    write(data / name, [*ROWS[:5], ("", "", ""), *ROWS[5:], ("", "", "")], delimiter, "utf-8-sig")
    assert json.loads(dry(data, "--val_fraction=0.25").last_line)["classes"] == "2: no, yes"


def test_a_delimiter_that_is_said(data):
    write(data / "train.csv", [row[1:] for row in ROWS], header=("text", "label;a;b"))
    wrong = dry(data, "--val_fraction=0.25", check=3).stderr
    assert "--csv_delimiter" in wrong or "no column" in wrong
    dry(data, "--val_fraction=0.25", "--csv_delimiter=comma", "--label_column=label;a;b")


@pytest.mark.parametrize(("labels", "words"), [(("3,5", "4"), "decimal comma"), (("a", "b", "a,b"), "joins several")])
def test_commas_in_labels_are_said(data, labels, words):
    write(data / "train.csv", [(number, "text", labels[number % len(labels)]) for number in range(12)])
    assert words in dry(data, check=3).stderr
    (data / "classes.txt").write_text("\n".join(labels), encoding="utf-8")
    dry(data)


def test_other_encodings_are_named_with_their_line(data):
    write(data / "train.csv", [("1", "schön", "yes"), ("2", "hässlich", "no")] * 4, encoding="cp1252")
    line = "iconv" + json.loads(dry(data, check=3).stderr.splitlines()[-1])["hint"].split("iconv")[1]
    assert "-f WINDOWS-1252 -t UTF-8" in line
    subprocess.run(line, shell=True, check=True, cwd=data)  # noqa: S602  as a person pastes it
    dry(data)
    write(data / "train.csv", ROWS, encoding="utf-16")
    assert "iconv -f UTF-16 -t UTF-8" in dry(data, check=3).stderr


def test_groups_stay_together(data, tmp_path, run_dir):
    write(data / "train.csv", [(str(number % 5), f"text {number}", "ab"[number % 2]) for number in range(40)])
    run(*FLAGS, f"--data_dir={data}", "--val_fraction=0.3", "--group_column=id", f"--run_dir={run_dir}")
    run("--mode=eval", f"--data_dir={data}", f"--run_dir={run_dir}", f"--predictions={tmp_path / 'p.jsonl'}")
    numbers = {int(line["text"].split()[1]) for line in load_lines(tmp_path / "p.jsonl")}
    assert numbers == {number for number in range(40) if number % 5 in {one % 5 for one in numbers}} and len(numbers) < 20


def test_predictions_go_on_at_a_broken_row(data, tmp_path, run_dir):
    write(data / "train.csv", ROWS)
    run(*FLAGS, f"--data_dir={data}", f"--run_dir={run_dir}")
    table = tmp_path / "new.csv"
    table.write_bytes(b"id;text;error\n1;fine;=1+1\n2;;x\n3;bad\xe9;y\n4;a;b;c\n5;\"open;z\n6;good;w\n")
    predict = ("--mode=predict", f"--run_dir={run_dir}", f"--input={table}")
    outcome = run(*predict, f"--output={tmp_path / 'p.csv'}", "--csv_bom")
    assert outcome.last_line == "predicted=2 unreadable=4" and "4 rows could not be read" in outcome.stderr
    assert (tmp_path / "p.csv").read_bytes().startswith(b"\xef\xbb\xbftext,")
    with open(tmp_path / "p.csv", newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["1", "2", "3", "", "", "6"]
    assert [bool(row["prediction"]) for row in rows] == [True, False, False, False, False, True]
    for row, words in zip(rows, ("", "the text is empty", "not UTF-8", "4 cells", "never ends", ""), strict=True):
        assert words in row["error"] and bool(words) == bool(row["error"])
    assert rows[0]["input_error"] == "'=1+1" and f"{table} line 3" in rows[1]["error"]
    run(*predict, f"--output={tmp_path / 'p.jsonl'}", "--keep_columns=id")
    lines = load_lines(tmp_path / "p.jsonl")
    assert [line["id"] for line in lines] == [row["id"] for row in rows] and "input_error" not in lines[0]
    assert "input_error" not in run(*predict, f"--output={tmp_path / 'q.jsonl'}", "--keep_columns=none").stdout
    assert "no column 'x'" in run(*predict, f"--output={tmp_path / 'q.jsonl'}", "--keep_columns=x", check=3).stderr
    table.write_text("id,text,id,input_error,error\n1,good,2,a,b\n", encoding="utf-8")
    run(*predict, f"--output={tmp_path / 'p.jsonl'}")
    [line] = load_lines(tmp_path / "p.jsonl")
    assert (line["id"], line["id_2"], line["input_error"], line["input_error_2"]) == ("1", "2", "a", "b")
    table.write_text("text\n \n\n", encoding="utf-8")
    assert "no row of --input" in run(*predict, f"--output={tmp_path / 'none.csv'}", check=3).stderr
    assert not (tmp_path / "none.csv").exists()
