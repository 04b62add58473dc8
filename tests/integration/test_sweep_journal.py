"""scripts/sweep.py and what a kill, a full disk, a power loss or another worker leaves of its journal."""

import errno
import fcntl
import os
import shutil
import sqlite3

import pytest

from command import make_program
from sweep_parts import SPACE, Command, Failure, Share, Study, exit_code, read_space, script
from sweeps.journal import Journal, locked

# A training that takes no time; --momentum is its result.
PLAYED = r"""#!/bin/bash
for word; do case $word in --run_dir=*) run=${word#*=} ;; --momentum=*) top1=${word#*=} ;; esac; done
mkdir -p "$run"
printf '{"val_top1": %s}' "$top1" >"$run/result.json"
"""


@pytest.fixture
def played(tmp_path):
    return make_program(tmp_path / "played", PLAYED)


def go_on(folder, program, space_text=SPACE, sampler="grid", trials=3) -> dict:
    """Runs a sweep to its end, without the checks and the pictures. Returns {trial: (outcome, value)}."""
    space = read_space(space_text, None)
    command = Command([str(program)], [], None)
    arguments, _ = script.parse_arguments([f"--space={space_text}", f"--trials={trials}", f"--output={folder}"])
    study = Study(None, folder, space, [], sampler, 0, False)
    assert script.Sweep(study, space, command, [Share(1)], arguments).run() == 0
    return {one.number: (one.user_attrs["outcome"], one.value, tuple(one.params.items())) for one in study.trials()}


@pytest.mark.parametrize(("space", "sampler"), [
    (SPACE, "grid"), ("{metric: val_top1, flags: {momentum: {low: 0, high: 1}, lr: {low: 0.1, high: 1, log: true}}}", "random")])
def test_a_sweep_goes_on_after_a_kill_at_any_operation(tmp_path, played, monkeypatch, space, sampler):
    """At the end of every line, as after a kill, and within it, as after a full disk or a power loss."""
    monkeypatch.setattr(script, "POLL_SECONDS", 0.005)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    whole = tmp_path / "whole"
    expected = go_on(whole, played, space, sampler)
    lines = (whole / "study.journal").read_bytes().splitlines(keepends=True)
    assert len(lines) > 15
    for number in range(len(lines)):
        folder = tmp_path / "cut"
        shutil.copytree(whole, folder)
        tail = (b"", lines[number][:40], b"\0" * 40, b"\0" * 40 + lines[number][40:])[number % 4]
        (folder / "study.journal").write_bytes(b"".join(lines[:number]) + tail)
        assert go_on(folder, played, space, sampler) == expected, number
        shutil.rmtree(folder)


def test_two_workers_never_have_the_same_trial(tmp_path, played, monkeypatch):
    """A worker looks at the study just before another one tells the end of its trial, and at any moment of that."""
    space = read_space(SPACE, None)
    first, second = (Study(None, tmp_path / "sweep", space, [], "grid", 0, False) for _ in range(2))
    trial, held = first.next(3)

    def told_meanwhile(number):
        monkeypatch.undo()
        first.tell(trial, script.TrialState.COMPLETE, 0.5, outcome="finished", exit_code=0)
        os.close(held)
        return second._lock_trial(number)

    monkeypatch.setattr(second, "_lock_trial", told_meanwhile)
    other, lock = second.next(3)
    assert other.number == 1
    os.close(lock)
    locks, tell = [], Study.tell
    monkeypatch.setattr(Study, "tell", lambda self, one, *values, **facts: (locks.append(second._lock_trial(one.number)),
                                                                         tell(self, one, *values, **facts)))
    assert len(go_on(tmp_path / "sweep", played)) == 3 and locks == [None, None]


def test_a_journal_is_cut_at_any_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    path = tmp_path / "study.journal"
    operations = [{"op_code": number, "worker_id": "w", "text": "ü\n"} for number in range(4)]
    Journal(path).append_logs(operations)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        kept = operations[:whole[:size].count(b"\n")]
        reader = Journal(path)
        assert path.stat().st_size == len(b"".join(whole.splitlines(keepends=True)[:len(kept)]))
        assert reader.read_logs(0) == kept
        # Another worker breaks off meanwhile.
        with path.open("ab") as file:
            file.write(whole[:7])
        reader.append_logs(operations[:1])
        assert reader.read_logs(len(kept)) == operations[:1] and Journal(path).read_logs(0) == [*kept, operations[0]]


def test_a_journal_that_an_earlier_version_went_on_with_is_read(tmp_path):
    """Optuna's own file appended to the incomplete line."""
    path = tmp_path / "study.journal"
    path.write_bytes(b'{"op_code":0,"text":"{\\"op_code\\":1}"}\n{"op_code":6,"tri{"op_code":2,"study_id":0}\n{"op_code":3}\n')
    assert [one["op_code"] for one in Journal(path).read_logs(0)] == [0, 2, 3]


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "study.journal")
    journal.append_logs([{"op_code": 1}])
    before, write, calls = journal.read_logs(0), os.write, []

    def full(descriptor, content):
        calls.append(content)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, content[:5])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Failure, match="No space left") as problem:
        journal.append_logs([{"op_code": 2}])
    assert problem.value.code == 5 and "go" in problem.value.remedy
    monkeypatch.undo()
    assert Journal(tmp_path / "study.journal").read_logs(0) == before
    with locked(tmp_path / "study.journal"), pytest.raises(BlockingIOError), open(tmp_path / "study.journal", "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_database_that_is_lost_is_said(tmp_path, capsys):
    space, path = read_space(SPACE, None), tmp_path / "studies.db"
    study = Study(f"sqlite:///{path}", tmp_path / "sweep", space, [], "grid", 0, False)
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE trials")
    arguments, _ = script.parse_arguments([f"--space={SPACE}", "--trials=3"])
    assert exit_code(script.Sweep(study, space, Command(["true"], [], None), [Share(1)], arguments).run) == 4
    assert "error: the study was lost: " in capsys.readouterr().err


LINE = b'{"op_code":0,"worker_id":"w","study_name":"sweep","directions":[2]}\n'


@pytest.mark.parametrize("content", [
    b"my notes", b"my notes\nwithout an end", b"5\n", b"[]\n" * 3, b"{}\n", b"\xff\xfe\n", b"SQLite format 3\0" + b"\0" * 4000,
    LINE + b"\xff\n" + LINE, LINE + b'{"op_code":' + b"[" * 100_000 + b"\n" + LINE,
    b'{"op_code":77,"worker_id":"w"}\n', b'{"op_code":4}\n',
    LINE + b'{"op_code":2,"worker_id":"w","study_id":0,"user_attr":{"space":5}}\n{"op_code":4,"worker_id":"w","study_id":0}\n',
    LINE + b'{"op_code":4,"worker_id":"w","study_id":0,"state":1,"value":NaN,"values":null,"params":{},"distributions":{},'
    b'"user_attrs":{},"system_attrs":{},"intermediate_values":{},"datetime_start":null,"datetime_complete":null}\n',
])
def test_a_file_that_is_no_journal_is_refused_and_left_alone(capsys, tmp_path, content):
    path = tmp_path / "mine"
    path.write_bytes(content)

    def opening():
        Study(str(path), tmp_path / "out", read_space(SPACE, None), [], "grid", 0, False)

    assert exit_code(opening) in (2, 5)
    said = capsys.readouterr().err
    assert said.startswith("error: ") and len(said) < 1000 and "Traceback" not in said
    assert path.read_bytes().startswith(content)


@pytest.mark.parametrize("name", ["trial-0002.log", "trial-0002.lock", "study.lock", "study.journal"])
def test_nothing_is_written_through_a_link(tmp_path, played, capsys, name):
    folder, precious = tmp_path / "sweep", tmp_path / "precious"
    go_on(folder, played, trials=2)
    kept = (folder / name).read_bytes() if (folder / name).exists() else None
    for link in (lambda path: path.symlink_to(precious), lambda path: path.hardlink_to(precious), os.mkfifo):
        precious.write_text("mine", encoding="utf-8")
        (folder / name).unlink(missing_ok=True)
        link(folder / name)
        assert exit_code(lambda: go_on(folder, played)) == 5
        said = capsys.readouterr().err
        assert name in said and ("link" in said or "no regular file" in said)
        assert precious.read_text(encoding="utf-8") == "mine"
    (folder / name).unlink()
    if kept is not None:
        (folder / name).write_bytes(kept)
    assert len(go_on(folder, played)) == 3
