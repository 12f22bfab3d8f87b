"""
Reads and checks the official JSON of SQuAD.

Format: https://rajpurkar.github.io/SQuAD-explorer/, versions 1.1 and 2.0. `data` is a list of articles with a
`title` and `paragraphs`; a paragraph has a `context` and `qas`; a question has `id`, `question` and `answers`
with `text` and `answer_start`, a character of the context, and in 2.0 `is_impossible`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_tasks.data.input_files import InputError, input_files
from elmo_tasks.data.json_lines import read_json, shorten_json

_KINDS = {str: "a string", int: "a whole number", list: "a list"}


@dataclass
class Answer:
    """An answer, and the character of the passage at which it starts."""

    text: str
    start: int


@dataclass
class Question:
    """A question. `answers` is empty if the passage has no answer, and `None` if answers are unknown."""

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
    Reads the files of `input_files(path)`. Without `answers`, it ignores the answers.

    # Raises
    `InputError`, with the file, article, paragraph and question: there is no file; it is not UTF-8, or broken
    JSON; a field is missing, or of another type; a text is empty; a file has no question; an id occurs twice;
    an answer is not at its place; a question has no answer and is not marked as impossible, or it has both.
    """
    places_by_id: dict[str, str] = {}
    for file in input_files(path):
        content = _Node(read_json(file), str(file))
        paragraphs = [
            _paragraph(paragraph, answers, places_by_id)
            for article in content.children("data", "article", name="title")
            for paragraph in article.children("paragraphs", "paragraph")
        ]
        if not any(paragraph.questions for paragraph in paragraphs):
            raise InputError.at(file, found="no question", expected="at least one")
        yield Dataset(file, str(content.optional("version", "")), paragraphs)


def _paragraph(node: "_Node", answers: bool, places_by_id: dict[str, str]) -> Paragraph:
    passage = node.text("context")
    questions = []
    for question in node.children("qas", "question", name="id"):
        id = question.text("id")
        if id in places_by_id:
            raise question.error(f"the id {id!r} of {places_by_id[id]}", "an id of its own")
        places_by_id[id] = question.place
        text = question.text("question")
        questions.append(Question(id, text, _answers(question, passage) if answers else None))
    return Paragraph(passage, questions)


def _answers(question: "_Node", passage: str) -> list[Answer]:
    answers = [
        Answer(answer.text("text"), answer.get("answer_start", int))
        for answer in question.children("answers", "answer")
    ]
    impossible = question.optional("is_impossible", False)
    if bool(answers) is bool(impossible):
        found = f"{len(answers)} answers and 'is_impossible': {_shorten(impossible)}"
        raise question.error(found, "an answer, or 'is_impossible': true")
    for answer in answers:
        at_start = passage[answer.start : answer.start + len(answer.text)] if answer.start >= 0 else ""
        if at_start != answer.text:
            place = passage.find(answer.text)
            hint = f", which is at {place}" if place >= 0 else ", which is not in the passage"
            found = f"{_shorten(at_start)} at answer_start {answer.start}"
            raise question.error(found, f"the answer {_shorten(answer.text)}{hint}")
    return answers


class _Node:
    """An object of the JSON that knows its place in the file, and checks its fields."""

    def __init__(self, content: object, place: str) -> None:
        self.place = place
        if not isinstance(content, dict):
            raise self.error(_shorten(content), "an object")
        self._content = content

    def error(self, found: str, expected: str) -> InputError:
        return InputError.at(self.place, found=found, expected=expected)

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
        value = self.get(key, str)
        if not value.strip():
            raise self.error(f"an empty {key!r}", "a text")
        return value

    def children(self, key: str, kind: str, *, name: str | None = None) -> Iterator["_Node"]:
        for number, content in enumerate(self.get(key, list), start=1):
            named = content.get(name) if name is not None and isinstance(content, dict) else None
            yield _Node(content, f"{self.place}, {kind} {number}" + (f" ({named})" if named else ""))


def _shorten(value: object) -> str:
    return shorten_json(value, length=60)
