"""
Questions about passages, with the answers in them. `docs/data.md` shows the formats.

They are the official JSON of SQuAD 1.1 and 2.0, https://rajpurkar.github.io/SQuAD-explorer/; a question a
record, as JSON or Parquet, whose `answers` are as in SQuAD or lists by name; and MRQA,
https://github.com/mrqa/MRQA-Shared-Task-2019, whose `char_spans` have inclusive ends.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from elmo_tasks.data.formats import Fit, Format
from elmo_tasks.data.formats.records import is_parquet, read_json_records, read_parquet
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import (
    InputError,
    check_found,
    ids_of,
    input_files,
    place_near,
    shorten_json,
    value_or_error,
)

_NAMES = ("title", "id", "qid")
_OTHER_NAMES = {"context_text": "context", "query_text": "question", "context_id": "id", "query_id": "id"}
"""The names of CMRC 2018, whose answers are texts without their place."""
_NAMES_OF_TYPES = {str: "text", int: "whole number", list: "list"}
_LENGTH_SHOWN = 60


@dataclass
class GoldAnswer:
    """An answer, and the character of the passage at which it starts."""

    text: str
    start: int
    stated: int | None = field(default=None, compare=False)
    """The start that the file states, if the answer is not there."""


@dataclass
class Question:
    """A question. `answers` is empty if the passage has no answer, and `None` if answers are unknown."""

    passage: str
    id: str | None
    text: str
    answers: list[GoldAnswer] | None
    ids: dict[str, Any] = field(default_factory=dict, compare=False)
    """The ids and other short fields of its record, and of its passage."""


def read_questions(
    path: Path,
    *,
    answers: bool = True,
    ids: bool = True,
    places: dict[str, str] | None = None,
    encoding: str | None = None,
) -> Iterator[Question | InputError]:
    """
    Yields the questions of a file, and an error for each bad one, and for each bad answer among good ones. An
    answer that is not at its stated position, but once within 30 characters of it, is taken from there. The
    errors name the file, the line, the paragraph and the question.

    # Parameters

    answers : whether to read the answers.
    ids : whether each question needs an id. A whole number counts as its digits.
    places : where each id was read, in this file and in those before it.
    """
    reader = _Reader(path, answers, ids, {} if places is None else places)
    is_table = is_parquet(path)
    records = read_parquet(path) if is_table else read_json_records(path, encoding=encoding)
    for number, record in enumerate(records, start=1):
        try:
            where = f"{path}, {'row' if is_table else 'line'} {record.line}, record {number}"
            yield from reader.questions(_Node(record.values, where))
        except InputError as error:
            yield error


def read_good_questions(path: str, *, answers: bool = True) -> list[Question]:
    """Returns the questions of the files at a path; a bad one, or a file without any, is an `InputError`."""
    questions: list[Question] = []
    places: dict[str, str] = {}
    for file in input_files(path):
        number = len(questions)
        for question in read_questions(file, answers=answers, places=places):
            if isinstance(question, InputError):
                raise question
            questions.append(question)
        check_found(len(questions) > number, "questions", file)
    return questions


class _Node(dict[str, Any]):
    """An object of the JSON that knows its place in the file, and checks its fields."""

    def __init__(self, content: Any, where: str) -> None:
        self.problem, fields = "", content
        if not isinstance(content, dict):
            self.problem, fields = f"{shorten_json(content, _LENGTH_SHOWN)} is not an object", {}
        super().__init__({str(_OTHER_NAMES.get(key, key)): value for key, value in fields.items()})
        self.where = where + "".join(f" ({fields[key]})" for key in _NAMES if key in fields)

    def error(self, problem: str) -> InputError:
        return InputError(problem, where=self.where)

    def value(self, key: str, kind: type) -> Any:
        if self.problem:
            raise self.error(self.problem)
        if type(self.get(key)) is not kind:
            shown = shorten_json(self[key], _LENGTH_SHOWN) if key in self else "missing"
            raise self.error(f"{key!r} is {shown}, but must be a {_NAMES_OF_TYPES[kind]}")
        return self[key]

    def text(self, key: str) -> str:
        text: str = self.value(key, str)
        if not text.strip():
            raise self.error(f"{key!r} is empty")
        return text

    def children(self, key: str, name: str) -> Iterator["_Node"]:
        return _children(self.value(key, list), self.where, name)


def _children(contents: list[Any], where: str, name: str) -> Iterator[_Node]:
    return (_Node(content, f"{where}, {name} {index}") for index, content in enumerate(contents, start=1))


@dataclass
class _Reader:
    path: Path
    answers: bool
    ids: bool
    places: dict[str, str]

    def questions(self, node: _Node) -> Iterator[Question | InputError]:
        """Yields the questions of an article, of a paragraph, or of a question; none of a header of MRQA."""
        if "paragraphs" in node:
            for paragraph in node.children("paragraphs", "paragraph"):
                yield from self._of_paragraph(paragraph)
        elif "context" in node or "header" not in node:
            yield from self._of_paragraph(node)

    def _of_paragraph(self, node: _Node) -> Iterator[Question | InputError]:
        questions: Iterable[_Node] | InputError = [node]
        if "qas" in node:
            questions = value_or_error(self.path, None, node.children, "qas", "question")
        if isinstance(questions, InputError):
            yield questions
            return
        for question in questions:
            bad_answers: list[InputError] = []
            id = question.get("id", question.get("qid"))
            id = str(id) if type(id) is int else id
            ids = ids_of({**node, **question, "id": id}, ("context", "question"))
            made = value_or_error(self.path, None, self._question, node, question, id, bad_answers, ids=ids)
            made.ids = ids
            yield made
            yield from bad_answers

    def _question(self, paragraph: _Node, node: _Node, id: Any, bad_answers: list[InputError]) -> Question:
        passage, text = paragraph.text("context"), node.text("question")
        if id is not None or self.ids:
            if not isinstance(id, str) or not id.strip():
                raise node.error(f"the id is {shorten_json(id, _LENGTH_SHOWN)}, but must be a text")
            if id in self.places:
                raise node.error(f"{self.places[id]} has the id {id!r}, too")
            self.places[id] = node.where
        return Question(passage, id, text, _answers(node, passage, bad_answers) if self.answers else None)


def _answers(question: _Node, passage: str, errors: list[InputError]) -> list[GoldAnswer]:
    """Returns the answers to a question, and adds the errors of bad ones among them."""
    answers: list[GoldAnswer] = []
    for node in _answer_nodes(question, passage):
        try:
            answers.append(_answer(node, question, passage))
        except InputError as error:
            errors.append(error)
    if errors and not answers:
        first, *_ = errors
        errors.clear()
        raise first
    has_none = isinstance(question.get("answers"), dict) and not answers
    if bool(answers) is bool(question.get("is_impossible", has_none)):
        problem = "answers, but 'is_impossible' is true"
        problem = problem if answers else "no answer, and no 'is_impossible': true"
        raise question.error(f"the question has {problem}")
    return answers


def _answer_nodes(question: _Node, passage: str) -> Iterator[_Node]:
    """Yields the answers to a question, each with `text` and `answer_start`."""
    answers = question.get("answers")
    pairs: Iterable[tuple[Any, Any]]
    if "detected_answers" in question:
        pairs = _detected(question, passage)
    elif isinstance(answers, list) and all(isinstance(each, str) for each in answers):
        pairs = [(text, passage.find(text)) for text in answers]
    elif isinstance(answers, dict):
        both = _Node(answers, question.where)
        pairs = zip_longest(both.value("text", list), both.value("answer_start", list))
    else:
        return question.children("answers", "answer")
    nodes = [{"text": text, "answer_start": start} for text, start in pairs]
    return _children(nodes, question.where, "answer")


def _answer(node: _Node, question: _Node, passage: str) -> GoldAnswer:
    text, start = node.value("text", str), node.value("answer_start", int)
    if start >= 0 and passage.startswith(text, start):
        return GoldAnswer(text, start)
    if (place := place_near(passage, text, start)) is not None:
        return GoldAnswer(text, place, stated=start)
    offset = passage.find(text)
    other = f"it is at {offset}" if offset >= 0 else "it is not in the passage"
    raise question.error(
        f"the answer {shorten_json(text, _LENGTH_SHOWN)} is not at answer_start {start}; {other}"
    )


def _detected(question: _Node, passage: str) -> Iterator[tuple[str, int]]:
    for node in question.children("detected_answers", "answer"):
        for span in node.value("char_spans", list):
            first, last = span if isinstance(span, list) and len(span) == 2 else (None, None)
            if type(first) is not int or type(last) is not int or not 0 <= first <= last < len(passage):
                raise node.error(f"the span {shorten_json(span, _LENGTH_SHOWN)} is not in the passage")
            yield passage[first : last + 1], first


def sample_questions(sample: Sample) -> Iterator[Question]:
    reader = _Reader(sample.files[0], answers=True, ids=False, places={})
    for values in sample.records:
        with suppress(InputError):
            for question in reader.questions(_Node(values, "")):
                if isinstance(question, Question):
                    yield question


def _fit(sample: Sample) -> Fit:
    return Fit.CERTAIN if any(map(_has_questions, sample.records)) else Fit.NO


def _has_questions(record: dict[str, Any]) -> bool:
    node = _Node(record, "")
    paragraphs = node["paragraphs"] if isinstance(node.get("paragraphs"), list) else []
    is_paragraph = "context" in node and ("qas" in node or "question" in node)
    return is_paragraph or any("context" in paragraph for paragraph in _children(paragraphs, "", ""))


FORMATS = (Format("auto", _fit, read_questions),)
