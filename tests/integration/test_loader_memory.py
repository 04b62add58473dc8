"""Loading for a long time takes no more memory than for a short one, even with damaged and odd images."""

import io
import json
import os

import numpy as np
import pytest
from PIL import Image

from command import BENCH, run

MINUTES = float(os.environ.get("DTRAIN_MEMORY_MINUTES", "1"))
# Of a machine that does nothing else: memory follows what was loaded, not the time.
BATCHES = {"plain": round(2000 * MINUTES), "odd": round(400 * MINUTES)}
SIZES = (60, 900)  # pixels; memory for one size does not fit the next


def odd_images(folder):
    """Makes images of all formats, colours and sizes, a quarter of which cannot be read."""
    random = np.random.default_rng(3)
    (folder / "train" / "all").mkdir(parents=True)
    for number in range(120):
        width, height = (int(side) for side in random.integers(*SIZES, 2))
        coarse = random.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), np.uint8)
        image = Image.fromarray(coarse).resize((width, height), Image.BICUBIC)
        mode, name, options = [("CMYK", "JPEG", {}), ("RGBA", "PNG", {}), ("L", "JPEG", {}),
                               ("RGB", "JPEG", {"progressive": True}), ("RGB", "WEBP", {}), ("RGB", "TIFF", {}),
                               ("RGB", "BMP", {}), ("RGB", "JPEG", {"quality": 90})][number % 8]
        encoded = io.BytesIO()
        image.convert(mode).save(encoded, name, **options)
        content = encoded.getvalue()
        if number % 4 == 3:
            content = [content[:len(content) * 2 // 3], b"", b"no image at all"][number % 3]
        (folder / "train" / "all" / f"{number:03}.jpg").write_bytes(content)
    return folder


@pytest.mark.skipif(not os.environ.get("DTRAIN_LONG_TESTS"), reason="takes minutes: set DTRAIN_LONG_TESTS=1")
@pytest.mark.parametrize("kind", BATCHES)
def test_resident_memory_stays_flat(images, tmp_path, kind):
    data = images if kind == "plain" else odd_images(tmp_path / "odd")
    outcome = run("loader", f"--data_dir={data}", "--batch_size=64", "--image_size=96", "--workers=2",
                  "--augment=trivialaugment", "--max_bad_records=1", f"--steps={BATCHES[kind]}", "--json",
                  program=BENCH, timeout=1200 * MINUTES)
    curve = json.loads(outcome.last_line)["resident_mib"]
    print(f"\nmeasured: {curve} MiB in {BATCHES[kind]} batches")
    half = len(curve) // 2
    assert max(curve[half:]) <= 1.05 * max(curve[2:half]), curve  # without the limits it grows by a seventh in a minute
