"""What other programs read of a run is as docs/schemas say: metrics.jsonl, result.json, error.json; and --help=json."""

import json

import pytest

from command import BENCH, DATA, MAIN, ROOT, TINY, metrics, run
from text_data import make_tokens

# jsonschema is among the packages that check the clusters' files.
VALIDATE = """
import json, sys
from pathlib import Path
from jsonschema import Draft202012Validator
for name, lines, good in json.load(sys.stdin):
    schema = json.loads(Path(sys.argv[1], name + ".json").read_text())
    Draft202012Validator.check_schema(schema)
    for line in lines:
        errors = list(Draft202012Validator(schema).iter_errors(line))
        if bool(errors) == good: sys.exit(f"{name}: {line}: {errors[:1]}")
"""


def validate(*documents) -> None:
    """Of each (name of a schema, documents, whether they are what it says)."""
    python = ROOT / ".venv" / "clusters" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{python} is not there (scripts/setup.sh --tests)")
    run("-c", VALIDATE, ROOT / "docs" / "schemas", program=python, text=json.dumps(documents))


def test_runs_write_what_the_schemas_say(few_images, tmp_path):
    flags = (f"--data_dir={few_images}", *TINY, "--val_split=val,train", "--batch_size=8", "--limit_val_steps=1")
    images = run(*flags, "--epochs=1", "--eval_every_epochs=1", "--log_format=json", f"--run_dir={tmp_path / 'images'}")
    shape = {"vocab_size": 300, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
             "max_position_embeddings": 34, "model_type": "roberta"}
    (tmp_path / "config.json").write_text(json.dumps(shape), encoding="utf-8")
    tokens = make_tokens(tmp_path / "text", train="the cat sat on the mat\n" * 40, val="the dog\n" * 20)
    run(f"--data_dir={tokens}", "--model=roberta", f"--model_config={tmp_path / 'config.json'}", "--tokens_per_sample=32", "--batch_size=4",
        "--lr=1e-3", "--max_steps=2", "--log_interval=1", f"--run_dir={tmp_path / 'text_run'}")
    run(f"--data_dir={few_images}", *TINY, "--lr=1e30", "--max_skipped_steps=1", "--max_steps=9", f"--run_dir={tmp_path / 'diverged'}", check=6)
    runs = [tmp_path / name for name in ("images", "text_run", "diverged")]
    lines = [line for folder in runs for line in metrics(folder)]
    assert {line["kind"] for line in lines} == {"train", "val", "epoch"} and any("split" in line for line in lines)
    run("--mode=eval", f"--run_dir={runs[0]}", f"--data_dir={few_images}", "--val_split=train", "--limit_val_steps=1")
    results = [json.loads((folder / "result.json").read_text(encoding="utf-8")) for folder in (*runs[:2], runs[0] / "eval-train")]
    errors = [json.loads((runs[2] / "error.json").read_text(encoding="utf-8"))]
    *told, result = [json.loads(line) for line in images.lines]
    bad = [(name, [{**document, "step": "7"}, {key: value for key, value in document.items() if key != "step"}], False)
           for name, document in (("metrics", lines[0]), ("result", results[0]), ("error", errors[0]))]  # the schemas say something
    validate(("metrics", lines + told, True), ("result", [*results, result], True), ("error", errors, True), *bad)


def test_failures_are_json_where_all_is():
    said = {code: json.loads(run(*flags, check=code).stderr) for flags, code in (
        (["--log-format", "json", "--batch_size=0"], 2), (["--data_dir=/nonexistent", "--log_format=json"], 3))}
    unknown = json.loads(run("--no_such_flag", "--log_format=json", check=2).stderr)
    validate(("error", [*said.values(), unknown], True))
    assert {code: error["exit_code"] for code, error in said.items()} == {2: 2, 3: 3} and unknown["exit_code"] == 2


@pytest.mark.parametrize("program", [MAIN, BENCH, DATA])
def test_the_help_as_json_has_what_the_help_has(program):
    described = json.loads(run("--help=json", program=program).stdout)
    assert described["program"] == program.name
    flags = {flag["name"]: flag for flag in described["flags"]}
    words = run("--help", program=program).stdout
    for name, flag in flags.items():
        assert (f"  --[no]{name}" if flag["type"] == "boolean" else f"  --{name}") in words
        assert flag["type"] in ("boolean", "integer", "number", "text", "numbers") and flag["help"]
    assert flags["data_format"]["choices"][0] == "auto" and "imagefolder" in flags["data_format"]["choices"]
