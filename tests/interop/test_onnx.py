"""scripts/export_onnx.py: onnxruntime computes the logits of --mode=predict, for any batch and length."""

import json
import os
import sys

import pytest

from beside_torch import FACTOR, predict, torch
from command import MAIN, ROOT, run
from conftest import CLASSES
from small_families import new_model, new_rows
from text_data import TEXT, make_tokens
from truth import record, worst_difference

onnx = pytest.importorskip("onnx", reason="scripts/setup.sh --tests installs it")
onnxruntime = pytest.importorskip("onnxruntime", reason="scripts/setup.sh --tests installs it")

sys.path.insert(0, str(ROOT / "scripts"))
import export_onnx  # noqa: E402
from safe_files import exit_code  # noqa: E402

LONG = os.environ.get("DTRAIN_LONG_TESTS") == "1"


@pytest.fixture
def export(capsys, monkeypatch):
    """Runs the script in this process, which has loaded PyTorch and its exporter: that takes longer than an export. As a user
    test_bundle.py calls it."""
    def call(source, target, *flags, code=0):
        monkeypatch.setattr(sys, "argv", ["export_onnx.py", str(source), f"--output={target}", f"--program={MAIN}", *flags])
        try:
            ended = exit_code(export_onnx.main)
        except SystemExit as end:
            ended = end.code
        assert ended == code
        said = capsys.readouterr()
        return said.out + said.err

    return call


def metadata(file):
    return {entry.key: entry.value for entry in onnx.load(file).metadata_props}


def assert_same_logits(file, weights, inputs, folder, subject, counted):
    """The limit comes from onnxruntime itself, which computes the nodes as they are, and after it has changed the graph."""
    def computed(level):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        assert [one.name for one in session.get_inputs()] == list(inputs)
        return torch.tensor(session.run(["logits"], {name: one.numpy() for name, one in inputs.items()})[0])[counted]

    levels = onnxruntime.GraphOptimizationLevel
    found, other = computed(levels.ORT_ENABLE_ALL), computed(levels.ORT_DISABLE_ALL)
    expected = predict(inputs, folder, weights)[counted]
    assert expected.std() > 0.1  # so that 1e-5 is not much of it
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=max(1e-5, FACTOR * (found - other).abs().max().item()))
    record("Models", f"{subject}, as ONNX", f"onnxruntime {onnxruntime.__version__}",
           f"1e-5 of logits of about 1 or {FACTOR} times its own spread", worst_difference(found, expected))


@pytest.mark.parametrize("name, crop", [
    ("resnet18", "native"), ("deit_tiny_distilled_patch16_224", "resized"), *((name, "resized") for name in (
        "convnextv2_atto", "tf_efficientnetv2_s", "resnet50", "efficientnet_b0", "efficientnet_b5", "tf_efficientnet_b0") if LONG)])
def test_images(few_images, tmp_path, export, name, crop):
    # Statistics that fall behind the weights of two such steps make the logits of this many layers infinite, in torchvision, too.
    quicker = ["--bn_momentum=0.5"] if name == "efficientnet_b5" else []
    run(f"--model={name}", "--image_size=32", f"--crop={crop}", *(["--eval_resize=40"] if crop == "resized" else []), "--batch_size=8",
        "--max_steps=2", "--lr=0.03", "--mean=0.5,0.4,0.3", "--bn_eps=0.01", *quicker, f"--data_dir={few_images}", f"--run_dir={tmp_path / 'run'}")
    said = export(tmp_path / "run", tmp_path / "model.onnx")
    assert "images (batch × 3 × 32 × 32) → logits, opset 18" in said
    assert (f"whoever reads {tmp_path / 'model.onnx'} resizes images first" in said) == (crop == "native")
    assert {one.domain: one.version for one in onnx.load(tmp_path / "model.onnx").opset_import} == {"": 18}
    assert str(ROOT).encode() not in (tmp_path / "model.onnx").read_bytes()
    facts = metadata(tmp_path / "model.onnx")
    assert (facts["model"], facts["image_size"], facts["crop"], facts["interpolation"]) == (name, "32", crop, "bilinear")
    assert facts.get("eval_resize") == {"resized": "40", "native": None}[crop]
    assert json.loads(facts["mean"]) == [0.5, 0.4, 0.3] and json.loads(facts["class_names"]) == list(CLASSES)
    for batch in (1, 5):
        images = 3 * torch.randn(batch, 3, 32, 32, generator=torch.Generator().manual_seed(batch))
        assert_same_logits(tmp_path / "model.onnx", f"--run_dir={tmp_path / 'run'}", {"images": images}, tmp_path, f"{name} trained here", slice(None))


def test_text(tmp_path, export):
    pretrained = tmp_path / "run"
    run("--model=roberta_tiny", f"--data_dir={make_tokens(tmp_path, train=TEXT)}", "--tokens_per_sample=32", "--batch_size=4", "--max_steps=5",
        "--optimizer=adam", "--lr=0.01", f"--run_dir={pretrained}")
    said = export(pretrained, tmp_path / "model.onnx")
    assert "input_ids, attention_mask (batch × length) → logits" in said
    config = json.loads(metadata(tmp_path / "model.onnx")["config"])
    assert config["pad_token_id"] == 1 and config["max_position_embeddings"] == 34
    known = len((pretrained / "tokenizer" / "dict.txt").read_text(encoding="ascii").splitlines()) + 5
    for batch, length in ((1, 32), (3, 7)):
        ids = torch.randint(4, known, (batch, length), generator=torch.Generator().manual_seed(batch))
        ids[-1, length // 2:] = config["pad_token_id"]
        inputs = {"input_ids": ids, "attention_mask": ids.ne(config["pad_token_id"]).long()}
        assert_same_logits(tmp_path / "model.onnx", f"--run_dir={pretrained}", inputs, tmp_path, "roberta_tiny trained here",
                           (ids.ne(config["pad_token_id"]), slice(known)))


@pytest.mark.parametrize("family", ["bert", *(["distilbert", "modernbert"] if LONG else [])])
def test_pairs(family, tmp_path, export):
    """BERT's token types are an input; its longest row has all positions."""
    names = {0: "no", 1: "maybe", 2: "yes"}
    new_model(family, "ForSequenceClassification", id2label=names).save_pretrained(tmp_path / "folder")
    export(tmp_path / "folder", tmp_path / "model.onnx")
    assert json.loads(metadata(tmp_path / "model.onnx")["config"])["id2label"] == {str(label): name for label, name in names.items()}
    inputs = new_rows(family)
    del inputs["labels"]
    assert_same_logits(tmp_path / "model.onnx", f"--init_weights={tmp_path / 'folder'}", inputs, tmp_path, f"{family} for pairs", slice(None))


def test_vectors_of_texts(tmp_path, export):
    model = new_model("bert", "Model").eval()
    model.save_pretrained(tmp_path / "folder")
    said = export(tmp_path / "folder", tmp_path / "model.onnx", "--", "--model=bert", "--task=sentence_embedding", "--normalize_vectors")
    assert "(batch × length) → sentence_embedding, opset 18" in said
    inputs = new_rows("bert")
    del inputs["labels"]
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    found, = session.run(["sentence_embedding"], {name: one.numpy() for name, one in inputs.items()})
    with torch.no_grad():
        hidden, counted = model(**inputs).last_hidden_state, inputs["attention_mask"].unsqueeze(-1)
    expected = torch.nn.functional.normalize((hidden * counted).sum(1) / counted.sum(1))
    torch.testing.assert_close(torch.tensor(found), expected, rtol=1e-5, atol=1e-5)
    record("Models", "vectors of texts, as ONNX", f"onnxruntime {onnxruntime.__version__}", "1e-5", worst_difference(found, expected))


def test_weights_that_are_too_large_lie_beside(tmp_path, export, monkeypatch):
    new_model("bert", "ForSequenceClassification").save_pretrained(tmp_path / "folder")
    monkeypatch.setattr(export_onnx, "MOST_IN_ONE_FILE", 10_000)
    file, weights = tmp_path / "model.onnx", tmp_path / "model.onnx.data"
    weights.write_bytes(b"of another")
    for beside in (b"", export_onnx.MARK.encode()):  # no model, or one of ours that is in one file
        file.write_bytes(beside)
        assert "model.onnx.data exists" in export(tmp_path / "folder", file, code=2) and weights.read_bytes() == b"of another"
    weights.unlink()
    for _ in range(2):  # the same command may replace both
        export(tmp_path / "folder", file)
    assert weights.stat().st_size > 10_000 and sorted(one.name for one in tmp_path.glob("model*")) == [file.name, weights.name]
    inputs = new_rows("bert")
    del inputs["labels"]
    assert_same_logits(file, f"--init_weights={tmp_path / 'folder'}", inputs, tmp_path, "bert for pairs", slice(None))
    monkeypatch.undo()
    export(tmp_path / "folder", file)
    assert not weights.exists()


def test_what_cannot_be_exported_leaves_no_file(tmp_path, export):
    assert "does not end in .onnx" in export(tmp_path / "run", tmp_path / "x.pt", code=2)
    assert "does not exist" in export(tmp_path / "run", tmp_path / "x.onnx", code=2)
    assert not list(tmp_path.iterdir())
