"""Reads the part of YAML that a space needs: maps, lists and plain or quoted words, with limits on all of them. A whole
YAML reader takes a few lines for gigabytes (aliases), makes objects out of words (dates, tags, `off`), and recurses as
deep as its text asks for.
"""

import math
import re

import yaml

from safe_files import Failure, shown

DEEPEST = 8
MOST_ENTRIES = 10_000  # words, lists and maps of a file
LONGEST_WORD = 4096    # characters; a value may be a path
LONGEST_SHOWN = 60     # bytes of a word in a message
WORDS = {"true": True, "True": True, "false": False, "False": False, "": None, "~": None, "null": None}
WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")  # 010 is a word, because it is 8 in one version of YAML and 10 in another
NUMBER = re.compile(r"[-+]?(?=[0-9]*\.?[0-9]*[.eE])([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][-+]?[0-9]{1,4})?")


def quoted(value) -> str:
    return f"'{shown(str(value), LONGEST_SHOWN)}'"


def value_of(word: str, is_plain: bool):
    """Returns a number, true, false, None or the word itself, as for a number that is out of range."""
    if not is_plain:
        return word
    if WHOLE.fullmatch(word):
        return int(word)
    if NUMBER.fullmatch(word) and math.isfinite(float(word)):
        return float(word)
    return WORDS.get(word, word)


class Reader:
    """Builds a value out of the events of PyYAML's parser, which come one by one."""

    def __init__(self, text: str, remedy: str):
        self._events, self._remedy = yaml.parse(text, yaml.SafeLoader), remedy
        self._entries = 0

    def fail(self, what: str, event) -> None:
        raise Failure(f"line {event.start_mark.line + 1} of the space {what}", self._remedy)

    def events(self):
        for event in self._events:
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                self.fail("has an anchor or alias (& or *)", event)
            if getattr(event, "tag", None) is not None:
                self.fail(f"has the tag {quoted(event.tag)}", event)
            if isinstance(event, yaml.DocumentStartEvent) and (self._entries or event.tags):
                self.fail("begins a second document, or has %TAG", event)
            yield event

    def value(self, events, event, depth: int = 0):
        """Returns the value that begins with `event`."""
        self._entries += 1
        if self._entries > MOST_ENTRIES:
            self.fail(f"has more than {MOST_ENTRIES} entries", event)
        if isinstance(event, yaml.ScalarEvent):
            if len(event.value) > LONGEST_WORD:
                self.fail(f"has a word of {len(event.value)} characters; the most is {LONGEST_WORD}", event)
            if shown(event.value) != event.value:
                self.fail(f"has control or invisible characters in {quoted(event.value)}", event)
            return value_of(event.value, event.style is None)
        if depth == DEEPEST:
            self.fail(f"is nested more than {DEEPEST} levels deep", event)
        inside = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        while not isinstance(event := next(events), yaml.CollectionEndEvent):
            if isinstance(inside, list):
                inside.append(self.value(events, event, depth + 1))
                continue
            if not isinstance(event, yaml.ScalarEvent) or not event.value:
                self.fail("has a list, a map or nothing as a key", event)
            self.value(events, event)
            if event.value in inside:
                self.fail(f"has {quoted(event.value)} twice", event)
            inside[event.value] = self.value(events, next(events), depth + 1)
        return inside

    def document(self):
        events = self.events()
        found = [self.value(events, event) for event in events if isinstance(event, yaml.NodeEvent)]
        return found[0] if found else None


def read(text: str, remedy: str):
    """Returns maps, lists, words, numbers, true, false and None. Raises Failure (2)."""
    try:
        return Reader(text, remedy).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Failure(f"line {mark.line + 1} of the space is no YAML: {shown(error.problem, 200)}", remedy) from None
    except yaml.YAMLError as error:
        raise Failure(f"the space is no YAML: {' '.join(str(error).split())[:200]}", remedy) from None
