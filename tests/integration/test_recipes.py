"""On the published hardware, the recipes of scripts/recipes give the published batch, peak rate and steps."""

import json
import struct
from dataclasses import dataclass, field, replace

import pytest

from command import ROOT, run
from text_data import letters_of_bytes, write_roberta_tokenizer

RECIPES = ROOT / "scripts" / "recipes"

BLOCKS = 300_000
BLOCK = 511  # tokens; with <s> there are 512
VOCABULARY = 50_265  # of the published RoBERTas
SENTENCES = 640


@dataclass
class Recipe:
    """The flags with which a recipe is started, and the plan that must result (--dry_run)."""

    name: str
    devices: int
    data: str  # the fixture gives the flags that name it
    plan: dict
    flags: tuple = field(default=())


# RoBERTa as on fairseq's page on pretraining, and as in AWS's walk-through on 2 p3dn.24xlarge, whose warmup is longer
# than the run on a corpus as small as the one below.
ADAM = "fairseq_adam, betas 0.9,0.98, eps 1e-06, weight decay "
TABLE = [
    Recipe("roberta_large_aws", 16, "text",
           {"global_batch_size": 128, "lr_peak": 6e-4, "warmup_steps": 24_000, "total_steps": 2 * BLOCKS // 128,
            "parameters": 355_412_057, "optimizer": ADAM + "0.01, clipped to 1", "precision": "fp16"}, ("--grad_accum_steps=1",)),
    Recipe("roberta_base_fairseq", 8, "text",
           {"global_batch_size": 2048, "grad_accum_steps": 16, "lr_peak": 5e-4, "warmup_steps": 10_000,
            "total_steps": 125_000, "parameters": 124_697_433, "optimizer": ADAM + "0.01", "precision": "fp16"}),
    Recipe("roberta_fast", 1, "text", {"global_batch_size": 2048, "grad_accum_steps": 32, "total_steps": 25_000, "precision": "bf16"}),
    # Half as many blocks, of two lines. The weights of the published model are 149,655,232.
    Recipe("modernbert_base", 8, "modern_text",
           {"global_batch_size": 4608, "grad_accum_steps": 6, "lr_peak": 8e-4, "warmup_steps": 3 * 10**9 // (4608 * 1024) + 1,
            "total_steps": 1719 * 10**9 // (4608 * 1024) + 1, "parameters": 149_655_232,
            "optimizer": "stable_adamw, betas 0.9,0.98, eps 1e-06, weight decay 0.0125 (none on norms and biases)", "precision": "bf16"}),
]


# Fine-tuning on GLUE, as on fairseq's page; the data here has fewer rows.
def glue_recipe(name: str, batch: int, peak: float, warmup: int, task: str = "text_classification") -> Recipe:
    return Recipe(name, 1, "sentences", {
        "task": task, "global_batch_size": batch, "lr_peak": peak, "warmup_steps": warmup, "total_steps": 10 * SENTENCES // batch,
        "optimizer": ADAM + "0.1", "precision": "fp16"})


GLUE_TABLE = [glue_recipe("roberta_sst2", 32, 1e-5, 1256), glue_recipe("roberta_mnli", 32, 1e-5, 7432),
              glue_recipe("roberta_rte", 16, 2e-5, 122), glue_recipe("roberta_stsb", 16, 2e-5, 214, "text_regression")]

# ImageNet: the recipes of AWS, torchvision, NVIDIA, FFCV and timm. The global batch is a device's batch times the
# devices, times micro-steps if there are any.
PLAIN = "sgd, momentum 0.9, weight decay 0.0001"
AWS = "sgd, momentum 0.9 (Nesterov), weight decay 0.0001"
DECAY_OF_WEIGHTS = "weight decay {} (none on norms and biases)"
RMSPROP = "rmsprop_tf, momentum 0.9, alpha 0.9, eps {}, " + DECAY_OF_WEIGHTS
SMOOTHED = ", label smoothing 0.1"


def image_recipe(name: str, devices: int, batch: int, steps: int, warmup: int, peak: float, optimizer: str,
                 schedule: str = "poly", augmentation: str = "crop and flip", micro_steps: int = 1, size: int = 224,
                 precision: str = "fp16") -> Recipe:
    plan = {"train_samples": 1_281_167, "batch_size": batch, "global_batch_size": batch * devices * micro_steps,
            "grad_accum_steps": micro_steps, "total_steps": steps, "warmup_steps": warmup, "lr_peak": peak,
            "lr_schedule": schedule, "optimizer": optimizer, "augmentation": augmentation, "image_size": size,
            "precision": precision}
    return Recipe(name, devices, "imagenet", plan)


IMAGE_TABLE = [
    image_recipe("resnet50_90ep", 64, 256, 7037, 781, 6.4, AWS),
    image_recipe("resnet50_160gpu", 160, 256, 2815, 312, 16, AWS + " (none on norms and biases)"),
    image_recipe("resnet50_32gpu", 32, 256, 14075, 1560, 3.2, AWS),
    image_recipe("resnet50_256gpu", 256, 256, 1759, 190, 3.7,
                 "lars, momentum 0.977 (Nesterov), trust 0.013 (clipped), weight decay 0.0005", "linear_cosine",
                 "crop and flip, color jitter 0,0.4,0.4,0.065"),
    image_recipe("resnet50_torchvision_v1", 8, 32, 450410, 0, 0.1, PLAIN, "step", precision="fp32"),
    image_recipe("resnet50_nvidia", 8, 256, 56301, 5004, 2.048,
                 "sgd, momentum 0.875, " + DECAY_OF_WEIGHTS.format("3.0517578125e-05") + SMOOTHED, "cosine"),
    image_recipe("resnet50_torchvision_v2", 8, 128, 750683, 6255, 0.5,
                 "sgd, momentum 0.9, " + DECAY_OF_WEIGHTS.format("2e-05") + SMOOTHED + ", EMA 0.998908", "cosine",
                 "crop and flip, trivialaugment (bilinear), repeated 4, random erasing 0.1, mixup 0.2, cutmix 1"),
    image_recipe("resnet50_fast", 8, 512, 5004, 625, 1.7,
                 "sgd, momentum 0.9, " + DECAY_OF_WEIGHTS.format("0.0001") + SMOOTHED, size=256),
    image_recipe("resnet50_mlperf", 8, 400, 14813, 800, 11,
                 "lars, momentum 0.9, trust 0.001, " + DECAY_OF_WEIGHTS.format("5e-05") + SMOOTHED),
    image_recipe("efficientnet_b0", 8, 256, 125113, 5004, 0.08, RMSPROP.format(0.01, "1e-05") + SMOOTHED, "cosine",
                 "crop and flip, autoaugment (nearest), mixup 0.2", micro_steps=2),
    image_recipe("efficientnet_b4", 8, 128, 125113, 5004, 0.16, RMSPROP.format(0.01, "5e-06") + SMOOTHED, "cosine",
                 "crop and flip, autoaugment (nearest), mixup 0.2", micro_steps=4, size=380),
    image_recipe("efficientnet_b0_timm", 2, 384, 750683, 5004, 0.048,
                 RMSPROP.format(0.001, "1e-05") + SMOOTHED + ", EMA 0.9999", "step",
                 "crop and flip, rand-m9-mstd0.5, random erasing 0.2"),
    image_recipe("deit_small", 4, 256, 375341, 6255, 0.001, "adamw, betas 0.9,0.999, eps 1e-08, " + DECAY_OF_WEIGHTS.format(0.05) + SMOOTHED, "cosine",
                 "crop and flip, rand-m9-mstd0.5-inc1, repeated 3, random erasing 0.25, mixup 0.8, cutmix 1"),
    image_recipe("vit_small_augreg", 8, 64, 20000, 500, 0.03, "sgd, momentum 0.9, weight decay 0, clipped to 1", "cosine",
                 "crop (scale 0.05,1) and flip", size=384, precision="bf16"),
    image_recipe("efficientnet_b7", 24, 8, 300273, 0, 0.15, PLAIN, "step", micro_steps=2, size=600),
]
DEIT = next(recipe for recipe in IMAGE_TABLE if recipe.name == "deit_small")
IMAGE_TABLE.append(replace(DEIT, name="deit_small_distilled", data="imagenet_and_teacher"))


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
