"""scripts/sweep.py and what others wrote: spaces, options, files of trials."""

import json
import os
import sys
import time
from types import SimpleNamespace

import pytest

from command import make_program
from sweep_parts import SPACE, Command, Share, Study, exit_code, read_space, script, shown
from sweeps import results
from sweeps.machine import quota
from sweeps.points import Points
from sweeps.trial import settings


def one_flag(values: str) -> str:
    return f"{{metric: val_top1, flags: {{lr: {values}}}}}"


def refusal(capsys, call) -> str:
    """Returns what was printed for a call that must end with 2: short, and without a character that a terminal obeys."""
    began = time.monotonic()
    assert exit_code(call) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and "\n  what to do: " in said and said.count("\n") == 2, said
    assert len(said) < 1000 and all(shown(line) == line for line in said.splitlines())
    assert time.monotonic() - began < 60  # what expands without end takes longer on any machine
    return said


# ---- Spaces and options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "words"), [
    ("{metric: m, flags: {lr: [1]}, direction: {a: &a [x, x], b: &b [*a, *a], c: [*b, *b]}}", "anchor or alias"),
    (one_flag("{low: 0, high: 1, log: *a}"), "anchor or alias"),
    (one_flag("{low: 0, high: 2024-13-45}"), "not a number"),
    ("{metric: m, 2024-01-01: 1, flags: {lr: [1]}}", "not a known key"),
    (one_flag("!!python/object/apply:os.system [id]"), "has the tag"),
    (one_flag("{low: 0, high: " + "9" * 5000 + "}"), "a word of 5000 characters"),
    (one_flag("{low: 0, high: " + "9" * 400 + "}"), "not a number"),
    (one_flag("{low: -1.7e+308, high: 1.7e+308}"), "beyond 1e+100"),
    (one_flag("{low: 0, high: 1, step: 1e-320}"), "a step is above 0"),
    (one_flag("[" * 100_000), "more than 8 levels"),
    ("\n" + "- " * 100_000, "more than 8 levels"),
    (one_flag("[" + "x, " * 20_000 + "]"), "more than 10000 entries"),
    (one_flag("x" * 300_000), "more than 262144 characters"),
    (one_flag('["a\\e[2J"]'), "control or invisible characters in 'a\\x1b[2J'"),
    (one_flag('["a\\ud800"]'), "control or invisible"),
    (one_flag("[a\u202eb]"), "control or invisible"),
    (one_flag("[[1], {a: b}, ~]"), "expected 1 to 1000 numbers or words"),
    ('{metric: m, flags: {"lr\\e[31m": [1]}}', "control or invisible"),
    ("{metric: m, flags: {'lr --run_dir=x': [1]}}", "which no program has"),
    ("{metric: m, ? [a] : 1, flags: {lr: [1]}}", "as a key"),
    ("{metric: m, metric: n, flags: {lr: [1]}}", "'metric' twice"),
    ("{metric: $x$, flags: {lr: [1]}}", "which metric is best"),
    ("{metric: m, flags: {lr: [1]}}\n---\n{metric: m}", "second document"),
    ("%TAG ! tag:x,2000:\n---\n{metric: m}", "%TAG"),
    ("{metric: m\x1b, flags: {lr: [1]}}", "is no YAML"),
    ("{metric: m, flags: {" + ", ".join(f"f{number}: [1]" for number in range(65)) + "}}", "more than 64 flags"),
])
def test_a_hostile_space_is_refused_in_one_sentence(capsys, text, words):
    assert words in refusal(capsys, lambda: read_space(text, None))


def test_words_stay_as_they_are_written():
    space = read_space("metric: m\nflags:\n  a: [off, yes, 010, 2024-01-01, 1:30, 0.12345678, -5, 1e-3, true, '1', 12345678901234567890]\n", None)
    command = Command(["x"], [], None)
    assert [command.trial(one)[1] for one in space.grid()] == [
        f"--a={word}" for word in ("off", "yes", "010", "2024-01-01", "1:30", "0.12345678", "-5", "0.001", "true", "1",
                                   "12345678901234567890")]


def test_a_grid_of_many_flags_has_an_end(capsys):
    space = read_space("{metric: m, flags: {" + ", ".join(f"f{number}: [1, 2]" for number in range(64)) + "}}", None)
    assert "more than 100000 combinations" in refusal(capsys, space.grid)


@pytest.mark.parametrize(("words", "said"), [
    (["--seed=-1"], "--seed: '-1': expected 0 to 4294967295"),
    (["--seed=" + "9" * 5000], "expected"),
    (["--trials=1" + "0" * 5000], "--trials"),
    (["--sampler=\x1b[2J"], "\\x1b[2J"),
    (["--\x1b[2J" + os.fsdecode(b"\xff")], "unrecognized arguments: --\\x1b[2J\\xff"),
    (["--output="], "--output: expected a name"),
    (["--space={}"], "names no flags"),
    (["--space=PIPE"], "no regular file"),
    (["--space=/dev/zero"], "no regular file"),
    (["--space=BIG"], "more than 262144 bytes"),
    (["--space=none\x1b"], "none\\x1b cannot be read: No such file"),
    (["--output=RUN"], "has a config.json that no sweep has written"),
    (["--output=MINE"], "has a trials.csv that no sweep has written"),
])
def test_options_that_make_no_sense_are_refused_in_one_sentence(capsys, monkeypatch, tmp_path, words, said):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("PIPE")
    with open("BIG", "wb") as file:
        file.truncate(1 << 40)
    for name, file in (("RUN", "config.json"), ("MINE", "trials.csv")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
    monkeypatch.setattr(sys, "argv", ["sweep.py", f"--space={SPACE}", "--trials=1", *words, "--", "true"])
    assert said in refusal(capsys, script.main)
    assert not (tmp_path / "sweeps").exists()


# ---- Files of trials -------------------------------------------------------------------------------------------------


# What the parsers of metrics.jsonl and config.json are tried with, and values of every wrong kind.
CORPUS = [
    b"", b"\n\n", b"12\n", b"null", b"[]", b'"x"', b"{", b'{"kind":"val"', b'{"kind":"val","top1":', b"\xff\xfe\n", b"\0" * 5000,
    b"[" * 100_000, b'{"a":' * 100_000, b'{"kind":"val","top1":' + b"[" * 70 + b"]" * 70 + b"}\n", b" " * 100_000, b"x" * 3_000_000,
    *(b'{"kind":"val","top1":%s,"val_top1":%s,"message":%s,"exit_code":%s}\n' % ((value,) * 4) for value in (
        b"NaN", b"Infinity", b"true", b"null", b"1e999", b"9" * 400, b"9" * 5000, b'"0.5"', b'"\\u001b[2J\\ud800\\u202e"', b'{"a": [1]}', b"[[]]",
        b'"' + b"x" * 100_000 + b'"', b'"=HYPERLINK(1)"', b'"$\\\\alpha{$"')),
]


def test_files_of_trials_are_data_not_commands(tmp_path, capsys, monkeypatch):
    """Every file that a trial leaves is hostile. Each is tried with a trial that ends well and with one that runs out of
    memory."""
    monkeypatch.setattr(script, "POLL_SECONDS", 0.005)
    program = make_program(tmp_path / "played",
                           '#!/bin/bash\nfor word; do case $word in --run_dir=*) run=${word#*=} ;; --n=*) n=${word#*=} ;; esac; done\n'
                           f'mkdir -p "$run"; for f in result.json error.json metrics.jsonl; do ln "{tmp_path}/$((n / 2))" "$run/$f"; done\n'
                           f'head -c 2000 "{tmp_path}/$((n / 2))"; exit $((n % 2 * 7))\n')
    for number, content in enumerate(CORPUS):
        (tmp_path / str(number)).write_bytes(content)
    text = f"{{metric: val_top1, flags: {{n: [{', '.join(map(str, range(2 * len(CORPUS))))}]}}}}"
    space, folder = read_space(text, None), tmp_path / "sweep"
    arguments, _ = script.parse_arguments([f"--space={text}", "--trials=100", f"--output={folder}"])
    command = Command([str(program)], [], None)
    study = Study(None, folder, space, [], "grid", 0, True)
    assert script.Sweep(study, space, command, [Share(1)] * 8, arguments).run() == 0
    assert script.report(study, space, command, folder) in (2, 7)
    said = capsys.readouterr().out
    assert all(shown(line) == line for line in said.splitlines()) and "\x1b" not in said and len(said) < 40_000
    table = (folder / "trials.csv").read_text(encoding="utf-8")
    assert "\x1b" not in table and "\u202e" not in table and ",'=HYPERLINK(1)" in table
    assert {one.user_attrs["outcome"] for one in study.trials()} == {"failed", "out of memory"}


def test_validations_are_read_as_they_come(tmp_path):
    path = tmp_path / "metrics.jsonl"
    reader = Points(path)

    def values():
        return [one["top1"] for one in reader.read()]

    assert values() == []
    path.write_bytes(b'{"kind":"train","top1":1}\n{"kind":"val","top1":1,"name":"x"}\n{"kind":[],"top1":8}\n{"kind":"val","to')
    assert reader.read() == [{"top1": 1}]
    with path.open("ab") as file:
        file.write(b'p1":2}\n' + b"x" * 3_000_000 + b'\n{"kind":"val","top1":3}\n')
    assert values() == [1, 2, 3]
    path.rename(tmp_path / "old")
    path.write_bytes(b'{"kind":"val","top1":4}\n{"kind":"val","split":"more","top1":5}\n')  # a run that resumed
    assert values() == [4] and reader.read() == [{"top1": 4, "more_top1": 5}]
    path.unlink()
    os.mkfifo(path)
    assert values() == [4]


def test_pictures_of_any_words_and_numbers(tmp_path):
    words = ["$\\alpha{$", "日本", "_" * 500, "a", "b"]
    space = read_space(f"{{metric: m, flags: {{w: {json.dumps(words, ensure_ascii=False)}, f: {{low: 1e-90, high: 1e+90}}}}}}", None)
    study = Study(None, tmp_path, space, [], "random", 0, False)
    for value in (1e308, -1e308, 0.0, 1e-320):
        trial, lock = study.next(10)
        study.tell(trial, script.TrialState.COMPLETE, value, outcome="finished", exit_code=0, reason="+1")
        os.close(lock)
    results.draw(tmp_path, study.trials(), space)
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")


def test_a_trial_that_goes_on_keeps_its_threads_if_there_are_so_many(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    command = Command(["/bin/dtrain_main"], [], "/bin/dtrain_main")
    command.local_ranks = 2
    for before, threads in (("3", "3"), ("16", "4"), ("9" * 5000, "4"), (3, "4")):
        trial = SimpleNamespace(user_attrs={"environment": {"OMP_NUM_THREADS": before, "LD_PRELOAD": "x"}})
        assert settings(trial, Share(8), command) == {"OMP_NUM_THREADS": threads}


def test_quotas_of_containers_count(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "cpu.max").write_text("250000 100000\n", encoding="utf-8")
    (tmp_path / "cpu.max").write_text("max 100000\n", encoding="utf-8")
    assert quota("1:cpuset:/x\n0::/a/none\n", tmp_path) == 3 and quota("0::/b\nno line\n", tmp_path) is None
    (tmp_path / "cpu").mkdir()
    for name, text in (("cpu.cfs_quota_us", "50000"), ("cpu.cfs_period_us", "100000")):
        (tmp_path / "cpu" / name).write_text(text, encoding="utf-8")
    assert quota("0::/a\n3:cpu,cpuacct:/docker/1\n", tmp_path) == 1
