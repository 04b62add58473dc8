"""A file tree of one's own on this machine, for what names /fsx or /home: this machine's folders, beside a /fsx that belongs to
root and to nobody else, as a new file system's root does, and a user `ubuntu` with a home, as EC2's images of Ubuntu have. /etc is
a copy, /opt, /run and /usr/local/bin are empty; all other folders are this machine's own."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from command import wait_until

USER = "ubuntu"

# Everything is mounted into a namespace that lives as long as its process, so nothing is left behind if a test fails.
MAKE = """
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tree "$1"
for each in /*; do
  if [ -L "$each" ] || [ "$each" = /etc ]; then cp -a "$each" "$1"
  elif [ -d "$each" ]; then mkdir "$1$each"; mount --rbind "$each" "$1$each"; fi
done
mkdir -p "$1/fsx" "$1/home" "$1/.own"
for each in fsx home opt run usr/local/bin; do mount -t tmpfs -o mode=755 own "$1/$each"; done
sed -i '/:1000:/d' "$1/etc/passwd" "$1/etc/group"
echo "$2:x:1000:1000::/home/$2:/bin/bash" >>"$1/etc/passwd"
echo "$2:x:1000:" >>"$1/etc/group"
install -d -o 1000 -g 1000 "$1/home/$2"
touch "$1/.own/ready"
exec chroot "$1" sleep infinity
"""


class OwnRoot:
    """In the `with` block, `enter` are the words with which a command in the tree begins, and `path` leads there from outside."""

    def __enter__(self) -> "OwnRoot":
        if os.geteuid() != 0:
            pytest.skip("file trees are root's to make, and this is not root")
        self._folder = Path(tempfile.mkdtemp(prefix="dtrain-root-"))
        self._holder = subprocess.Popen(["unshare", "--mount", "bash", "-c", MAKE, "-", self._folder, USER], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.path = Path(f"/proc/{self._holder.pid}/root")
        self.enter = ["nsenter", f"--target={self._holder.pid}", "--mount", "--root", "--wd"]
        try:
            wait_until(lambda: self._holder.poll() is not None or (self.path / ".own" / "ready").exists(), "a file tree", 10)
            if self._holder.poll() is not None:
                pytest.skip(f"file trees cannot be made here: {self._holder.stderr.read()}")
            self.furnish()
        except BaseException:
            self.__exit__()
            raise
        return self

    def furnish(self) -> None:
        """What a kind of machine has beyond this."""

    def __exit__(self, *_) -> None:
        self._holder.kill()
        self._holder.wait()
        self._holder.stderr.close()
        self._folder.rmdir()

    def bash(self, script: str, user: str = USER, environment: dict | None = None, enter: tuple = (), timeout: float = 120):
        """Runs a script as a user in a new login of theirs: nothing of the tests' environment is there. `enter` are words with
        which a command on another host begins (two_hosts.py)."""
        home = "/root" if user == "root" else f"/home/{user}"
        clean = {"HOME": home, "USER": user, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **(environment or {})}
        words = [*enter, *self.enter, "setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "env", "-i",
                 *(f"{name}={value}" for name, value in clean.items()), "bash", "-euo", "pipefail", "-c", f"cd; {script}"]
        return subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=timeout)
