"""Loading alone, images decoded by the CPU and by the GPU: images/s, and how many the GPU left to the CPU."""

from pathlib import Path

import programs
import speed


def measure(arguments, where: str, folder: Path) -> dict:
    warmup, timed = (1, 2) if arguments.smoke else (5, 30)
    size = speed.sizes(arguments.smoke)["image_size"]
    stdout, _ = programs.run(arguments.bin / "dtrain_bench", "loader", f"--data_dir={folder / 'images'}",
                             f"--decode={where}", f"--image_size={size}", f"--batch_size={arguments.batch_sizes[-1]}",
                             f"--warmup={warmup}", f"--steps={timed}", "--json")
    return programs.last_json(stdout)


def text_of(where: str, results: list[dict]) -> str:
    speeds = " to ".join(f"{one['images_per_second']:.0f}" for one in
                         (min(results, key=lambda one: one["images_per_second"]),
                          max(results, key=lambda one: one["images_per_second"])))
    left = "".join(f", {one['decoded_on_cpu']} of {one['batches'] * one['batch_size']} left to the CPU"
                   for one in results[:1] if "decoded_on_cpu" in one)
    return f"decoded by the {where}: {speeds} images/s{left}"


def check(arguments, folder: Path) -> dict:
    speed.make_images(folder, arguments.smoke)
    places = ("cpu", "gpu") if arguments.device == "cuda" else ("cpu",)
    rounds: dict[str, list] = {where: [] for where in places}
    for _ in range(arguments.rounds):
        for where in places:
            rounds[where].append(measure(arguments, where, folder))
    # Files as these are what the GPU is for: it must have decoded nearly all.
    ok = all(one["decoded_on_gpu"] >= 0.99 * one["batches"] * one["batch_size"] for one in rounds.get("gpu", ()))
    return {"ok": ok, "rounds": rounds, "summary": [text_of(where, results) for where, results in rounds.items()]}
