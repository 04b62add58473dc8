"""How long a training step must take on this GPU at least, and how much of that its own step reaches.

The floor of a step is its products at the speed of a large bf16 product, and then the bytes that everything else must
read and write at the speed of a copy. What products read and write is not counted: it overlaps with their arithmetic.
"""

from dataclasses import dataclass

from workloads import EFFICIENTNET, RESNET50, ROBERTA, ROBERTA_LARGE, TINY_IMAGES, TINY_TEXT, Case, Workload

HALF, FLOAT = 2, 4
# SGD reads and writes a weight and its momentum, reads the gradient and writes the weight's half copy; AdamW has two
# moments. Of a gradient in half precision a float one is made.
SGD_BYTES = 2 * 2 * FLOAT + FLOAT + HALF + (HALF + FLOAT)
ADAMW_BYTES = SGD_BYTES + 2 * FLOAT


@dataclass(frozen=True)
class Traffic:
    """Elements of a half type that are read or written for one sample (an image or a token), and bytes of a step, in
    millions each."""
    elements_of_sample: float
    bytes_of_step: float


def roberta(layers: int, hidden: int, weights: float) -> Traffic:
    """A layer has two passes of dropout, residual and LayerNorm (forward: read two, write the sum and the result; backward:
    read two gradients and the sum, write one), one of GELU on four times the width (forward: read, write; backward: read
    two, write one), and reads the gradients of products with biases for them (three, one, four and one widths). The
    scores of the vocabulary, for the 15 % of the tokens that are masked, are read, read again and written."""
    width = 2 * (4 + 4) + 4 * (2 + 3) + (3 + 1 + 4 + 1)
    head = 0.15 * 50304 * 3
    return Traffic((layers * width * hidden + head) / 1e6, weights * ADAMW_BYTES)


# ResNet-50, elements in millions an image (docs/performance.md has the kernels): 11.11 are normalised, of which 3.29 have
# ReLU alone, 5.52 end a block (1.51 of them with a normalised shortcut), 1.51 are shortcuts and 0.80 are pooled.
# Each is read and written 1 + 2.06 + 2.06 + 3.06 times with ReLU alone, 1 + 3.06 + 4.06 + 3 at a block's end,
# 1 + 0 + 2 + 3 in a shortcut, 1 + 1.4 + 1.6 + 2.6 when pooled: statistics, forward, sums, gradients.
RESNET50_ELEMENTS = 3.29 * 8.18 + 5.52 * 11.12 + 1.51 * 6 + 0.80 * 6.6
# EfficientNet-B0: 6.74 are normalised (8 times each: statistics 1, forward 2, sums 2, gradients 3). Depthwise
# convolutions have few products: 3.79 go in and 2.31 come out (each is touched by the convolution, and by the gradients
# of its input and of its weights). Squeeze-excitation scales 2.31 (the mean reads, scaling reads and writes; backward
# reads two and writes one). 0.21 are residuals (forward reads one, backward reads two and writes one).
EFFICIENTNET_ELEMENTS = 6.74 * 8 + (3.79 + 2.31) * 3 + 2.31 * 6 + 0.21 * 4
TRAFFIC: dict[Workload, Traffic] = {
    RESNET50: Traffic(RESNET50_ELEMENTS, 25.6 * SGD_BYTES),
    EFFICIENTNET: Traffic(EFFICIENTNET_ELEMENTS, 5.3 * SGD_BYTES),
    ROBERTA: roberta(12, 768, 124.7),
    ROBERTA_LARGE: roberta(24, 1024, 355.4),
    TINY_IMAGES: Traffic(0.01, 11.2 * SGD_BYTES),  # not more than an estimate, as --smoke's
    TINY_TEXT: roberta(2, 128, 0.5),
}


def request(on_gpu: bool) -> dict:
    """Returns what measures the limits of the device."""
    return {"limits": True, "size": 8192 if on_gpu else 256, "times": 20 if on_gpu else 1}


def roof(case: Case, step: dict, limits: dict) -> dict:
    """`step` is what dtrain_bench measured, `limits` is the answer to the request above."""
    traffic = TRAFFIC[case.workload]
    milliseconds = step["step_milliseconds"]
    samples = case.batch_size * (case.workload.tokens_per_sample or 1)
    moved = 1e6 * (HALF * traffic.elements_of_sample * samples + traffic.bytes_of_step)
    products = step["achieved_tflops"] * 1e12 * milliseconds / limits["flops_per_second"]
    copies = 1000 * moved / limits["bytes_per_second"]
    share = (products + copies) / milliseconds
    return {"products_milliseconds": products, "bytes": moved, "bytes_milliseconds": copies, "share_of_roof": share,
            "text": f"floor {products + copies:.1f} ms (products {products:.1f}, {moved / 1e9:.1f} GB {copies:.1f}), "
                    f"{100 * share:.0f} % of it reached"}
