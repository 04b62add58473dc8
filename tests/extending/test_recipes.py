"""Each recipe of CONTRIBUTING has a worked example here, as a patch. It changes exactly the files that the recipe names,
compiles, and (DTRAIN_LONG_TESTS=1) does what it should once all examples are built together.

A patch that no longer applies is brought up to date by applying it by hand to a copy of the tree, and `git diff -U1`.
"""

import json
import os
import re
import shlex
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from command import BUILD, ROOT, TINY, run
from text_data import TEXT, make_tokens

HERE = Path(__file__).parent
PATCHES = {path.stem: path for path in HERE.glob("*.patch")}
FOLDERS = ("cmake", "data", "models", "scripts", "tests", "trainer")
BUILD_SECONDS = 3600

long_only = pytest.mark.skipif(not os.environ.get("DTRAIN_LONG_TESTS"), reason="DTRAIN_LONG_TESTS=1 builds the examples")


def recipes() -> dict[str, str]:
    """Returns the text of each recipe up to *Besides*: {"flag": "its field in …"}."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## To add …")[1].split("\n## ")[0]
    bullets = re.findall(r"^\* \*\*an? ([\w ]+)\*\*(.*?)(?=^\* |\Z)", section, re.MULTILINE | re.DOTALL)
    return {name.replace(" ", "_"): what.split("*Besides*")[0] for name, what in bullets if name != "test"}


def changed_by(patch: Path) -> list[str]:
    return re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(encoding="utf-8"), re.MULTILINE)


def new_in(patch: Path) -> set[str]:
    return set(re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)", patch.read_text(encoding="utf-8"), re.MULTILINE))


def named_by(recipe: str, patch: Path) -> set[str]:
    """Returns the files that the recipe names, with the example's own name for NAME."""
    own_names = {Path(file).stem for file in new_in(patch)}
    assert len(own_names) <= 1, "the new files of an example have one name"
    names = re.findall(r"`([\w/]+\.(?:h|cc|txt))`", re.sub(r"\([^)]*\)", "", recipe))
    return {name.replace("NAME", *own_names) if own_names else name for name in names}


def test_every_recipe_has_an_example_and_every_example_a_recipe():
    assert sorted(recipes()) == sorted(PATCHES)


def test_an_example_only_adds_lines():
    """What replaced a line would not apply once somebody else has added something there."""
    for name, patch in PATCHES.items():
        assert not re.search(r"^-(?!-- )", patch.read_text(encoding="utf-8"), re.MULTILINE), name


@pytest.mark.parametrize("name", sorted(PATCHES))
def test_the_recipe_names_exactly_the_files_of_its_example(name):
    assert named_by(recipes()[name], PATCHES[name]) == set(changed_by(PATCHES[name]))


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the tree with all examples."""
    copy = tmp_path_factory.mktemp("extending") / "tree"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("corpus", "__pycache__"))
    for file in ("CMakeLists.txt", "CMakePresets.json"):
        shutil.copy(ROOT / file, copy / file)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    for _, patch in sorted(PATCHES.items()):
        done = subprocess.run(["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "-i", patch], cwd=copy, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, f"{patch.name} does not fit the sources any more\n{done.stdout}{done.stderr}"
    yield copy
    shutil.rmtree(copy)


def compiler() -> list[str]:
    """Returns the command that compiles the sources of a folder that uses all others, without the file and the output."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8")):
        if f"{ROOT}/trainer/tasks/" in entry["file"] or f"{BUILD.resolve()}/trainer/tasks/" in entry["file"]:
            words = shlex.split(entry["command"])
            return words[:words.index("-o")]
    raise AssertionError("no command compiles trainer/tasks")


def test_every_example_compiles(extended):
    """All sources as one, without code: each folder has a namespace of its own."""
    words = [f"-I{extended}" if word == f"-I{ROOT}" else word for word in compiler()]
    while words[0].endswith(("cmake", "ccache")) or words[0] in ("-E", "env") or "=" in words[0]:
        words = words[1:]
    sources = {file: None for patch in PATCHES.values() for file in changed_by(patch) if file.endswith(".cc")}
    text = "".join(f'#include "{extended / source}"\n' for source in sources)
    done = subprocess.run([*words, "-fsyntax-only", "-x", "c++", "-"], input=text, cwd=BUILD, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_new_source_is_listed(extended):
    for patch in PATCHES.values():
        for file in new_in(patch):
            lists = [extended / file for file in changed_by(patch) if file.endswith("CMakeLists.txt")]
            assert file.endswith(".h") or any(Path(file).name in one.read_text(encoding="utf-8") for one in lists), file


# What each example does, once it is built.

@pytest.fixture(scope="module")
def programs(extended):
    """The folder with the programs of the copy."""
    cache = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    torch_dir = re.search(r"^DTRAIN_TORCH_DIR:\w+=(.*)$", cache, re.MULTILINE).group(1)
    build = extended / "build"
    for command in (["cmake", "-S", extended, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DDTRAIN_CUDA=OFF",
                     f"-DDTRAIN_TORCH_DIR={torch_dir}"],
                    ["cmake", "--build", build, "--parallel", "2", "--target", "dtrain_main", "--target", "dtrain_data"]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return build / "bin"


def plan_of(programs: Path, *flags) -> dict:
    return json.loads(run("--dry_run", "--log_format=json", *flags, program=programs / "dtrain_main").stdout.splitlines()[-1])


def trained(programs: Path, run_dir: Path, *flags) -> dict:
    run(*TINY, "--max_steps=4", f"--run_dir={run_dir}", *flags, program=programs / "dtrain_main")
    return json.loads((run_dir / "result.json").read_text(encoding="utf-8"))


@long_only
def test_a_flag(programs):
    assert plan_of(programs, *TINY, "--data_format=synthetic", "--note=a word")["note"] == "a word"


@long_only
def test_a_format(programs, few_images, tmp_path):
    for split in ("train", "val"):
        with open(tmp_path / f"{split}.lengths", "wb") as file:
            for label, folder in enumerate(sorted((few_images / split).iterdir())):
                for picture in sorted(folder.iterdir()):
                    image = picture.read_bytes()
                    file.write(struct.pack("<II", label, len(image)) + image)
    checked = run("verify", f"--data_dir={tmp_path}", program=programs / "dtrain_data")
    assert "lengths" in run("--help=data_format", program=programs / "dtrain_main").stdout
    assert "40" in checked.stdout, checked
    plan = plan_of(programs, *TINY, f"--data_dir={tmp_path}")
    assert (plan["train_samples"], plan["val_samples"]) == (40, 8)
    packed = f"--data_dir={tmp_path / 'packed'}"
    run("pack", f"--data_dir={tmp_path}", f"--output={tmp_path / 'packed'}", "--output_format=lengths", program=programs / "dtrain_data")
    lines = [run("inspect", folder, program=programs / "dtrain_data").stdout for folder in (f"--data_dir={tmp_path}", packed)]
    assert lines[0] == lines[1]


@long_only
def test_a_codec(programs, tmp_path):
    pixels = (256 * np.arange(2 * 3 * 4).reshape(2, 3, 4)).astype(">u2")
    for label in "ab":
        (tmp_path / "train" / label).mkdir(parents=True)
        (tmp_path / "train" / label / "1.ff").write_bytes(b"farbfeld" + struct.pack(">II", 3, 2) + pixels.tobytes())
    lines = run("inspect", "--decode", f"--data_dir={tmp_path}", program=programs / "dtrain_data").stdout.splitlines()
    assert [json.loads(line)["mean_rgb"] for line in lines] == 2 * [[10, 11, 12]]
    assert "known format (JPEG" not in str(lines)


@long_only
def test_a_storage(programs, few_images, run_dir):
    below = few_images.relative_to("/")
    flags = (f"--data_dir=data://{below}", f"--index_dir={run_dir}")
    there = run("inspect", "--decode", *flags, env={"DATA_ROOT": "/"}, program=programs / "dtrain_data").stdout
    assert there == run("inspect", "--decode", f"--data_dir={few_images}", program=programs / "dtrain_data").stdout
    plan = json.loads(run("--dry_run", "--log_format=json", *TINY, *flags, env={"DATA_ROOT": "/"},
                          program=programs / "dtrain_main").stdout.splitlines()[-1])
    assert (plan["train_samples"], plan["val_samples"]) == (40, 8)


@long_only
@pytest.mark.parametrize("flags", [["--model=example_net"], ["--optimizer=example_signs", "--lr=1e-4"], ["--lr_schedule=example_zigzag"],
                                   ["--loss=example_error"], ["--augment=negative"]], ids=lambda flags: flags[0])
def test_an_example_that_trains(programs, images, run_dir, flags):
    assert trained(programs, run_dir, f"--data_dir={images}", *flags)["val_loss"] < 10


@long_only
def test_a_text_family(programs, run_dir, tmp_path):
    make_tokens(tmp_path, train=TEXT, val=TEXT)
    program = {"program": programs / "dtrain_main"}
    short = ("--tokens_per_sample=16", "--batch_size=4", "--optimizer=adam", "--lr=0.001", "--max_steps=4")
    run("--model=mini_bert_2", f"--data_dir={tmp_path / 'tokens'}", *short, f"--run_dir={run_dir}", **program)
    assert json.loads((run_dir / "result.json").read_text(encoding="utf-8"))["val_perplexity"] > 1
    run("--mode=export", f"--input={run_dir}", f"--output={tmp_path / 'exported'}", **program)
    (tmp_path / "train.tsv").write_text("sentence\tlabel\n" + 4 * "the cat sat\t1\nthe dog ran\t0\n", encoding="utf-8")
    run(f"--init_weights={tmp_path / 'exported'}", f"--data_dir={tmp_path}", *short, f"--run_dir={tmp_path / 'fine'}", **program)
    settings = json.loads((tmp_path / "fine" / "config.json").read_text(encoding="utf-8"))
    assert (settings["model"], settings["task"]) == ("mini_bert", "text_classification")


@long_only
def test_a_task(programs, images, run_dir):
    assert trained(programs, run_dir, f"--data_dir={images}", "--task=image_brightness", "--model=resnet18")["val_loss"] < 10
    evaluated = run("--mode=eval", f"--run_dir={run_dir}", f"--data_dir={images}", program=programs / "dtrain_main")
    assert "val_loss=" in evaluated.last_line


@long_only
def test_a_metric(programs, images, run_dir):
    result = trained(programs, run_dir, f"--data_dir={images}")
    assert result["val_top1"] <= result["val_example_top3"] <= 100


@long_only
def test_a_launcher(programs):
    variables = {"EXAMPLE_RANK": "1", "EXAMPLE_SIZE": "2", "EXAMPLE_LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1"}
    plan = json.loads(run("--dry_run", "--log_format=json", *TINY, "--data_format=synthetic", env=variables,
                          program=programs / "dtrain_main").stdout.splitlines()[-1])
    assert (plan["launcher"], plan["rank"], plan["world_size"]) == ("example", 1, 2)
