#!/usr/bin/env python3
"""Rewrites the prices of instances in prices.tsv from AWS's price list (on demand, us-east-1), and its date.

    scripts/aws/prices.py        needs the AWS CLI and the permission pricing:GetProducts

The other lines stay as they are.
"""

import argparse
import datetime
import json
import re
import subprocess
from pathlib import Path

TABLE = Path(__file__).resolve().with_suffix(".tsv")
# One product of an instance type: Linux, nothing installed, neither dedicated nor in a reservation.
WANTED = {"regionCode": "us-east-1", "operatingSystem": "Linux", "preInstalledSw": "NA", "tenancy": "Shared", "capacitystatus": "Used"}


def price_of(instance: str) -> str:
    """Returns dollars an hour, or nothing if the list does not have exactly one price."""
    filters = [f"Type=TERM_MATCH,Field={name},Value={value}" for name, value in {**WANTED, "instanceType": instance}.items()]
    answer = subprocess.run(["aws", "pricing", "get-products", "--region", "us-east-1", "--service-code", "AmazonEC2", "--output", "json",
                             "--filters", *filters], stdout=subprocess.PIPE, text=True, check=True).stdout
    terms = [term for product in json.loads(answer)["PriceList"] for term in json.loads(product)["terms"].get("OnDemand", {}).values()]
    found = {float(one["pricePerUnit"]["USD"]) for term in terms for one in term["priceDimensions"].values()} - {0.0}
    return str(found.pop()) if len(found) == 1 else ""


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        thing = line.split("\t")[0]
        if "." in thing and not line.startswith("#"):
            price = price_of(thing)  # if AWS does not answer, this ends here, and nothing is changed
            lines[number] = f"{thing}\t{price}" if price else line
            print(lines[number] if price else f"{line}\tstays: the list does not have exactly one price")
    lines[0] = re.sub(r"as of [0-9-]+", f"as of {datetime.date.today()}", lines[0])
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
