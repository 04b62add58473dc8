"""On the published hardware, the recipes of scripts/recipes give the published batch, peak rate and steps."""

import json
import os
import re
import struct
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from command import ROOT, final_numbers, run
from text_data import letters_of_bytes, write_roberta_tokenizer

RECIPES = ROOT / "scripts" / "recipes"

BLOCKS = 300_000
BLOCK = 511  # tokens; with <s> there are 512
VOCABULARY = 50_265  # of the published RoBERTas
SENTENCES = 640


@dataclass
class Recipe:
    """The flags with which a recipe is started, the plan that must result (--dry_run), and settings of its own
    (--print_config)."""

    name: str
    devices: int
    data: str  # the fixture gives the flags that name it
    plan: dict
    settings: dict
    flags: tuple = field(default=())


# RoBERTa as on fairseq's page on pretraining, and as in AWS's walk-through on 2 p3dn.24xlarge, whose warmup is longer
# than the run on a corpus as small as the one below.
ADAM = {"optimizer": "fairseq_adam", "adam_betas": [0.9, 0.98], "adam_eps": 1e-6, "weight_decay": 0.01, "lr_schedule": "poly",
        "poly_power": 1.0, "tokens_per_sample": 512, "dropout": 0.1}
TABLE = [
    Recipe("roberta_large_aws", 16, "text",
           {"global_batch_size": 128, "lr_peak": 6e-4, "warmup_steps": 24_000, "total_steps": 2 * BLOCKS // 128,
            "parameters": 355_412_057},
           ADAM | {"clip_norm": 1.0, "attention_dropout": 0.1, "sample_break": "complete", "seed": 1, "precision": "fp16",
                   "memory_efficient_fp16": True, "log_format": "json", "log_interval": 25, "bucket_cap_mb": 200.0},
           ("--grad_accum_steps=1",)),
    Recipe("roberta_base_fairseq", 8, "text",
           {"global_batch_size": 2048, "grad_accum_steps": 16, "lr_peak": 5e-4, "warmup_steps": 10_000,
            "total_steps": 125_000, "parameters": 124_697_433},
           ADAM | {"clip_norm": 0.0, "sample_break": "complete", "attention_dropout": 0.1, "precision": "fp16"}),
    Recipe("roberta_fast", 1, "text",
           {"global_batch_size": 2048, "grad_accum_steps": 32, "total_steps": 25_000},
           ADAM | {"optimizer": "adamw", "mask_prob": 0.3, "attention_dropout": 0.0, "unpad": True, "precision": "bf16"}),
    # Half as many blocks, of two lines. The weights of the published model are 149,655,232.
    Recipe("modernbert_base", 8, "modern_text",
           {"global_batch_size": 4608, "grad_accum_steps": 6, "lr_peak": 8e-4, "warmup_steps": 3 * 10**9 // (4608 * 1024) + 1,
            "total_steps": 1719 * 10**9 // (4608 * 1024) + 1, "parameters": 149_655_232},
           {"optimizer": "stable_adamw", "adam_betas": [0.9, 0.98], "adam_eps": 1e-6, "weight_decay": 0.0125,
            "lr_schedule": "constant", "mask_prob": 0.3, "attention_dropout": 0.0, "precision": "bf16", "clip_norm": 0.0}),
]

# Fine-tuning on GLUE, as on fairseq's page. The steps of the schedule are those of the published data; the data here has
# fewer.
def glue_recipe(name: str, batch: int, peak: float, warmup: int, schedule_steps: int, task: str) -> Recipe:
    plan = {"task": task, "global_batch_size": batch, "lr_peak": peak, "warmup_steps": warmup, "total_steps": 10 * SENTENCES // batch,
            "optimizer": "fairseq_adam, betas 0.9,0.98, eps 1e-06, weight decay 0.1", "precision": "fp16"}
    return Recipe(name, 1, "sentences", plan, {"schedule_steps": schedule_steps, "epochs": 10.0, "dropout": 0.1, "attention_dropout": 0.1,
                                               "clip_norm": 0.0, "lr_schedule": "poly", "poly_power": 1.0})


GLUE_TABLE = [
    glue_recipe("roberta_sst2", 32, 1e-5, 1256, 20935, "text_classification"),
    glue_recipe("roberta_mnli", 32, 1e-5, 7432, 123873, "text_classification"),
    glue_recipe("roberta_rte", 16, 2e-5, 122, 2036, "text_classification"),
    glue_recipe("roberta_stsb", 16, 2e-5, 214, 3598, "text_regression"),
]

# ImageNet: the recipes of AWS, torchvision, NVIDIA, FFCV and timm. The global batch is a device's batch times the
# devices, times micro-steps if there are any.
PLAIN = "sgd, momentum 0.9, weight decay 0.0001"
AWS = "sgd, momentum 0.9 (Nesterov), weight decay 0.0001"
DECAY_OF_WEIGHTS = "weight decay {} (none on norms and biases)"
RMSPROP = "rmsprop_tf, momentum 0.9, alpha 0.9, eps {}, " + DECAY_OF_WEIGHTS
AWS_SETTINGS = {"zero_init_residual": True, "warmup_start_lr": 0.001, "poly_power": 2.0, "loss_scale": "1024", "epochs": 90.0}
SMOOTHED = ", label smoothing 0.1"


def image_recipe(name: str, devices: int, batch: int, steps: int, warmup: int, peak: float, optimizer: str,
                 schedule: str = "poly", augmentation: str = "crop and flip", micro_steps: int = 1, size: int = 224,
                 precision: str = "fp16", sizes: tuple = (), settings: dict | None = None) -> Recipe:
    plan = {"train_samples": 1_281_167, "batch_size": batch, "global_batch_size": batch * devices * micro_steps,
            "grad_accum_steps": micro_steps, "total_steps": steps, "warmup_steps": warmup, "lr_peak": peak,
            "lr_schedule": schedule, "optimizer": optimizer, "augmentation": augmentation, "image_size": size,
            "precision": precision}
    schedule_of_sizes = ",".join(sizes)
    return Recipe(name, devices, "imagenet", plan, {"image_size_schedule": schedule_of_sizes} | (settings or {}))


IMAGE_TABLE = [
    image_recipe("resnet50_90ep", 64, 256, 7037, 781, 6.4, AWS, settings=AWS_SETTINGS),
    image_recipe("resnet50_160gpu", 160, 256, 2815, 312, 16, AWS + " (none on norms and biases)", settings=AWS_SETTINGS | {"end_lr": 1e-5}),
    image_recipe("resnet50_32gpu", 32, 256, 14075, 1560, 3.2, AWS,
                 settings=AWS_SETTINGS | {"end_lr": 1e-5, "log_format": "table"}),
    image_recipe("resnet50_256gpu", 256, 256, 1759, 190, 3.7,
                 "lars, momentum 0.977 (Nesterov), trust 0.013 (clipped), weight decay 0.0005", "linear_cosine",
                 "crop and flip, color jitter 0,0.4,0.4,0.065",
                 settings=AWS_SETTINGS | {"poly_power": 2.0, "loss_scale": "256", "cosine_periods": 0.47, "cosine_alpha": 0.0,
                                          "cosine_beta": 1e-5, "decay_norm_and_bias": True, "log_format": "table"}),
    image_recipe("resnet50_torchvision_v1", 8, 32, 450410, 0, 0.1, PLAIN, "step", precision="fp32",
                 settings={"lr_decay_epochs": [30.0], "lr_decay_factor": 0.1}),
    image_recipe("resnet50_nvidia", 8, 256, 56301, 5004, 2.048,
                 "sgd, momentum 0.875, " + DECAY_OF_WEIGHTS.format("3.0517578125e-05") + SMOOTHED, "cosine",
                 settings={"lr_per_epoch": True, "warmup_from_one": True}),
    image_recipe("resnet50_torchvision_v2", 8, 128, 750683, 6255, 0.5,
                 "sgd, momentum 0.9, " + DECAY_OF_WEIGHTS.format("2e-05") + SMOOTHED + ", EMA 0.998908", "cosine",
                 "crop and flip, trivialaugment (bilinear), random erasing 0.1, mixup 0.2, cutmix 1, repeated 4",
                 sizes=("0:176",), settings={"eval_resize": 232, "ema_every": 32, "ema_start": "torchvision", "warmup_start_lr": 0.005,
                                           "lr_per_epoch": True}),
    image_recipe("resnet50_fast", 8, 512, 5004, 625, 1.7,
                 "sgd, momentum 0.9, " + DECAY_OF_WEIGHTS.format("0.0001") + SMOOTHED,
                 sizes=("0:160", "12:192"), size=256, settings={"poly_power": 1.0, "warmup_start_lr": 1.7e-4}),
    image_recipe("resnet50_mlperf", 8, 400, 14813, 800, 11,
                 "lars, momentum 0.9, trust 0.001, " + DECAY_OF_WEIGHTS.format("5e-05") + SMOOTHED,
                 settings={"poly_power": 2.0}),
    image_recipe("efficientnet_b0", 8, 256, 125113, 5004, 0.08, RMSPROP.format(0.01, "1e-05") + SMOOTHED, "cosine",
                 "crop and flip, autoaugment (nearest), mixup 0.2", micro_steps=2,
                 settings={"eval_resize": 256, "interpolation": "bicubic", "bn_momentum": 0.01, "bn_eps": 1e-3, "drop_path": 0.0}),
    image_recipe("efficientnet_b4", 8, 128, 125113, 5004, 0.16, RMSPROP.format(0.01, "5e-06") + SMOOTHED, "cosine",
                 "crop and flip, autoaugment (nearest), mixup 0.2", micro_steps=4, size=380,
                 settings={"eval_resize": 412, "interpolation": "bicubic", "bn_momentum": 0.01, "bn_eps": 1e-3, "drop_path": 0.2}),
    image_recipe("efficientnet_b0_timm", 2, 384, 750683, 5004, 0.048,
                 RMSPROP.format(0.001, "1e-05") + SMOOTHED + ", EMA 0.9999", "step",
                 "crop and flip, rand-m9-mstd0.5, random erasing 0.2",
                 settings={"lr_decay_epochs": [2.4], "lr_decay_factor": 0.97, "dropout": 0.2, "drop_path": 0.2,
                           "schedule_through_warmup": True, "lr_per_epoch": True, "interpolation": "random"}),
    image_recipe("deit_small", 4, 256, 375341, 6255, 0.001, "adamw, betas 0.9,0.999, eps 1e-08, " + DECAY_OF_WEIGHTS.format(0.05) + SMOOTHED, "cosine",
                 "crop and flip, rand-m9-mstd0.5-inc1, random erasing 0.25, mixup 0.8, cutmix 1, repeated 3",
                 settings={"eval_resize": 256, "interpolation": "bicubic", "drop_path": 0.1, "end_lr": 1e-5, "schedule_through_warmup": True,
                           "lr_per_epoch": True, "warmup_start_lr": 1e-6, "mix_prob": 1.0, "mix_switch_prob": 0.5}),
    image_recipe("vit_small_augreg", 8, 64, 20000, 500, 0.03, "sgd, momentum 0.9, weight decay 0, clipped to 1", "cosine",
                 "crop (scale 0.05,1) and flip", size=384, precision="bf16",
                 settings={"eval_resize": 384, "mean": [0.5, 0.5, 0.5], "crop_scale": [0.05, 1.0], "clip_norm": 1.0}),
    image_recipe("efficientnet_b7", 24, 8, 300273, 0, 0.15, PLAIN, "step", micro_steps=2, size=600,
                 settings={"workers": 4}),
]
DEIT = next(recipe for recipe in IMAGE_TABLE if recipe.name == "deit_small")
IMAGE_TABLE.append(replace(DEIT, name="deit_small_distilled", data="imagenet_and_teacher", settings=DEIT.settings |
                           {"model": "deit_small_distilled_patch16_224", "distill": "hard", "distill_weight": 0.5}))

# Flags that turn a recipe for ImageNet into one for 4,000 digits: a small model, small images, a batch of 64, three
# epochs.
PROXY = ("--image_size=32", "--eval_resize=32", "--image_size_schedule=", "--batch_size=64", "--global_batch_size=64",
         "--epochs=3", "--warmup_epochs=0", "--warmup_steps=31", "--warmup_start_lr=0", "--nolr_per_epoch", "--precision=fp32", "--loss_scale=dynamic",
         "--repeated_augmentation=1", "--log_format=auto", "--save_every_epochs=0", "--eval_every_epochs=0",
         "--augment=none", "--random_erasing=0", "--workers=2")
# They need a gentler rate. At a batch of 64, little more than the sign is left of EfficientNet's gradients under
# RMSprop, and a step of momentum is ten rates long: with 0.01, PyTorch's loss oscillates like ours (its first epoch
# ends at 10 %, with a validation loss of 59,000). Statistics with NVIDIA's momentum of 0.01 would need thousands of
# steps.
PROXY_FLAGS = {"resnet50_256gpu": ("--lr=1", "--momentum=0.9", "--color_jitter=0"),
               "resnet50_torchvision_v1": ("--lr=0.025",), "resnet50_torchvision_v2": ("--lr=0.03",),
               "resnet50_fast": ("--lr=0.03",), "resnet50_mlperf": ("--lr=1",),
               "efficientnet_b0": ("--lr=0.0005", "--bn_momentum=0.1", "--epochs=5"),
               "efficientnet_b4": ("--lr=0.0005", "--bn_momentum=0.1", "--epochs=5"),
               "efficientnet_b0_timm": ("--lr=0.0003",),
               "deit_small": ("--mixup=0", "--cutmix=0"), "vit_small_augreg": ("--max_steps=1000000", "--lr=0.01"),
               "deit_small_distilled": ("--mixup=0", "--cutmix=0", "--distill=soft"),  # without a teacher
               "efficientnet_b7": ("--lr=0.005",)}


@pytest.fixture(scope="module")
def imagenet() -> list[str]:
    """Synthetic data with as many samples. Its images are used as they are made, so a recipe's image settings show only
    in the plan."""
    return ["--data_format=synthetic"]


@pytest.fixture(scope="module")
def imagenet_and_teacher(imagenet, module_dir) -> list[str]:
    run("--model=efficientnet_b0", "--image_size=32", "--batch_size=2", "--max_steps=1", *imagenet, f"--run_dir={module_dir / 'teacher'}")
    return [*imagenet, f"--teacher={module_dir / 'teacher'}"]


@pytest.fixture(scope="module")
def digits(module_dir) -> Path:
    """The quick start's data, which scripts/setup.sh has fetched."""
    run(ROOT / "scripts" / "prepare_digits.py", f"--output={module_dir / 'digits'}", program=sys.executable)
    return module_dir / "digits"


@pytest.fixture(scope="module")
def text(module_dir) -> list[str]:
    """Sparse token files as large as a corpus."""
    folder = module_dir / "text"
    folder.mkdir()
    index = struct.pack("<9sQBQ", b"MMIDIDX\0\0", 1, 8, BLOCKS) + struct.pack("<i", BLOCK) * BLOCKS
    index += b"".join(struct.pack("<q", 2 * BLOCK * number) for number in range(BLOCKS))
    (folder / "train.idx").write_bytes(index)
    with open(folder / "train.bin", "wb") as tokens:
        tokens.truncate(2 * BLOCK * BLOCKS)
    specials_and_mask = 5
    lines = [f"{number} 1\n" for number in range(VOCABULARY - specials_and_mask)]
    (folder / "dict.txt").write_text("".join(lines), encoding="ascii")
    return [f"--data_dir={folder}"]


@pytest.fixture(scope="module")
def modern_text(text, module_dir) -> list[str]:
    """The same tokens, of a tokenizer with ModernBERT's special ones."""
    folder = module_dir / "modern_text"
    folder.mkdir()
    for name in ("train.idx", "train.bin"):
        (folder / name).symlink_to(module_dir / "text" / name)
    special = {"[UNK]": 50_280, "[CLS]": 50_281, "[SEP]": 50_282, "[PAD]": 50_283, "[MASK]": 50_284}
    special |= {f"[unused{number}]": 50_285 + number for number in range(83)}
    cls, sep, a, b = ({"SpecialToken" if name in special else "Sequence": {"id": name, "type_id": 0}}
                      for name in ("[CLS]", "[SEP]", "A", "B"))
    (folder / "tokenizer.json").write_text(json.dumps(
        {"added_tokens": [{"id": number, "content": name, "special": True} for name, number in special.items()],
         "normalizer": {"type": "NFC"},
         "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
         "post_processor": {"type": "TemplateProcessing", "single": [cls, a, sep], "pair": [cls, a, sep, b, sep],
                            "special_tokens": {name: {"id": name, "ids": [special[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}},
         "model": {"type": "BPE", "vocab": {letter: number for number, letter in enumerate(letters_of_bytes())}, "merges": []}}),
        encoding="utf-8")
    return [f"--data_dir={folder}"]


@pytest.fixture(scope="module")
def sentences(module_dir) -> list[str]:
    """A table in GLUE's form, with a tokenizer beside it."""
    folder = module_dir / "sentences"
    folder.mkdir()
    write_roberta_tokenizer(folder)
    rows = "".join(f"the cat sat on the mat {number}\t{number % 2}\n" for number in range(SENTENCES))
    for split in ("train", "dev", "dev_matched", "dev_mismatched"):
        (folder / f"{split}.tsv").write_text(f"sentence\tlabel\n{rows}", encoding="utf-8")
    return [f"--data_dir={folder}", "--model=roberta_tiny"]


def of_ranks(count: int) -> tuple:
    return "--rank=0", f"--world_size={count}", "--master_addr=localhost", "--master_port=29500"


def plan_of(name: str, devices: int, *flags, data=("--data_format=synthetic",)):
    """Returns the outcome of a dry run on so many devices."""
    return run(f"--flagfile={RECIPES / name}.flags", *data, *of_ranks(devices), *flags, "--dry_run", "--log_format=json")


ALL = pytest.mark.parametrize("recipe", TABLE + GLUE_TABLE + IMAGE_TABLE, ids=lambda recipe: recipe.name)


@ALL
def test_recipe_plans_what_was_published(recipe, request):
    data = request.getfixturevalue(recipe.data)
    outcome = plan_of(recipe.name, recipe.devices, *recipe.flags, data=data)
    plan = json.loads(outcome.stdout)
    assert ("ends in the warmup of" in outcome.stderr) == (plan["warmup_steps"] > plan["total_steps"])
    assert {key: plan[key] for key in recipe.plan} == pytest.approx(recipe.plan)
    config = json.loads(run(f"--flagfile={RECIPES / recipe.name}.flags", *data, *of_ranks(recipe.devices), *recipe.flags,
                            "--print_config").stdout)
    assert {key: config[key] for key in recipe.settings} == recipe.settings


def test_the_rates_are_those_of_the_log():
    """The post of 256 GPUs prints five rows of its log."""
    rates = dict(json.loads(plan_of("resnet50_256gpu", 256).stdout)["learning_rates"])
    assert [f"{rates[step]:.5f}" for step in (1550, 1600, 1650, 1700, 1750)] == ["0.04059", "0.02190", "0.00987", "0.00313",
                                                                                 "0.00026"]


def test_the_recipe_of_160_gpus_is_the_command_of_the_post():
    """With the defaults of AWS' script, but for how often it logs, and mixed precision, which is bf16 without a GPU."""
    command = "--num_epochs 90 -b 256 --lr_decay_mode poly --warmup_epochs 10 --precision=fp16 --log_interval=20"
    of_command, of_recipe = (json.loads(run(*flags, *of_ranks(160), "--data_dir=anywhere", "--print_config").stdout)
                             for flags in (command.split(), [f"--flagfile={RECIPES / 'resnet50_160gpu.flags'}"]))
    different = {name for name in of_recipe if of_recipe[name] != of_command[name]}
    assert different == {"augment"}  # basic is what auto means for image files


def test_every_recipe_is_in_a_table():
    """Except for those of the quick start, of photos, of clothes and of tags, which are our own and have only flags that exist."""
    own = {"resnet50_digits", "resnet50_photos", "resnet18_fashion", "bert_tags"}
    assert {path.stem for path in RECIPES.glob("*.flags")} - {recipe.name for recipe in TABLE + GLUE_TABLE + IMAGE_TABLE} == own
    for name in own:
        run(f"--flagfile={RECIPES / name}.flags", "--data_dir=anywhere", "--print_config")


@ALL
def test_the_header_says_what_it_is(recipe):
    header = (RECIPES / f"{recipe.name}.flags").read_text(encoding="utf-8")
    steps, batch = recipe.plan["total_steps"], recipe.plan["global_batch_size"]
    assert recipe not in IMAGE_TABLE or re.search(rf"^# Steps +{steps:,} of {batch:,} images", header, re.MULTILINE)
    for word in ("Hardware ", "Data ", "Result ", "Ours ", "Differs "):
        assert f"\n# {word}" in header
    assert f"--flagfile=scripts/recipes/{recipe.name}.flags" in header


@pytest.mark.parametrize("name, devices, micro_steps", [("resnet50_90ep", 1, 64), ("resnet50_90ep", 16, 4),
                                                        ("efficientnet_b7", 12, 4)])
def test_fewer_devices_reach_the_published_batch_by_accumulation(name, devices, micro_steps):
    published = next(recipe for recipe in IMAGE_TABLE if recipe.name == name).plan
    plan = json.loads(plan_of(name, devices).stdout)
    assert plan["grad_accum_steps"] == micro_steps
    for key in ("global_batch_size", "total_steps", "lr_peak"):
        assert plan[key] == pytest.approx(published[key])


def test_a_recipe_for_more_devices_without_accumulation_is_refused():
    outcome = run(f"--flagfile={RECIPES / 'resnet50_90ep.flags'}", "--data_format=synthetic", "--dry_run",
                  "--grad_accum_steps=1", check=2)
    assert "--global_batch_size=16384" in outcome.stderr and "leave one of the three out" in outcome.stderr


@pytest.mark.skipif(os.environ.get("DTRAIN_LONG_TESTS") != "1", reason="minutes: set DTRAIN_LONG_TESTS=1")
@pytest.mark.parametrize("recipe", IMAGE_TABLE, ids=lambda recipe: recipe.name)
def test_a_short_proxy_learns_the_digits(recipe, digits, run_dir):
    name = recipe.name
    model = {"e": "efficientnet_b0", "r": "resnet18"}.get(name[0], "vit_tiny_patch16_224")
    outcome = run(f"--flagfile={RECIPES / name}.flags", *PROXY, *PROXY_FLAGS.get(name, ()), f"--model={model}", f"--data_dir={digits}",
                  f"--run_dir={run_dir}", threads=2, timeout=900)
    assert final_numbers(outcome.last_line)["val_top1"] > 60
