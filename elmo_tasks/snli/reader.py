"""Reads pairs of sentences, and whether the first entails the second: SNLI, MultiNLI and the like."""

import json
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, Tokenizer
from allennlp.data.fields import Field, MetadataField, TextField

from elmo_tasks.data.fields import Metadata, check_label, labelled_instance
from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.data.json_lines import parse_json, shorten
from elmo_tasks.data.reader import TaskReader

LABELS = ("entailment", "neutral", "contradiction")
_UNDECIDED = "-"
"""The label of pairs on which the annotators had no majority."""
_MAX_CACHED = 500
"""Maximum number of characters of a sentence whose words are cached."""


@dataclass
class SnliPair(Metadata):
    """The metadata of an instance."""

    premise: list[str]
    hypothesis: list[str]

    def __getitem__(self, name: str) -> Any:
        """Returns the words of a sentence by AllenNLP's name, `premise_tokens`, too."""
        return super().__getitem__(name.removesuffix("_tokens"))

    def __len__(self) -> int:
        """Returns the tokens of the longer sentence, by which samplers sort."""
        return max(len(self.premise), len(self.hypothesis))


class _FilePair(NamedTuple):
    premise: str
    hypothesis: str
    label: str


@DatasetReader.register("elmo_snli")
class SnliReader(TaskReader):
    """
    Reads one JSON object a line with `gold_label`, `sentence1` (the premise) and `sentence2` (the
    hypothesis); other fields are ignored. Pairs with the label `-`, on which the annotators did not agree,
    are left out, and counted in the log.

    Format: https://nlp.stanford.edu/projects/snli/ and https://cims.nyu.edu/~sbowman/multinli/. Instances
    have `premise`, `hypothesis`, `metadata` (an `SnliPair`) and, if labelled, `label`. The vocabulary has the
    labels in the order of `LABELS`.

    # Parameters

    See `TaskReader`.

    # Raises
    When reading, `InputError` with file and line: there is no file, no labelled pair in a file, a byte that
    is not of the encoding, a blank line between pairs, no JSON object, a field that is missing or no string,
    another label, or a sentence without words.
    """

    renamed_keys: ClassVar[dict[str, str]] = {"spacy_model": "tokenizer"}

    def _read(self, file_path: str) -> Iterator[Instance]:
        for pair in self.shard_iterable(self.read_files(file_path, _file_pairs, _describe)):
            yield self.text_to_instance(*pair)

    def text_to_instance(
        self,
        premise: Union[str, list[str]],
        hypothesis: Union[str, list[str]],
        label: Optional[str] = None,
    ) -> Instance:
        """
        Returns the instance of one pair; without `label` for prediction. A sentence is text, or a list of
        words.

        # Raises
        `ConfigurationError`: a sentence without words, or a label that is not in `LABELS`.
        """
        check_label(label, LABELS)
        sides = {"premise": self.tokens(premise), "hypothesis": self.tokens(hypothesis)}
        for name, tokens in sides.items():
            if not tokens:
                raise ConfigurationError(f"found a {name} without words, expected at least one word")
        fields: dict[str, Field] = {name: TextField(tokens) for name, tokens in sides.items()}
        words = {name: [token.text for token in tokens] for name, tokens in sides.items()}
        fields["metadata"] = MetadataField(SnliPair(**words))
        return labelled_instance(fields, label, LABELS)

    def tokens(self, text: str | list[str]) -> list[Token]:
        """See `TaskReader.tokens`. A premise has several hypotheses: the list is not to be changed."""
        tokenizer = self.text_tokenizer
        if isinstance(text, str) and len(text) <= _MAX_CACHED and isinstance(tokenizer, Hashable):
            return _cached_tokens(tokenizer, text)
        return super().tokens(text)


@lru_cache(maxsize=1 << 12)
def _cached_tokens(tokenizer: Tokenizer, text: str) -> list[Token]:
    return tokenizer.tokenize(text)


def _file_pairs(path: Path, counts: Counter[str]) -> Iterator[_FilePair]:
    blank = None
    for number, line in read_lines(path):
        if not line.strip():
            blank = blank or number
            continue
        if blank:  # blank lines may stand at the end only
            raise InputError.at(path, blank, found="a blank line", expected="a JSON object")
        pair = _parse(path, number, line)
        counts[pair.label] += 1
        if pair.label != _UNDECIDED:
            yield pair
    if not any(counts[label] for label in LABELS):
        found = f"no labelled pair, {_describe_undecided(counts)}"
        raise InputError.at(path, found=found, expected="at least one")


def _describe(counts: Counter[str]) -> str:
    labelled = ", ".join(f"{label} {counts[label]}" for label in LABELS)
    return f"{labelled}; left out: {_describe_undecided(counts)}"


def _describe_undecided(counts: Counter[str]) -> str:
    return f'{counts[_UNDECIDED]} with the label "{_UNDECIDED}"'


def _parse(path: Path, number: int, line: str) -> _FilePair:
    def error(found: str, expected: str) -> InputError:
        return InputError.at(path, number, found=found, expected=expected)

    def sentence(name: str) -> str:
        text = content.get(name)
        if not isinstance(text, str):
            found = f"{name} {json.dumps(text)}" if name in content else f"no {name}"
            raise error(found, f"{name} with a sentence")
        if not text.strip():
            raise error(f"an empty {name}", "a sentence")
        return text

    content = parse_json(line, path, number)
    if not isinstance(content, dict):
        raise error(shorten(line.strip()), "a JSON object")
    label = content.get("gold_label")
    if label not in (*LABELS, _UNDECIDED):
        found = f"the label {json.dumps(label)}" if "gold_label" in content else "no gold_label"
        raise error(found, f"{', '.join(LABELS)} or {_UNDECIDED}")
    return _FilePair(sentence("sentence1"), sentence("sentence2"), label)
