"""Weights in both directions: files of torchvision, timm and plain training scripts are read here, weights that are
trained here are loaded there, and the numbers stay the same."""

import argparse
import csv
import json
import os
from collections import OrderedDict

import numpy
import PIL.Image
import pytest

from safetensors.torch import load_file, save_file

import beside_torch
from beside_torch import TIMM, TORCHVISION, assert_logits, randomise_norms, timm, torch, torchvision
from small_roberta import PEER, transformers
from command import load_json, run

CLASSES = 7
SYNTHETIC = ("--data_format=synthetic", "--image_size=32", "--batch_size=2", "--max_steps=1")
LONG = os.environ.get("DTRAIN_LONG_TESTS") == "1"


def randomised(model, seed: int = 0):
    """Gives a model other numbers than initial ones, and logits of about 1."""
    torch.manual_seed(seed)
    randomise_norms(model)
    model.eval()
    classifier = [module for module in model.modules() if isinstance(module, torch.nn.Linear)][-1]
    with torch.no_grad():
        classifier.weight /= logits_of(model, torch.randn(2, 3, 64, 64)).std()
    return model


def predict(name, weights, images, folder, *flags):
    return beside_torch.predict({"images": images}, folder, f"--model={name}", f"--init_weights={weights}", *flags)


def logits_of(model, images):
    """Of a model of timm, torchvision or transformers."""
    with torch.no_grad():
        found = model.eval()(images)
    return getattr(found, "logits", found)


@pytest.fixture(scope="module")
def images():
    return torch.randn(3, 3, 64, 80, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def small():
    return randomised(torchvision.models.resnet18(num_classes=CLASSES))


# ---- timm's names, in both directions ----------------------------------------------------------------------------------


# The others have more blocks (counted in tests/models/registry_test.cc), and from B5 on another ε (initial_weights_test.cc).
# test_steps_of_truth.py trains a ResNet-50 of torchvision.
SIZES = (("resnet", (18, 34, 50, 101, 152) if LONG else (18,)), ("efficientnet_b", range(8) if LONG else (0,)))


@pytest.mark.parametrize("name", [f"{family}{size}" for family, sizes in SIZES for size in sizes])
def test_logits_are_timms_and_torchvisions_under_their_names(tmp_path, images, name):
    theirs = randomised(timm.create_model(name, num_classes=CLASSES))
    torch.save(theirs.state_dict(), tmp_path / "timm.pth")
    expected = logits_of(theirs, images)
    found = predict(name, tmp_path / "timm.pth", images, tmp_path)
    assert_logits(found, expected, name, f"{TIMM}, its weights read here")

    ours = randomised(getattr(torchvision.models, name)(num_classes=CLASSES), seed=1)
    save_file(ours.state_dict(), tmp_path / "ours.safetensors")
    assert_logits(predict(name, tmp_path / "ours.safetensors", images, tmp_path), logits_of(ours, images), name, TORCHVISION)
    for module in ours.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eps = 0.01
    run("--mode=export", f"--input={tmp_path / 'ours.safetensors'}", f"--output={tmp_path / 'exported.pt'}",
        "--weights_naming=timm", f"--model={name}", "--bn_eps=0.01")
    state = torch.load(tmp_path / "exported.pt", weights_only=True)
    assert type(state) is OrderedDict and list(state) == list(theirs.state_dict())
    theirs.load_state_dict(state, strict=True)
    found, expected = logits_of(theirs, images), logits_of(ours, images)
    assert_logits(found, expected, name, f"{TIMM}, weights exported here")


def scattered(model, seed: int = 0):
    """Gives each weight a part that no initialisation gives, so that none can stand for another."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data += (0.2 if parameter.dim() == 1 else 0.02) * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def of_size(height: int, width: int):
    return torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(height))


OF_ANY_SIZE = {"dynamic_img_size": True}  # timm's option of those with positions


# Images of other sizes than a model's own (test_families_under_the_names_of_others), between whose patches positions lie, or
# of whose rows some remain.
@pytest.mark.parametrize("name, size, options", [
    ("deit_tiny_distilled_patch16_224", (240, 256), OF_ANY_SIZE), ("vit_small_patch14_reg4_dinov2", (28, 56), OF_ANY_SIZE),
    ("convnext_atto", (57, 64), {}), *([
        ("vit_tiny_patch16_224", (224, 224), OF_ANY_SIZE), ("convnextv2_atto", (64, 49), {}),
        ("vit_tiny_patch16_384", (48, 80), OF_ANY_SIZE), ("deit3_small_patch16_224", (64, 32), OF_ANY_SIZE),
        ("vit_medium_patch16_gap_240", (80, 80), OF_ANY_SIZE), ("vit_small_patch14_dinov2", (42, 28), OF_ANY_SIZE),
        ("convnextv2_tiny", (40, 40), {})] if LONG else []),
])
def test_logits_of_families_are_timms(tmp_path, name, size, options):
    theirs = scattered(timm.create_model(name, num_classes=CLASSES, **options))
    timm.models.save_for_hf(theirs, tmp_path / "timm", safe_serialization=True)
    pixels = of_size(*size)
    expected = logits_of(theirs, pixels)
    assert expected.std() > 0.1
    whose = f"{TIMM}, its weights read here, images of {size[1]}×{size[0]}"
    assert_logits(predict(name, tmp_path / "timm", pixels, tmp_path), expected, name, whose)
    run("--mode=export", f"--input={tmp_path / 'timm'}", f"--output={tmp_path / 'again'}")  # config.json says which of those with its shapes
    again = timm.create_model(load_json(tmp_path / "again" / "config.json")["architecture"], num_classes=CLASSES, **options,
                              checkpoint_path=str(tmp_path / "again" / "model.safetensors"))
    assert_logits(logits_of(again, pixels), expected, name, f"{TIMM}, the exported folder")


VIT = {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768, "num_labels": CLASSES,
       "layer_norm_eps": 1e-6}
ATTO = {"depths": [2, 2, 6, 2], "hidden_sizes": [40, 80, 160, 320], "num_labels": CLASSES}
OTHERS = {  # by naming and model
    ("torchvision", "vit_tiny_patch16_224"): lambda: torchvision.models.VisionTransformer(224, 16, 12, 3, 192, 768, num_classes=CLASSES),
    ("torchvision", "convnext_tiny"): lambda: torchvision.models.convnext_tiny(num_classes=CLASSES),
    ("torchvision", "efficientnetv2_s"): lambda: torchvision.models.efficientnet_v2_s(num_classes=CLASSES),
    ("hf", "vit_tiny_patch16_224"): lambda: transformers.ViTForImageClassification(transformers.ViTConfig(**VIT)),
    ("hf", "deit_tiny_distilled_patch16_224"):
        lambda: transformers.DeiTForImageClassificationWithTeacher(transformers.DeiTConfig(**VIT)),
    ("hf", "convnext_tiny"): lambda: transformers.ConvNextForImageClassification(transformers.ConvNextConfig(num_labels=CLASSES)),
    ("hf", "convnextv2_atto"): lambda: transformers.ConvNextV2ForImageClassification(transformers.ConvNextV2Config(**ATTO)),
}


@pytest.mark.parametrize("naming, name", [one for one in OTHERS if LONG or one != ("hf", "convnext_tiny")])
def test_families_under_the_names_of_others(tmp_path, naming, name):
    make, side = OTHERS[naming, name], 224 if name.startswith(("vit", "deit")) else 64
    theirs, pixels = scattered(make()), of_size(side, side)
    randomise_norms(theirs)

    source = tmp_path / ("theirs.pth" if naming == "torchvision" else "theirs")
    if naming == "torchvision":
        torch.save(theirs.state_dict(), source)
    else:
        theirs.save_pretrained(source)
    expected = logits_of(theirs, pixels)
    assert expected.std() > 0.1
    assert_logits(predict(name, source, pixels, tmp_path, f"--weights_naming={naming}"), expected, name, f"{naming}, its weights read here")
    run("--mode=export", f"--input={source}", f"--output={tmp_path / 'timm.pt'}", f"--model={name}", "--weights_naming=timm")
    in_timm = timm.create_model(name, num_classes=CLASSES)
    in_timm.load_state_dict(torch.load(tmp_path / "timm.pt", weights_only=True), strict=True)
    assert_logits(logits_of(in_timm, pixels), expected, name, f"{TIMM}, {naming}'s weights exported here")
    back = tmp_path / ("back.pt" if naming == "torchvision" else "back")
    run("--mode=export", f"--input={tmp_path / 'timm.pt'}", f"--output={back}", f"--model={name}", f"--weights_naming={naming}")
    if naming == "hf":
        again, info = transformers.AutoModelForImageClassification.from_pretrained(back, output_loading_info=True)
        assert type(again) is type(theirs) and not any(info.values()), info
    else:
        again = make()
        again.load_state_dict(torch.load(back, weights_only=True), strict=True)
    assert_logits(logits_of(again, pixels), expected, name, f"{naming}, weights exported here")
    if naming == "hf":
        torch.save(theirs.state_dict(), tmp_path / "modules.pth")  # other names in transformers 5 than those of its files
        run("--mode=export", f"--input={tmp_path / 'modules.pth'}", f"--output={tmp_path / 'same.pt'}", f"--model={name}", "--weights_naming=timm")
        torch.testing.assert_close(torch.load(tmp_path / "same.pt", weights_only=True), in_timm.state_dict(), rtol=0, atol=0)
        other = ("--mode=export", f"--input={tmp_path / 'timm.pt'}", f"--model={name}", "--bn_eps=0.01")
        assert "the epsilon of the norms, 0.01, is not in the weights" in run(*other, f"--output={tmp_path / 'other.pt'}").stderr
        into_folder = run(*other, f"--output={tmp_path / 'other'}", "--weights_naming=hf", check=None)
        if "convnext" in name:  # of transformers' the last norm alone has the config's
            assert "not --bn_eps=0.01" in into_folder.stderr and into_folder.code == 2
        else:
            loaded = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "other")
            found = predict(name, tmp_path / "other", pixels, tmp_path)
            assert_logits(found, logits_of(loaded, pixels), name, f"{PEER}, the exported folder of another epsilon")
        photo = PIL.Image.fromarray(numpy.random.default_rng(0).integers(0, 256, (240, 300, 3), numpy.uint8))
        photo.save(tmp_path / "photo.png")
        shown = transformers.AutoImageProcessor.from_pretrained(back)(photo, return_tensors="pt")["pixel_values"]
        run("--mode=predict", f"--model={name}", f"--init_weights={back}", f"--input={tmp_path / 'photo.png'}",
            f"--output={tmp_path / 'predicted.csv'}", "--topk=1")
        predicted, = csv.DictReader((tmp_path / "predicted.csv").read_text(encoding="utf-8").splitlines())
        likeliest = logits_of(again, shown).softmax(1)[0].max()
        assert float(predicted["probability_1"]) == pytest.approx(float(likeliest), abs=0.01)
    if "distilled" in name:
        assert "torchvision has no model like" in refused(tmp_path, 2, f"--input={source}", f"--model={name}", "--weights_naming=torchvision")


def test_the_grid_of_positions_tells_the_size(tmp_path):
    save_file(timm.create_model("deit3_small_patch16_384", num_classes=CLASSES).state_dict(), tmp_path / "large.safetensors")
    transformers.ViTForImageClassification(transformers.ViTConfig(**VIT, image_size=384)).save_pretrained(tmp_path / "large")
    for weights, name in (("large.safetensors", "deit3_small_patch16_384"), ("large", "vit_tiny_patch16_384")):
        found = json.loads(run(f"--init_weights={tmp_path / weights}", "--data_dir=none", "--print_config").stdout)
        assert (found["model"], found["image_size"]) == (name, 384)
    save_file({"images": of_size(32, 32)}, tmp_path / "in.safetensors")
    said = run("--mode=predict", "--model=vit_tiny_patch16_224", f"--init_weights={tmp_path / 'large'}", f"--input={tmp_path / 'in.safetensors'}",
               f"--output={tmp_path / 'out.safetensors'}").stderr
    assert "576 positions of patches become 14×14" in said


def test_hugging_faces_dinov2(tmp_path):
    """Its classifier sees more than the class token, so its backbone is compared, with a classifier of that token."""
    theirs = scattered(transformers.Dinov2WithRegistersModel(transformers.Dinov2WithRegistersConfig(
        hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14)))
    theirs.save_pretrained(tmp_path / "theirs")
    config = load_json(tmp_path / "theirs" / "config.json") | {"interpolate_antialias": True, "interpolate_offset": 0.0}  # published
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    classifier = torch.nn.Linear(384, CLASSES)
    weights = load_file(tmp_path / "theirs" / "model.safetensors")
    save_file(weights | {f"classifier.{name}": one.data for name, one in classifier.state_dict().items()},
              tmp_path / "theirs" / "model.safetensors")
    pixels = of_size(518, 518)[:1]
    with torch.no_grad():
        expected = classifier(theirs(pixels).last_hidden_state[:, 0])
    assert expected.std() > 0.1
    found = predict("vit_small_patch14_reg4_dinov2", tmp_path / "theirs", pixels, tmp_path)
    assert_logits(found, expected, "vit_small_patch14_reg4_dinov2", f"{PEER}, its weights read here")
    bare = tmp_path / "bare.safetensors"
    save_file(weights, bare)
    said = run("--model=vit_small_patch14_reg4_dinov2", f"--init_weights={bare}", "--freeze=backbone", "--data_format=synthetic", "--image_size=28",
               "--batch_size=2", "--max_steps=1", f"--run_dir={tmp_path / 'run'}").stderr
    assert "the given weights have no head of this task, which starts from random values" in said


def test_what_does_not_fit(tmp_path):
    for whole, change in ((timm.create_model("resnet18"), {"layer2.0.bn1.weight": None}), (timm.create_model("seresnet18"), {})):
        torch.save({name: tensor for name, tensor in whole.state_dict().items() if name not in change}, tmp_path / "other.pt")
        assert "does not fit --model=resnet18" in refused(tmp_path, 2, f"--input={tmp_path / 'other.pt'}")
    save_file(timm.create_model("vit_tiny_patch16_224", num_classes=CLASSES).state_dict(), tmp_path / "weights.safetensors")
    flags = (f"--init_weights={tmp_path / 'weights.safetensors'}", *SYNTHETIC, f"--run_dir={tmp_path / 'run'}")
    for name in ("vit_small_patch32_224", "vit_large_patch16_224", "deit_tiny_distilled_patch16_224"):
        assert "the weights of --model=vit_tiny_patch16_224" in run(f"--model={name}", *flags, check=2).stderr
    said = run("--model=vit_tiny_patch16_224", *flags, "--image_size=40", check=2).stderr
    assert "patches of 16 pixels a side, which do not fill images of 40×40" in said and "such as 32" in said
    said = run("--model=convnext_atto", *SYNTHETIC, "--image_size=31", f"--run_dir={tmp_path / 'run'}", check=2).stderr
    assert "leaves nothing of images of less than 32 pixels a side" in said


@pytest.mark.parametrize("name, shape", [
    ("resnet18", {"layer_type": "basic", "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512]}),
    ("resnet50_v1", {"downsample_in_bottleneck": True}),
])
def test_logits_are_those_of_hugging_faces_resnets(tmp_path, images, name, shape):
    theirs = randomised(transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=CLASSES, **shape)))
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="20MB")
    torch.save({"old": torch.zeros(1)}, tmp_path / "theirs" / "pytorch_model.bin")  # which save_pretrained leaves where it was
    expected = logits_of(theirs, images)
    found = predict(name, tmp_path / "theirs", images, tmp_path, "--weights_naming=hf")
    assert_logits(found, expected, name, f"{PEER}, its weights read here")
    run("--mode=export", f"--model={name}", f"--input={tmp_path / 'theirs'}", f"--output={tmp_path / 'back'}", "--weights_naming=hf")
    back = transformers.ResNetForImageClassification.from_pretrained(tmp_path / "back")
    torch.testing.assert_close(logits_of(back, images), expected, rtol=0, atol=0)
    if name.endswith("_v1"):
        said = refused(tmp_path, 2, f"--model={name}", f"--input={tmp_path / 'back'}", "--weights_naming=torchvision")
        assert "torchvision has no model like resnet50_v1" in said and "leave it out for a FILE.safetensors" in said


def hugging_faces():
    return transformers.EfficientNetForImageClassification(transformers.EfficientNetConfig(
        width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280, num_labels=CLASSES))


@pytest.mark.parametrize("whose, name", [("transformers", "tf_efficientnet_b0"), ("timm", "tf_efficientnet_b0"), *([("timm", "tf_efficientnetv2_s")] if LONG else [])])
def test_models_with_tensorflows_padding(tmp_path, images, whose, name):
    theirs = randomised(timm.create_model(name, num_classes=CLASSES) if whose == "timm" else hugging_faces())
    folder = tmp_path / name
    if whose == "timm":
        images = images[..., :50, :57].contiguous()  # odd sizes, too, which Hugging Face's pad only right for the model's own size
        folder.mkdir()
        save_file(theirs.state_dict(), folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps({"architecture": name}), encoding="utf-8")
    else:
        images = images[..., :64].contiguous()
        theirs.save_pretrained(folder)
    expected = logits_of(theirs, images)
    found = predict(name, folder, images, tmp_path)
    assert_logits(found, expected, name, f"{whose}, its weights read here")

    torch.save({"state_dict": theirs.state_dict(), "args": argparse.Namespace(model=name, lr=[0.1])}, tmp_path / "last.pth.tar")
    for source in (folder, tmp_path / "last.pth.tar"):
        outcome = run("--mode=export", f"--input={source}", f"--output={tmp_path / 'x'}", f"--model={name.removeprefix('tf_')}", check=2)
        assert f"use --model={name}" in outcome.stderr
    run("--mode=export", f"--input={folder}", f"--output={tmp_path / 'again'}")
    assert load_json(tmp_path / "again" / "config.json")["architecture"] == name
    again = timm.create_model(name, num_classes=CLASSES, checkpoint_path=str(tmp_path / "again" / "model.safetensors"))
    torch.testing.assert_close(logits_of(again, images), expected, rtol=1e-4, atol=1e-4)
    run("--mode=export", f"--input={folder}", f"--output={tmp_path / 'again.safetensors'}", f"--model={name}")  # whose metadata tells
    assert f"use --model={name}" in run(f"--model={name.removeprefix('tf_')}", f"--init_weights={tmp_path / 'again.safetensors'}", *SYNTHETIC,
                                        f"--run_dir={tmp_path / 'run'}", check=2).stderr


def test_small_variances_in_half_precision(tmp_path, images):
    """timm's EfficientNetV2 has another epsilon, which the variances make up for. Trained networks have channels that hardly vary."""
    theirs = randomised(timm.create_model("efficientnetv2_s", num_classes=CLASSES)).bfloat16()
    for module in theirs.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_var[::7] *= 1e-4
            module.weight.data[::7] *= 0.01
    save_file(theirs.state_dict(), tmp_path / "half.safetensors")
    images = images[..., :64].contiguous()
    expected = logits_of(theirs.float(), images)
    found = predict("efficientnetv2_s", tmp_path / "half.safetensors", images, tmp_path)
    assert_logits(found, expected, "efficientnetv2_s, weights of bfloat16", TIMM)
    run("--mode=export", f"--input={tmp_path / 'half.safetensors'}", f"--output={tmp_path / 'agahalf.safetensors'}", "--weights_naming=timm")
    for name, tensor in load_file(tmp_path / "agahalf.safetensors").items():
        torch.testing.assert_close(tensor.float(), theirs.state_dict()[name].float(), rtol=1e-5, atol=0)


def test_a_folder_for_timm(tmp_path, few_images, run_dir, images):
    run("--model=efficientnet_b0", "--image_size=64", "--batch_size=8", "--max_steps=1", "--mean=0.5,0.4,0.3",
        f"--data_dir={few_images}", f"--run_dir={run_dir}", "--eval_every_epochs=0")
    run("--mode=export", f"--input={run_dir}", f"--output={tmp_path / 'timm'}")
    config = load_json(tmp_path / "timm" / "config.json")
    model = timm.create_model(config["architecture"], num_classes=config["num_classes"],
                              checkpoint_path=str(tmp_path / "timm" / "model.safetensors"))
    found = predict("efficientnet_b0", run_dir / "model.safetensors", images, tmp_path)
    assert_logits(found, logits_of(model, images), "efficientnet_b0 trained here", f"{TIMM}, the exported folder")
    trained = config["pretrained_cfg"]
    assert trained["label_names"] == ["blue", "green", "red", "stripes"]
    assert trained["input_size"] == [3, 64, 64] and trained["mean"] == [0.5, 0.4, 0.3]
    assert torch.equal(predict("efficientnet_b0", tmp_path / "timm", images, tmp_path), found)  # and back

    other = "--model=tf_efficientnet_b0"
    for flags in (["--mode=eval", f"--run_dir={run_dir}", f"--data_dir={few_images}"],
                  ["--mode=predict", f"--run_dir={run_dir}", f"--input={few_images}", f"--output={tmp_path / 'x.csv'}"],
                  ["--mode=export", f"--input={run_dir}", f"--output={tmp_path / 'x'}"],
                  [f"--init_weights={run_dir / 'model.safetensors'}", *SYNTHETIC, f"--run_dir={tmp_path / 'again'}"],
                  [f"--init_weights={run_dir}", *SYNTHETIC, f"--run_dir={tmp_path / 'again'}"]):
        assert "use --model=efficientnet_b0" in run(other, *flags, check=2).stderr


# ---- What training scripts save ----------------------------------------------------------------------------------------


def checkpoints(small):
    """Returns, by name, (saved object, flags, whose logits are expected: raw or averaged)."""
    weights = small.state_dict()
    averaged = {name: tensor * 0.5 if name == "fc.weight" else tensor for name, tensor in weights.items()}
    average_model = {"n_averaged": torch.tensor(3)} | {f"module.{name}": tensor for name, tensor in averaged.items()}
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [30, 60])  # whose milestones are a collections.Counter
    references = {"model": weights, "optimizer": optimizer.state_dict(), "epoch": 3, "model_ema": average_model,
                  "lr_scheduler": schedule.state_dict(), "modules": {"of", "DeepSpeed"},
                  "args": argparse.Namespace(lr=0.1, device=torch.device("cpu"), amp=None)}
    return {
        "torchvision's references": (references, [], "raw"),
        "their average": (references, ["--weights=ema"], "averaged"),
        "timm's train.py": ({"state_dict": weights, "state_dict_ema": averaged, "arch": "resnet18", "metric": 75.5,
                             "version": 2}, ["--weights=ema"], "averaged"),
    }


@pytest.mark.parametrize("name", ["torchvision's references", "their average", "timm's train.py"])
def test_checkpoints_of_training_scripts(tmp_path, small, images, name):
    content, flags, whose = checkpoints(small)[name]
    torch.save(content, tmp_path / "checkpoint.pth", _use_new_zipfile_serialization=name != "timm's train.py")
    found = predict("resnet18", tmp_path / "checkpoint.pth", images, tmp_path, *flags)
    torch.save(content | {"arch": "resnetblur18"}, tmp_path / "other.pth")
    other = run("--mode=export", "--model=resnet18", f"--input={tmp_path / 'other.pth'}", f"--output={tmp_path / 'x.pt'}", *flags)
    assert "says that its weights are of resnetblur18, which is not known here" in other.stderr
    expected = logits_of(small, images)
    if whose == "averaged":
        expected = (expected - small.fc.bias) * 0.5 + small.fc.bias
    assert_logits(found, expected.detach(), f"resnet18 from a checkpoint: {name}", TORCHVISION)


@pytest.mark.parametrize("command, taken, left", [
    ("--init_weights=", "model", "model_ema"), ("inference.py --checkpoint=", "state_dict_ema", "state_dict"),
    ("validate.py --checkpoint=", "state_dict", "state_dict_ema"), ("validate.py --use-ema --checkpoint=", "state_dict_ema", "state_dict")])
def test_what_was_taken_is_said(tmp_path, small, images, command, taken, left):
    """timm's scripts take the set that they take there."""
    torch.save(checkpoints(small)["timm's train.py" if ".py" in command else "torchvision's references"][0], tmp_path / "checkpoint.pth")
    save_file({"images": images}, tmp_path / "in.safetensors")
    outcome = run(*f"{command}{tmp_path / 'checkpoint.pth'}".split(), "--model=resnet18", "--mode=predict",
                  f"--input={tmp_path / 'in.safetensors'}", f"--output={tmp_path / 'out.safetensors'}")
    assert f"taking the weights under {taken} of" in outcome.stderr and f"not those under {left}" in outcome.stderr


def test_transformers_models_of_timm(tmp_path, images):
    """What its Trainer saves of `--model_name_or_path timm/…`."""
    config = transformers.TimmWrapperConfig(architecture="resnet18", num_labels=CLASSES)
    theirs = randomised(transformers.TimmWrapperForImageClassification(config))
    theirs.save_pretrained(tmp_path / "theirs")
    assert_logits(predict("resnet18", tmp_path / "theirs", images, tmp_path), logits_of(theirs, images), "resnet18 as timm_wrapper", PEER)


def test_metadata_of_other_programs_is_theirs(tmp_path, small, images):
    save_file(small.state_dict(), tmp_path / "weights.safetensors", {"class_names": "a,b", "settings": "lr=3", "number_scale": "{}"})
    torch.testing.assert_close(predict("resnet18", tmp_path / "weights.safetensors", images, tmp_path), logits_of(small, images), rtol=0, atol=1e-5)


def test_a_file_without_checksums(tmp_path, small, images):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(small.state_dict(), tmp_path / "weights.pth")
    finally:
        torch.serialization.set_crc32_options(True)
    torch.testing.assert_close(predict("resnet18", tmp_path / "weights.pth", images, tmp_path), logits_of(small, images), rtol=0, atol=1e-5)


def test_names_in_another_wrapper_are_said(tmp_path, small, images):
    save_file({"images": images}, tmp_path / "in.safetensors")
    save_file({f"net.{name}": tensor for name, tensor in small.state_dict().items()}, tmp_path / "weights.safetensors")
    outcome = run("--mode=predict", "--model=resnet18", f"--init_weights={tmp_path / 'weights.safetensors'}",
                  f"--input={tmp_path / 'in.safetensors'}", f"--output={tmp_path / 'out.safetensors'}", check=2)
    assert "it has net.fc.weight" in outcome.stderr and "whose names do not begin with net." in outcome.stderr
    outcome = run("--mode=export", f"--input={tmp_path / 'weights.safetensors'}", f"--output={tmp_path / 'folder'}", check=2)
    assert "does not hold the weights of a known model; it has net." in outcome.stderr


# ---- What is refused ---------------------------------------------------------------------------------------------------


def test_weights_for_other_classes_are_not_evaluated(tmp_path, small, few_images):
    """That their classifier begins anew in a training: test_image_fine_tuning.py."""
    torch.save(small.state_dict(), tmp_path / "weights.pth")
    flags = ("--mode=eval", "--model=resnet18", f"--init_weights={tmp_path / 'weights.pth'}", f"--data_dir={few_images}", "--image_size=32")
    assert f"the weights know {CLASSES} classes, but split train" in run(*flags, check=3).stderr
    run(*flags, f"--num_classes={CLASSES}")


class Writer:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_programs_are_no_weights(tmp_path, small):
    """Other files that are none: torch_file_test.cc."""
    torch.save(small.state_dict() | {"surprise": Writer(tmp_path / "written")}, tmp_path / "weights.pth")
    message = refused(tmp_path, 3, f"--input={tmp_path / 'weights.pth'}")
    assert "open, which is code" in message and "state_dict" in message
    assert not (tmp_path / "written").exists()
    torch.save(small, tmp_path / "model.pth")
    assert "torchvision.models.resnet.ResNet" in refused(tmp_path, 3, f"--input={tmp_path / 'model.pth'}")
    torch.jit.trace(small, torch.zeros(1, 3, 32, 32)).save(tmp_path / "script.pt")
    assert "TorchScript" in refused(tmp_path, 3, f"--input={tmp_path / 'script.pt'}")


def refused(tmp_path, code, *flags):
    outcome = run("--mode=export", f"--output={tmp_path / 'out.pt'}", *flags, check=code)
    assert not (tmp_path / "out.pt").exists()
    return outcome.stderr
