"""Every flag whose row says that its value is written, of all programs, tried on what must not be replaced. A flag without
a command here fails, so that none is forgotten."""

import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from command import BENCH, DATA, MAIN, TINY, run
from text_data import TEXT, write_tokenizer

# For a flag of a program: a command (below), the flag's value, and the name under which that is written.
COMMANDS = {
    (MAIN, "run_dir"): [("train", "x", "x")],
    (MAIN, "index_dir"): [("train", "x", "x")],
    (MAIN, "metrics_file"): [("train", "x.prom", "x.prom")],
    (MAIN, "output"): [("predict", "x.csv", "x.csv"), ("predict", "x.jsonl", "x.jsonl"), ("eval", "x", "x"), ("export", "x", "x"),
                       ("export", "x.safetensors", "x.safetensors"), ("export", "x.pt", "x.pt")],
    (MAIN, "predictions"): [("eval", "x.csv", "x.csv"), ("eval", "x.jsonl", "x.jsonl")],
    (MAIN, "features"): [("predict", "x.npy", "x.npy"), ("predict", "x.safetensors", "x.safetensors"),
                         ("predict", "x.npy", "x.jsonl")],
    (DATA, "output"): [("pack", "x", "x"), ("verify", "x", "x"), ("tokenize", "x", "x.bin"), ("tokenize", "x", "x.idx")],
    (DATA, "index_dir"): [("index", "x", "x")],
    (DATA, "move_bad_to"): [("verify", "x", "x")],
    (BENCH, "dump"): [("loader", "x", "x")],
    (BENCH, "slow_file"): [("pairs", "x", "x")],
}
CASES = [(*key, *case) for key, cases in COMMANDS.items() for case in cases]
# What is tried on each flag's first value, and on a further one. All that a path can be: data/outputs_test.cc.
TARGETS, FEW = ["foreign", "input", "folder"], 1


@pytest.fixture(scope="module")
def commands(few_images, one_step, module_dir):
    tokenizer = write_tokenizer(module_dir / "tokenizer")
    (module_dir / "text").write_text(TEXT, encoding="utf-8")
    data, from_run = f"--data_dir={few_images}", f"--run_dir={one_step}"
    return {"train": (*TINY, data, "--max_steps=1"), "eval": ("--mode=eval", data, from_run),
            "predict": ("--mode=predict", from_run, f"--input={few_images / 'val' / 'red'}"),
            "export": ("--mode=export", f"--input={one_step}"), "pack": ("pack", data, "--output_format=webdataset"),
            "verify": ("verify", data), "index": ("index", data), "tokenize": ("tokenize", *tokenizer, f"--input={module_dir / 'text'}"),
            "loader": ("loader", *TINY, data, "--steps=1"), "pairs": ("pairs",)}


def written_flags(program) -> set[str]:
    entries = [" ".join(entry.split()) for entry in re.split(r"\n  --", run("--help", program=program).stdout)[1:]]
    return {re.match(r"(?:\[no\])?(\w+)", entry)[1] for entry in entries if re.search(r"(?:; |\[)written\]", entry)}


def test_every_flag_is_here():
    of_main = written_flags(MAIN)
    found = {(MAIN, flag) for flag in of_main} | {(DATA, flag) for flag in written_flags(DATA)}
    assert found | {(BENCH, flag) for flag in written_flags(BENCH) - of_main} == COMMANDS.keys()


def put(target: str, path, few_images) -> None:
    if target == "foreign":
        path.write_text("precious", encoding="ascii")
    elif target == "input":
        path.symlink_to(few_images / "val" / "red" / "000.jpg")
    else:
        path.mkdir()
        for name in ("notes", "model.safetensors", "confusion_matrix.csv", "quarantine.jsonl", "error.json", "tokenizer"):
            (path / name).write_text("precious", encoding="ascii")


def state(folder) -> dict:
    """Everything in the folder, and what links lead to."""
    found = {}
    for path in folder.rglob("*"):
        found[path] = (path.lstat().st_mode, os.readlink(path) if path.is_symlink() else None, path.read_bytes() if path.is_file() else None)
    return found


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda number: "-".join(map(str, (CASES[number][0].name, *CASES[number][1:4]))))
def test_nothing_of_others_is_replaced(commands, few_images, tmp_path, case):
    program, flag, command, value, written = CASES[case]
    is_first = CASES[case] == (program, flag, *COMMANDS[program, flag][0])

    def attempt(target):
        folder = tmp_path / target
        folder.mkdir()
        put(target, folder / written, few_images)
        before = state(folder)
        outcome = run(*commands[command], f"--{flag}={folder / value}", *(["--dry_run"] if program == MAIN else []), program=program,
                      cwd=folder, check=None)
        after = state(folder)
        assert {path: after.get(path) for path in before} == before, (target, outcome)
        takes_any_folder = target == "folder" and flag in ("index_dir", "move_bad_to")
        no_folder = flag == "run_dir" and target not in ("folder", "input")  # as any folder that cannot be made
        assert outcome.code == (0 if takes_any_folder else 5 if no_folder else 2), (target, outcome)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(attempt, TARGETS if is_first else TARGETS[:FEW]))


@pytest.mark.parametrize("case", [number for number, case in enumerate(CASES) if case[2] not in ("index", "pairs", "pack") and case[1] != "move_bad_to"])
def test_what_the_same_command_wrote_is_replaced(commands, tmp_path, case):
    program, flag, command, value, written = CASES[case]
    for again in ([], ["--dry_run"] if program == MAIN and command != "train" else []):
        run(*commands[command], f"--{flag}={tmp_path / value}", *again, program=program, cwd=tmp_path)
    assert (tmp_path / written).exists()
