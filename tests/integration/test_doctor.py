"""--doctor as a user calls it: its output, its exit codes, and that it leaves nothing behind."""

import json
import subprocess

from command import MAIN, TINY, environment, run


def findings(outcome) -> dict:
    """Returns (rank, check) → finding. stdout contains nothing else."""
    return {(found["rank"], found["check"]): found for found in map(json.loads, outcome.lines)}


def files_in(folder) -> set:
    return {path.relative_to(folder) for path in folder.rglob("*")}


def test_a_machine_that_is_well(own_images, tmp_path):
    before = files_in(tmp_path)
    outcome = run("--doctor", *TINY, f"--data_dir={own_images}", cwd=tmp_path)
    assert [line.split()[0] for line in outcome.lines] == ["ok"] * 9, outcome
    assert "40 of 40 records read" in outcome.stdout and "8 of 8 records read" in outcome.stdout
    assert files_in(tmp_path) == before  # neither runs/ nor an index


def test_two_ranks_speak_and_meet(own_images, tmp_path):
    before = files_in(tmp_path)
    outcome = run("--doctor", *TINY, "--batch_size=8", f"--data_dir={own_images}", "--nproc_per_node=2",
                  f"--run_dir={tmp_path / 'run'}", "--log_format=json")
    found = findings(outcome)
    for rank in (0, 1):
        assert found[rank, "meeting"]["what"].startswith("2 of 2 ranks met")
        assert found[rank, "launcher"]["verdict"] == found[rank, "address"]["verdict"] == found[rank, "token"]["verdict"] == "ok"
    assert (1, "clock") in found and (0, "disk") in found and (1, "disk") not in found
    assert files_in(tmp_path) == before


def test_ranks_that_meet_through_the_run_directory(few_images, tmp_path):
    """Two of three ranks: none waits longer than it was told, each names the missing one, and the folder is removed
    again."""
    flags = ("--doctor", *TINY, "--batch_size=8", f"--data_dir={few_images}", f"--run_dir={tmp_path / 'new' / 'run'}",
             "--log_format=json", "--init_timeout=3")
    ranks = [subprocess.Popen([str(MAIN), *flags], stdout=subprocess.PIPE, text=True,
                              env=environment({"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "3",
                                               "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": "3"}))
             for rank in (0, 1)]
    for process in ranks:
        found = [json.loads(line) for line in process.communicate(timeout=120)[0].splitlines()]
        assert process.returncode == 4, found
        meeting = next(finding for finding in found if finding["check"] == "meeting")
        assert "2" in meeting["what"] and meeting["exit_code"] == 4
    assert not (tmp_path / "new").exists()


def test_each_kind_of_failure_has_its_code(few_images, tmp_path):
    good = (*TINY, f"--data_dir={few_images}", "--log_format=json")
    alone = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "no-such-host.invalid", "MASTER_PORT": "29500"}
    (tmp_path / "file").write_text("", encoding="utf-8")
    cases = {"data": ((*good, f"--data_dir={tmp_path / 'none'}"), {}, 3),
             "disk": ((*good, f"--run_dir={tmp_path / 'file' / 'run'}"), {}, 5),
             "address": (good, alone, 4),
             "launcher": (good, {"RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}, 2),
             "configuration": ((*good, "--batch_size=0"), {}, 2)}
    refused = {"disk": ((*good, f"--run_dir={few_images / 'train' / 'x'}"), {}, 2)}
    for check, (flags, env, code) in (*cases.items(), *refused.items()):
        outcome = run("--doctor", *flags, env=env, check=code)
        failed = [found for found in map(json.loads, outcome.lines) if found["verdict"] == "failed"]
        assert [found["check"] for found in failed] == [check], outcome
        assert failed[0]["exit_code"] == code and failed[0]["what"], outcome
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


def test_dry_runs_keep_no_index_either(own_images):
    before = files_in(own_images)
    run("--dry_run", *TINY, f"--data_dir={own_images}")
    assert files_in(own_images) == before
