"""
The official JSON of SQuAD, checked.

Format: https://rajpurkar.github.io/SQuAD-explorer/, versions 1.1 and 2.0: `data`, a list of articles with a
`title` and `paragraphs`; of each its `context` and `qas`; of each question `id`, `question`, `answers` with
`text` and `answer_start`, a character of the context, and in 2.0 `is_impossible`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from elmo_tasks.data.input_files import InputError, input_files
from elmo_tasks.data.json_lines import read_json, shorten_json

_shorten = partial(shorten_json, length=60)
_KINDS = {str: "a string", int: "a whole number", list: "a list", dict: "an object", bool: "true or false"}


@dataclass
class Answer:
    """An answer, and the character of the passage where it starts."""

    text: str
    start: int


@dataclass
class Question:
    """`answers` is empty where there is none in the passage, and `None` where they are not known."""

    id: str
    text: str
    answers: list[Answer] | None


@dataclass
class Paragraph:
    """A passage with its questions."""

    passage: str
    questions: list[Question]


@dataclass
class Dataset:
    """The content of a file."""

    path: Path
    version: str
    paragraphs: list[Paragraph]


def read_datasets(path: str, *, answers: bool = True) -> Iterator[Dataset]:
    """
    The files that `path` stands for, as in `input_files`. Without `answers`, they are not looked at.

    # Raises `InputError`, with the file, article, paragraph and question: no file, not UTF-8, broken JSON, a
    field that is missing or of another type, an empty text, no question in a file, an id that was there
    before, an answer that is not where it is said to be, no answer to a question that is not marked as
    impossible, or one to a question that is.
    """
    seen: dict[str, str] = {}
    for file in input_files(path):
        content = _Node(read_json(file), str(file))
        paragraphs = [
            _paragraph(paragraph, answers, seen)
            for article in content.children("data", "article", name="title")
            for paragraph in article.children("paragraphs", "paragraph")
        ]
        if not any(paragraph.questions for paragraph in paragraphs):
            raise InputError.at(file, found="no question", expected="at least one")
        yield Dataset(file, str(content.optional("version", "")), paragraphs)


class _Node:
    """An object of the JSON that knows where it stands, and checks what is asked of it."""

    def __init__(self, content: object, where: str) -> None:
        self.where = where
        if not isinstance(content, dict):
            raise self.error(f"{_shorten(content)}", "an object")
        self._content = content

    def error(self, found: str, expected: str) -> InputError:
        return InputError.at(self.where, found=found, expected=expected)

    def optional(self, key: str, default: object) -> object:
        return self._content.get(key, default)

    def get(self, key: str, kind: type) -> Any:
        if key not in self._content:
            raise self.error(f"no {key!r}", f"{key!r}: {_KINDS[kind]}")
        value = self._content[key]
        if type(value) is not kind:
            raise self.error(f"{key!r}: {_shorten(value)}", _KINDS[kind])
        return value

    def text(self, key: str) -> str:
        """The string of a key, which is not blank."""
        value = self.get(key, str)
        if not value.strip():
            raise self.error(f"an empty {key!r}", "a text")
        return value

    def children(self, key: str, kind: str, *, name: str | None = None) -> Iterator["_Node"]:
        for number, content in enumerate(self.get(key, list), start=1):
            of_name = content.get(name) if name is not None and isinstance(content, dict) else None
            label = f"{kind} {number}" + (f" ({of_name})" if of_name else "")
            yield _Node(content, f"{self.where}, {label}")


def _paragraph(node: _Node, answers: bool, seen: dict[str, str]) -> Paragraph:
    passage = node.text("context")
    questions = []
    for entry in node.children("qas", "question", name="id"):
        id = entry.text("id")
        if id in seen:
            raise entry.error(f"the id {id!r} of {seen[id]}", "an id of its own")
        seen[id] = entry.where
        questions.append(Question(id, entry.text("question"), _answers(entry, passage) if answers else None))
    return Paragraph(passage, questions)


def _answers(question: _Node, passage: str) -> list[Answer]:
    answers = [
        Answer(answer.text("text"), answer.get("answer_start", int))
        for answer in question.children("answers", "answer")
    ]
    impossible = question.optional("is_impossible", False)
    if bool(answers) is bool(impossible):
        found = f"{len(answers)} answers and 'is_impossible': {_shorten(impossible)}"
        raise question.error(found, "an answer, or 'is_impossible': true")
    for answer in answers:
        there = passage[answer.start : answer.start + len(answer.text)] if answer.start >= 0 else ""
        if there != answer.text:
            place = passage.find(answer.text)
            hint = f", which is at {place}" if place >= 0 else ", which is not in the passage"
            found = f"{_shorten(there)} at answer_start {answer.start}"
            raise question.error(found, f"the answer {_shorten(answer.text)}{hint}")
    return answers
