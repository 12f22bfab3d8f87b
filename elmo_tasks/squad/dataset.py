"""
Reads and checks files of questions.

- The official JSON of SQuAD 1.1 and 2.0, https://rajpurkar.github.io/SQuAD-explorer/: `data` is a list of
  articles with a `title` and `paragraphs`; a paragraph has a `context` and `qas`; a question has `id`,
  `question` and `answers` with `text` and `answer_start`, a character of the context, and in 2.0
  `is_impossible`.
- A question a record, as JSON Lines, a list, `{"data": [...]}` or Parquet: `context`, `question`, `id`, and
  `answers` as above or as `{"text": [...], "answer_start": [...]}`, whose lists are empty if there is none.
- MRQA, https://github.com/mrqa/MRQA-Shared-Task-2019: JSON Lines with a header, a `context` and `qas` a line;
  a question has `qid`, `question` and `detected_answers` with `char_spans`, whose ends are inclusive.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from elmo_tasks.data.formats.records import is_parquet, read_json_records, read_parquet
from elmo_tasks.data.input_files import InputError, Record, input_files, read_json, read_lines, shorten_json

_KINDS = {str: "a string", int: "a whole number", list: "a list"}
_NAMES = ("title", "id", "qid")
"""The fields by which errors name an article or a question."""
_NEAR = 30
"""The most characters between the stated position of an answer and the actual one."""


@dataclass
class Answer:
    """An answer, and the character of the passage at which it starts."""

    text: str
    start: int


@dataclass
class Question:
    """
    A question. `answers` is empty if the passage has no answer, and `None` if answers are unknown. A bad
    question has its error, with its id.
    """

    id: str | None
    text: str
    answers: list[Answer] | None
    error: InputError | None = None


@dataclass
class Paragraph:
    """A passage with its questions."""

    passage: str
    questions: list[Question]


@dataclass
class Dataset:
    """The content of a file, the errors of bad questions and answers, and the answers that were mended."""

    path: Path
    version: str
    paragraphs: list[Paragraph]
    errors: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)


def read_datasets(
    path: str,
    *,
    answers: bool = True,
    ids: bool = True,
    bad: Literal["raise", "leave out", "keep"] = "raise",
    encoding: str | None = None,
) -> Iterator[Dataset]:
    """
    Reads the files of `input_files(path)`. An answer that is not at its stated position, but once within
    30 characters of it, is mended.

    # Parameters

    answers : whether to read the answers.
    ids : whether each question needs an id. A whole number counts as its digits.
    bad : whether a bad question, or bad answer among others, is an error, is left out, or, with its
        `error`, is kept.

    # Raises
    `InputError`, with the file and the line or the article, paragraph and question: there is no file, or no
    question in one; broken JSON; a field is missing, or of another type; a text is empty; an id occurs twice;
    an answer is not at its position; a question has no answer and is not marked as impossible, or it has
    both.
    """
    locations_by_id: dict[str, str] = {}
    for file in input_files(path):
        version, records = _records(file, encoding)
        read = _File(Dataset(file, version, []), locations_by_id, answers=answers, ids=ids, bad=bad)
        dataset = read(records)
        if not any(paragraph.questions for paragraph in dataset.paragraphs):
            found = "no question" + (f" that is not bad ({dataset.errors[0]})" if dataset.errors else "")
            raise InputError.at(file, found=found, expected="at least one")
        yield dataset


def _records(file: Path, encoding: str | None) -> tuple[str, Iterable["_Node | InputError"]]:
    """Returns the version of a file, and its articles, paragraphs or questions, or errors in their place."""
    if is_parquet(file):
        return "", (_Node(row.values, f"{file}, row {row.line}") for row in read_parquet(file))
    lines = (line.strip() for _, line in read_lines(file, encoding=encoding))
    first = list(islice(filter(None, lines), 2))
    if len(first) == 2 and all(line.startswith("{") and line.endswith("}") for line in first):
        records = read_json_records(file, encoding=encoding)
        return "", (_node(record, f"{file}, line {record.line}") for record in records)
    content = read_json(file, encoding=encoding)
    if isinstance(content, dict) and "data" not in content and ("context" in content or "header" in content):
        content = [content]  # one line
    if isinstance(content, list):
        return "", _nodes(content, str(file), "record")
    whole = _Node(content, str(file))
    data = whole.get("data", list)
    flat = isinstance(next(iter(data), None), dict) and "paragraphs" not in data[0] and "context" in data[0]
    return str(whole.optional("version", "")), _nodes(data, str(file), "record" if flat else "article")


class _File:
    def __init__(
        self, dataset: Dataset, locations_by_id: dict[str, str], *, answers: bool, ids: bool, bad: str
    ) -> None:
        self._dataset, self._locations_by_id = dataset, locations_by_id
        self._answered, self._ids, self._bad = answers, ids, bad

    def __call__(self, records: Iterable["_Node | InputError"]) -> Dataset:
        paragraphs = self._dataset.paragraphs
        for record in records:
            if isinstance(record, InputError):
                self._left_out(record)
                if self._bad == "keep":
                    paragraphs.append(Paragraph("", [Question(None, "", None, record)]))
                continue
            for paragraph in self._paragraphs(record):
                # Records of questions about the same passage come in a row.
                if (
                    "context" in record
                    and "qas" not in record
                    and paragraphs
                    and paragraphs[-1].passage == paragraph.passage
                ):
                    paragraphs[-1].questions.extend(paragraph.questions)
                elif paragraph.questions or paragraph.passage:
                    paragraphs.append(paragraph)
        return self._dataset

    def _paragraphs(self, node: "_Node") -> Iterator[Paragraph]:
        if "header" in node and "context" not in node:
            return
        if "paragraphs" not in node and not {"context", "qas"} & node.keys():
            raise node.error(
                f"the fields {_shorten(sorted(node.keys()))}", "'paragraphs', or 'context' and a question"
            )
        if "paragraphs" in node:
            for paragraph in node.children("paragraphs", "paragraph"):
                yield from self._paragraphs(paragraph)
            return
        try:
            passage = node.text("context")
        except InputError as error:
            self._left_out(error)
            passage = ""
        questions = node.children("qas", "question") if "qas" in node else [node]
        yield Paragraph(
            passage, [each for question in questions for each in self._question(question, passage)]
        )

    def _question(self, node: "_Node", passage: str) -> Iterator[Question]:
        id = node.optional("id", node.optional("qid"))
        id = str(id) if type(id) is int else id
        try:
            if not passage:
                raise node.error("no passage", "a 'context' with words")
            if id is not None or self._ids:
                id = self._own_id(node, id)
            text = node.text("question")
            yield Question(id, text, self._answers(node, passage) if self._answered else None)
        except InputError as error:
            self._left_out(error, repeated=not passage)
            if self._bad == "keep":
                error.ids = {"id": id} if isinstance(id, str) else {}
                yield Question(None, "", None, error)

    def _own_id(self, node: "_Node", id: Any) -> str:
        if not isinstance(id, str) or not id.strip():
            node.text("id")
        if id in self._locations_by_id:
            raise node.error(f"the id {id!r} of {self._locations_by_id[id]}", "an id of its own")
        self._locations_by_id[id] = node.location
        return id

    def _left_out(self, error: InputError, *, repeated: bool = False) -> None:
        if self._bad == "raise":
            raise error
        if not repeated:
            self._dataset.errors.append(str(error))

    def _answers(self, question: "_Node", passage: str) -> list[Answer]:
        if "detected_answers" in question:
            return _detected(question, passage)
        answers, errors = [], []
        for node in _answer_nodes(question):
            try:
                answers.append(self._answer(node, question, passage))
            except InputError as error:
                errors.append(error)
        if errors and (self._bad == "raise" or not answers):
            raise errors[0]
        self._dataset.errors.extend(map(str, errors))
        impossible = question.optional(
            "is_impossible", isinstance(question.optional("answers"), dict) and not answers
        )
        if bool(answers) is bool(impossible):
            found = f"{len(answers)} answers and 'is_impossible': {_shorten(impossible)}"
            raise question.error(found, "an answer, or 'is_impossible': true")
        return answers

    def _answer(self, node: "_Node", question: "_Node", passage: str) -> Answer:
        text, start = node.get("text", str), node.get("answer_start", int)
        at_start = passage[start : start + len(text)] if start >= 0 else ""
        if at_start == text:
            return Answer(text, start)
        begin = max(0, start - _NEAR)
        near = passage[begin : max(0, start + len(text) + _NEAR)]
        expected = f"the answer {_shorten(text)}"
        if text and (offset := near.find(text)) >= 0 and near.find(text, offset + 1) < 0:
            found = f"{_shorten(at_start)} at answer_start {start}"
            self._dataset.mended.append(
                f"{question.location}: found {found}, and {expected} at {begin + offset}"
            )
            return Answer(text, begin + offset)
        offset = passage.find(text)
        hint = f", which is at {offset}" if offset >= 0 else ", which is not in the passage"
        raise question.error(f"{_shorten(at_start)} at answer_start {start}", expected + hint)


def _answer_nodes(question: "_Node") -> Iterator["_Node"]:
    """Yields the answers of a question, each with `text` and `answer_start`."""
    if not isinstance(question.optional("answers"), dict):
        yield from question.children("answers", "answer")
        return
    both = _Node(question.optional("answers"), f"{question.location}, answers")
    texts, starts = both.get("text", list), both.get("answer_start", list)
    if len(texts) != len(starts):
        raise both.error(f"{len(texts)} of 'text' and {len(starts)} of 'answer_start'", "as many")
    pairs = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    yield from _nodes(pairs, question.location, "answer")


def _detected(question: "_Node", passage: str) -> list[Answer]:
    answers = []
    for node in question.children("detected_answers", "answer"):
        for span in node.get("char_spans", list):
            if not isinstance(span, list) or list(map(type, span)) != [int, int]:
                raise node.error(f"the span {_shorten(span)}", "the first and the last character")
            first, last = span
            if not 0 <= first <= last < len(passage):
                raise node.error(f"the span {_shorten(span)}", f"one within {len(passage)} characters")
            answers.append(Answer(passage[first : last + 1], first))
    if not answers:
        raise question.error("no answer among 'detected_answers'", "at least one")
    return answers


class _Node:
    """An object of the JSON that knows its location in the file, and checks its fields."""

    def __init__(self, content: object, location: str) -> None:
        self.location = location
        if not isinstance(content, dict):
            raise self.error(_shorten(content), "an object")
        self._content = content

    def error(self, found: str, expected: str) -> InputError:
        return InputError.at(self.location, found=found, expected=expected)

    def optional(self, key: str, default: Any = None) -> Any:
        return self._content.get(key, default)

    def __contains__(self, key: str) -> bool:
        return key in self._content

    def keys(self) -> set[str]:
        return set(self._content)

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

    def children(self, key: str, kind: str) -> Iterator["_Node"]:
        return _nodes(self.get(key, list), self.location, kind)


def _node(record: Record, location: str) -> "_Node | InputError":
    try:
        return _Node(record.values, location)
    except InputError as error:
        return error


def _nodes(contents: list[Any], location: str, kind: str) -> Iterator[_Node]:
    for index, content in enumerate(contents, start=1):
        named = [content[key] for key in _NAMES if key in content] if isinstance(content, dict) else []
        yield _Node(content, f"{location}, {kind} {index}" + (f" ({named[0]})" if named else ""))


def _shorten(value: object) -> str:
    return shorten_json(value, length=60)
