"""The recipe for a small set of photos beside torchvision: steps from weights with another number of classes, and an
evaluation at another size than the training's."""

import json
import math
import shutil

import numpy as np
import pytest

from beside_torch import TORCHVISION, plain_losses, torch, torchvision

from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional as F
from torchvision.transforms import v2

from command import ROOT, final_numbers, load_json, metrics, run
from gentle_training import BATCH, CLASSES, SAMPLES, resnet18, samples  # noqa: F401
from small_roberta import PEER, transformers
from truth import record, worst_difference, worst_ratio

timm = pytest.importorskip("timm")
NEW_CLASSES, STEPS, EPOCHS = 4, 12, 20
STEPS_OF_EPOCH = SAMPLES // BATCH
SIZE, EVAL_SIZE = 32, 48
MEAN, STD = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


@pytest.fixture(scope="module")
def data(samples, module_dir):
    """Tensors of four classes."""
    (module_dir / "data").mkdir()
    for split in ("train", "val"):
        save_file({"images": samples[0], "labels": samples[1] % NEW_CLASSES}, module_dir / "data" / f"{split}.safetensors")
    return module_dir / "data"


def fine_tune(data, weights, run_dir, steps: int):
    return run(f"--flagfile={ROOT / 'scripts/recipes/resnet50_photos.flags'}", "--model=resnet18", f"--init_weights={weights}",
               f"--data_dir={data}", f"--batch_size={BATCH}", f"--image_size={SIZE}", f"--eval_image_size={EVAL_SIZE}",
               f"--eval_resize={EVAL_SIZE}", "--shuffle=none", f"--limit_train_steps={steps}", "--log_interval=1",
               "--eval_every_epochs=0", f"--run_dir={run_dir}")


def rate(step: int) -> float:
    """The recipe's: one epoch of warmup, then a cosine."""
    warmup = STEPS_OF_EPOCH
    if step < warmup:
        return 0.02 * step / warmup
    return 0.02 * (1 + math.cos(math.pi * (step - warmup) / (EPOCHS * STEPS_OF_EPOCH - warmup))) / 2


def expected_losses(model, samples):
    groups = []
    for in_head in (True, False):
        for decays in (True, False):
            chosen = [parameter for name, parameter in model.named_parameters()
                      if name.startswith("fc.") == in_head and (parameter.dim() > 1) == decays]
            groups.append({"params": chosen, "weight_decay": 1e-4 if decays else 0, "factor": 1 if in_head else 0.1})
    optimizer = torch.optim.SGD(groups, lr=0.02, momentum=0.9, nesterov=True)
    model.train()

    def loss_of(step):
        for group in optimizer.param_groups:
            group["lr"] = group["factor"] * rate(step)
        chosen = slice(step % STEPS_OF_EPOCH * BATCH, step % STEPS_OF_EPOCH * BATCH + BATCH)
        return F.cross_entropy(model(samples[0][chosen]), samples[1][chosen] % NEW_CLASSES, label_smoothing=0.1)

    return plain_losses(optimizer, loss_of, STEPS)


def test_the_recipe_is_pythons(data, samples, resnet18, module_dir):
    outcome = fine_tune(data, resnet18, module_dir / "first", steps=1)  # at a rate of 0: the classifier that it begins with
    assert f"the given weights have {CLASSES} classes, but this run has {NEW_CLASSES}: fc starts from random values" in outcome.stderr
    fine_tune(data, resnet18, module_dir / "run", STEPS)
    drawn = load_file(module_dir / "first" / "model.safetensors")
    model = torchvision.models.resnet18(num_classes=NEW_CLASSES)
    model.load_state_dict(load_file(resnet18) | {name: drawn[name] for name in ("fc.weight", "fc.bias")})
    points, expected = metrics(module_dir / "run", "train"), expected_losses(model, samples)
    assert [point["lr"] for point in points] == pytest.approx([rate(step) for step in range(STEPS)])
    assert [point["loss"] for point in points] == pytest.approx(expected, rel=1e-3)
    record("Models", f"fine-tuning resnet18 on other classes, {STEPS} steps", TORCHVISION, "1e-3 of the loss",
           worst_ratio([point["loss"] for point in points], expected))

    pixels = np.random.default_rng(0).integers(0, 256, (2 * NEW_CLASSES, EVAL_SIZE, EVAL_SIZE, 3), np.uint8)
    for number, image in enumerate(pixels):
        folder = module_dir / "photos" / "val" / str(number // 2)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{number}.png")
    found = final_numbers(run("--mode=eval", f"--run_dir={module_dir / 'run'}", f"--data_dir={module_dir / 'photos'}").last_line)
    model.load_state_dict(load_file(module_dir / "run" / "model.safetensors"))
    images = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    with torch.no_grad():
        loss = F.cross_entropy(model.eval()(images), torch.arange(2 * NEW_CLASSES) // 2).item()
    assert found["val_loss"] == pytest.approx(loss, abs=1e-4)
    record("Models", f"evaluation at {EVAL_SIZE} pixels after training at {SIZE}", TORCHVISION, "1e-4 of the loss",
           abs(found["val_loss"] - loss))


def test_the_classifier_follows_the_names(module_dir, tmp_path):
    """The weights have the classes of the folders in another order: steps are those of the reference with the rows that
    belong to the names. The weights are Hugging Face's folder, and the file that is exported of it."""
    names, steps = ["pear", "apple", "fig", "lime"], 3
    torch.manual_seed(3)
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(
        layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], id2label=dict(enumerate(names)),
        label2id={name: label for label, name in enumerate(names)}))
    model.save_pretrained(tmp_path / "hf")
    run("--mode=export", "--model=resnet18", f"--input={tmp_path / 'hf'}", f"--output={tmp_path / 'exported.safetensors'}")
    pixels = np.random.default_rng(1).integers(0, 256, (2 * NEW_CLASSES, SIZE, SIZE, 3), np.uint8)
    for number, image in enumerate(pixels):
        folder = tmp_path / "data" / "train" / sorted(names)[number // 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{number}.png")
    images = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    labels = torch.tensor([names.index(sorted(names)[number // 2]) for number in range(2 * NEW_CLASSES)])
    optimizer = torch.optim.SGD(model.train().parameters(), lr=0.01)
    expected = plain_losses(optimizer, lambda _: F.cross_entropy(model(images).logits, labels), steps)
    for weights in ("hf", "exported.safetensors"):
        run_dir = tmp_path / f"run of {weights}"
        outcome = run("--model=resnet18", f"--init_weights={tmp_path / weights}", f"--data_dir={tmp_path / 'data'}", "--shuffle=none",
                      "--augment=none", f"--image_size={SIZE}", f"--eval_resize={SIZE}", f"--batch_size={2 * NEW_CLASSES}", "--lr=0.01",
                      "--lr_schedule=constant", "--momentum=0", "--weight_decay=0", "--log_interval=1", f"--max_steps={steps}",
                      "--epochs=100", f"--run_dir={run_dir}")
        assert "the rows of fc are put into its order" in outcome.stderr
        found = [point["loss"] for point in metrics(run_dir, "train")]
        assert found == pytest.approx(expected, rel=1e-4)
        record("Trainings", f"resnet18 from {'a folder' if weights == 'hf' else 'a file'} with its classes in another order, {steps} steps",
               PEER, "1e-4 of the loss", worst_ratio(found, expected))


def test_a_folder_of_transformers_tells_the_model_and_how_it_sees_images(tmp_path):
    """As run_image_classification.py reads them, for its command and any other one, unless they are given."""
    config = transformers.ViTConfig(hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path)
    processor = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.5] * 3, "size": {"height": 96, "width": 96}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor), encoding="utf-8")

    def told(*flags) -> list:
        found = json.loads(run(*flags, f"--train_dir={tmp_path / 'train'}", "--print_config").stdout)
        return [found[name] for name in ("model", "mean", "std", "image_size", "eval_resize", "bn_eps")]

    expected = ["vit_tiny_patch16_224", [0.5, 0.4, 0.3], [0.5] * 3, 96, 96, 1e-12]
    assert told("run_image_classification.py", f"--model_name_or_path={tmp_path}") == expected
    assert told("--mode=eval", f"--init_weights={tmp_path}", "--defaults_of=none") == expected
    given = told(f"--init_weights={tmp_path}", "--mean=0.1,0.2,0.3", "--image_size=64", "--defaults_of=none")
    assert given == [expected[0], [0.1, 0.2, 0.3], expected[2], 64, 73, 1e-12]
    of_model = told(f"--init_weights={tmp_path}", "--model=vit_tiny_patch16_224", "--defaults_of=none")
    assert of_model == [*expected[:3], 224, 256, 1e-12]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**processor, "size": 224, "resample": 3}), encoding="utf-8")
    run("--mode=export", f"--input={tmp_path}", "--weights_naming=hf", f"--output={tmp_path / 'out'}")
    assert load_json(tmp_path / "out" / "config.json")["layer_norm_eps"] == 1e-12
    seen = load_json(tmp_path / "out" / "preprocessor_config.json")
    assert (seen["image_mean"], seen["resample"]) == ([0.5, 0.4, 0.3], 3)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**processor, "size": 288}), encoding="utf-8")
    run("--mode=export", f"--input={tmp_path}", "--weights_naming=timm", f"--output={tmp_path / 'timm'}")
    written = load_json(tmp_path / "timm" / "config.json")
    assert (written["pretrained_cfg"]["input_size"], written["pretrained_cfg"]["crop_pct"]) == ([3, 288, 288], 1)
    pipeline = transformers.pipeline("image-classification", model=str(tmp_path / "timm"))  # which resizes positions, too
    assert len(pipeline(Image.new("RGB", (300, 200)))) > 1
    # A timm folder's own settings, without those in the file, count in the same way.
    run("--mode=export", f"--input={tmp_path}", "--weights_naming=timm", f"--output={tmp_path / 'odd'}", "--image_size=96", "--eval_resize=118",
        "--interpolation=bicubic")
    written = load_json(tmp_path / "odd" / "config.json")["pretrained_cfg"]
    resize = timm.data.create_transform(**timm.data.resolve_data_config(pretrained_cfg=written)).transforms[0]
    save_file(load_file(tmp_path / "odd" / "model.safetensors"), tmp_path / "odd" / "model.safetensors", {"format": "pt"})
    (tmp_path / "odd" / "preprocessor_config.json").unlink(missing_ok=True)
    found = json.loads(run(f"--init_weights={tmp_path / 'odd'}", "--data_dir=none", "--print_config").stdout)
    assert [found[name] for name in ("image_size", "eval_resize", "eval_interpolation")] == [96, resize.size, resize.interpolation.value] == [96, 118, "bicubic"]
    described = load_json(tmp_path / "odd" / "config.json")
    part = {"architecture": "resnet18", "crop_pct": 0.95, "std": [1, 0, 1]}  # of the model's own size
    (tmp_path / "resnet").mkdir()
    save_file(timm.create_model("resnet18").state_dict(), tmp_path / "resnet" / "model.safetensors")
    (tmp_path / "resnet" / "config.json").write_text(json.dumps(part), encoding="utf-8")
    found = json.loads(run(f"--init_weights={tmp_path / 'resnet'}", "--std=1,1,1", "--data_dir=none", "--print_config").stdout)
    assert found["eval_resize"] == 235
    for field, value in (("crop_mode", "squash"), ("input_size", [3, 96, 64]), ("interpolation", "lanczos")):
        other = json.dumps({**described, "pretrained_cfg": {**written, field: value}})
        (tmp_path / "odd" / "config.json").write_text(other, encoding="utf-8")
        flags = (f"--init_weights={tmp_path / 'odd'}", "--data_dir=none", "--print_config")
        assert f"config.json: {field} is " in run(*flags, check=2).stderr
    assert f"config.json: {field} is " in run("--mode=export", f"--input={tmp_path / 'odd'}", f"--output={tmp_path / 'no'}", check=2).stderr
    run(*flags, f"--model={described['architecture']}")
    run("--mode=export", f"--input={tmp_path / 'odd'}", f"--model={described['architecture']}", "--weights_naming=timm", f"--output={tmp_path / 'flags'}")
    written = load_json(tmp_path / "flags" / "config.json")["pretrained_cfg"]
    assert [written[name] for name in ("input_size", "interpolation")] == [[3, 224, 224], "bilinear"]


def resnet18_beside(processor: dict, folder):
    """Writes a folder of transformers, once, and this preprocessor_config.json into it."""
    if not folder.exists():
        transformers.ResNetForImageClassification(transformers.ResNetConfig(
            layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], task_specific_params={"as Python writes": math.nan})).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor), encoding="utf-8")
    return (f"--init_weights={folder}", "--data_dir=none", "--print_config")


@pytest.mark.parametrize("processor", [
    {"image_processor_type": "DeiTImageProcessor", "size": {"height": 64, "width": 64}, "crop_size": {"height": 48, "width": 48}},
    {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 48}, "crop_size": 32, "do_center_crop": True},
    {"image_processor_type": "BitImageProcessor", "size": 48, "crop_size": 32, "do_center_crop": False},
    {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 250}},
    {"feature_extractor_type": "ConvNextFeatureExtractor", "size": 224},
    {"image_processor_type": "ConvNextImageProcessorFast", "size": {"shortest_edge": 288}, "crop_pct": 0.903},
    {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 384}, "crop_pct": None},
    {"image_processor_type": "ViTImageProcessor", "size": {"height": 48, "width": 48}, "crop_size": {"height": 32, "width": 32}, "crop_pct": 0.5},
], ids=lambda processor: "-".join(str(value) for value in processor.values()))
def test_sizes_of_images_are_those_of_the_image_processor_of_a_folder(module_dir, processor):
    folder = module_dir / "resnet18"
    flags = resnet18_beside({**processor, "resample": 3 if "crop_size" in processor else 2}, folder)
    found = json.loads(run(*flags).stdout)
    image = torch.randint(256, (3, 300, 300), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    resized = v2.Resize(found["eval_resize"], v2.InterpolationMode(found["eval_interpolation"]))(image)
    theirs = transformers.AutoImageProcessor.from_pretrained(folder)(
        image, do_rescale=False, do_normalize=False, return_tensors="pt")["pixel_values"][0]
    assert torch.equal(v2.CenterCrop(found["image_size"])(resized), theirs)
    record("Transforms", f"size and crop of a {next(iter(processor.values()))}", "transformers", "the same pixels", 0)


@pytest.mark.parametrize("kind, fields", [
    ("ViTImageProcessor", {"do_normalize": False}), ("ViTImageProcessor", {"image_mean": 0.25, "image_std": 0.5}),
    ("EfficientNetImageProcessor", {}), ("EfficientNetImageProcessor", {"include_top": False}),
    ("EfficientNetImageProcessor", {"do_normalize": False}),
], ids=str)
def test_normalisation_is_that_of_the_image_processor_of_a_folder(module_dir, kind, fields):
    processor = {"image_processor_type": kind, "size": {"height": 32, "width": 32}, "resample": 0 if kind.startswith("Eff") else 3, "image_mean": MEAN, "image_std": STD, "of_python": math.nan, **fields}
    folder = module_dir / "resnet18"
    found = json.loads(run(*resnet18_beside(processor, folder)).stdout)
    image = torch.randint(256, (3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    theirs = transformers.AutoImageProcessor.from_pretrained(folder)(image, return_tensors="pt")["pixel_values"][0]
    mean, std = (torch.tensor(found[name]).view(3, 1, 1) for name in ("mean", "std"))
    torch.testing.assert_close((image / 255 - mean) / std, theirs, rtol=1e-5, atol=1e-5)
    record("Transforms", f"normalisation of a {kind}" + "".join(f", {name} {value}" for name, value in fields.items()),
           "transformers", "1e-5", worst_difference((image / 255 - mean) / std, theirs))


@pytest.mark.parametrize("fields, given", [
    ({"do_rescale": False}, ("--mean=0,0,0", "--std=1,1,1")), ({"rescale_factor": 1 / 127.5}, ("--mean=0,0,0", "--std=1,1,1")),
    ({"rescale_offset": True}, ("--mean=0,0,0", "--std=1,1,1")), ({"resample": 1}, ("--model=resnet18",)),
    ({"size": {"height": 32, "width": 24}}, ("--model=resnet18",)), ({"image_std": [0, 1, 1]}, ("--std=1,1,1",)), ({"image_mean": [1, 2]}, ("--mean=0,0,0",)),
], ids=str)
def test_other_images_of_a_folder_are_refused_by_name(module_dir, fields, given):
    flags = resnet18_beside(fields, module_dir / "resnet18")
    assert f"preprocessor_config.json: {next(iter(fields))} is " in run(*flags, check=2).stderr
    run(*flags, *given)
    record("Transforms", f"preprocessor_config.json with {next(iter(fields))} of others", "transformers", "refused", 0)


def test_a_run_of_weights_that_tell_the_model_goes_on_without_them(tmp_path, few_images, run_dir):
    """Its ranks are forked with two threads each, which a parent that had computed anything would leave without hands."""
    folder = tmp_path / "weights"
    config = transformers.ViTConfig(hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768)
    transformers.ViTForImageClassification(config).save_pretrained(folder)
    processor = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.5] * 3, "size": {"height": 32, "width": 32}}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor), encoding="utf-8")
    begun = (f"--init_weights={folder}", f"--data_dir={few_images}", "--nproc_per_node=2", "--batch_size=2", "--save_every_steps=1", "--epochs=9",
             f"--run_dir={run_dir}")
    run(*begun, "--max_steps=1", threads=2)
    before = load_json(run_dir / "config.json")
    assert (before["model"], before["bn_eps"], before["eval_resize"]) == ("vit_tiny_patch16_224", 1e-12, 32)
    shutil.rmtree(folder)
    run(*begun, "--max_steps=2", threads=2)
    assert {**load_json(run_dir / "config.json"), "max_steps": 1, "start": before["start"]} == before
    run(*begun[1:], "--model=vit_tiny_patch16_224", "--image_size=32", "--eval_resize=32", "--max_steps=3", threads=2)
    assert [load_json(run_dir / "config.json")[name] for name in ("mean", "bn_eps")] == [before["mean"], 1e-12]
