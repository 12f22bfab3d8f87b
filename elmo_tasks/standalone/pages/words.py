"""
Texts to words, and words to the ids that `model.onnx` reads: the part of `predict.py` that all tasks share.

It needs NumPy and onnxruntime alone. `model.json` has the labels, the vocabularies and the tokenizer.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

from elmo_tasks.data.normalization import normalized

Record = dict[str, Any]
BEGIN_WORD, END_WORD, AFTER_WORD, WORD_SIZE = 259, 260, 261, 50
BOUNDARIES = {"<S>": 257, "</S>": 258}
RUN = re.compile(r"(?:[^\W_]{20,}|\S){1,200}")
"""What lies between white space; longer runs are cut."""


class Words(NamedTuple):
    """A text, its words, and the characters `[start, end)` of each word in the text."""

    text: str
    words: list[str]
    offsets: list[tuple[int, int]]


class Model:
    """The graph and the settings in a folder."""

    def __init__(self, folder: Path) -> None:
        self.settings = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        self.labels: list[str] = self.settings.get("labels", [])
        self._session = onnxruntime.InferenceSession(folder / "model.onnx")
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._tokenize = tokenizer(self.settings["tokenizer"])

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arrays that the graph makes of those that it reads, by name."""
        outputs = [each.name for each in self._session.get_outputs()]
        read = {name: array for name, array in inputs.items() if name in self._inputs}
        return dict(zip(outputs, self._session.run(outputs, read), strict=True))

    def ids(self, texts: Sequence[Sequence[str]], prefix: str = "") -> dict[str, Any]:
        """Returns the ids of texts by the names of the graph's inputs, see `padded_ids`."""
        arrays = padded_ids(texts, self.settings["indexers"])
        return {prefix + name: array for name, array in arrays.items()}

    def words(self, record: Record, text: str, tokens: str) -> Words:
        """Returns the words in the field `tokens` of a record, or those of its field `text`."""
        if tokens in record:
            words = record[tokens]
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise ValueError(f'"{tokens}" is not a list of strings')
            return joined(words)
        if text not in record:
            raise ValueError(f'the input needs "{text}": a string, or "{tokens}": a list of strings')
        return self.split(record, text)

    def split(self, record: Record, name: str) -> Words:
        """Splits a field of a record, which is a text, into its words."""
        text = record.get(name)
        if not isinstance(text, str):
            raise ValueError(f'the input needs "{name}": a string')
        if self._tokenize is None:
            raise ValueError(
                f'the tokenizer of the model was not exported: give lists of words, not "{name}"'
            )
        plain, origins = normalized(text) if self.settings["normalized"] else (text, None)
        spans = [(start, end) for start, end in self._tokenize(plain) if plain[start:end].strip()]
        words = [plain[start:end] for start, end in spans]
        if origins is not None:
            spans = [(origins[start][0], origins[end - 1][1]) for start, end in spans]
        return Words(text, words, spans)


def joined(words: list[str]) -> Words:
    ends = np.cumsum([len(word) + 1 for word in words], dtype=int).tolist()
    offsets = [(end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True)]
    return Words(" ".join(words), words, offsets)


# Words to ids


def padded_ids(texts: Sequence[Sequence[str]], indexers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """*Shape:* `(texts, longest)` for words, or `(texts, longest, characters)`, 0 after the end."""
    arrays = {}
    for name, indexer in indexers.items():
        rows = [word_ids(words, indexer) for words in texts]
        shape = [max(sizes) for sizes in zip(*(row.shape for row in rows), strict=True)]
        arrays[name] = padded = np.zeros((len(rows), *shape), np.int64)
        for row, ids in zip(padded, rows, strict=True):
            row[tuple(map(slice, ids.shape))] = ids
    return arrays


def word_ids(words: Sequence[str], indexer: Mapping[str, Any]) -> Any:
    if indexer["kind"] == "bytes":
        return np.array(list(map(byte_ids, words)), np.int64).reshape(-1, WORD_SIZE)
    entries, unknown = indexer["entries"], indexer["unknown"]
    read = [word.lower() for word in words] if indexer["lowercase"] else words
    if indexer["kind"] == "words":
        return np.array([entries.get(word, unknown) for word in read], np.int64)
    longest = max(indexer["shortest"], *map(len, read), 1)
    rows = [[entries.get(letter, unknown) for letter in word] for word in read]
    return np.array([row + [0] * (longest - len(row)) for row in rows], np.int64)


def byte_ids(word: str) -> list[int]:
    """Returns the ids of ELMo: the bytes of a word between two marks, counted from 1, in 50 places."""
    inner = [byte + 1 for byte in word.encode("utf-8", "ignore")[: WORD_SIZE - 2]]
    ids = [BEGIN_WORD, *([BOUNDARIES[word]] if word in BOUNDARIES else inner), END_WORD]
    return ids + [AFTER_WORD] * (WORD_SIZE - len(ids))


# Texts to words

Spans = Iterable[tuple[int, int]]


def tokenizer(settings: Mapping[str, Any] | None) -> Callable[[str], Spans] | None:
    if settings is None:
        return None
    if "pattern" in settings:
        pattern = re.compile(settings["pattern"])
        return lambda text: (match.span() for match in pattern.finditer(text))
    return Rules(settings)


class Rules:
    """The algorithm of spaCy's tokenizer, with the rules that the model was trained with."""

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
                ends = [start + int(size) for size in np.cumsum(list(map(len, parts)))]
                spans[first : cases[first] + 1] = zip([start, *ends[:-1]], ends, strict=True)
        return spans


# Scores to probabilities


def softmax(logits: Any) -> Any:
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def by_label(model: Model, probabilities: Any) -> tuple[str, dict[str, float]]:
    """Returns the most probable label, and the probability of each."""
    return model.labels[probabilities.argmax()], dict(zip(model.labels, probabilities.tolist(), strict=True))


# Lines to lines

IDS = (
    *("id", "pairID", "pair_ID", "uid", "guid", "idx", "index"),
    *("doc_key", "doc_id", "sent_id", "sentence_id"),
)


def main(predict: Callable[[Model, Record], Record]) -> None:
    """
    Prints the JSON object of each line of the files that the command line names, or of standard input: its
    ids and short fields that the model does not read, and its prediction. A bad line ends the run.
    """
    model = Model(Path(__file__).parent)
    for path in sys.argv[1:] or ["-"]:
        with sys.stdin.buffer if path == "-" else open(path, "rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    try:
                        print(json.dumps(prediction(predict, model, line)), flush=True)
                    except ValueError as error:
                        sys.exit(f"error: {path}, line {number}: {error}")


def prediction(predict: Callable[[Model, Record], Record], model: Model, line: bytes) -> Record:
    record = json.loads(line.decode("utf-8"))
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    repeated = {name: value for name, value in record.items() if is_id(model, name, value)}
    return repeated | predict(model, record)


def is_id(model: Model, name: str, value: Any) -> bool:
    is_short = name not in model.settings["fields"] and len(str(value)) <= 64
    return type(value) in (str, int) and (name in IDS or is_short)
