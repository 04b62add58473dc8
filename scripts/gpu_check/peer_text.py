"""Hugging Face's RoBERTa, for peer.py: a masked language model on one batch of random tokens that stays on the device."""

import os

import torch

os.environ.setdefault("USE_TF", "0")  # transformers would load TensorFlow if it is installed
MASKED = 0.15
# The differences from RobertaConfig's defaults, which are those of roberta_base.
SHAPES = {
    "roberta_tiny": {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512},
    "roberta_base": {},
    "roberta_large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
}


def model_of(arguments) -> torch.nn.Module:
    from transformers import RobertaConfig, RobertaForMaskedLM

    config = RobertaConfig(vocab_size=arguments.vocab_size, max_position_embeddings=arguments.tokens_per_sample + 2,
                           type_vocab_size=1, attn_implementation=arguments.attention, **SHAPES[arguments.model])
    return RobertaForMaskedLM(config).to(arguments.device).train()


def batches(arguments):
    shape = (arguments.batch_size, arguments.tokens_per_sample)
    ids = torch.randint(4, arguments.vocab_size, shape, device=arguments.device)
    labels = ids.masked_fill(torch.rand(shape, device=arguments.device) >= MASKED, -100)
    while True:
        yield ids, labels


def loss_of(forward, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return forward(input_ids=ids, labels=labels).loss


def optimizer_of(parameters, cuda: bool) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01, fused=True if cuda else None)
