"""RoBERTa's weights and tokenizer in and out: what transformers and fairseq make of an export, and which weights of theirs are
taken or refused."""

import json
from argparse import Namespace
from collections import OrderedDict

import pytest

from beside_torch import assert_logits, predict, torch
from small_roberta import PEER, folder, loaded, new_model, transformers  # noqa: F401, folder is a fixture
from safetensors.torch import load_file, save_file

from command import DATA, run
from text_data import TEXT, make_tokens
from truth import record



@pytest.fixture(scope="module")
def trained(module_dir):
    """A run on token files made from text with a byte-level tokenizer of 256 bytes and a few merges."""
    make_tokens(module_dir, train=TEXT)
    run("--model=roberta_tiny", f"--data_dir={module_dir / 'tokens'}", "--tokens_per_sample=32", "--batch_size=4",
        "--max_steps=3", "--optimizer=adam", "--lr=0.001", "--dropout=0.05", f"--run_dir={module_dir / 'run'}")
    return module_dir / "run"


def export(source, target, *flags):
    run("--mode=export", f"--input={source}", f"--output={target}", *flags)
    return target


def logits(model, ids):
    with torch.no_grad():
        return model.eval()(input_ids=ids).logits


def known_tokens(run_dir):
    """How many tokens the dictionary has, with the first four and <mask>."""
    return len((run_dir / "tokenizer" / "dict.txt").read_text(encoding="ascii").splitlines()) + 5


def test_the_exported_folder_works_in_transformers(trained, tmp_path):
    folder = export(trained, tmp_path / "exported")
    model, known = loaded(folder), known_tokens(trained)
    assert (model.config.hidden_dropout_prob, model.config.attention_probs_dropout_prob) == (0.05, 0.1)  # as it was trained
    words = model.get_input_embeddings().weight
    for kind in (transformers.RobertaTokenizer, transformers.RobertaTokenizerFast):
        tokenizer = kind.from_pretrained(folder)
        assert tokenizer.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>"]) == [0, 1, 2, 3]
        assert tokenizer.mask_token_id == known - 1
        # What the dictionary lacks has an id of its own, and the row of <unk>.
        unknown = tokenizer("quit").input_ids[1]
        assert known <= unknown < model.config.vocab_size
        assert torch.equal(words[unknown], words[tokenizer.unk_token_id])
        ids = tokenizer("the cat saw the dog").input_ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == "the cat saw the dog"
    found = predict({"input_ids": torch.tensor([ids])}, tmp_path, "--model=roberta", f"--init_weights={folder}")
    expected = logits(model, torch.tensor([ids]))
    assert torch.all(expected.softmax(-1)[..., known:] == 0)
    assert_logits(found, expected, "RoBERTa trained here", f"{PEER}, the exported folder")
    fill = transformers.pipeline("fill-mask", model=str(folder), tokenizer=str(folder))
    assert len(fill("the <mask> sat on the mat")) == 5


@pytest.mark.parametrize("mask_place", ["last, as in published models", "fifth, as tokenizers' own training has it"])
def test_a_tokenizer_that_keeps_its_ids_comes_back(trained, tmp_path, mask_place):
    exported = export(trained, tmp_path / "exported")
    names = json.loads((exported / "vocab.json").read_text(encoding="utf-8"))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "merges.txt").write_bytes((exported / "merges.txt").read_bytes())
    order = [name for name in names if name != "<mask>"]
    order.insert(4 if mask_place.startswith("fifth") else len(order), "<mask>")
    ids = {name: id for id, name in enumerate(order)}
    (tmp_path / "own" / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    run("tokenize", f"--tokenizer={tmp_path / 'own'}", f"--input={tmp_path / 'text.txt'}",
        f"--output={tmp_path / 'tokens' / 'train'}", program=DATA)
    run("--model=roberta_tiny", f"--data_dir={tmp_path / 'tokens'}", "--tokens_per_sample=32", "--batch_size=4",
        "--max_steps=1", "--optimizer=adam", "--lr=0.001", f"--run_dir={tmp_path / 'run'}")
    folder = export(tmp_path / "run", tmp_path / "again")
    assert json.loads((folder / "vocab.json").read_text(encoding="utf-8")) == ids
    assert loaded(folder).config.vocab_size == len(ids)
    assert transformers.RobertaTokenizer.from_pretrained(folder).mask_token_id == ids["<mask>"]
    # Beside published RoBERTas there is fairseq's dict.txt, of GPT-2's numbers, which these ids are not.
    (folder / "dict.txt").write_text("".join(f"{i} 1\n" for i in range(len(ids) - 5)), encoding="utf-8")
    assert json.loads((export(folder, tmp_path / "published") / "vocab.json").read_text(encoding="utf-8")) == ids
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "train.txt").write_text(TEXT, encoding="utf-8")
    run("--task=masked_lm", "--data_format=text", f"--init_weights={folder}", f"--data_dir={tmp_path / 'texts'}", "--max_steps=1", "--batch_size=2",
        "--tokens_per_sample=32", f"--run_dir={tmp_path / 'on'}")
    record("Tokenizers", f"a tokenizer's vocab.json, <mask> {mask_place.split(',')[0]}, through a training and back",
           PEER, "the same ids", 0)


def test_files_have_huggingfaces_and_fairseqs_names(trained, tmp_path):
    folder, known = export(trained, tmp_path / "exported"), known_tokens(trained)
    ids = torch.randint(4, known, (2, 9), generator=torch.Generator().manual_seed(1))
    expected = logits(loaded(folder), ids)[..., :known]
    model = transformers.RobertaForMaskedLM(transformers.RobertaConfig.from_pretrained(folder, vocab_size=known))
    state = torch.load(export(trained, tmp_path / "model.pt"), weights_only=True)
    model.load_state_dict(state, strict=True)
    assert torch.equal(logits(model, ids), expected)
    fairseq = torch.load(export(trained, tmp_path / "fairseq.pt", "--weights_naming=fairseq"), weights_only=True)
    assert (type(fairseq), type(fairseq["model"])) == (dict, OrderedDict)
    words = fairseq["model"]["encoder.sentence_encoder.embed_tokens.weight"]
    assert torch.equal(words, state["roberta.embeddings.word_embeddings.weight"])
    assert torch.equal(fairseq["model"]["encoder.lm_head.weight"], words)
    # What its load_checkpoint takes out of every file.
    assert fairseq["optimizer_history"][-1].keys() >= {"optimizer_name", "lr_scheduler_state", "num_updates"}
    assert fairseq["extra_state"] == {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}} and fairseq["args"] is None
    for naming in ("hf", "fairseq"):
        file = export(trained, tmp_path / f"{naming}.safetensors", f"--weights_naming={naming}")
        found = predict({"input_ids": ids}, tmp_path, "--model=roberta_tiny", f"--init_weights={file}")
        assert_logits(found, expected, f"RoBERTa trained here, {naming}'s names", PEER)


@pytest.mark.parametrize("wrapped", [lambda said: {"args": Namespace(**said)}, lambda said: {"args": None, "cfg": {"model": Namespace(**said)}}],
                         ids=["args", "cfg"])
def test_what_a_checkpoint_of_fairseq_says_of_its_network_is_followed(folder, tmp_path, wrapped):
    """Nothing else tells its shape, and neither heads nor activations show in the weights."""
    heads = loaded(folder).config.num_attention_heads // 2
    export(folder, tmp_path / "plain.pt", "--weights_naming=fairseq")
    saved, config = torch.load(tmp_path / "plain.pt", weights_only=True), loaded(folder).config
    said = {"arch": "roberta", "encoder_layers": config.num_hidden_layers, "encoder_embed_dim": config.hidden_size,
            "encoder_ffn_embed_dim": config.intermediate_size, "encoder_attention_heads": heads, "activation_fn": "gelu",
            "pooler_activation_fn": "tanh", "lr": [0.1]}
    torch.save(saved | wrapped(said), tmp_path / "model.pt")
    exported = loaded(export(tmp_path / "model.pt", tmp_path / "exported"))
    assert exported.config.num_attention_heads == heads
    ids = torch.randint(4, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    found = predict({"input_ids": ids}, tmp_path, f"--init_weights={tmp_path / 'model.pt'}")
    assert_logits(found, logits(exported, ids), "RoBERTa, fairseq's checkpoint with its args", PEER)
    normed_before = {"encoder.sentence_encoder.layer_norm.weight": torch.ones(config.hidden_size)}
    for other, why in ((saved | wrapped(said | {"activation_fn": "relu"}), "hidden_act"),
                       (saved | wrapped(said | {"pooler_activation_fn": "relu"}), "pooler_activation_fn"),
                       ({"model": saved["model"] | normed_before} | wrapped(said), next(iter(normed_before)))):
        torch.save(other, tmp_path / "other.pt")
        assert why in run("--mode=export", f"--input={tmp_path / 'other.pt'}", f"--output={tmp_path / 'x'}", check=2).stderr


def test_rows_without_tokens(folder, tmp_path):
    save_file({"input_ids": torch.zeros(0, 5, dtype=torch.long)}, tmp_path / "in.safetensors")
    outcome = run("--mode=predict", "--task=masked_lm", f"--init_weights={folder}", f"--input={tmp_path / 'in.safetensors'}",
                  f"--output={tmp_path / 'out.safetensors'}", check=3)
    assert "has no tokens" in outcome.stderr


def test_a_name_whose_arithmetic_is_another(folder, tmp_path):
    """Neither heads nor an epsilon show in the shapes of weights; sizes must be theirs."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for change in ({"num_attention_heads": 2}, {"layer_norm_eps": 1e-12}, {"vocab_size": 61}, {"max_position_embeddings": 17}):
        (tmp_path / "config.json").write_text(json.dumps(config | change), encoding="utf-8")
        save_file({"input_ids": torch.tensor([[0, 5, 2]])}, tmp_path / "in.safetensors")
        outcome = run("--mode=predict", "--model=roberta", f"--model_config={tmp_path / 'config.json'}",
                      f"--init_weights={folder}", f"--input={tmp_path / 'in.safetensors'}",
                      f"--output={tmp_path / 'out.safetensors'}", check=2)
        assert next(iter(change)) in outcome.stderr
    tensors = load_file(folder / "model.safetensors")
    tensors["roberta.embeddings.word_embeddings.weight"] = tensors["roberta.embeddings.word_embeddings.weight"].int()
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    outcome = run("--mode=export", f"--input={tmp_path}", f"--output={tmp_path / 'x'}", check=2)
    assert "word_embeddings.weight" in outcome.stderr and "Int" in outcome.stderr


def test_other_folders_of_weights(tmp_path):
    """An older one, with pytorch_model.bin, is read; so is one whose weights are in several files, unless one is missing."""
    model, ids = new_model(), torch.tensor([[0, 5, 6, 2]])
    model.save_pretrained(tmp_path / "older", safe_serialization=False)
    found = predict({"input_ids": ids}, tmp_path, "--model=roberta", f"--init_weights={tmp_path / 'older'}")
    assert_logits(found, logits(model, ids), "RoBERTa, a folder with pytorch_model.bin", PEER)
    model.save_pretrained(tmp_path / "parts", max_shard_size="10KB")
    missing = next((tmp_path / "parts").glob("model-*.safetensors"))
    missing.unlink()
    outcome = run("--mode=export", f"--input={tmp_path / 'parts'}", f"--output={tmp_path / 'x'}", check=3)
    assert "model.safetensors.index.json" in outcome.stderr and missing.name in outcome.stderr
