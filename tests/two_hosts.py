"""Hosts on this machine: namespaces for network and host name. Between two is a cable that a test can pull; several are on a switch,
by links of a chosen speed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from command import make_program, wait_until

SSH = """#!/bin/bash
new=refused
while [[ $1 = -* ]]; do
  case $1 in
    -o) case $2 in StrictHostKeyChecking=accept-new) new=taken ;; esac; shift 2 ;;
    *) shift ;;
  esac
done
address=$1
shift
case $address in
{cases}  *) echo "ssh: connect to host $address port 22: No route to host" >&2; exit 255 ;;
esac
if ! grep -qxs "$address" {known}; then
  [ $new = taken ] || {{ echo "Host key verification failed." >&2; exit 255; }}
  echo "$address" >>{known}
fi
cd && exec env -i HOME="$HOME" USER=root PATH=/usr/local/bin:/usr/bin:/bin $enter sh -c "$*"
"""

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


class TwoHosts:
    """In the `with` block, `at(host)` returns the words with which a command on that host begins. The namespaces live
    as long as the processes in them, so nothing is left behind if a test fails. Skips with a reason if the system
    forbids it."""

    addresses = ("10.31.7.1", "10.31.7.2")

    def __init__(self):
        self._holders: list[subprocess.Popen] = []

    def __enter__(self) -> "TwoHosts":
        if os.geteuid() != 0:
            pytest.skip("network namespaces are root's to make, and this is not root")
        if shutil.which("ip", path=PATH) is None:
            pytest.skip("ip is not installed (scripts/setup.sh --tests)")
        try:
            self._connect()
        except (AssertionError, subprocess.CalledProcessError) as error:
            self.__exit__()
            pytest.skip(f"network namespaces cannot be made here: {error} {getattr(error, 'stderr', '')}")
        return self

    def __exit__(self, *_) -> None:
        for holder in self._holders:
            holder.kill()
            holder.wait()

    def _hold(self, count: int) -> None:
        own = os.readlink("/proc/self/ns/net")
        for _ in range(count):
            holder = subprocess.Popen(["unshare", "--net", "--uts", "sleep", "infinity"], stderr=subprocess.DEVNULL)
            self._holders.append(holder)
            wait_until(lambda: holder.poll() is not None or os.readlink(f"/proc/{holder.pid}/ns/net") != own,
                       "a network namespace", 10)
            assert holder.poll() is None, "unshare --net --uts failed."

    def _connect(self) -> None:
        self._hold(2)
        self.ip(0, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(self._holders[1].pid))
        self._name_all()

    def _name_all(self) -> None:
        for host, address in enumerate(self.addresses):
            self.run(host, "hostname", f"host{host}")
            self.ip(host, "address", "add", f"{address}/24", "dev", "cable")
            self.ip(host, "link", "set", "lo", "up")
            self.ip(host, "link", "set", "cable", "up")

    def at(self, host: int) -> list[str]:
        namespaces = f"/proc/{self._holders[host].pid}/ns"
        return ["nsenter", f"--net={namespaces}/net", f"--uts={namespaces}/uts"]

    def run(self, host: int, *command: str) -> None:
        subprocess.run([*self.at(host), *command], check=True, capture_output=True, text=True,
                       env={**os.environ, "PATH": PATH})

    def ip(self, host: int, *arguments: str) -> None:
        self.run(host, "ip", *arguments)

    def ssh(self, folder: Path) -> Path:
        """Writes a substitute for ssh into a new folder. As ssh, it gives a command nothing of its caller's environment, and
        does not speak to a host of which it knows no key unless an option allows it."""
        cases = "".join(f"  {address}) enter='{' '.join(self.at(host))}' ;;\n" for host, address in enumerate(self.addresses))
        folder.mkdir()
        make_program(folder / "ssh", SSH.format(cases=cases, known=folder / "known_hosts"))
        return folder / "ssh"

    def pull_cable(self, host: int) -> None:
        """Pulls the cable at this host's end: this host loses its interface, the other one the signal."""
        self.ip(host, "link", "set", "cable", "down")

    def plug_cable(self, host: int) -> None:
        self.ip(host, "link", "set", "cable", "up")


class SwitchedHosts(TwoHosts):
    """Three hosts. Each link is limited in both directions by a token bucket at both of its ends."""

    addresses = ("10.31.7.1", "10.31.7.2", "10.31.7.3")
    switch = 3  # a host of its own

    def __init__(self, megabits: float):
        super().__init__()
        self._megabits = megabits

    def _connect(self) -> None:
        self._hold(len(self.addresses) + 1)
        self.ip(self.switch, "link", "add", "bridge0", "type", "bridge")
        self.ip(self.switch, "link", "set", "bridge0", "up")
        for host in range(len(self.addresses)):
            peer = str(self._holders[host].pid)
            self.ip(self.switch, "link", "add", f"port{host}", "type", "veth", "peer", "name", "cable", "netns", peer)
            self.ip(self.switch, "link", "set", f"port{host}", "master", "bridge0", "up")
        self._name_all()
        for host in range(len(self.addresses)):
            self.limit(host, self._megabits)

    def limit(self, host: int, megabits: float) -> None:
        """Gives one host another speed. A burst is 4 ms, but at least the segments that the kernel hands over in one piece."""
        for place, device in ((host, "cable"), (self.switch, f"port{host}")):
            self.run(place, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{megabits}mbit", "burst",
                     str(max(2**17, int(megabits * 1e6 / 8 * 0.004))), "latency", "200ms")
