"""A tiny RoBERTa of transformers for the tests beside it."""

import pytest

from beside_torch import torch

transformers = pytest.importorskip("transformers", reason="scripts/setup.sh --tests installs it")

WORDS = 60
LENGTH = 16


def new_model(seed: int = 0):
    """Makes a tiny model without dropout, whose biases and norms differ from initial ones."""
    config = transformers.RobertaConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=LENGTH + 2, type_vocab_size=1, layer_norm_eps=1e-5, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0)
    torch.manual_seed(seed)
    model = transformers.RobertaForMaskedLM(config)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def loaded(folder):
    return transformers.RobertaForMaskedLM.from_pretrained(folder)


@pytest.fixture(scope="module")
def folder(module_dir):
    """The folder that save_pretrained writes."""
    new_model().save_pretrained(module_dir / "model")
    return module_dir / "model"
