"""Optimizers by their formulas: fairseq's `adam`, read in its release 0.12.2 (fairseq/optim/adam.py, the plain class, which
fairseq takes unless apex is installed), and StableAdamW, read in torch-optimi 0.3.3 (optimi/stableadamw.py), whose numbers
this class was once compared with."""

import math

from beside_torch import torch


class FairseqAdam(torch.optim.Optimizer):
    """m = β1·m + (1 − β1)·g;  v = β2·v + (1 − β2)·g²;  w −= lr·decay·w;  then
    w −= lr·√(1 − β2ᵗ)/(1 − β1ᵗ) · m/(√v + ε).  State and steps are float64, weights stay what they are."""

    def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for weight in (weight for weight in group["params"] if weight.grad is not None):
                state, gradient = self.state[weight], weight.grad.double()
                state["t"] = state.get("t", 0) + 1
                state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * gradient
                state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * gradient**2
                size = lr * math.sqrt(1 - beta2**state["t"]) / (1 - beta1**state["t"])
                moved = weight.double() * (1 - lr * group["weight_decay"])
                weight.copy_(moved - size * state["m"] / (state["v"].sqrt() + group["eps"]))


class StableAdamW(torch.optim.Optimizer):
    """β' = (βᵗ − β)/(βᵗ − 1) for both;  m = β1'·m + (1 − β1')·g;  v = β2'·v + (1 − β2')·g²;
    lr' = lr/max(1, √mean(g²/max(v, ε²)));  w −= lr'·decay·w;  then  w −= lr'·m/(√v + ε).  In float64 likewise."""

    def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})
        self.lowered = 0  # rates

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                state, gradient, eps = self.state[weight], weight.grad.double(), group["eps"]
                t = state["t"] = state.get("t", 0) + 1
                beta1, beta2 = ((beta**t - beta) / (beta**t - 1) for beta in group["betas"])
                state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * gradient
                state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * gradient**2
                excess = math.sqrt((gradient**2 / state["v"].clamp(min=eps**2)).mean())
                self.lowered += excess > 1
                lr = group["lr"] / max(1, excess)
                moved = weight.double() * (1 - lr * group["weight_decay"])
                weight.copy_(moved - lr * state["m"] / (state["v"].sqrt() + eps))
