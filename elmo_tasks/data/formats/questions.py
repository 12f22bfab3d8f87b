"""
Questions about passages, with the answers in them.

- The official JSON of SQuAD 1.1 and 2.0, https://rajpurkar.github.io/SQuAD-explorer/: `data` is a list of
  articles with a `title` and `paragraphs`; a paragraph has a `context` and `qas`; a question has `id`,
  `question` and `answers` with `text` and `answer_start`, a character of the context, and in 2.0
  `is_impossible`.
- A question a record, as JSON Lines, a list, `{"data": [...]}` or Parquet: `context`, `question`, `id`, and
  `answers` as above or as `{"text": [...], "answer_start": [...]}`, whose lists are empty if there is none.
- MRQA, https://github.com/mrqa/MRQA-Shared-Task-2019: JSON Lines with a header, a `context` and `qas` a line;
  a question has `qid`, `question` and `detected_answers` with `char_spans`, whose ends are inclusive.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from elmo_tasks.data.formats.base import CERTAIN, FileSample, Format
from elmo_tasks.data.formats.records import first_values, is_parquet, read_json_records, read_parquet
from elmo_tasks.data.input_files import InputError, Record, check_found, input_files, shorten_json

_NAMES = ("title", "id", "qid")
"""The fields by which errors name an article or a question."""
_NAMES_OF_TYPES = {str: "text", int: "whole number", list: "list"}
_NEAR = 30
"""The most characters between the stated position of an answer and the actual one."""
_LENGTH_SHOWN = 60


@dataclass
class Answer:
    """An answer, and the character of the passage at which it starts."""

    text: str
    start: int
    stated: int | None = field(default=None, compare=False)
    """The start that the file states, if the answer is not there."""


@dataclass
class Question:
    """
    A question. `answers` is empty if the passage has no answer, and `None` if answers are unknown. `error`
    belongs to a bad question, `bad_answers` to bad answers among good ones.
    """

    id: str | None
    text: str
    answers: list[Answer] | None
    error: InputError | None = None
    bad_answers: list[InputError] = field(default_factory=list)


@dataclass
class Paragraph:
    """A passage with its questions."""

    passage: str
    questions: list[Question]


@dataclass
class QuestionFile:
    """The paragraphs of a file."""

    path: Path
    paragraphs: list[Paragraph]

    @property
    def questions(self) -> list[Question]:
        return [question for paragraph in self.paragraphs for question in paragraph.questions]

    @property
    def errors(self) -> list[InputError]:
        """The errors of bad questions, and of bad answers to others."""
        of_questions = ([each.error] if each.error else each.bad_answers for each in self.questions)
        return [error for errors in of_questions for error in errors]


def read_questions(
    path: str | list[str],
    *,
    answers: bool = True,
    ids: bool = True,
    strict: bool = True,
    encoding: str | None = None,
) -> Iterator[QuestionFile]:
    """
    Reads the files of `input_files(path)`. An answer that is not at its stated position, but once within 30
    characters of it, is taken from there.

    # Parameters

    answers : whether to read the answers.
    ids : whether each question needs an id. A whole number counts as its digits.
    strict : whether the first bad question or answer is an error; otherwise they keep their errors.

    # Raises
    `InputError`, with the file, the line, the paragraph and the question: a missing file, or a file without
    questions; broken JSON; a field that is missing or of another type; an empty text; an id that occurs
    twice; an answer at another position; a question without an answer that is not marked as impossible, or
    one with both.
    """
    places: dict[str, str] = {}
    for file in input_files(path):
        is_table = is_parquet(file)
        records = read_parquet(file) if is_table else read_json_records(file, encoding=encoding)
        reader = _Reader(answers, ids, places)
        for number, record in enumerate(records, start=1):
            reader.read(record, f"{file}, {'row' if is_table else 'line'} {record.line}, record {number}")
        content = QuestionFile(file, reader.paragraphs)
        if strict and content.errors:
            raise content.errors[0]
        check_found(content.questions, "questions", file)
        yield content


class _Node(dict[str, Any]):
    """An object of the JSON that knows its place in the file, and checks its fields."""

    def __init__(self, content: Any, where: str) -> None:
        if not isinstance(content, dict):
            raise InputError(f"{shorten_json(content, _LENGTH_SHOWN)} is not an object", where=where)
        super().__init__(content)
        self.where = where + "".join(f" ({content[key]})" for key in _NAMES if key in content)

    def error(self, problem: str) -> InputError:
        return InputError(problem, where=self.where)

    def value(self, key: str, kind: type) -> Any:
        """Returns a field, which must be of that kind."""
        if type(self.get(key)) is not kind:
            shown = shorten_json(self[key], _LENGTH_SHOWN) if key in self else "missing"
            raise self.error(f"{key!r} is {shown}, but must be a {_NAMES_OF_TYPES[kind]}")
        return self[key]

    def text(self, key: str) -> str:
        """Returns a text, which has words."""
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
    answers: bool
    ids: bool
    places: dict[str, str]
    """Where each id was read."""
    paragraphs: list[Paragraph] = field(default_factory=list)

    def read(self, record: Record, where: str) -> None:
        """Reads an article, a paragraph or a question; skips a header of MRQA."""
        try:
            node = _Node(record.values, where)
        except InputError as error:
            self.paragraphs.append(Paragraph("", [Question(None, "", None, error)]))
            return
        if "paragraphs" in node:
            self.paragraphs += map(self._paragraph, node.children("paragraphs", "paragraph"))
        elif "context" in node or "header" not in node:
            paragraph = self._paragraph(node)
            # Records of questions about the same passage come in a row.
            if self.paragraphs and "qas" not in node and self.paragraphs[-1].passage == paragraph.passage:
                self.paragraphs[-1].questions += paragraph.questions
            else:
                self.paragraphs.append(paragraph)

    def _paragraph(self, node: _Node) -> Paragraph:
        questions = list(node.children("qas", "question")) if "qas" in node else [node]
        try:
            passage = node.text("context")
        except InputError as error:
            bad = [Question(None, "", None, _with_id(error, _id_of(question))) for question in questions]
            return Paragraph("", bad or [Question(None, "", None, error)])
        return Paragraph(passage, [self._question(each, passage) for each in questions])

    def _question(self, node: _Node, passage: str) -> Question:
        id = _id_of(node)
        try:
            if id is not None or self.ids:
                self._check_id(node, id)
            text = node.text("question")
            answers, errors = _answers(node, passage) if self.answers else (None, [])
            return Question(id, text, answers, bad_answers=errors)
        except InputError as error:
            return Question(None, "", None, _with_id(error, id))

    def _check_id(self, node: _Node, id: Any) -> None:
        if not isinstance(id, str) or not id.strip():
            raise node.error(f"the id is {shorten_json(id, _LENGTH_SHOWN)}, but must be a text")
        if id in self.places:
            raise node.error(f"{self.places[id]} has the id {id!r}, too")
        self.places[id] = node.where


def _id_of(node: _Node) -> Any:
    id = node.get("id", node.get("qid"))
    return str(id) if type(id) is int else id


def _with_id(error: InputError, id: Any) -> InputError:
    own = InputError(error.what, where=error.where, line=error.line)
    own.ids = {"id": id} if isinstance(id, str) else {}
    return own


def _answers(question: _Node, passage: str) -> tuple[list[Answer], list[InputError]]:
    """Returns the answers to a question, and the errors of bad ones among them."""
    answers: list[Answer] = []
    errors: list[InputError] = []
    if "detected_answers" in question:
        answers = _detected(question, passage)
    else:
        for node in _answer_nodes(question):
            try:
                answers.append(_answer(node, question, passage))
            except InputError as error:
                errors.append(error)
    if errors and not answers:
        raise errors[0]
    has_none = isinstance(question.get("answers"), dict) and not answers
    if bool(answers) is bool(question.get("is_impossible", has_none)):
        problem = (
            "answers, but 'is_impossible' is true" if answers else "no answer, and no 'is_impossible': true"
        )
        raise question.error(f"the question has {problem}")
    return answers, errors


def _answer_nodes(question: _Node) -> Iterator[_Node]:
    """Yields the answers to a question, each with `text` and `answer_start`."""
    if not isinstance(question.get("answers"), dict):
        return question.children("answers", "answer")
    both = _Node(question["answers"], question.where)
    texts, starts = both.value("text", list), both.value("answer_start", list)
    pairs = [{"text": text, "answer_start": start} for text, start in zip_longest(texts, starts)]
    return _children(pairs, question.where, "answer")


def _answer(node: _Node, question: _Node, passage: str) -> Answer:
    text, start = node.value("text", str), node.value("answer_start", int)
    if start >= 0 and passage.startswith(text, start):
        return Answer(text, start)
    begin = max(0, start - _NEAR)
    near = passage[begin : max(0, start + len(text) + _NEAR)]
    if text in near and near.find(text) == near.rfind(text):
        return Answer(text, begin + near.index(text), stated=start)
    offset = passage.find(text)
    other = f"it is at {offset}" if offset >= 0 else "it is not in the passage"
    raise question.error(
        f"the answer {shorten_json(text, _LENGTH_SHOWN)} is not at answer_start {start}; {other}"
    )


def _detected(question: _Node, passage: str) -> list[Answer]:
    answers = []
    for node in question.children("detected_answers", "answer"):
        for span in node.value("char_spans", list):
            first, last = span if isinstance(span, list) and len(span) == 2 else (None, None)
            if type(first) is not int or type(last) is not int or not 0 <= first <= last < len(passage):
                raise node.error(f"the span {shorten_json(span, _LENGTH_SHOWN)} is not in the passage")
            answers.append(Answer(passage[first : last + 1], first))
    return answers


def _detect_questions(sample: FileSample) -> float:
    values = first_values(sample)
    has_questions = "context" in values and ("qas" in values or "question" in values)
    return CERTAIN if has_questions or "paragraphs" in values or isinstance(values.get("header"), dict) else 0


FORMATS = (Format("auto", _detect_questions, read_questions),)
