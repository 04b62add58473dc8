"""scripts/aws/verify_checkpoint.py on checkpoints that dtrain_main wrote, in an imitated bucket."""

import pytest

from command import ROOT, run
from imitation import account  # noqa: F401, a fixture
from text_data import TEXT, make_tokens


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    tokens = make_tokens(folder, train=TEXT)
    flags = ("--model=roberta_tiny", "--tokens_per_sample=32", "--batch_size=2", f"--data_dir={tokens}", f"--run_dir={folder / 'run'}")
    run(*flags, "--eval_every_epochs=0", "--max_steps=2", "--save_every_epochs=0.01", "--keep_checkpoints=2")
    return folder / "run"


def test_the_last_exported_checkpoint(account, run_directory):  # noqa: F811
    account.put("bucket")
    first, last = sorted((run_directory / "checkpoints").glob("step-*"))

    def put(path, content: bytes | None = None) -> None:
        account.put("bucket", f"results/run/{path.relative_to(run_directory)}", path.read_bytes() if content is None else content)

    def verified(check: int, place: str = "s3://bucket/results/run") -> str:
        done = run(place, program=ROOT / "scripts" / "aws" / "verify_checkpoint.py", env=account.environment, check=check)
        return done.stdout + done.stderr

    for path in (*first.iterdir(), last / "manifest.json", last / "state.json"):
        put(path)
    text = verified(5)  # the newest one is not exported yet
    assert "has no object in the bucket" in text and f"the newest whole one is s3://bucket/results/run/checkpoints/{first.name}" in text
    for path in last.iterdir():
        put(path)
    assert f"{last.name} is whole: {len(list(last.iterdir())) - 1} files" in verified(0)
    model = (last / "model.safetensors").read_bytes()
    put(last / "model.safetensors", model[:-1] + bytes([model[-1] ^ 1]))
    assert "model.safetensors is damaged (its checksum does not match)" in verified(5, f"s3://bucket/results/run/checkpoints/{last.name}")
    put(last / "manifest.json", (last / "manifest.json").read_bytes().replace(b'"step": 2', b'"step": 3'))
    assert "manifest.json is damaged (its checksum does not match)" in verified(5, f"s3://bucket/results/run/checkpoints/{last.name}")
    assert "there is no checkpoint" in verified(5, "s3://bucket/results/other")
    assert "give s3://BUCKET" in verified(2, "results/run")
