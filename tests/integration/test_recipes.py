"""The recipes of scripts/recipes resolve, on the published hardware, to the published batch, peak rate and steps."""

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from command import ROOT, run

RECIPES = ROOT / "scripts" / "recipes"

BLOCKS = 300_000
BLOCK = 511  # tokens; <s> makes 512
VOCABULARY = 50_265  # of the published RoBERTas


@dataclass
class Recipe:
    """What a recipe is started with, the plan that it must have (--dry_run), and settings of its own (--print_config)."""

    name: str
    devices: int
    data: str  # the fixture
    plan: dict
    settings: dict
    flags: tuple = field(default=())


# RoBERTa: as in fairseq's page on pretraining, and in AWS's walk-through on 2 p3dn.24xlarge, whose warmup is longer than
# the run on a corpus as small as the one below.
ADAM = {"optimizer": "adam", "adam_betas": [0.9, 0.98], "adam_eps": 1e-6, "weight_decay": 0.01, "lr_schedule": "poly",
        "poly_power": 1.0, "tokens_per_sample": 512, "dropout": 0.1}
TABLE = [
    Recipe("roberta_large_aws", 16, "text",
           {"global_batch_size": 128, "lr_peak": 6e-4, "warmup_steps": 24_000, "total_steps": 2 * BLOCKS // 128,
            "parameters": 355_412_057},
           ADAM | {"clip_norm": 1.0, "attention_dropout": 0.1, "sample_break": "complete", "seed": 1, "precision": "fp16",
                   "log_format": "json", "log_interval": 25, "bucket_cap_mb": 200.0},
           ("--grad_accum_steps=1", "--schedule_steps=24000")),
    Recipe("roberta_base_fairseq", 8, "text",
           {"global_batch_size": 2048, "grad_accum_steps": 16, "lr_peak": 5e-4, "warmup_steps": 10_000,
            "total_steps": 125_000, "parameters": 124_697_433},
           ADAM | {"clip_norm": 0.0, "attention_dropout": 0.1, "precision": "fp16"}),
    Recipe("roberta_fast", 1, "text",
           {"global_batch_size": 2048, "grad_accum_steps": 32, "total_steps": 25_000},
           ADAM | {"optimizer": "adamw", "mask_prob": 0.3, "attention_dropout": 0.0, "unpad": True, "precision": "bf16"}),
]


@pytest.fixture(scope="module")
def text(module_dir) -> Path:
    """Token files as large as a corpus, and holes all through."""
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
    return folder


@pytest.mark.parametrize("recipe", TABLE, ids=lambda recipe: recipe.name)
def test_recipe_plans_what_was_published(recipe, request):
    flags = [f"--flagfile={RECIPES / recipe.name}.flags", f"--data_dir={request.getfixturevalue(recipe.data)}", "--rank=0",
             f"--world_size={recipe.devices}", "--master_addr=localhost", "--master_port=29500", *recipe.flags]
    plan = json.loads(run(*flags, "--dry_run", "--log_format=json").stdout)
    assert {key: plan[key] for key in recipe.plan} == pytest.approx(recipe.plan)
    config = json.loads(run(*flags, "--print_config").stdout)
    assert {key: config[key] for key in recipe.settings} == recipe.settings


def test_every_recipe_resolves():
    """Those that stand in no table, too; each has flags that there are."""
    for path in sorted(RECIPES.glob("*.flags")):
        run(f"--flagfile={path}", "--data_dir=anywhere", "--print_config")
