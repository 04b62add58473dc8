"""Prints the arguments of a script's argparse parser, as tests/testdata/foreign_arguments.txt names them:

    python3 tests/list_arguments.py train.py

A line has the argument's name and its default (-: none; flag: it takes no value). The script is only read, not run. With
--check=PROGRAM it prints what differs from that program's part of the table instead, and ends with 1 if anything does."""

import argparse
import ast
import sys
from pathlib import Path

TABLE = Path(__file__).parent / "testdata" / "foreign_arguments.txt"


def literal(node) -> str:
    """Returns a default as the table writes it: lists with commas, nothing as -."""
    try:
        value = eval(compile(ast.Expression(node), "default", "eval"), {"__builtins__": {}})  # numbers, as in 3. / 4.
    except Exception:  # a path that the script makes
        return "-"
    if isinstance(value, (list, tuple)):
        return ",".join(str(one) for one in value) or "-"
    return "-" if value is None or value in ("", {}) else str(value)


def arguments_of(script: Path) -> dict[str, str]:
    found = {}
    calls = [node for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id == "add_bool_argument":  # AWS'
            found.update({word.value.lstrip("-"): "flag" for word in call.args if isinstance(word, ast.Constant) and word.value})
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"):
            continue
        names = [word.value for word in call.args if isinstance(word, ast.Constant) and str(word.value).startswith("-")]
        words = {word.arg: word.value for word in call.keywords}
        action = words.get("action")
        takes_none = isinstance(action, ast.Constant) and action.value in ("store_true", "store_false")
        for name in names:
            found[name.lstrip("-").replace("-", "_")] = "flag" if takes_none else literal(words.get("default", ast.Constant(None)))
    return found


def part_of_table(program: str) -> dict[str, tuple[str, str]]:
    part = TABLE.read_text(encoding="utf-8").split(f"\n# {program}", 1)[1].split("\n# ", 1)[0]
    listed = {}
    for word in (word for line in part.splitlines()[1:] for word in line.split() if not word.endswith(":")):
        name, equals, values = word.partition("@")[0].partition("=")
        standard, bar, tried = values.partition("|")
        listed[name] = (standard, tried) if bar else ("-", values if equals else "flag")
    return listed


def same(listed: tuple[str, str], default: str) -> bool:
    if default == "flag" or listed[1] == "flag":
        return listed[1] == default
    if listed[0] == "-" or default == "-":
        return True  # what has no default, or one that no command names
    try:
        return [float(one) for one in listed[0].split(",")] == [float(one) for one in default.split(",")]
    except ValueError:
        return listed[0] == default


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("script", type=Path)
    parser.add_argument("--check", metavar="PROGRAM", help="the first word of a part of the table, such as timm")
    options = parser.parse_args()
    found = arguments_of(options.script)
    if options.check is None:
        print("\n".join(f"{name} {default}" for name, default in found.items()))
        return 0
    listed = part_of_table(options.check)
    problems = [f"{name} {found[name]}: not in the table" for name in found.keys() - listed.keys()]
    problems += [f"{name}: the script has no such argument" for name in listed.keys() - found.keys()]
    problems += [f"{name}: {found[name]}, the table has {listed[name][0]} {listed[name][1]}"
                 for name in found.keys() & listed.keys() if not same(listed[name], found[name])]
    print("\n".join(sorted(problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
