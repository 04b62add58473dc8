"""Sorts the kernels of a training step by what they do, from their names: our own, cuDNN's, cuBLAS's and PyTorch's."""

import re

OURS = r"dtrain::(?:models|optim|trainer)[\w:() ]*\b"
# The first expression that is found in a kernel's name decides.
FAMILIES = tuple((family, re.compile(expression)) for family, expression in (
    ("memcpy, memset", r"^Mem(cpy|set)\b"),
    ("optimizer", rf"FusedSgd|FusedAdam|FusedOptimizer|multi_tensor_apply|lpnorm|LpNorm|{OURS}\w*(Sgd|Adam|Update)\w*[<(]"),
    ("attention", r"sdpa|flash|fmha|[Aa]ttention|compute_dot_do_o|convert_dq_to_16bits|unpack_cudnn"),
    ("loss, softmax", rf"[Ss]oft[Mm]ax|nll_loss|{OURS}\w*(Loss|CrossEntropy)\w*[<(]"),
    ("pooling", rf"[Mm]ax_?[Pp]ool|[Aa]vg_?[Pp]ool|{OURS}Pool\w*[<(]"),
    ("depthwise", r"[Dd]epthwise|2d_c1_k1"),
    ("norms", rf"batch_?norm|layer_?norm|GammaBeta|RowwiseMoments|{OURS}(Statistics|Sum|Forward|Backward|\w*Norm\w*)[<(]"),
    ("units, rotations", rf"{OURS}(Activation\w*|Finish\w*|Rotate|Join)[<(]"),
    ("convolutions, products", r"xmma|cutlass|cask|nvjet|gemm|gemv|cublas|cudnn|wgrad|dgrad|fprop|convolve|nhwcAddPadding"
                               r"|nhwcToNchw|nchwToNhwc|splitKreduce"),
    ("embedding", r"embedding|compute_grad_weight|compute_num_of_partial|sum_and_scatter|krn_partial|cub::"),
    ("copies, casts", r"copy_kernel|CatArray|dtrain::data::kernels|[Tt]ranspose|gather|scatter|index|Index"),
    ("reductions", rf"reduce_kernel|{OURS}\w*(Column|Bias)\w*[<(]"),
    ("elementwise", r"elementwise|dropout|masked_scale|dtrain::"),
))
OTHERS = "others"
DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def family_of(name: str) -> str:
    return next((family for family, expression in FAMILIES if expression.search(name)), OTHERS)
