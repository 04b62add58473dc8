"""A tiny RoBERTa of transformers for the tests beside it."""

import pytest

from beside_torch import plain_losses, torch

transformers = pytest.importorskip("transformers", reason="scripts/setup.sh --tests installs it")

PEER = f"transformers {transformers.__version__}"
WORDS = 60
BPE_SIZE = 300  # tokens of new_tokenizer()
LENGTH = 16
TEN_STEPS = ("--optimizer=adamw", "--lr=0.003", "--adam_betas=0.9,0.999", "--adam_eps=1e-8", "--weight_decay=0.01",
             "--decay_norm_and_bias", "--lr_schedule=poly", "--poly_power=1", "--shuffle=none", "--log_interval=1",
             "--max_steps=10", "--epochs=1000", "--save_every_epochs=0", "--eval_every_epochs=0")


def new_config(length: int = LENGTH, vocab_size: int = BPE_SIZE, labels: list = (), **more):
    """Makes the configuration of a tiny model without dropout; with `labels`, of a classifier."""
    if labels:
        more |= {"id2label": dict(enumerate(labels)), "label2id": {name: label for label, name in enumerate(labels)}}
    return transformers.RobertaConfig(
        vocab_size=vocab_size, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=length + 2, type_vocab_size=1, layer_norm_eps=1e-5, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, **more)


def stirred(model):
    """Returns the model, whose biases and norms then differ from initial ones."""
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def new_model(seed: int = 0):
    torch.manual_seed(seed)
    return stirred(transformers.RobertaForMaskedLM(new_config(vocab_size=WORDS)))


def new_tokenizer(folder, words: list):
    """Writes the files of a byte-level BPE that knows some words into `folder`/bpe, and returns their names."""
    tokenizers = pytest.importorskip("tokenizers")
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train_from_iterator([" ".join(words)] * 5, vocab_size=BPE_SIZE,
                                special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    (folder / "bpe").mkdir()
    return trained.save_model(str(folder / "bpe"))


def new_wordpiece(folder, words: list):
    """Writes BERT's vocab.txt, in which words are whole or of two pieces, and returns its tokenizer."""
    pieces = [word[:3] for word in words] + [f"##{word[3:]}" for word in words if len(word) > 3]
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(pieces)]) + "\n", encoding="utf-8")
    return transformers.BertTokenizerFast(str(folder / "vocab.txt"))


def loaded(folder):
    return transformers.RobertaForMaskedLM.from_pretrained(folder)


@pytest.fixture(scope="module")
def folder(module_dir):
    """The folder that save_pretrained writes."""
    new_model().save_pretrained(module_dir / "model")
    return module_dir / "model"


def adamw_losses(groups, loss_of) -> list[float]:
    """Returns the losses of TEN_STEPS in a script as Hugging Face has them; `loss_of` takes the number of a step."""
    optimizer = torch.optim.AdamW(groups, lr=0.003, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    return plain_losses(optimizer, loss_of, 10, transformers.get_linear_schedule_with_warmup(optimizer, 0, 10))
