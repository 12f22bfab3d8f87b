"""Reads questions whose answers are spans of a passage: SQuAD 1.1 and 2.0."""

import logging
import random
import re
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Annotated, Any

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance
from allennlp.data.fields import Field, IndexField, MetadataField, TextField

from elmo_tasks.common.values import OneOf
from elmo_tasks.data.fields import Metadata, no_prediction
from elmo_tasks.data.formats import Finding, Fit
from elmo_tasks.data.formats.questions import FORMATS, GoldAnswer, Question, read_questions, sample_questions
from elmo_tasks.data.formats.records import is_parquet
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import InputError, shorten
from elmo_tasks.data.reader import TaskReader, group_id, text_field
from elmo_tasks.data.tally import Tally
from elmo_tasks.data.tokenization import SpacyRules, Words, tokenizer_of_script

logger = logging.getLogger(__name__)

TRAINING_ANSWERS = ("first", "most_frequent", "random")
NO_SPAN = (-100, -100)
"""The span of a question without an answer on token boundaries, which PyTorch's losses leave out."""

_DASHES = r"\-~\u2010-\u2015\u2212"
_CURRENCIES = r"$\u00a2-\u00a5\u20a0-\u20cf"
_JOINERS = r"/:;\"\u201c-\u201e()\[\]{}\u00b0\u00d7"
"""Other characters that join words and at which spaCy does not split."""
_SPLIT = _DASHES + _CURRENCIES + _JOINERS
PIECES = re.compile(f"[{_SPLIT}]|[^{_SPLIT}]+")
_USUAL = 0.05
"""The share of answers off the token boundaries above which there is a warning."""
_SHOWN = 3
_SAMPLE = 1000
_TOKENIZERS = "characters, whitespace, elmo_syllables, or a language or model of spaCy"


@dataclass
class SquadQuestion(Metadata):
    passage: Words
    question: Words
    id: str | None = None
    answers: list[str] | None = None
    """All gold answers; empty if the question has no answer, `None` for prediction."""

    @property
    def paragraph(self) -> int:
        """An id that is equal for questions of equal passages."""
        return group_id(self.passage.text)

    def __getitem__(self, name: str) -> Any:
        """Knows AllenNLP's names, too."""
        names = {
            "original_passage": self.passage.text,
            "token_offsets": self.passage.offsets,
            "passage_tokens": self.passage.words,
            "question_tokens": self.question.words,
            "answer_texts": self.answers,
        }
        return names[name] if name in names else super().__getitem__(name)

    def __len__(self) -> int:
        """Counts the tokens of the passage, by which samplers sort."""
        return len(self.passage.words)


@DatasetReader.register("elmo_squad")
class SquadReader(TaskReader):
    """
    Reads SQuAD's JSON, a question a record, and MRQA; see `data/formats/questions.py`. spaCy's words are
    split at hyphens, dashes and currency signs.

    Instances have `passage`, `question`, `metadata` (a `SquadQuestion`) and, in labelled data, `span_start`
    and `span_end`: the first and the last token of the answer to train on, or `NO_SPAN`. An answer that is
    not on token boundaries serves evaluation alone, and is counted in the log. `skip_bad` also leaves out bad
    answers.

    # Parameters

    training_answer : the answer to train on if there are several: the `first`, the `most_frequent` or a
        `random` one, drawn by the question's text, so the same in each run.
    unanswerable : whether to keep the questions of SQuAD 2.0 that have no answer, for which the model needs
        `no_answer`. If not, a warning has their number.
    The others : see `TaskReader`.
    """

    formats = FORMATS

    def __init__(
        self,
        *,
        training_answer: Annotated[str, OneOf(TRAINING_ANSWERS)] = "first",
        unanswerable: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.training_answer = training_answer
        self.unanswerable = unanswerable
        self._last_passage: _Passage | None = None

    def examples(self, file_path: str) -> Iterator[list[Question | InputError]]:
        total = yield from self.read_files(file_path, partial(self._file, places={}))
        if not total["questions"] and not self.every_record:
            remedy = "unanswerable: true keeps such questions"
            raise InputError("no question has an answer", where=file_path, remedy=remedy)

    def _file(
        self, path: Path, counts: Tally, *, places: dict[str, str]
    ) -> Generator[list[Question | InputError]]:
        examples = read_questions(
            path, answers=not self.every_record, ids=False, places=places, encoding=self.encoding
        )
        if not self.every_record:
            examples = self.valid_examples(path, examples)
        for _, group in groupby(examples, key=lambda example: getattr(example, "passage", None)):
            questions = list(group)
            counts["paragraphs"] += 1
            for question in questions:
                if isinstance(question, InputError):
                    counts["bad questions"] += 1
                elif not self._keeps(question):
                    problem = "the reader's key `unanswerable: true` keeps questions without an answer"
                    problem += ", for models with no_answer: true"
                    counts.count_oddity("questions left out", None, problem)
                else:
                    counts["questions"] += 1
                    counts["questions without an answer"] += not question.answers
                    counts["answers"] += len(question.answers or ())
                    for answer in question.answers or ():
                        if answer.stated is not None:
                            kind = "answers near their answer_start, which is wrong"
                            problem = f"{shorten(answer.text)!r} is at {answer.start}, not at {answer.stated}"
                            counts.count_oddity(kind, None, problem)
            yield questions

    def _read(self, file_path: str) -> Iterator[Instance]:
        num_answers = num_misaligned = 0
        misaligned: list[str] = []
        try:
            for question in chain.from_iterable(self.shard_iterable(self.examples(file_path))):
                if isinstance(question, InputError):
                    yield no_prediction(question)
                elif self._keeps(question):
                    passage = self._passage_text(question.passage)
                    off = [answer.text for answer in question.answers or () if passage.span(answer) is None]
                    num_answers += len(question.answers or ())
                    num_misaligned += len(off)
                    misaligned += [repr(shorten(text)) for text in off[: _SHOWN - len(misaligned)]]
                    instance = self.text_to_instance(
                        question.text, question.passage, question.answers, id=question.id
                    )
                    instance["metadata"].metadata.ids = question.ids
                    yield instance
        finally:  # also if max_instances ends the reading
            what = f"{num_misaligned} of {num_answers} answers are not on token boundaries"
            what = f"{what} ({'; '.join(misaligned)})"
            remedy = f"choose a tokenizer that splits there: {_TOKENIZERS}"
            level = logging.WARNING if num_misaligned > _USUAL * num_answers else logging.INFO
            if misaligned:
                logger.log(level, "%s: %s, and no use in training; %s", file_path, what, remedy)
        if misaligned and num_misaligned == num_answers:
            raise InputError(what, where=file_path, remedy=remedy)

    def _keeps(self, question: Question) -> bool:
        return bool(question.answers) or self.unanswerable or self.every_record

    @classmethod
    def find(cls, sample: Sample) -> Finding:
        """Returns the keys; some questions have no answer, and not all languages have blanks."""
        if (fit := super().find(sample).fit) is Fit.NO:
            return Finding(fit)
        questions = sample_questions(sample)
        first = list(islice(questions, _SAMPLE))
        unanswerable = any(not question.answers for question in chain(first, questions))
        passages = dict.fromkeys(question.passage for question in first)
        tokenizer = tokenizer_of_script("".join(passages))
        keys = {"unanswerable": unanswerable, "tokenizer": tokenizer}
        return Finding(fit, [{name: value for name, value in keys.items() if value}])

    def format_of(self, files: Sequence[Path]) -> str:
        return "parquet" if is_parquet(files[0]) else "json"

    def labels_of(self, instance: Instance) -> Iterator[str]:
        answers = instance["metadata"].metadata.answers
        if answers is not None:
            yield "answer" if answers else "no answer"

    def text_to_instance(
        self, question: str, passage: str, answers: list[GoldAnswer] | None = None, *, id: str | None = None
    ) -> Instance:
        """Raises an error if the question or the passage has no words."""
        passage_text = self._passage_text(passage)
        question_words = self.split(question)
        for name, text in (("passage", passage_text.words), ("question", question_words)):
            if not text.words:
                raise ConfigurationError(f"the {name} has no words")
        metadata = SquadQuestion(passage_text.words, question_words, id)
        fields: dict[str, Field] = {
            "passage": passage_text.field,
            "question": text_field(question_words),
            "metadata": MetadataField(metadata),
        }
        if answers is not None:
            metadata.answers = [answer.text for answer in answers]
            spans = list(filter(None, map(passage_text.span, answers))) or [NO_SPAN]
            chosen = spans[0]
            if self.training_answer == "most_frequent":
                chosen = Counter(spans).most_common(1)[0][0]
            elif self.training_answer == "random":
                chosen = random.Random(question).choice(spans)
            fields |= span_fields(chosen, passage_text.field)
        return Instance(fields)

    def _passage_text(self, text: str) -> "_Passage":
        """Splits a passage once for all questions of its paragraph, which come in a row."""
        if self._last_passage is None or self._last_passage.words.text != text:
            self._last_passage = _Passage(self.split(text))
        return self._last_passage

    def split(self, text: str) -> Words:
        """Splits a text, and spaCy's words also at hyphens, currency signs and more."""
        tokens = super().split(text)
        if not isinstance(self.text_tokenizer, SpacyRules):
            return tokens
        words, offsets = [], []
        for word, (start, _) in zip(tokens.words, tokens.offsets, strict=True):
            for piece in PIECES.finditer(word):
                words.append(piece.group())
                offsets.append((start + piece.start(), start + piece.end()))
        return Words(text, words, offsets)


class _Passage:
    """A tokenised passage. Its questions share its `TextField`, which is indexed once."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.field = text_field(self.words)
        self._first = {start: token for token, (start, _) in enumerate(self.words.offsets)}
        self._last = {end: token for token, (_, end) in enumerate(self.words.offsets)}

    def span(self, answer: GoldAnswer) -> tuple[int, int] | None:
        """Finds the first and the last token of an answer; `None` if it is not on token boundaries."""
        text = answer.text.rstrip()
        start = answer.start + len(text) - len(text.lstrip())
        first, last = self._first.get(start), self._last.get(answer.start + len(text))
        return None if first is None or last is None else (first, last)


def span_fields(span: tuple[int, int], passage: TextField) -> dict[str, Field]:
    return {"span_start": IndexField(span[0], passage), "span_end": IndexField(span[1], passage)}
