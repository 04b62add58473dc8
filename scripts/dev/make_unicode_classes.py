#!/usr/bin/env python3
"""Makes data/text/unicode_classes.inc, which says which code points are letters, numbers and white space in GPT-2's
pre-tokenisation.

    pip install unicodedata2==16.0.0 && scripts/dev/make_unicode_classes.py > data/text/unicode_classes.inc

The version of Unicode is that of Hugging Face's `tokenizers` (whose regular expressions are Oniguruma's), because a
letter that is newer than the version is split otherwise. tests/interop/test_tokenizer.py compares every code point.
"""

import textwrap

import unicodedata2

# The property White_Space, which is the same in every version of Unicode since 6.3.
WHITE_SPACE = {*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def class_of(code_point: int) -> str:
    if code_point in WHITE_SPACE:
        return "kSpaces"
    return {"L": "kLetters", "N": "kNumbers"}.get(unicodedata2.category(chr(code_point))[0], "kOthers")


def main() -> None:
    ranges: dict[str, list[str]] = {"kLetters": [], "kNumbers": [], "kSpaces": [], "kOthers": []}
    first = 0
    for code_point in range(1, 0x110001):
        if code_point == 0x110000 or class_of(code_point) != class_of(first):
            ranges[class_of(first)].append(f"{{0x{first:X},0x{code_point - 1:X}}},")
            first = code_point
    print(f"// Unicode {unicodedata2.unidata_version}, made by scripts/dev/make_unicode_classes.py: the first and the last code point "
          "of each range.\n// clang-format off")
    for name in ("kLetters", "kNumbers", "kSpaces"):
        print(f"constexpr CodePointRange {name}[] = {{\n{textwrap.fill(' '.join(ranges[name]), 120)}\n}};")
    print("// clang-format on")


if __name__ == "__main__":
    main()
