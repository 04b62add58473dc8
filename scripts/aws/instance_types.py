#!/usr/bin/env python3
"""The lines of instance_types.tsv, and the network cards that an instance of a type is launched with.

    instance_types.py TYPE TEMPLATE      prints a CloudFormation template with the type's cards in its launch template

CloudFormation itself has no loops over cards.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).resolve().with_suffix(".tsv")
PLACE = "NetworkInterfaces: []"  # in a template, where the cards go


@dataclass(frozen=True)
class InstanceType:
    name: str
    vcpus: int
    mebibytes: int  # for a container
    gpus: int
    cards: int      # with EFA

    def interfaces(self, group: dict, **more) -> list[dict]:
        """The first device of the first card carries IP; its second one and the first ones of all other cards are for EFA only."""
        common = {"Groups": [group], "DeleteOnTermination": True, **more}
        return [{"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "interface", **common}] + [
            {"NetworkCardIndex": card, "DeviceIndex": 1 if card == 0 else 0, "InterfaceType": "efa-only", **common}
            for card in range(self.cards)]


def instance_type(name: str) -> InstanceType:
    rows = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    for row in rows:
        if row[0] == name:
            return InstanceType(name, *map(int, row[1:5]))
    raise ValueError(f"{name} is not among the instance types of {TABLE}: {', '.join(row[0] for row in rows)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("type")
    parser.add_argument("template", type=Path)
    words = parser.parse_args()
    template = words.template.read_text(encoding="utf-8")
    cards = instance_type(words.type).interfaces({"Ref": "SecurityGroupId"})
    print(template.replace(PLACE, f"NetworkInterfaces: {json.dumps(cards)}"), end="")


if __name__ == "__main__":
    main()
