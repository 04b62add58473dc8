"""Every field of Hugging Face's config.json: a change of it gives transformers' logits here, too, or is refused. So do
sizes of images."""

import json
import os

import pytest
from huggingface_hub.errors import StrictDataclassError

import small_families
from small_roberta import PEER, WORDS, new_model, transformers
from beside_torch import TIMM, predict, timm, torch
from safetensors.torch import load_file, save_file

from command import run
from truth import record, worst_difference

IS_4 = transformers.__version__.startswith("4.")
INPUTS = {"images": torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1)),
          "input_ids": torch.randint(4, WORDS, (2, 9), generator=torch.Generator().manual_seed(1))}


def resnet():
    return transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=5))


def efficientnet():
    return transformers.EfficientNetForImageClassification(transformers.EfficientNetConfig(
        width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280, num_labels=5))


# By --model: the input, and how to make the model.
MODELS = {"resnet50": ("images", resnet), "tf_efficientnet_b0": ("images", efficientnet), "roberta": ("input_ids", new_model)}
if os.environ.get("DTRAIN_LONG_TESTS") == "1":
    MODELS["distilbert"] = ("input_ids", lambda: small_families.new_model("distilbert"))
    MODELS["modernbert"] = ("input_ids", lambda: small_families.new_model("modernbert"))
OF_EVERY_MODEL = transformers.PretrainedConfig().to_dict()
# Other values than `another` would give.
VALUES = {"layer_type": "basic", "hidden_act": "gelu_new", "pooling_type": "max", "position_embedding_type": "relative_key",
          "num_attention_heads": 2, "hidden_size": 64, "depths": [3, 4, 6, 2], "hidden_sizes": [256, 512, 1024, 1024],
          "depthwise_padding": [3], "strides": [1, 2, 2, 2, 2, 1, 1], "pruned_heads": {"0": [1]}, "pad_token_id": 2,
          "architectures": ["Other"], "id2label": {str(label): f"class {label}" for label in range(5)},
          "label2id": {f"class {label}": label for label in range(5)}, "task_specific_params": {"x": {"max_length": 5}},
          "dtype": "float16", "batch_norm_eps": 0.1, "layer_norm_eps": 0.1, "classifier_dropout": 0.5,
          "problem_type": "multi_label_classification", "out_features": ["stage4"], "out_indices": [4],
          "layer_types": ["full_attention", "full_attention", "sliding_attention", "full_attention"],
          "rope_parameters": {kind: {"rope_type": "default", "rope_theta": 500.0} for kind in ("sliding_attention", "full_attention")}}
# Refused although transformers' logits are the same: the words of another kind of model.
REFUSED = {"model_type", "is_encoder_decoder", "tie_encoder_decoder", "cross_attention_hidden_size", "add_cross_attention",
           "problem_type", "tie_word_embeddings", "pruned_heads", "is_decoder"}


def another(name: str, value):
    if name in VALUES:
        return VALUES[name]
    if value is None and name.endswith("_token_id"):
        return 3
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, list):
        return [*value[:-1], value[-1] + value[-1]]
    return value * 1.5 if isinstance(value, float) else value + type(value)(1)


def take_statistics(model) -> None:
    """Gives the norms affine parameters that differ from initial ones, and the statistics of random images: with others
    the logits of an EfficientNet that has not learned anything would hardly depend on the image."""
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in norms:
        torch.nn.init.uniform_(norm.weight, 0.5, 1.2)
        torch.nn.init.uniform_(norm.bias, -0.2, 0.2)
        norm.momentum = 1
    if norms:
        with torch.no_grad():
            model.train()(torch.randn(8, 3, 64, 64))


def logits(model, name: str):
    torch.manual_seed(0)
    with torch.no_grad():
        return model.eval()(INPUTS[name], return_dict=True).logits


def changed(model, config: dict, name: str):
    """Returns the logits of transformers' model with another config.json and the same weights; None if they do not fit."""
    try:
        with transformers.modeling_utils.no_init_weights() if IS_4 else transformers.initialization.no_init_weights():
            other = type(model)(type(model.config).from_dict(config))
        other.load_state_dict(model.state_dict(), strict=True)
        return logits(other, name)
    except (RuntimeError, ValueError, KeyError, AttributeError, StrictDataclassError):
        return None


@pytest.mark.parametrize("name", MODELS)
def test_each_field_is_followed_or_refused(tmp_path, name):
    kind, make = MODELS[name]
    torch.manual_seed(0)
    model = make()
    take_statistics(model)
    model.save_pretrained(tmp_path / "model")
    save_file({kind: INPUTS[kind]}, tmp_path / "in.safetensors")
    # Every field, and not only those that differ from the defaults.
    fields = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8")) | json.loads(model.config.to_json_string(use_diff=False))

    def logits_with(config: dict):
        (tmp_path / "model" / "config.json").write_text(json.dumps(config), encoding="utf-8")
        outcome = run("--mode=predict", f"--model={name}", f"--init_weights={tmp_path / 'model'}",
                      f"--input={tmp_path / 'in.safetensors'}", f"--output={tmp_path / 'out.safetensors'}", check=None)
        assert outcome.code in (0, 2), outcome
        return outcome.stderr if outcome.code else load_file(tmp_path / "out.safetensors")["logits"]

    expected, worst = logits(model, kind), 0.0
    harmless, refused, followed = {}, set(), set()
    for field, value in fields.items():
        if name != "roberta" and field in OF_EVERY_MODEL and field != "problem_type":
            continue  # the same table
        other = fields | {field: another(field, value)}
        theirs = changed(model, other, kind)
        is_same = theirs is not None and torch.allclose(theirs, expected, rtol=0, atol=1e-5)
        if is_same and field not in REFUSED:
            harmless[field] = other[field]
            continue
        found = logits_with(other)
        if isinstance(found, str):
            refused.add(field)
            assert field in found or theirs is None, f"{field}\n{found}"
            continue
        followed.add(field)
        assert theirs is not None, f"{field} is not for these weights"
        torch.testing.assert_close(found, theirs, rtol=1e-4, atol=1e-4)
        worst = max(worst, worst_difference(found, theirs))
    for config in (fields, fields | harmless | {"adapters": None}):
        found = logits_with(config)
        assert not isinstance(found, str), found
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        worst = max(worst, worst_difference(found, expected))
    assert len(refused) > 5 and len(harmless) > 2, (refused, followed, harmless)
    assert "the field adapters is not known here" in logits_with(fields | {"adapters": {}})
    record("Models", f"{name}, each field of a config.json", PEER, "1e-4 of logits of about 1, or refused", worst)


@pytest.fixture(scope="module")
def b1(module_dir):
    """Hugging Face's EfficientNet-B1, which pads block 16 for images of 240 pixels, and timm's with the same weights."""
    torch.manual_seed(0)
    theirs = transformers.EfficientNetForImageClassification(transformers.EfficientNetConfig(
        width_coefficient=1.0, depth_coefficient=1.1, hidden_dim=1280, depthwise_padding=[16], num_labels=5))
    take_statistics(theirs)
    theirs.save_pretrained(module_dir / "hf")
    run("--mode=export", "--model=tf_efficientnet_b1", f"--input={module_dir / 'hf'}", f"--output={module_dir / 'timm'}")
    return theirs.eval(), timm.create_model("tf_efficientnet_b1", num_classes=5, checkpoint_path=str(module_dir / "timm" / "model.safetensors")).eval()


@pytest.mark.parametrize("size", [(48, 80), (48, 57)])
def test_sizes_that_are_padded_otherwise(module_dir, tmp_path, b1, size):
    images = torch.randn(2, 3, *size)
    with torch.no_grad():
        theirs, timms = b1[0](images).logits, b1[1](images)
    is_same = torch.allclose(theirs, timms, rtol=1e-4, atol=1e-4)
    assert is_same == (size == (48, 80)), "or else this shows nothing"
    flags = ("--model=tf_efficientnet_b1", f"--input={tmp_path / 'in.safetensors'}")
    if is_same:
        found = predict({"images": images}, tmp_path, *flags, f"--init_weights={module_dir / 'hf'}")
    else:
        save_file({"images": images}, tmp_path / "in.safetensors")
        for weights in ("hf", "hf/model.safetensors"):
            outcome = run("--mode=predict", *flags, f"--init_weights={module_dir / weights}", f"--output={tmp_path / 'x.safetensors'}", check=2)
            assert "pads images as for 240 pixels" in outcome.stderr and "--image_size=240" in outcome.stderr
        save_file({"images": images, "labels": torch.tensor([0, 1])}, tmp_path / "train.safetensors")
        train = ("--max_steps=1", "--batch_size=2", f"--run_dir={tmp_path / 'run'}", "--model=tf_efficientnet_b1", f"--init_weights={module_dir / 'hf'}")
        assert "pads images" in run(*train, f"--data_dir={tmp_path}", check=2).stderr
        found = predict({"images": images}, tmp_path, *flags, f"--init_weights={module_dir / 'timm'}")
    torch.testing.assert_close(found, timms, rtol=1e-4, atol=1e-4)
    record("Models", f"tf_efficientnet_b1, images of {size[1]}×{size[0]}", PEER if is_same else TIMM,
           "1e-4 of logits of about 1", worst_difference(found, theirs if is_same else timms))
