"""
The part of `predict.py` that all tasks share: lines to words, words to the ids that `model.onnx` reads. It
needs NumPy and onnxruntime alone. `model.json` has the labels, the vocabularies and the tokenizer.
"""

import fileinput
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

from elmo_tasks.data.normalization import normalized
from elmo_tasks.standalone.pages.ids import padded_ids
from elmo_tasks.standalone.pages.tokenizer import tokenizer

Record = dict[str, Any]


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
        if tokens not in record:
            return self.split(record, text, f'"{text}": a string, or "{tokens}": a list of strings')
        words = record[tokens]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f'"{tokens}" is not a list of strings')
        return joined(words)

    def split(self, record: Record, name: str, needed: str = "") -> Words:
        """Splits a field of a record, which is a text, into its words."""
        text = record.get(name)
        if not isinstance(text, str):
            needed = needed or f'"{name}": a string'
            raise ValueError(f"the input needs {needed}")
        if self._tokenize is None:
            raise ValueError(f'"{name}" is text, and the tokenizer of the model has no rules: give its words')
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
    with fileinput.input(mode="rb") as lines:
        try:
            for line in lines:
                if line.strip():
                    print(json.dumps(prediction(predict, model, line)), flush=True)
        except OSError as error:
            sys.exit(f"error: {error}")
        except ValueError as error:
            sys.exit(f"error: {lines.filename()}, line {lines.filelineno()}: {error}")


def prediction(predict: Callable[[Model, Record], Record], model: Model, line: bytes) -> Record:
    try:
        record = json.loads(line.decode("utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, column {error.colno})") from error
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    repeated = {name: value for name, value in record.items() if is_id(model, name, value)}
    return repeated | predict(model, record)


def is_id(model: Model, name: str, value: Any) -> bool:
    is_short = name not in model.settings["fields"] and len(str(value)) <= 64
    return type(value) in (str, int) and (name in IDS or is_short)
