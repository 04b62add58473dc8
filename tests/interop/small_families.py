"""Tiny models of transformers of each family of text beside RoBERTa: a family is a row."""

from beside_torch import torch
from small_roberta import LENGTH, WORDS, stirred, transformers

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ROBERTA = SIZES | NO_DROPOUT | {"max_position_embeddings": LENGTH + 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
# By --model: the beginning of transformers' classes, and the fields of the configuration.
FAMILIES = {
    "bert": ("Bert", SIZES | NO_DROPOUT | {"max_position_embeddings": LENGTH}),
    "distilbert": ("DistilBert", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "dropout": 0.0, "attention_dropout": 0.0,
                                  "seq_classif_dropout": 0.0, "max_position_embeddings": LENGTH}),
    "xlm_roberta": ("XLMRoberta", ROBERTA),
    "camembert": ("Camembert", ROBERTA | {"bos_token_id": 5, "eos_token_id": 6}),
    # The second and third of four layers have windows of two tokens at each side.
    "modernbert": ("ModernBert", SIZES | {"num_hidden_layers": 4, "local_attention": 4, "max_position_embeddings": LENGTH,
                                          "pad_token_id": 0, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3,
                                          "sep_token_id": 3, "classifier_pooling": "mean"}),
}


def class_of(family: str, head: str):
    return getattr(transformers, FAMILIES[family][0] + head)


def new_model(family: str, head: str = "ForMaskedLM", **more):
    """Makes a tiny model without dropout, whose biases and norms differ from initial ones."""
    classes, fields = FAMILIES[family]
    config = getattr(transformers, f"{classes}Config")(**{"vocab_size": WORDS} | fields | more)
    torch.manual_seed(0)
    return stirred(class_of(family, head)(config)).eval()


def new_rows(family: str, count: int = 16) -> dict:
    """Rows of unequal length, with token types where the family has them, and labels for some of the tokens."""
    config = new_model(family).config
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(7, WORDS, (count, LENGTH), generator=generator)
    lengths = torch.randint(3, LENGTH + 1, (count,), generator=generator)
    lengths[0] = LENGTH
    places = torch.arange(LENGTH)
    mask = places < lengths[:, None]
    ids[~mask] = config.pad_token_id
    guessed = (torch.rand(count, LENGTH, generator=generator) < 0.4) & mask
    rows = {"input_ids": ids, "attention_mask": mask.long(),
            "labels": torch.where(guessed, torch.randint(7, WORDS, (count, LENGTH), generator=generator), -100)}
    if getattr(config, "type_vocab_size", 0) > 1:
        rows["token_type_ids"] = ((places >= lengths[:, None] // 2) & mask).long()
    return rows
