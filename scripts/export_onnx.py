#!/usr/bin/env python3
"""Writes a trained model as an ONNX file: PyTorch's exporter, given the class of torchvision, timm or transformers.

    scripts/export_onnx.py runs/p --output=model.onnx                     a run: the weights of its best validation
    scripts/export_onnx.py runs/p --output=model.onnx -- --weights=ema    what stands behind -- is for dtrain_main
    scripts/export_onnx.py weights.safetensors --output=model.onnx -- --image_size=192

The input is what dtrain_main --mode=export takes: a run, a checkpoint, a file or folder of weights. The ONNX file has

    images (batch × 3 × height × width, normalised floats)         → logits (batch × classes)
    input_ids, attention_mask (batch × length, whole numbers)      → logits (batch × length × tokens, or batch × classes)

a BERT also token_type_ids (0, and 1 in the second text of a pair). In place of logits, a --task=sentence_embedding gives
sentence_embedding (batch × hidden), and an encoder without a head last_hidden_state (batch × length × hidden). Batch and
length are any (the images' size is the run's), the opset is 18. Metadata say how to prepare the input, under the names of dtrain_main's flags: model,
image_size, crop, eval_resize (if images are resized before they are cropped), interpolation, mean, std and class_names (lists as JSON); for text, config (transformers'
config.json). A file without settings of a run gets the flags' defaults: name others. Weights of more than 1.5 GiB lie in
FILE.onnx.data, since no ONNX file is larger than 2 GiB: the two belong together, under these names.

Needs torch, onnx and onnxscript, for images torchvision, or timm if that lacks the model, transformers for text (versions:
tests/requirements.txt).
Exit codes: those of dtrain_main.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from safe_files import INTERNAL, Failure, Parser, exit_code, has_mark, output_file, parse_json, replace, shown

HINT = "pip install torch torchvision timm transformers safetensors onnx onnxscript"
os.environ["USE_TF"] = "0"  # transformers would import an installed TensorFlow
try:
    import onnxscript  # noqa: F401  PyTorch's exporter imports it
    import torch
    from safetensors.torch import load_file
except ModuleNotFoundError as error:
    print(f"error: Python has no {error.name}\n  what to do: {HINT}", file=sys.stderr)
    sys.exit(2)

ROOT = Path(__file__).resolve().parents[1]
BUILT = [folder / "bin" / "dtrain_main" for folder in (ROOT / "build" / "release", ROOT)]  # in the sources, and in a bundle
OPSET = 18
MARK = "exported_by"  # the key in the file's metadata by which it is known again, and may be replaced
MOST_IN_ONE_FILE = 3 << 29  # bytes of weights; beyond it, PyTorch's exporter itself takes a second file
IMAGE_SETTINGS = ("image_size", "crop", "eval_resize", "interpolation", "mean", "std")


def parse_arguments() -> argparse.Namespace:
    words = sys.argv[1:]
    behind = words.index("--") if "--" in words else len(words)
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=Path, metavar="INPUT", help="a run, a checkpoint, a file or folder of weights")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.onnx", help="file to write")
    built = next((str(path) for path in BUILT if path.exists()), None)
    parser.add_argument("--program", default=built or shutil.which("dtrain_main") or str(BUILT[0]), metavar="FILE",
                        help="path of dtrain_main (default: the one built here, else that of PATH)")
    arguments = parser.parse_args(words[:behind])
    arguments.flags = words[behind + 1:]
    return arguments


class Exporter:
    """Runs dtrain_main --mode=export, which knows the weights of runs, checkpoints and other programs."""

    def __init__(self, arguments: argparse.Namespace):
        self._output = arguments.output
        self._command = [arguments.program, "--mode=export", f"--input={arguments.input}", *arguments.flags]

    def run(self, output: str, *flags: str, quiet: bool = False) -> str:
        """Returns what it prints on stdout. What it logs is shown, unless `quiet`; its error always is. `output` is a
        temporary place, and called by the name of the ONNX file."""
        try:
            done = subprocess.run([*self._command, f"--output={output}", *flags], capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise Failure(f"{self._command[0]} cannot be run: {error.strerror}", "build it: scripts/build.sh, or name it with --program") from None
        if done.returncode != 0 or not quiet:
            print(done.stderr.replace(output, shown(self._output)), end="", file=sys.stderr)  # dtrain_main has escaped the names of others
        if done.returncode < 0:
            raise Failure(f"{self._command[0]} was ended by signal {-done.returncode}", "see its message above", INTERNAL)
        if done.returncode != 0:
            sys.exit(done.returncode)
        return done.stdout


class TextModel(torch.nn.Module):
    """transformers' model with one output: the logits, or of an encoder its hidden states or, in a folder of
    sentence-transformers, the vector of each text."""

    def __init__(self, model, folder: Path):
        super().__init__()
        self.model = model
        self.output = "logits"
        if type(model).__name__.endswith("Model"):
            self.output = "sentence_embedding" if (folder / "modules.json").exists() else "last_hidden_state"
        if self.output == "sentence_embedding":
            self.by_first = parse_json((folder / "1_Pooling" / "config.json").read_bytes())["pooling_mode_cls_token"]
            self.normalizes = any(part["type"].endswith(".Normalize") for part in parse_json((folder / "modules.json").read_bytes()))

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        found = self.model(input_ids=input_ids, attention_mask=attention_mask, **types)
        if self.output == "logits":
            return found.logits
        found = found.last_hidden_state
        if self.output != "sentence_embedding":
            return found
        counted = attention_mask.unsqueeze(-1).to(found.dtype)
        vectors = found[:, 0] if self.by_first else (found * counted).sum(1) / counted.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(vectors) if self.normalizes else vectors


def text_model(folder: Path, config: dict):
    import transformers

    model = TextModel(getattr(transformers, config["architectures"][0]).from_pretrained(folder), folder)
    longest = config["max_position_embeddings"]
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and module.padding_idx is not None:  # positions are counted behind it
            longest -= module.padding_idx + 1
    ids = torch.zeros((2, min(9, longest)), dtype=torch.long)  # any numbers: they are not part of the file
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if config.get("type_vocab_size", 1) > 1:
        inputs["token_type_ids"] = torch.zeros_like(ids)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=longest)}
    return model, inputs, sizes, {"config": config}


def pad_as_tensorflow(model) -> None:
    """Gives a torchvision EfficientNet the padding and the ε of timm's tf_efficientnet models."""
    def pad(conv, inputs):
        padding = []
        for size, kernel, stride in zip(inputs[0].shape[:1:-1], conv.kernel_size[::-1], conv.stride[::-1]):
            together = max(0, (-(-size // stride) - 1) * stride + kernel - size)
            padding += [together // 2, together - together // 2]
        return (torch.nn.functional.pad(inputs[0], padding),)

    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eps = 1e-3
        if isinstance(module, torch.nn.Conv2d) and module.stride != (1, 1):
            module.padding = (0, 0)
            module.register_forward_pre_hook(pad)


def image_network(exporter: Exporter, folder: Path, config: dict, size: int):
    """Returns torchvision's model, or timm's if torchvision has none of this name."""
    import torchvision

    name, classes, file = config["architecture"], config["num_classes"], folder / "weights.safetensors"
    theirs = name.removeprefix("tf_").replace("netv2_", "net_v2_")
    is_torchvisions = theirs in torchvision.models.list_models(torchvision.models)
    exporter.run(str(file), f"--weights_naming={'torchvision' if is_torchvisions else 'timm'}", quiet=True)
    if is_torchvisions:
        model = torchvision.models.get_model(theirs, weights=None, num_classes=classes)
    else:
        import timm

        model = timm.create_model(name, num_classes=classes)
    model.load_state_dict(load_file(file))
    if is_torchvisions and name.startswith("tf_"):
        pad_as_tensorflow(model)
    if hasattr(model, "set_input_size"):  # of a transformer, whose positions are resized as here
        model.set_input_size((size, size))
    return model


def image_model(exporter: Exporter, folder: Path, config: dict):
    settings = parse_json(exporter.run(str(folder / "weights.safetensors"), "--print_config", quiet=True))
    evaluated = config["pretrained_cfg"]  # training may have another size and filter
    settings |= {"image_size": evaluated["input_size"][1], "interpolation": evaluated["interpolation"]}
    size = settings["image_size"]
    model = image_network(exporter, folder, config, size)
    if settings["bn_eps"] is not None:  # dtrain_main's flag, which the weights have where there are variances
        for norm in (one for one in model.modules() if isinstance(one, torch.nn.LayerNorm)):
            norm.eps = settings["bn_eps"]
    metadata = {"model": config["architecture"]} | {name: settings[name] for name in IMAGE_SETTINGS}
    if settings["crop"] != "resized":
        del metadata["eval_resize"]
    if "label_names" in config["pretrained_cfg"]:
        metadata["class_names"] = config["pretrained_cfg"]["label_names"]
    return model, {"images": torch.zeros(2, 3, size, size)}, {0: torch.export.Dim("batch")}, metadata


def weights_file(output: Path) -> Path:
    return output.with_name(f"{output.name}.data")


def write(output: Path, folder: Path, model: torch.nn.Module, inputs: dict, sizes: dict, metadata: dict) -> None:
    """Writes the ONNX file and, if it would be too large, that of its weights; first into a temporary folder."""
    is_large = sum(one.nbytes for one in model.state_dict().values()) > MOST_IN_ONE_FILE
    beside = weights_file(output)
    is_there = os.path.lexists(beside)
    is_own = output.is_file() and output.stat().st_size > 0 and has_mark(output, beside.name.encode())
    if is_large and is_there and not is_own:
        raise Failure(f"{beside} exists, and this script did not write it", "name another file to write, or move it away")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch about its own code
        program = torch.onnx.export(model.eval(), tuple(inputs.values()), input_names=list(inputs), output_names=[getattr(model, "output", "logits")],
                                    dynamic_shapes=tuple(sizes for _ in inputs), opset_version=OPSET, dynamo=True, verbose=False)
    for node in program.model.graph:
        node.metadata_props.clear()  # traces of PyTorch's code, with the names of this machine's folders
    program.model.metadata_props[MARK] = "dtrain"
    program.model.metadata_props.update({name: one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)
                                         for name, one in metadata.items()})
    draft = folder / output.name
    program.save(draft, external_data=is_large)
    for file, target in ((weights_file(draft), beside), (draft, output)):
        if file.exists():
            replace(target, file.read_bytes())
    if is_there and is_own and not is_large:  # of the larger model that was here before
        beside.unlink()


def main() -> int:
    arguments = parse_arguments()
    output_file(arguments.output, [".onnx"], [arguments.input], MARK.encode())
    exporter = Exporter(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        exporter.run(f"{folder / 'folder'}/")
        config = parse_json((folder / "folder" / "config.json").read_bytes())
        try:
            found = image_model(exporter, folder, config) if "architecture" in config else text_model(folder / "folder", config)
        except ModuleNotFoundError as error:
            raise Failure(f"Python has no {error.name}", HINT) from None
        model, inputs, sizes, metadata = found
        write(arguments.output, folder, model, inputs, sizes, metadata)
    named = [size.__name__ for size in sizes.values()]
    shape = " × ".join([*named, *map(str, next(iter(inputs.values())).shape[len(named):])])
    print(f"{shown(arguments.output)}: {', '.join(inputs)} ({shape}) → {getattr(model, 'output', 'logits')}, opset {OPSET}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
