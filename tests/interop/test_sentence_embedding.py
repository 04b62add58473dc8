"""Vectors of texts beside ten lines of PyTorch: the losses of sentence-transformers, their gradients on one rank and on
several, the metrics of scipy, and folders as SentenceTransformer writes and reads them."""

import json
import random

import numpy
import pytest
from safetensors.torch import load_file

from beside_torch import FACTOR, TORCH, assert_exact_steps, assert_metrics, torch
from small_roberta import PEER, TEN_STEPS, adamw_losses, new_config, new_tokenizer, new_wordpiece, transformers
from torch.nn import functional as F

from command import metrics, run, sha256
from truth import record, worst_difference

stats = pytest.importorskip("scipy.stats")
tokenizers = pytest.importorskip("tokenizers")

LENGTH, ROWS, BATCH = 24, 60, 12
RATE = 64
WORDS = "the film is not good bad very long story about a cat and the dog who never met".split()
DATA = ("--task=sentence_embedding", f"--tokens_per_sample={LENGTH}")
TRAINED = (*DATA, *TEN_STEPS, f"--batch_size={BATCH}")
SMALL = {"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def roberta(folder):
    return transformers.RobertaTokenizerFast(*new_tokenizer(folder, WORDS)), transformers.RobertaModel(new_config(LENGTH))


def bert(folder):
    return new_wordpiece(folder, WORDS), transformers.BertModel(transformers.BertConfig(
        **SMALL, **NO_DROPOUT, max_position_embeddings=LENGTH))


def multilingual_e5(folder):
    """A BERT with the special tokens of an XLM-R, whose config.json says BERT's pad_token_id."""
    tokenizer = transformers.RobertaTokenizerFast(*new_tokenizer(folder, WORDS))
    config = transformers.BertConfig(**SMALL | {"vocab_size": len(tokenizer)}, **NO_DROPOUT, max_position_embeddings=LENGTH)
    assert (config.pad_token_id, tokenizer.pad_token_id) == (0, 1)
    return tokenizer, transformers.BertModel(config)


def modernbert(folder):
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([" ".join(WORDS)] * 5, vocab_size=300, special_tokens=["[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"])
    core = tokenizer._tokenizer
    core.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
                                                                   special_tokens=[("[CLS]", 0), ("[SEP]", 1)])
    special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, model_input_names=["input_ids", "attention_mask"], **special)
    return tokenizer, transformers.ModernBertModel(
        transformers.ModernBertConfig(**SMALL, max_position_embeddings=LENGTH, local_attention=4, pad_token_id=2, bos_token_id=0,
                                      cls_token_id=0, eos_token_id=1, sep_token_id=1))


class Work:
    def __init__(self, folder, family):
        (folder / "tokenizer").mkdir(parents=True)
        self.tokenizer, model = family(folder / "tokenizer")
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        self.folder = folder / "weights"
        model.save_pretrained(self.folder)
        self.tokenizer.save_pretrained(self.folder)
        choose = random.Random(1)
        text = lambda: " ".join(choose.choices(WORDS, k=choose.randint(1, 12)))
        self.rows = [[a := text(), f"{text()} {a}", text()] for _ in range(ROWS)]
        self.scores = [choose.randint(0, 10) / 2 for _ in range(ROWS)]
        for name in ("pairs", "triples", "scores"):
            (folder / name).mkdir()
            for split in ("train", "val"):
                (folder / name / f"{split}.tsv").write_text(self.table(name), encoding="utf-8")
        self.data = folder

    def table(self, kind) -> str:
        lines = {"pairs": ["query\tpositive", *("\t".join(row[:2]) for row in self.rows)],
                 "triples": ["anchor\tpositive\tnegative", *("\t".join(row) for row in self.rows)],
                 "scores": ["sentence1\tsentence2\tscore", *(f"{a}\t{b}\t{score}" for (a, b, _), score in
                                                             zip(self.rows, self.scores, strict=True))]}[kind]
        return "\n".join(lines) + "\n"

    def vectors(self, model, texts, pooling="mean", normalized=True):
        """The ten lines that sentence-transformers amounts to."""
        inputs = self.tokenizer(texts, padding=True, truncation=True, max_length=LENGTH, return_tensors="pt")
        hidden = model(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1).to(hidden)
        pooled = hidden[:, 0] if pooling == "cls" else (hidden * mask).sum(1) / mask.sum(1)
        return F.normalize(pooled) if normalized else pooled

    def loss(self, model, kind, chosen, pooling="mean"):
        columns = list(zip(*(self.rows[i] for i in chosen)))[:3 if kind == "triples" else 2]
        first, *others = (self.vectors(model, list(column), pooling) for column in columns)
        if kind == "scores":
            return F.mse_loss((first * others[0]).sum(1), torch.tensor([self.scores[i] / 5 for i in chosen]).to(first))
        return F.cross_entropy(first @ torch.cat(others).T * 20, torch.arange(len(chosen)))


def loaded(folder):
    return transformers.AutoModel.from_pretrained(folder)


@pytest.fixture(scope="module")
def work(module_dir):
    torch.manual_seed(0)
    return Work(module_dir / "roberta", roberta)


def torch_losses(work, model, kind) -> list[float]:
    return adamw_losses(model.train().parameters(),
                        lambda step: work.loss(model, kind, [i % ROWS for i in range(step * BATCH, (step + 1) * BATCH)]))


@pytest.mark.parametrize("kind", ("pairs", "triples", "scores"))
def test_ten_steps(work, run_dir, kind):
    run(*TRAINED, f"--init_weights={work.folder}", f"--data_dir={work.data / kind}", f"--run_dir={run_dir}")
    assert_exact_steps(f"sentence_embedding, {kind}, ten steps", TORCH, run_dir,
                       lambda numbers: torch_losses(work, loaded(work.folder).to(numbers), kind))


@pytest.mark.parametrize("kind, pooling", (("pairs", "cls"), ("triples", "mean"), ("scores", "mean")))
def test_gradients_are_those_of_one_batch(work, run_dir, kind, pooling):
    """One step of SGD at a large rate: the weights have moved along the gradient of all ranks' samples together."""
    run(*TRAINED, "--optimizer=sgd", "--momentum=0", "--weight_decay=0", f"--lr={RATE}", "--max_steps=1", f"--batch_size={BATCH // 3}",
        f"--init_weights={work.folder}", f"--data_dir={work.data / kind}", f"--run_dir={run_dir}", f"--pooling={pooling}",
        "--nproc_per_node=3")
    model = loaded(work.folder).double()
    loss = work.loss(model, kind, range(BATCH), pooling)
    loss.backward()
    assert metrics(run_dir, "train")[0]["loss"] == pytest.approx(loss.item(), rel=1e-6)
    before, after = load_file(work.folder / "model.safetensors"), load_file(run_dir / "model.safetensors")
    expected = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    found = {name: (before[name].double() - after[f"roberta.{name}"].double()) / RATE for name in expected}
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    worst = max((found[name] - gradient).abs().max().item() for name, gradient in expected.items()) / largest
    model = loaded(work.folder)
    work.loss(model, kind, range(BATCH), pooling).backward()
    own = max((parameter.grad - expected[name]).abs().max().item() for name, parameter in model.named_parameters() if name in expected)
    assert worst < max(1e-6, FACTOR * own / largest), (worst, own / largest)
    record("Models", f"gradients of sentence_embedding, {kind}, 3 ranks", f"{TORCH} in float64",
           f"1e-6 of the largest or {FACTOR} times its own rounding", worst)


def expected_metrics(work, kind) -> dict:
    with torch.no_grad():
        model = loaded(work.folder).eval()
        first, *others = (work.vectors(model, list(column)) for column in list(zip(*work.rows))[:3 if kind == "triples" else 2])
        if kind == "scores":
            cosines = (first * others[0]).sum(1)
            return {"loss": work.loss(model, kind, range(ROWS)).item(), "spearman": stats.spearmanr(cosines, work.scores)[0],
                    "pearson": stats.pearsonr(cosines, work.scores)[0]}
        cosines = first @ torch.cat(others).T
        ranks = (cosines > cosines.diagonal().unsqueeze(1)).sum(1) + 1
        return {"loss": F.cross_entropy(cosines * 20, torch.arange(ROWS)).item(), "mrr": (1 / ranks).mean().item(),
                "accuracy": 100 * (ranks == 1).double().mean().item()}


@pytest.mark.parametrize("kind", ("pairs", "triples", "scores"))
def test_metrics_are_those_of_scipy(work, kind):
    """Many scores are equal."""
    outcome = run("--mode=eval", *DATA, f"--init_weights={work.folder}", f"--data_dir={work.data / kind}", "--batch_size=7",
                  "--log_format=json", "--nproc_per_node=3")
    assert_metrics(f"of sentence_embedding, {kind}", f"{TORCH}, scipy", outcome, expected_metrics(work, kind))


def found_vectors(folder, texts, tmp_path, *flags):
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    run("--mode=predict", f"--init_weights={folder}", f"--input={tmp_path / 'texts.txt'}", f"--features={tmp_path / 'out.npy'}", *flags)
    return torch.from_numpy(numpy.load(tmp_path / "out.npy"))


@pytest.mark.parametrize("family, pooling, normalized", ((roberta, "mean", True), (bert, "cls", False), (modernbert, "mean", False)))
def test_a_folder_of_sentence_transformers(tmp_path, run_dir, family, pooling, normalized):
    """What is exported is loaded by transformers, and read here with its own pooling and length."""
    torch.manual_seed(0)
    work = Work(tmp_path / "work", family)
    run(*TRAINED, f"--init_weights={work.folder}", f"--data_dir={work.data / 'triples'}", f"--run_dir={run_dir}",
        f"--pooling={pooling}", f"--normalize_vectors={'true' if normalized else 'false'}")
    exported = tmp_path / "exported"
    run("--mode=export", f"--input={run_dir}", f"--output={exported}", "--weights=last")
    texts = [row[0] for row in work.rows] + ["  the   cat ", "dog " * 40]
    model, report = transformers.AutoModel.from_pretrained(exported, output_loading_info=True)
    assert not report["unexpected_keys"] and all("pooler" in key for key in report["missing_keys"])
    assert all(not key.startswith(("roberta.", "bert.", "model.")) for key in load_file(exported / "model.safetensors"))
    work.tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
    with torch.no_grad():
        expected = work.vectors(model.eval(), [text.strip() for text in texts], pooling, normalized)
    found = found_vectors(exported, texts, tmp_path)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(found_vectors(run_dir / "model.safetensors", texts, tmp_path), found, rtol=0, atol=0)
    record("Models", f"vectors of {family.__name__}, exported, {pooling}", PEER, "1e-5",
           worst_difference(found, expected))

    modules = json.loads((exported / "modules.json").read_text(encoding="utf-8"))
    assert [(part["idx"], part["name"], part["path"], part["type"].split(".")[-1]) for part in modules] == [
        (0, "0", "", "Transformer"), (1, "1", "1_Pooling", "Pooling"), (2, "2", "2_Normalize", "Normalize")][:3 if normalized else 2]
    written = json.loads((exported / "1_Pooling/config.json").read_text(encoding="utf-8"))
    modes = {key: value for key, value in written.items() if key.startswith("pooling_mode_")}
    assert written["word_embedding_dimension"] == 32 and set(modes) == {f"pooling_mode_{mode}" for mode in (
        "cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")}
    assert [key for key, value in modes.items() if value] == [f"pooling_mode_{'cls_token' if pooling == 'cls' else 'mean_tokens'}"]
    assert json.loads((exported / "sentence_bert_config.json").read_text(encoding="utf-8")) == {
        "max_seq_length": LENGTH, "do_lower_case": False}


def test_a_run_resumes_and_has_the_same_bits_on_more_ranks(work, run_dir, tmp_path):
    """Negatives are those of a shard then, whoever computes it."""
    flags = (*DATA, f"--init_weights={work.folder}", f"--data_dir={work.data / 'triples'}", "--global_batch_size=10", "--elastic_shards=5",
             "--deterministic=elastic", "--max_steps=8", "--epochs=100", "--lr=0.003", "--dropout=0.1", "--eval_every_epochs=1",
             "--optimizer=adamw")
    run(*flags, f"--run_dir={tmp_path / 'one'}")
    run(*flags, f"--run_dir={run_dir}", "--nproc_per_node=3", "--limit_train_steps=5")
    run(*flags, f"--run_dir={run_dir}")
    assert sha256(run_dir / "model.safetensors") == sha256(tmp_path / "one/model.safetensors")
    values = [{name: value for name, value in metrics(folder, "val")[-1].items() if name in ("loss", "accuracy", "mrr")}
              for folder in (run_dir, tmp_path / "one")]
    assert values[0] == values[1] and len(values[0]) == 3


PAIR, SCORED, TRIPLE = "anchor\tpositive\n", "sentence1\tsentence2\tscore\n", "anchor\tpositive\tnegative\n"
BAD = [
    (TRIPLE + "a cat\ta dog\tthe film\na cat\ta dog\t\n", (), 3, "train.tsv line 3: the text in 'negative' is empty"),
    (TRIPLE + "a cat\ta dog\tthe film\n", ("--embedding_loss=cosine",), 3, "train.tsv has negatives, of which a score of two texts says nothing"),
    (PAIR + "a cat\ta dog\n", ("--embedding_loss=cosine",), 3, "train.tsv has no column that is known to hold scores"),
    (PAIR + "a cat\ta dog\n", ("--text_column=anchor",), 3, "one column of two texts that are alike is named"),
    (SCORED + "a cat\ta dog\t0.5\na cat\ta dog\t1.5\n", ("--score_scale=1",), 3, "train.tsv line 3: the score 1.5 is not within ±1.0"),
    (PAIR + "a cat\ta dog\nthe film\tthe story\n", ("--batch_size=1",), 2, "a batch of one pair has no negatives, so that nothing is learned"),
    (SCORED + "a cat\ta dog\t0.5\na dog\ta cat\t1\n", ("--val_split=train", "--best_metric=accuracy"), 2, "--best_metric=accuracy: split train has scores"),
]


@pytest.mark.parametrize("content, flags, code, sentence", BAD)
def test_bad_input_is_refused_in_one_sentence(work, tmp_path, run_dir, content, flags, code, sentence):
    (tmp_path / "train.tsv").write_text(content, encoding="utf-8")
    outcome = run(*DATA, f"--init_weights={work.folder}", f"--data_dir={tmp_path}", f"--run_dir={run_dir}", "--max_steps=1", "--lr=0.001",
                  "--optimizer=adamw", *flags, check=code)
    assert sentence in outcome.stderr, outcome.stderr
    assert not (run_dir / "model.safetensors").exists()


def make_folder(work, tmp_path):
    """As an older class of SentenceTransformer would write it: the first token's vector, of 9 tokens."""
    folder = tmp_path / "folder"
    (folder / "1_Pooling").mkdir(parents=True)
    for file in work.folder.iterdir():
        (folder / file.name).symlink_to(file)
    (folder / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]), encoding="utf-8")
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode": "cls"}', encoding="utf-8")
    (folder / "sentence_roberta_config.json").write_text('{"max_seq_length": 9}', encoding="utf-8")
    return folder


def test_a_folder_of_an_older_class_and_its_export(work, tmp_path):
    folder, exported = make_folder(work, tmp_path), tmp_path / "exported"
    prompts = '{"prompts": {"query": "a cat: "}, "default_prompt_name": null}'
    (folder / "config_sentence_transformers.json").write_text(prompts, encoding="utf-8")
    texts = [row[1] for row in work.rows]
    found = found_vectors(folder, texts, tmp_path)
    with torch.no_grad():
        inputs = work.tokenizer(texts, padding=True, truncation=True, max_length=9, return_tensors="pt")
        expected = loaded(work.folder).eval()(**inputs).last_hidden_state[:, 0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    record("Models", "vectors of roberta, an older folder", PEER, "1e-5", worst_difference(found, expected))
    run("--mode=export", f"--input={folder}", f"--output={exported}")
    torch.testing.assert_close(found_vectors(exported, texts, tmp_path), found, rtol=0, atol=0)
    assert (exported / "config_sentence_transformers.json").read_text(encoding="utf-8") == prompts
    assert json.loads((exported / "config.json").read_text(encoding="utf-8"))["architectures"] == ["RobertaModel"]
    (folder / "sentence_roberta_config.json").unlink()
    run("--mode=export", f"--input={folder}", f"--output={exported}")
    assert json.loads((exported / "sentence_bert_config.json").read_text(encoding="utf-8"))["max_seq_length"] == LENGTH  # its positions


@pytest.mark.parametrize("family, lowers", ((multilingual_e5, False), (bert, True)))
def test_folders_as_they_are_published(tmp_path, run_dir, family, lowers):
    """BGEs' say do_lower_case, which their tokenizer does as well."""
    torch.manual_seed(0)
    work = Work(tmp_path / "work", family)
    (work.folder / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]), encoding="utf-8")
    settings = {"max_seq_length": LENGTH, "do_lower_case": lowers}
    (work.folder / "sentence_bert_config.json").write_text(json.dumps(settings), encoding="utf-8")
    texts = [*(row[0] for row in work.rows), "The CAT"]
    with torch.no_grad():
        expected = work.vectors(loaded(work.folder).eval(), texts, normalized=False)
    found = found_vectors(work.folder, texts, tmp_path)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    record("Models", f"vectors of {family.__name__}, published", PEER, "1e-5", worst_difference(found, expected))
    run(*DATA, f"--init_weights={work.folder}", f"--data_dir={work.data / 'pairs'}", "--max_steps=1", "--lr=0", f"--run_dir={run_dir}")
    torch.testing.assert_close(found_vectors(run_dir, texts, tmp_path), found, rtol=0, atol=1e-6)
    run(*TRAINED, f"--init_weights={work.folder}", f"--data_dir={work.data / 'pairs'}", f"--run_dir={tmp_path / 'ten'}")
    assert_exact_steps(f"vectors of {family.__name__}, published, ten steps", TORCH, tmp_path / "ten",
                       lambda numbers: torch_losses(work, loaded(work.folder).to(numbers), "pairs"))


PARTS = {"modules.json": ("[{", "modules.json is not JSON"),
         "1_Pooling/config.json": ('{"pooling_mode_max_tokens": true}', "1_Pooling/config.json: pooling_mode_max_tokens is not known here"),
         "config_sentence_transformers.json": ('{"prompts": {"query": "a cat: "}, "default_prompt_name": "query"}',
                                               "default_prompt_name = query would put 'a cat: ' in front of each text"),
         **{f"sentence_{kind}_config.json": ('{"do_lower_case": true}', f"sentence_{kind}_config.json: do_lower_case = true is not known here")
            for kind in ("bert", "roberta")}}


@pytest.mark.parametrize("name", PARTS)
def test_what_does_not_fit_is_refused(work, tmp_path, name):
    content, sentence = PARTS[name]
    make_folder(work, tmp_path)
    (tmp_path / "texts.txt").write_text("a cat\n", encoding="utf-8")
    flags = ("--mode=predict", f"--init_weights={tmp_path / 'folder'}", f"--input={tmp_path / 'texts.txt'}")
    run(*flags, f"--features={tmp_path / 'out.npy'}")
    assert "predicts no labels" in run(*flags, f"--output={tmp_path / 'out.csv'}", check=2).stderr
    (tmp_path / "folder" / name).write_text(content, encoding="utf-8")
    assert sentence in run(*flags, f"--features={tmp_path / 'out.npy'}", check=2).stderr


def test_a_limited_validation_of_a_large_set_ranks_all_that_it_takes(tmp_path):
    """Only the first 8,184 of these vectors have places. If all second texts are one, the loss is the logarithm of their number."""
    tokenizer, weights = new_wordpiece(tmp_path, WORDS), tmp_path / "weights"
    wide = SMALL | {"hidden_size": 512, "num_hidden_layers": 1}
    transformers.BertModel(transformers.BertConfig(**wide, max_position_embeddings=LENGTH)).save_pretrained(weights)
    tokenizer.save_pretrained(weights)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "val.tsv").write_text("anchor\tpositive\n" + "good film\tlong story\n" * 40_000, encoding="utf-8")
    said = run("--mode=eval", *DATA, f"--init_weights={weights}", f"--data_dir={tmp_path / 'data'}", "--batch_size=8", "--limit_val_steps=4",
               f"--output={tmp_path / 'eval'}")
    assert json.loads((tmp_path / "eval" / "result.json").read_text(encoding="utf-8"))["val_loss"] == pytest.approx(numpy.log(32), rel=1e-3), said
