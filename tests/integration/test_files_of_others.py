"""Other files in a folder of photos, and names that would control a terminal or a spreadsheet."""

import csv
import shutil

from command import DATA, TINY, load_json, run

STEERING = "red\x1b[31m[rank 0] all is well"
SHOWN = "red\\x1b[31m[rank 0] all is well"


def test_every_bad_file_is_listed_before_the_first_step(own_images, run_dir):
    """All of them with their reasons, not only the first one that is met."""
    bad = [own_images / "train" / kind / "003.jpg" for kind in ("blue", "green", "stripes")]
    bad.append(own_images / "val" / "red" / "001.jpg")
    for path, content in zip(bad, (b"", b"not an image", b"\xff\xd8\xff", b"GIF89a")):
        path.write_bytes(content)
    outcome = run(*TINY, f"--data_dir={own_images}", "--max_steps=2", f"--run_dir={run_dir}", check=3)
    for path in bad[:3]:
        assert str(path) in outcome.stderr, outcome
    assert "train: 3 bad records of 40" in outcome.stderr, outcome  # a run that met them one by one would end at the second
    assert "step 1/" not in outcome.stdout
    assert load_json(run_dir / "error.json")["exit_code"] == 3


def test_names_do_not_steer_the_terminal(own_images, tmp_path):
    """The name of a class, of a bad file and of a run directory is shown escaped everywhere, and stored unchanged in
    the files of the run."""
    (own_images / "train" / "red").rename(own_images / "train" / STEERING)
    (own_images / "val" / "red").rename(own_images / "val" / STEERING)
    (own_images / "train" / STEERING / "000.jpg").write_bytes(b"no image")
    folder = tmp_path / "run\x1b[2J"
    plan = run("--dry_run", *TINY, f"--data_dir={own_images}")
    outcome = run(*TINY, f"--data_dir={own_images}", "--max_steps=1", "--max_bad_records=0.1", f"--run_dir={folder}")
    refused = run(*TINY, f"--data_dir={own_images}", "--max_steps=1", "--strict_data", f"--run_dir={tmp_path / 'x'}", check=3)
    evaluated = run("--mode=eval", *TINY, f"--data_dir={own_images}", f"--run_dir={folder}")
    for said in (plan, outcome, refused, evaluated):
        assert "\x1b" not in said.stdout + said.stderr, said
        assert "\n[rank 0]" not in said.stdout + said.stderr, said
    assert SHOWN in plan.stdout
    assert SHOWN in refused.stderr
    shutil.rmtree(folder)


def test_names_do_not_steer_the_terminal_of_dtrain_data(own_images, tmp_path):
    (own_images / "train" / "red" / "\x1b[2J.jpg").write_bytes(b"no image")
    flags = ("pack", f"--data_dir={own_images}", "--output_format=webdataset")
    left_out = run(*flags, f"--output={tmp_path / 'a'}", "--short_side=20", "--max_bad_records=0.1", program=DATA)
    refused = run(*flags, f"--output={tmp_path / 'b'}", "--short_side=20", "--max_bad_records=0", program=DATA, check=3)
    for said in (left_out, refused):
        assert "\x1b" not in said.stdout + said.stderr and "\\x1b[2J.jpg" in said.stderr, said


def test_names_are_no_formulas(own_images, tmp_path, run_dir):
    """A spreadsheet computes no cell of our tables, and a program gets the name back by removing one '."""
    names = ["'quoted'", "=1+1", "@SUM(A1;B1)", "blue"]
    for split in ("train", "val"):
        for old, new in zip(("green", "red", "stripes"), names):
            (own_images / split / old).rename(own_images / split / new)
    run(*TINY, f"--data_dir={own_images}", "--max_steps=1", f"--run_dir={run_dir}")
    run("--mode=eval", f"--data_dir={own_images}", f"--run_dir={run_dir}")
    run("--mode=predict", f"--run_dir={run_dir}", "--input==1+1/000.jpg", f"--output={tmp_path / 'p.csv'}",
        cwd=own_images / "val")
    tables = {}
    for path in (run_dir / "eval-val" / "confusion_matrix.csv", run_dir / "eval-val" / "class_accuracy.csv", tmp_path / "p.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            tables[path.name] = list(csv.reader(file))
        assert not [cell for row in tables[path.name] for cell in row if cell.startswith(("=", "+", "-", "@"))]
    matrix, accuracy, (_, prediction) = tables.values()
    for found in (matrix[0][1:], [row[0] for row in matrix[1:]], [row[0] for row in accuracy[1:]]):
        assert [name.removeprefix("'") for name in found] == names
    assert prediction[0].removeprefix("'") == "=1+1/000.jpg"
    assert sorted(name.removeprefix("'") for name in prediction[2:12:3]) == names
