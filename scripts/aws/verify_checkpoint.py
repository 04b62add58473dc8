#!/usr/bin/env python3
"""Verifies the last exported checkpoint of a run in S3 by its manifest's sums: every byte is read, nothing is kept.

    scripts/aws/verify_checkpoint.py s3://BUCKET/results/RUN                                       the newest one of the run
    scripts/aws/verify_checkpoint.py s3://BUCKET/results/RUN/checkpoints/step-000001234            this one

A file system exports file by file, so a checkpoint in the bucket may lack some. What counts is trainer/checkpoint's
manifest.json, the last file to be written: sizes and SHA-256 of the others, and of itself. Reads with the AWS CLI.
Exit codes: 0 if the newest checkpoint is whole; 2 settings; 5 if it is not, or cannot be read (the newest whole one is named).
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys

FORMAT = 1  # trainer/checkpoint/manifest.cc
MOST_MANIFEST_BYTES = 1 << 20
CHUNK = 1 << 20
PLACE = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.+?)/?")
STEP = re.compile(r"(.*/)?checkpoints/step-(\d+)")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SUM = re.compile(r"[0-9a-f]{64}")


class StorageError(Exception):
    """A checkpoint is not whole, or cannot be read; the text is a sentence for the user."""


def aws(*arguments: str) -> str:
    try:
        done = subprocess.run(["aws", *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise StorageError("the AWS CLI is not installed") from error
    if done.returncode != 0:
        raise StorageError(f"S3 does not answer: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
    return done.stdout


def listed(bucket: str, prefix: str) -> dict[str, int]:
    """Returns the sizes of the objects below `prefix` by their keys."""
    text = aws("s3api", "list-objects-v2", "--bucket", bucket, "--prefix", prefix, "--output", "json", "--query",
               "Contents[].[Key, Size]")
    return {key: size for key, size in json.loads(text or "null") or []}


def read_back(bucket: str, key: str, keep: int = 0) -> tuple[int, str, bytes]:
    """Reads an object; returns its size, its SHA-256, and its first `keep` bytes."""
    digest, size, kept = hashlib.sha256(), 0, b""
    with subprocess.Popen(["aws", "s3", "cp", "--only-show-errors", f"s3://{bucket}/{key}", "-"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        while chunk := process.stdout.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
            kept += chunk[:keep - len(kept)]
        problem = process.stderr.read().decode(errors="replace").strip()
    if process.returncode != 0:
        raise StorageError(f"{key!r} cannot be read: {problem}")
    return size, digest.hexdigest(), kept


def parse_manifest(text: bytes) -> dict[str, dict]:
    """Returns the files of a manifest. It is accepted only if it is byte for byte what dtrain_main writes."""
    try:
        manifest = json.loads(text)
        content = {"format": manifest["format"], "step": manifest["step"], "files": manifest["files"]}
        own = hashlib.sha256(json.dumps(content, indent=2, ensure_ascii=False).encode()).hexdigest()
        if json.dumps({**content, "sha256": own}, indent=2, ensure_ascii=False).encode() + b"\n" != text:
            raise StorageError("manifest.json is damaged (its checksum does not match)")
        if content["format"] != FORMAT:
            raise StorageError(f"manifest.json has format {content['format']!r}; this script knows {FORMAT}")
        for name, file in content["files"].items():
            if not (NAME.fullmatch(name) and isinstance(file["bytes"], int) and SUM.fullmatch(file["sha256"])):
                raise StorageError(f"manifest.json names {name!r}, which is not a file of a checkpoint")
        return content["files"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError("manifest.json is damaged (not the JSON of a manifest)") from error


def verify(bucket: str, folder: str, sizes: dict[str, int]) -> tuple[int, int]:
    """Verifies the checkpoint in `folder`, and returns the numbers of its files and bytes."""
    if f"{folder}/manifest.json" not in sizes:
        raise StorageError("manifest.json is not in the bucket (the export is not finished, or the save was not)")
    if sizes[f"{folder}/manifest.json"] > MOST_MANIFEST_BYTES:
        raise StorageError("manifest.json is too large to be one")
    files = parse_manifest(read_back(bucket, f"{folder}/manifest.json", MOST_MANIFEST_BYTES)[2])
    for name, file in files.items():  # before a byte is read
        found = sizes.get(f"{folder}/{name}")
        if found != file["bytes"]:
            raise StorageError(f"{name} has {'no object' if found is None else f'{found} bytes'} in the bucket, not {file['bytes']} bytes")
    for name, file in files.items():
        size, digest, _ = read_back(bucket, f"{folder}/{name}")
        if (size, digest) != (file["bytes"], file["sha256"]):
            raise StorageError(f"{name} is damaged (its checksum does not match)")
    return len(files), sum(file["bytes"] for file in files.values())


def newest_whole(bucket: str, folders: list[str], sizes: dict[str, int]) -> str:
    for folder in folders:
        try:
            verify(bucket, folder, sizes)
            return f"the newest whole one is s3://{bucket}/{folder}"
        except StorageError:
            continue
    return "none of the run's checkpoints in the bucket is whole"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", metavar="s3://BUCKET/RUN")
    place = PLACE.fullmatch(parser.parse_args().place)
    if not place:
        parser.error("give s3://BUCKET/results/RUN, or a checkpoint's folder in it")
    bucket, path = place.groups()
    one = STEP.fullmatch(path)
    try:
        sizes = listed(bucket, f"{path}/" if one else f"{path}/checkpoints/")
        found = {match.group(0): int(match.group(2)) for key in sizes if (match := STEP.fullmatch(key.rpartition("/")[0]))}
        folders = sorted(found, key=found.get, reverse=True)
        if not folders:
            raise StorageError(f"there is no checkpoint in s3://{bucket}/{path}")
        try:
            files, size = verify(bucket, folders[0], sizes)
        except StorageError as error:
            raise StorageError(f"s3://{bucket}/{folders[0]}: {error}; {newest_whole(bucket, folders[1:], sizes)}") from error
    except StorageError as error:
        print(f"error: {error}\n  what to do: wait for the export (an export task: scripts/aws/fsx.md), then verify again; keep the "
              "file system until then", file=sys.stderr)
        return 5
    print(f"s3://{bucket}/{folders[0]} is whole: {files} files, {size} bytes, as its manifest says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
