"""Texts to words, by the rules of the tokenizer that the model was trained with."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any

RUN = re.compile(r"(?:[^\W_]{20,}|\S){1,200}")
"""What lies between white space; longer runs are cut."""
Spans = Iterable[tuple[int, int]]


def tokenizer(settings: Mapping[str, Any] | None) -> Callable[[str], Spans] | None:
    """Returns the function from a text to the characters `[start, end)` of its words, if there are rules."""
    if settings is None:
        return None
    if "pattern" in settings:
        pattern = re.compile(settings["pattern"])
        return lambda text: (match.span() for match in pattern.finditer(text))
    return Rules(settings)


class Rules:
    """
    The algorithm of spaCy's tokenizer: it takes prefixes and suffixes off what lies between blanks, until it
    is a case of its own, such as `don't`, or has none, and splits the rest at infixes.
    """

    def __init__(self, rules: Mapping[str, Any]) -> None:
        self.cases: Mapping[str, list[str]] = rules["cases"]
        names = ("prefix", "suffix", "infix", "token", "url")
        self.prefix, self.suffix, self.infix, self.token, self.url = (
            re.compile(rules[name] or r"(?!)") for name in names
        )
        self.parts = {tuple(self._without_cases(case)) for case in rules["cases_with_affixes"]}
        """The cases that the other rules would split, by the words that they would make of them."""
        self.longest = max(map(len, self.parts), default=0)

    def __call__(self, text: str) -> Spans:
        spans = []
        for run in RUN.finditer(text):
            start = run.start()
            for word in self._words(run.group(), self.cases):
                spans.append((start, start + len(word)))
                start += len(word)
        return self._with_cases(text, spans)

    def _words(self, string: str, cases: Mapping[str, list[str]]) -> list[str]:
        before, after, size = [], [], 0
        while string and len(string) != size and not self.token.match(string) and string not in cases:
            size = len(string)
            found = self.prefix.search(string)
            prefix = found.end() - found.start() if found else 0
            if prefix and string[prefix:] in cases:
                before.append(string[:prefix])
                string = string[prefix:]
                break
            found = self.suffix.search(string[prefix:])
            suffix = found.end() - found.start() if found else 0
            middle = string[: size - suffix]
            if suffix and middle in cases:
                after.append(string[size - suffix :])
                string = middle
                break
            if prefix:
                before.append(string[:prefix])
            if suffix:
                after.append(string[size - suffix :])
            string = string[prefix : size - suffix]
        if string in cases:
            before += cases[string]
        elif self.token.match(string) or self.url.match(string):
            before.append(string)
        else:
            before += self._at_infixes(string)
        return [word for word in before + after[::-1] if word]

    def _without_cases(self, text: str) -> list[str]:
        return [word for run in RUN.finditer(text) for word in self._words(run.group(), {})]

    def _at_infixes(self, string: str) -> Iterator[str]:
        start = 0
        for infix in self.infix.finditer(string):
            if infix.start() > 0:
                yield string[start : infix.start()]
                yield infix.group()
                start = infix.end()
        yield string[start:]

    def _with_cases(self, text: str, spans: list[tuple[int, int]]) -> Spans:
        """Joins words that make a case, and splits it by its rule; the longest first."""
        words = [text[start:end] for start, end in spans]
        joins = [text[end:start] in ("", " ") for (_, end), (start, _) in pairwise(spans)]
        found = [
            (-size, first)
            for first in range(len(words))
            for size in range(1, min(self.longest, len(words) - first) + 1)
            if tuple(words[first : first + size]) in self.parts and all(joins[first : first + size - 1])
        ]
        taken: set[int] = set()
        cases: dict[int, int] = {}
        for size, first in sorted(found):
            last = first - size - 1
            if not taken & {first, last}:
                cases[first] = last
            taken |= {*range(first, last + 1)}
        for first in sorted(cases, reverse=True):
            start, end = spans[first][0], spans[cases[first]][1]
            parts = self.cases.get(text[start:end])
            if parts is not None:
                ends = accumulate(map(len, parts), initial=start)
                spans[first : cases[first] + 1] = pairwise(ends)
        return spans
