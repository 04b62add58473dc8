"""The AWS CLI without its start of 0.7 s for each call, which is most of what the tests of scripts/aws would wait for.

With .venv/clusters/bin/python: warm_aws.py SOCKET serves the real CLI from a process that has loaded it and forks for each
call. `aws_program` makes the program `aws` that asks this server; its arguments, environment, folder, files and exit code
are those of the call.
"""

import array
import contextlib
import functools
import gc
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

CLIENT = """#!/usr/bin/python3 -ISB
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
call = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
server.sendmsg([len(call).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
server.sendall(call)
code = server.recv(1)
os._exit(code[0] if code else 255)
"""


def aws_program(folder: Path, path: Path) -> Path:
    """Returns the folder with a program `aws` for the server at `path`."""
    folder.mkdir()
    (folder / "aws").write_text(CLIENT.format(path=str(path)), encoding="utf-8")
    (folder / "aws").chmod(0o755)
    return folder


SERVICES = ("batch", "cloudformation", "ec2", "ecr", "eks", "fsx", "iam", "s3", "service-quotas", "stepfunctions", "sts")


def load() -> None:
    """Loads what calls have in common: the CLI's modules, and the services' descriptions, which all sessions share."""
    from awscli.botocore.loaders import JSONFileLoader
    from awscli.clidriver import create_clidriver

    JSONFileLoader.load_file = functools.lru_cache(maxsize=None)(JSONFileLoader.load_file)
    session = create_clidriver().session
    for service in SERVICES:
        session.create_client(service, region_name="us-east-1", aws_access_key_id="-", aws_secret_access_key="-")
    # A call to nobody loads what is loaded only by calls.
    os.environ.update(AWS_ACCESS_KEY_ID="-", AWS_SECRET_ACCESS_KEY="-", AWS_MAX_ATTEMPTS="1", AWS_PAGER="")
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        create_clidriver().main(["sts", "get-caller-identity", "--endpoint-url", "http://127.0.0.1:1", "--region", "us-east-1"])
    gc.freeze()


def serve_one(connection: socket.socket) -> None:
    files = array.array("i")
    head, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(3 * files.itemsize))
    for _, _, data in ancillary:
        files.frombytes(data)
    arguments, environment, folder = json.loads(connection.makefile("rb").read(int.from_bytes(head, "big")))
    for number, file in enumerate(files):
        os.dup2(file, number)
    own = {"AWS_DATA_PATH": os.environ["AWS_DATA_PATH"]}  # which the CLI's package has set
    os.environ.clear()
    os.environ.update({**environment, **own})
    os.chdir(folder)
    code = 255
    try:
        from awscli.clidriver import create_clidriver
        code = create_clidriver().main(arguments) or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(bytes([code & 255]))


def main() -> None:
    load()
    server = socket.socket(socket.AF_UNIX)
    server.bind(sys.argv[1])
    server.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    while True:
        connection, _ = server.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve_one(connection)
            os._exit(0)
        connection.close()


if __name__ == "__main__":
    main()
