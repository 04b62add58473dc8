"""Each family of text beside transformers: logits of its heads, ten steps of training from the same weights and tokens,
and folders in and out."""

import functools
import json
import shutil

import pytest

from beside_torch import assert_exact_steps, assert_logits, plain_losses, predict, torch
from small_families import FAMILIES, class_of, new_model, new_rows
from small_roberta import BPE_SIZE, LENGTH, PEER, new_tokenizer, new_wordpiece, transformers
from safetensors.torch import load_file, save_file, save_model
from torch.nn import functional as F

from command import DATA, load_lines, run
from test_fine_tuning import LABELS, ROWS, TRAINED, logits_of, table, torch_losses as fine_tuned, write_tsv
from test_fine_tuning import WORDS as TEXT_WORDS
from truth import record

STEPS = 10
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def inputs(rows: dict) -> dict:
    return {name: rows[name] for name in INPUTS if name in rows}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def folder(family, module_dir):
    new_model(family).save_pretrained(module_dir / family)
    return module_dir / family


def assert_strict(family: str, head: str, folder):
    """Returns transformers' model in a folder, which must have all of its weights and no others."""
    model, info = class_of(family, head).from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()


def test_modernbert_of_transformers_5(tmp_path):
    """Its config.json has layer_types and rope_parameters; here with other angles and full attention in every second layer."""
    family, rows = "modernbert", new_rows("modernbert")
    model = new_model(family, global_attn_every_n_layers=2, global_rope_theta=500.0, local_rope_theta=30.0)
    model.save_pretrained(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
    theta = {"full_attention": 500.0, "sliding_attention": 30.0}
    for field in ("global_rope_theta", "local_rope_theta", "global_attn_every_n_layers"):  # of transformers 4
        config.pop(field, None)
    config |= {"layer_types": list(theta) * 2,
               "rope_parameters": {layers: {"rope_type": "default", "rope_theta": value} for layers, value in theta.items()}}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with torch.no_grad():
        expected = model(**inputs(rows)).logits
    found = predict(inputs(rows), tmp_path, f"--init_weights={tmp_path / 'model'}", "--task=masked_lm", "--batch_size=5")
    real = rows["attention_mask"].bool()
    assert_logits(found[real], expected[real], "modernbert with the fields of transformers 5", PEER)
    for types in (["full_attention"] * 2 + ["sliding_attention"] * 2, config["layer_types"][:3]):
        (tmp_path / "model" / "config.json").write_text(json.dumps(config | {"layer_types": types}), encoding="utf-8")
        assert "layer_types" in run("--mode=export", f"--input={tmp_path / 'model'}", f"--output={tmp_path / 'out'}", check=2).stderr


@pytest.mark.parametrize("head", ("ForSequenceClassification", "ForTokenClassification"))
def test_classifiers(family, head, tmp_path):
    """With padding and without, and back to the bit."""
    model, rows = new_model(family, head, num_labels=3), new_rows(family)
    chosen = rows["attention_mask"].bool() if head == "ForTokenClassification" else slice(None)
    what = f"{family}, {'words' if head == 'ForTokenClassification' else 'sequences'}"
    model.save_pretrained(tmp_path / "model")
    with torch.no_grad():
        expected = model(**inputs(rows)).logits
    for unpad in ("--unpad", "--nounpad"):
        found = predict(inputs(rows), tmp_path, f"--init_weights={tmp_path / 'model'}", "--batch_size=5", unpad)
        assert_logits(found[chosen], expected[chosen], f"{what}, {unpad}", PEER)
    run("--mode=export", f"--input={tmp_path / 'model'}", f"--output={tmp_path / 'again'}")
    again = assert_strict(family, head, tmp_path / "again")
    assert {name: tensor.tolist() for name, tensor in again.state_dict().items()} == \
        {name: tensor.tolist() for name, tensor in model.state_dict().items()}
    described = {name: value for name, value in model.config.to_dict().items()
                 if name not in ("_name_or_path", "dtype", "problem_type", "classifier_dropout", "seq_classif_dropout")}
    assert described.items() <= again.config.to_dict().items()


def test_encoders_alone(family, tmp_path):
    """A folder without a head comes back without one."""
    model, rows = new_model(family, "Model"), new_rows(family)
    model.save_pretrained(tmp_path / "model")
    run("--mode=export", f"--input={tmp_path / 'model'}", f"--output={tmp_path / 'again'}")
    again, report = class_of(family, "Model").from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not report["unexpected_keys"] and all(key.startswith("pooler.") for key in report["missing_keys"]), report
    assert again.config.architectures == model.config.architectures and not (tmp_path / "again/modules.json").exists()
    with torch.no_grad():
        assert torch.equal(again.eval()(**inputs(rows)).last_hidden_state, model(**inputs(rows)).last_hidden_state)
    record("Models", f"{family}, an encoder alone, exported", PEER, "the same bits", 0)


def torch_losses(family, folder, rows, dtype) -> list[float]:
    model = class_of(family, "ForMaskedLM").from_pretrained(folder).to(dtype).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)

    def loss_of(step):
        chosen = torch.arange(step * 8, step * 8 + 8) % len(rows["input_ids"])
        logits = model(**{name: tensor[chosen] for name, tensor in inputs(rows).items() if name != "token_type_ids"}).logits
        return F.cross_entropy(logits.flatten(0, 1), rows["labels"][chosen].flatten())

    return plain_losses(optimizer, loss_of, STEPS)


def test_ten_steps_and_back(family, folder, tmp_path):
    """Continues the pretraining, padded and unpadded; the head is kept, and what is exported has the bits of the run."""
    rows = new_rows(family)
    save_file({name: rows[name] for name in ("input_ids", "attention_mask", "labels")}, tmp_path / "rows.safetensors")
    train = functools.cache(lambda numbers: torch_losses(family, folder, rows, numbers))
    for unpad in ("--unpad", "--nounpad"):
        run_dir = tmp_path / unpad
        run(f"--init_weights={folder}", f"--data_dir={tmp_path / 'rows.safetensors'}", f"--tokens_per_sample={LENGTH}", "--task=masked_lm",
            "--shuffle=none", "--batch_size=8", f"--max_steps={STEPS}", "--optimizer=adamw", "--lr=0.001", "--adam_betas=0.9,0.98",
            "--adam_eps=1e-6", "--weight_decay=0.01", "--decay_norm_and_bias", "--lr_schedule=constant", "--log_interval=1",
            "--save_every_epochs=0", f"--run_dir={run_dir}", unpad)
        assert_exact_steps(f"{family}, masked words, ten steps, {unpad}", PEER, run_dir, train)
    trained = load_file(run_dir / "model.safetensors")
    run("--mode=export", f"--input={run_dir}", f"--output={tmp_path / 'exported'}")
    state = assert_strict(family, "ForMaskedLM", tmp_path / "exported").state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in trained.items())
    run("--mode=export", f"--input={run_dir}", f"--output={tmp_path / 'model.pt'}")
    assert torch.load(tmp_path / "model.pt", weights_only=True).keys() == state.keys()
    record("Models", f"{family} trained here, exported", PEER, "the same bits", 0)


@pytest.mark.parametrize("family", ["bert", "distilbert", "xlm_roberta", "modernbert"], indirect=True)
def test_an_encoder_alone_in_several_files(family, folder, tmp_path):
    """Such as MiniLM, E5 and BGE: names without the encoder's, here under those of the first BERTs. The head begins anew."""
    model = class_of(family, "ForMaskedLM").from_pretrained(folder).base_model
    model.save_pretrained(tmp_path / "parts", max_shard_size="10KB")
    index = json.loads((tmp_path / "parts" / "model.safetensors.index.json").read_text(encoding="utf-8"))
    for part in set(index["weight_map"].values()):
        old = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
               for name, tensor in load_file(tmp_path / "parts" / part).items()}
        save_file(old if family in ("bert", "distilbert") else load_file(tmp_path / "parts" / part), tmp_path / "parts" / part)
    rows = new_rows(family)
    save_file({name: rows[name] for name in ("input_ids", "attention_mask", "labels")}, tmp_path / "rows.safetensors")
    run(f"--init_weights={tmp_path / 'parts'}", f"--data_dir={tmp_path / 'rows.safetensors'}", f"--tokens_per_sample={LENGTH}",
        "--task=masked_lm", "--batch_size=8", "--max_steps=1", "--lr=0", "--warmup_steps=0", "--strict_weights=false",
        f"--run_dir={tmp_path / 'run'}")
    found = load_file(tmp_path / "run" / "model.safetensors")
    for name, tensor in class_of(family, "ForMaskedLM").from_pretrained(folder).state_dict().items():
        if name.startswith(model.base_model_prefix + "."):
            assert torch.equal(found[name], tensor), name
    record("Models", f"{family}, an encoder alone in several files", PEER, "the same bits", 0)
    if family == "modernbert":  # whose classifier shares a module with the head of words
        new_model(family, "ForSequenceClassification").save_pretrained(tmp_path / "classifier")
        run("--mode=export", "--task=masked_lm", f"--input={tmp_path / 'classifier'}", f"--output={tmp_path / 'alone.pt'}")
        assert torch.load(tmp_path / "alone.pt", weights_only=True).keys() == model.state_dict().keys()
    # save_model keeps one of two tied tensors, which may be the decoder.
    whole = class_of(family, "ForMaskedLM").from_pretrained(folder)
    whole.config.save_pretrained(tmp_path / "tied")
    save_model(whole, tmp_path / "tied" / "model.safetensors")
    run("--mode=export", f"--input={tmp_path / 'tied'}", f"--output={tmp_path / 'again.pt'}")
    again = torch.load(tmp_path / "again.pt", weights_only=True)
    assert all(torch.equal(again[name], tensor) for name, tensor in whole.state_dict().items())


@pytest.fixture(scope="module")
def bert(module_dir):
    """A BERT with a tokenizer, whose words are whole or of two pieces."""
    tokenizer = new_wordpiece(module_dir, TEXT_WORDS)
    names = {"id2label": dict(enumerate(sorted(LABELS))), "label2id": {name: label for label, name in enumerate(sorted(LABELS))}}
    for head in ("ForMaskedLM", "ForSequenceClassification"):
        new_model("bert", head, max_position_embeddings=24, **names).save_pretrained(module_dir / head)
        tokenizer.save_pretrained(module_dir / head)
    return module_dir, tokenizer


def test_pairs_have_token_types(bert, tmp_path):
    folder, tokenizer = bert
    rows = table(ROWS, 1)
    write_tsv(tmp_path / "data" / "train.tsv", rows, ["sentence1", "sentence2", "label"])
    weights = folder / "ForSequenceClassification"
    run(*TRAINED, f"--init_weights={weights}", f"--data_dir={tmp_path / 'data'}", "--val_fraction=0", f"--run_dir={tmp_path / 'run'}")
    inputs = dict(tokenizer([row["sentence1"] for row in rows], [row["sentence2"] for row in rows], truncation=True, max_length=24,
                            padding=True, return_tensors="pt"))
    assert inputs["token_type_ids"].any()
    targets = torch.tensor([sorted(LABELS).index(row["label"]) for row in rows])
    assert_exact_steps("bert, pairs, ten steps", PEER, tmp_path / "run", lambda numbers: fine_tuned(
        class_of("bert", "ForSequenceClassification").from_pretrained(weights).to(numbers), inputs, targets))
    untyped = shutil.copytree(weights, tmp_path / "untyped")
    settings = json.loads((untyped / "tokenizer_config.json").read_text(encoding="utf-8")) | {"model_input_names": ["input_ids", "attention_mask"]}
    (untyped / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    for folder, given, pairs in ((weights, inputs, "pairs"), (untyped, {name: inputs[name] for name in settings["model_input_names"]}, "pairs without types")):
        run("--mode=predict", f"--init_weights={folder}", f"--input={tmp_path / 'data' / 'train.tsv'}", f"--output={tmp_path / 'out.jsonl'}")
        likely = logits_of(class_of("bert", "ForSequenceClassification").from_pretrained(weights), given).softmax(1)
        found = torch.tensor([list(row["probabilities"].values()) for row in load_lines(tmp_path / "out.jsonl")])
        assert_logits(found, likely, f"bert, probabilities of {pairs}", PEER, "1e-5", "a probability")
    bare = shutil.copytree(weights, tmp_path / "bare")  # of which an export must say what the model's class would otherwise
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        (bare / name).unlink(missing_ok=True)
    run("--mode=export", f"--input={bare}", f"--output={tmp_path / 'exported'}")
    exported = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")(
        [row["sentence1"] for row in rows], [row["sentence2"] for row in rows], truncation=True, max_length=24, padding=True, return_tensors="pt")
    assert {name: tensor.tolist() for name, tensor in exported.items()} == {name: tensor.tolist() for name, tensor in inputs.items()}
    for weights in (tmp_path / "run", tmp_path / "run" / "model.safetensors"):
        run(*TRAINED, f"--init_weights={weights}", f"--data_dir={tmp_path / 'data'}", "--val_fraction=0", "--dry_run")


def test_labels_are_those_of_the_classifier(bert, tmp_path):
    """Without id2label they are numbered, and what else is said of the head counts."""
    folder, tokenizer = bert
    shutil.copytree(folder / "ForSequenceClassification", tmp_path / "model")
    (tmp_path / "in.txt").write_text("the film\n", encoding="utf-8")
    config = json.loads((tmp_path / "model/config.json").read_text(encoding="utf-8"))

    def predicted(changes, check=0):
        (tmp_path / "model/config.json").write_text(json.dumps(config | {"problem_type": "multi_label_classification"} | changes), encoding="utf-8")
        return run("--mode=predict", f"--init_weights={tmp_path / 'model'}", f"--input={tmp_path / 'in.txt'}", f"--output={tmp_path / 'out.jsonl'}",
                   check=check).stderr

    names = list(config["id2label"].values())
    for architectures in (["BertForSequenceClassification"], ["BertModel"], None):
        predicted({"architectures": architectures})
        probabilities = load_lines(tmp_path / "out.jsonl")[0]["probabilities"]
        assert list(probabilities) == names and sum(probabilities.values()) > 1.2, "a sigmoid of each"
    for labels in (names[:-1], [*names, "one more"]):
        said = predicted({"id2label": dict(enumerate(labels))}, check=2)
        assert f"has {len(labels)} labels (id2label, num_labels), but the classifier has {len(names)}" in said
    assert "correct it there" in predicted({"id2label": dict.fromkeys(range(len(names)), "same")}, check=2)
    del config["id2label"]
    predicted({})
    with torch.no_grad():
        model = class_of("bert", "ForSequenceClassification").from_pretrained(folder / "ForSequenceClassification").eval()
        likely = model(**tokenizer(["the film"], return_tensors="pt")).logits.sigmoid()[0]
    found = load_lines(tmp_path / "out.jsonl")[0]["probabilities"]
    assert list(found) == [f"LABEL_{label}" for label in range(len(names))]
    assert_logits(torch.tensor(list(found.values())), likely, "bert, several labels without id2label", PEER, "1e-5", "a probability")


@pytest.mark.parametrize("family", ["bert", "distilbert"], indirect=True)
@pytest.mark.parametrize("labels", (len(LABELS), len(LABELS) + 1))
def test_a_tagger_begins_a_classifier(bert, family, labels, tmp_path):
    """Its own classifier is of words, without the layer before that of sequences: the head begins anew."""
    tagger = new_model(family, "ForTokenClassification", max_position_embeddings=24, num_labels=labels)
    tagger.save_pretrained(tmp_path / "tagger")
    bert[1].save_pretrained(tmp_path / "tagger")
    write_tsv(tmp_path / "data" / "train.tsv", table(ROWS, 1), ["sentence1", "sentence2", "label"])
    outcome = run(*TRAINED, f"--init_weights={tmp_path / 'tagger'}", f"--data_dir={tmp_path / 'data'}", "--val_fraction=0", "--max_steps=1",
                  "--lr=0", "--warmup_steps=0", f"--run_dir={tmp_path / 'run'}")
    assert "have no classifier of this task" in outcome.stderr
    found = load_file(tmp_path / "run" / "model.safetensors")
    for name, tensor in tagger.state_dict().items():
        assert torch.equal(found[name], tensor) != name.startswith("classifier."), name


def test_a_tokenizer_of_other_weights_is_refused(bert, tmp_path):
    """By the ids of special tokens, wherever texts meet weights. Which kind of tokenizer a family has does not matter."""
    folder, tokenizer = bert
    rows, data = table(9, 1), tmp_path / "data"
    write_tsv(data / "val.tsv", rows, ["sentence1", "sentence2", "label"])
    (tmp_path / "text.txt").write_text("\n".join(row["sentence1"] for row in rows), encoding="utf-8")
    run("tokenize", f"--tokenizer={folder / 'ForMaskedLM'}", f"--input={tmp_path / 'text.txt'}", f"--output={tmp_path / 'tokens' / 'train'}",
        program=DATA)

    def refusal(weights, *flags) -> str:
        return run(f"--init_weights={weights}", *flags, check=2).stderr

    for head in ("ForMaskedLM", "ForSequenceClassification"):
        new_model("bert", head, max_position_embeddings=24, pad_token_id=7, num_labels=3).save_pretrained(tmp_path / head)
        tokenizer.save_pretrained(tmp_path / head)
    classifier, out = tmp_path / "ForSequenceClassification", f"--output={tmp_path / 'out.csv'}"
    for flags in ((classifier, "--mode=eval", f"--data_dir={data}"), (classifier, "--mode=predict", f"--input={data / 'val.tsv'}", out),
                  (classifier, "--mode=predict", f"--input={tmp_path / 'text.txt'}", f"--features={tmp_path / 'out.npy'}"),
                  (tmp_path / "ForMaskedLM", "--task=masked_lm", f"--data_dir={tmp_path / 'tokens'}", "--max_steps=1", f"--run_dir={tmp_path / 'run'}")):
        said = refusal(*flags)
        assert "the data's tokenizer has token 0 as <pad>, but " in said and " has 7 (pad_token_id of its config.json)" in said

    said = refusal(classifier, "--mode=eval", "--task=text_classification", f"--data_dir={data}", "--val_split=test")
    assert "holds none of split train or test" in said and "name an existing split with --val_split" in said

    files, predict_all = new_tokenizer(tmp_path, TEXT_WORDS), ("--mode=predict", f"--input={data / 'val.tsv'}", out)
    for family, fields in (("xlm_roberta", {"eos_token_id": 5}), ("bert", {"pad_token_id": 1})):
        new_model(family, "ForSequenceClassification", vocab_size=BPE_SIZE, max_position_embeddings=26, **fields).save_pretrained(tmp_path / family)
        transformers.RobertaTokenizerFast(*files).save_pretrained(tmp_path / family)
    assert "has token 2 behind a text, but " in refusal(tmp_path / "xlm_roberta", *predict_all)
    run(f"--init_weights={tmp_path / 'bert'}", *predict_all)
