"""--mode=predict on image files gives the table that Pillow, torchvision and PyTorch would make of the same files."""

import json
import shutil

import numpy as np
import pytest

from beside_torch import TORCHVISION, torch, torchvision

from PIL import Image
from safetensors.numpy import load_file
from torchvision.transforms import v2

from command import load_lines, load_table, run
from conftest import CLASSES
from truth import record

SIZE = 32


@pytest.fixture(scope="module")
def trained(few_images, module_dir):
    run("--model=resnet18", f"--image_size={SIZE}", "--eval_resize=40", "--batch_size=16", "--max_steps=3", "--lr=0.01",
        f"--data_dir={few_images}", f"--run_dir={module_dir / 'run'}", "--eval_every_epochs=0")
    run("--mode=export", f"--input={module_dir / 'run'}", f"--output={module_dir / 'model.pt'}")
    return module_dir / "run"


@pytest.fixture(scope="module")
def folder(few_images, module_dir):
    """Images of several sizes in nested folders, a truncated image, a file that is no image, and other files."""
    folder = module_dir / "photos"
    shutil.copytree(few_images / "val", folder / "some")
    Image.open(folder / "some" / "red" / "000.jpg").resize((70, 50)).save(folder / "wide, and named so.png")
    whole = (folder / "some" / "blue" / "000.jpg").read_bytes()
    (folder / "some" / "cut.jpg").write_bytes(whole[:len(whole) // 3])
    (folder / "empty.png").write_bytes(b"")
    (folder / "notes.txt").write_text("no image", encoding="utf-8")
    return folder


TRANSFORM = v2.Compose([v2.PILToTensor(), v2.Resize(40, antialias=True), v2.CenterCrop(SIZE),
                        v2.ToDtype(torch.float32, scale=True),
                        v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])


@pytest.fixture(scope="module")
def model(trained):
    model = torchvision.models.resnet18(num_classes=len(CLASSES)).eval()
    model.load_state_dict(torch.load(trained.parent / "model.pt", weights_only=True))
    return model


def expected_guesses(model, path):
    with torch.no_grad():
        best = model(TRANSFORM(Image.open(path).convert("RGB"))[None]).softmax(1)[0].sort(descending=True)
    return [(label, CLASSES[label], probability) for probability, label in zip(best.values.tolist(), best.indices.tolist())]


def test_a_folder_and_a_file_become_a_table(trained, model, folder, few_images, tmp_path):
    alone = few_images / "val" / "red" / "000.jpg"
    outcome = run("--mode=predict", f"--run_dir={trained}", f"--input={folder},{alone}", f"--output={tmp_path / 'out.csv'}",
                  "--batch_size=4", "--log_format=json")
    rows = load_table(tmp_path / "out.csv")
    readable = sorted(str(path) for path in folder.rglob("*.*g") if path.name not in ("cut.jpg", "empty.png"))
    unreadable = sorted([str(folder / "some" / "cut.jpg"), str(folder / "empty.png")])
    assert [row["file"] for row in rows] == [*sorted(readable + unreadable), str(alone)]
    assert sorted(row["file"] for row in rows if row["error"]) == unreadable
    assert [json.loads(line) for line in outcome.lines] == [{"predicted": len(readable) + 1, "unreadable": 2}]
    assert "2 files could not be read" in outcome.stderr
    worst = 0.0
    for row in rows:
        if row["error"]:
            assert row["class_1"] == row["probability_5"] == ""
            continue
        for rank, (label, name, probability) in enumerate(expected_guesses(model, row["file"]), 1):
            assert (int(row[f"class_{rank}"]), row[f"name_{rank}"]) == (label, name)
            worst = max(worst, abs(float(row[f"probability_{rank}"]) - probability))
        assert row["class_5"] == ""  # there are four
    assert worst < 1e-3
    record("Models", "predict: probabilities of image files", f"Pillow and torchvision {torchvision.__version__}",
           "1e-3", worst)


def test_features_are_what_the_classifier_sees(trained, model, tmp_path):
    """Images that need no resizing, and one that cannot be read, whose row is NaN."""
    (tmp_path / "photos").mkdir()
    for number in range(5):
        Image.effect_noise((40, 40), 60 + number).convert("RGB").save(tmp_path / "photos" / f"{number}.png")
    (tmp_path / "photos" / "1.png").write_bytes(b"none")
    for name in ("features.npy", "features.safetensors"):
        outcome = run("--mode=predict", f"--run_dir={trained}", f"--input={tmp_path / 'photos'}", f"--features={tmp_path / name}",
                      "--batch_size=2")
        assert outcome.last_line == "predicted=4 unreadable=1" and "5 of 5 images" in outcome.stderr
    found = np.load(tmp_path / "features.npy")
    np.testing.assert_array_equal(load_file(tmp_path / "features.safetensors")["features"], found, strict=True)
    rows = load_lines(tmp_path / "features.jsonl")
    assert [row["file"] for row in rows] == sorted(map(str, (tmp_path / "photos").iterdir()))
    assert [bool(row.get("error")) for row in rows] == np.isnan(found).all(axis=1).tolist() == [False, True, False, False, False]
    images = torch.stack([TRANSFORM(Image.open(row["file"])) for row in rows if not row.get("error")])
    with torch.no_grad():
        expected = torch.nn.Sequential(*list(model.children())[:-1])(images).flatten(1).numpy()  # all but fc
    assert found.dtype == np.float32 and found.shape == (5, 512)
    worst = np.abs(found[[0, 2, 3, 4]] - expected).max()
    assert worst < 1e-4 * np.abs(expected).max()
    record("Models", "predict: features of image files", TORCHVISION, "1e-4 of the largest",
           float(worst))
    other = ("--mode=predict", f"--run_dir={trained}", f"--input={tmp_path / 'photos'}", f"--features={tmp_path / 'photos' / '0.npy'}")
    assert "no --output with it" in run(*other, "--output=x.csv", check=2).stderr
    (tmp_path / "photos" / "0.jsonl").symlink_to("0.png")
    assert "did not write it" in run(*other, check=2).stderr


def test_what_cannot_be_predicted_is_said(trained, folder, tmp_path):
    def refused(code, *flags):
        message = run("--mode=predict", f"--run_dir={trained}", *flags, check=code).stderr
        assert not (tmp_path / "out.csv").exists()
        return message

    output = f"--output={tmp_path / 'out.csv'}"
    assert "(1 file tried)" in refused(3, f"--input={folder / 'empty.png'}", output)
    assert str(tmp_path / "missing") in refused(3, f"--input={tmp_path / 'missing'}", output)
    (tmp_path / "none").mkdir()
    assert "there is no image in" in refused(3, f"--input={tmp_path / 'none'}", output)
    assert "--output=FILE.csv" in refused(2, f"--input={folder}", f"--output={tmp_path / 'out.safetensors'}")
