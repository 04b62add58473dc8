#!/usr/bin/env python3
"""Draws learning rates as dtrain_main plans them: one curve for each recipe, or for each set of flags.

    .venv/bin/python scripts/draw_schedules.py --output=schedules.png scripts/recipes/resnet50_*.flags
    .venv/bin/python scripts/draw_schedules.py --output=cosine.png --relative -- --lr_schedule=cosine --warmup_epochs=5

Each curve is a dry run with synthetic data, which counts as many samples as ImageNet has. What stands behind -- is given
to every one of them; without a recipe, it is the curve.
"""

import argparse
import io
import json
import subprocess
import sys
from pathlib import Path

from safe_files import INTERNAL, Failure, Parser, exit_code, output_file, replace, shown

ROOT = Path(__file__).resolve().parent.parent
OUT_OF_MEMORY = 7


def plan_of(program: Path, recipe: Path | None, flags: list[str]) -> dict:
    """Returns what a dry run with these flags prints."""
    command = [str(program), *([f"--flagfile={recipe}"] if recipe else []), "--data_format=synthetic", *flags,
               "--dry_run", "--log_format=json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise Failure(f"{program} cannot be run: {error.strerror}", "build it: scripts/build.sh, or name it with --program") from None
    if done.returncode not in (0, OUT_OF_MEMORY):  # a recipe for other machines need not fit into this one
        print(done.stderr, end="", file=sys.stderr)  # dtrain_main has escaped the names of others
        raise Failure(f"{' '.join(command)} ends with {done.returncode}", "see its message above",
                      done.returncode if done.returncode > 0 else INTERNAL)
    return json.loads(done.stdout.splitlines()[-1])


def curve_of(plan: dict, relative: bool) -> tuple[list[float], list[float]]:
    """Returns epochs and learning rates, as parts of the whole and of the peak if they are to be compared."""
    steps, rates = zip(*plan["learning_rates"])
    length = plan["total_steps"] if relative else plan["steps_per_epoch"]
    return [step / length for step in steps], [rate / plan["lr_peak"] if relative else rate for rate in rates]


def draw(curves: dict[str, tuple[list[float], list[float]]], relative: bool, ending: str) -> bytes:
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise Failure("Python has no matplotlib", "pip install -r scripts/requirements.txt") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5), layout="constrained")
    for number, (name, (epochs, rates)) in enumerate(curves.items()):
        axes.plot(epochs, rates, label=name, linestyle=("-", "--", ":")[number // 10 % 3], linewidth=1.4)
    axes.set_xlabel("part of the training" if relative else "epoch")
    axes.set_ylabel("learning rate / peak" if relative else "learning rate")
    axes.grid(alpha=0.3)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    content = io.BytesIO()
    figure.savefig(content, dpi=150, format=ending)
    return content.getvalue()


def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", type=Path, help="flag files (recipes) to draw")
    parser.add_argument("--output", type=Path, default=Path("schedules.png"), help="picture to write: .png, .svg or .pdf")
    parser.add_argument("--relative", action="store_true", help="scale all curves to one length and one peak")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "release" / "bin" / "dtrain_main")
    arguments, flags = sys.argv[1:], []
    if "--" in arguments:
        flags = arguments[arguments.index("--") + 1:]
        arguments = arguments[:arguments.index("--")]
    options = parser.parse_args(arguments)
    if not options.recipes and not flags:
        parser.error("name recipes, or flags behind --")
    output_file(options.output, [".png", ".svg", ".pdf"], options.recipes)
    curves = {}
    for recipe in options.recipes or [None]:
        name = recipe.stem if recipe else " ".join(flags)
        curves[name] = curve_of(plan_of(options.program, recipe, flags), options.relative)
    replace(options.output, draw(curves, options.relative, options.output.suffix[1:].lower()))
    print(shown(options.output))
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
