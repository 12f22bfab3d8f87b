"""The tabs of the page: the form of each model, its examples, and the line that says what it is."""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError

from elmo_tasks.archives.opening import TRAINED, trained_archives, trained_card
from elmo_tasks.common import colours
from elmo_tasks.common.errors import errors_as
from elmo_tasks.common.files import json_value
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.data.input_files import shorten
from elmo_tasks.data.tokenization import Words, tokenizer
from elmo_tasks.pipeline.explanations import can_explain
from elmo_tasks.pipeline.predictor import TaskPredictor
from elmo_tasks.srl.predictor import sentence_starts
from elmo_tasks.vectors.encoder import LearnedMix, mixes_of


class Task(NamedTuple):
    title: str
    question: str
    description: str
    seconds: float = 0.0
    """Seconds for 100 words, until a service has answered a longer text."""


TASKS = {
    "ner": Task(
        "Named entities", "Who is named?", "The names in a text, their types, and how probable each is."
    ),
    "srl": Task(
        "Semantic roles",
        "Who did what to whom?",
        "The predicates of a text, and their arguments.",
        seconds=0.5,
    ),
    "coref": Task("Coreference", "Who is “she”?", "The words of a text that refer to the same thing."),
    "squad": Task(
        "Question answering", "What does the text say?", "The part of a passage that answers a question."
    ),
    "snli": Task(
        "Entailment",
        "Does it follow?",
        "Whether a sentence follows from another, contradicts it, or neither.",
    ),
    "sst": Task(
        "Graded sentiment",
        "How positive is it?",
        "The sentiment of a sentence, and the words that the model attends to.",
    ),
    "classification": Task(
        "Classification", "Which class is it?", "The class of a text, or of a pair of texts."
    ),
    "sentiment": Task(
        "Sentiment", "Praise or complaint?", "Whether a text is negative, neutral or positive."
    ),
    "topics": Task("News topics", "What is it about?", "The topic of a piece of news."),
}
"""By their packages, or by the name of a trained model; the results of other tasks are shown as JSON."""
_LONG_FIELDS = ("document", "passage")
_FIELD_LABELS = {
    "sentence": "Text",
    "document": "Text",
    "sentence1": "First sentence",
    "sentence2": "Second sentence",
}


_PARSERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (int, "A whole number."),
    float: (float, "A number."),
    list[str]: (str.split, "Words, with blanks between them."),
    list[int]: (lambda text: list(map(int, text.split())), "Whole numbers, with blanks between them."),
}
"""How a field reads values of other types than texts, and its hint."""


class Field(NamedTuple):
    name: str
    label: str
    rows: int = 2
    required: bool = True
    hint: str = ""
    parse: Callable[[str], Any] = str

    @classmethod
    def of(cls, name: str, kind: Any) -> "Field":
        """Returns the field of a value of a type."""
        label = _FIELD_LABELS.get(name, name.replace("_", " ").capitalize())
        parse, hint = _PARSERS.get(kind, (str, ""))
        return cls(name, label, rows=6 if name in _LONG_FIELDS else 2, hint=hint, parse=parse)

    def value(self, text: str) -> Any:
        try:
            return self.parse(text)
        except ValueError as error:
            raise ConfigurationError(f"The field “{self.label}” is “{shorten(text)}”. {self.hint}") from error

    @property
    def is_long(self) -> bool:
        return self.name in _LONG_FIELDS


PREDICATES_FIELD = Field(
    "predicates",
    "Predicates",
    rows=1,
    required=False,
    hint="Words of the sentence, or their positions from 0. If the field is empty, the predicates are found.",
)

JSON_FIELD = Field("json", "Input, as a JSON object", rows=6)
"""The form of a model whose predictor names no texts."""


@dataclass(frozen=True, kw_only=True)
class Tab:
    name: str
    task: str
    """The package of the task."""
    about: Task
    fields: tuple[Field, ...]
    examples: list[dict[str, str]]
    colours: Mapping[str, int]
    """The number of the colour of each type of entities, or of each role."""
    card: str = ""
    """Says what the model is, on which data it was trained, its score, and what it cannot do."""
    mixes: list[LearnedMix]
    explains: bool
    tokenize: Callable[[str], Words] | None = None
    """The predictor's tokenizer, if a field may have words in place of their indices."""

    @classmethod
    def of(cls, name: str, predictor: TaskPredictor, *, archive: str = "") -> "Tab":
        """
        Returns the tab of a model. An `archive` that comes with the project has a card and examples; another
        one has the examples of the project's model for the task.
        """
        fields = [Field.of(*item) for item in predictor.forms[0].items()] or [JSON_FIELD]
        trained = archive.removeprefix(TRAINED) if archive.startswith(TRAINED) else predictor.task()
        about = trained_card(trained) if trained in trained_archives() else {}
        card = ""
        if archive.startswith(TRAINED):
            score = f"on dev data {about['score']}"
            card = f"{about['task']}; trained on {about['data']}; {score}. {about['limits']}"
        names = [field.name for field in fields]
        of_task = [example for example in about.get("examples", []) if example.keys() >= set(names)]
        examples = [{name: example[name] for name in names} for example in of_task]
        tokenize = None
        if "predicates" in predictor.optional_fields:
            fields.append(PREDICATES_FIELD)
            tokenize = getattr(predictor, "_tokenize", None) or tokenizer()
        other = Task(name.capitalize(), "What does it say?", "The result of the model, as JSON.")
        task = TASKS.get(trained, other)
        if trained == "classification":
            task = task._replace(title=name.capitalize())
        return cls(
            name=name,
            task=predictor.task(),
            about=task,
            fields=tuple(fields),
            examples=examples,
            colours=colours.of_tags(predictor._model.vocab.get_token_to_index_vocabulary("labels")),
            card=card,
            mixes=mixes_of(predictor._model, name),
            explains=can_explain(predictor),
            tokenize=tokenize,
        )

    def title_of(self, example: Mapping[str, str]) -> str:
        """Returns the texts of an example, a question before its passage."""
        fields = sorted(self.fields, key=lambda field: field.is_long)
        return " · ".join(example[field.name] for field in fields if field.name in example)

    def sentence_of(self, text: str, predicate: JsonDict) -> tuple[int, int]:
        """Returns the characters `[start, end)` of the sentence of a predicate."""
        assert self.tokenize is not None
        words = self.tokenize(text)
        starts = sentence_starts(words)
        sentence = bisect_right(starts, predicate["index"])
        first, end = starts[sentence - 1], [*starts, len(words.words)][sentence]
        return words.offsets[first][0], words.offsets[end - 1][1]

    def content(self, form: Mapping[str, str]) -> JsonDict:
        """Returns the predictor's input from a form. A `ConfigurationError` is in the words of a reader."""
        content: JsonDict = {}
        if self.fields == (JSON_FIELD,):
            with errors_as(ConfigError, "The input is not a JSON object", (ValueError, TypeError)):
                return dict(json_value(form.get(JSON_FIELD.name, "")))
        for field in self.fields:
            text = form.get(field.name, "").replace("\r\n", "\n")
            if field.required and not text.strip():
                raise ConfigurationError(f"The field “{field.label}” is empty. Please fill it in.")
            if field.required:
                content[field.name] = field.value(text)
            elif text.strip() and self.tokenize is not None:
                content[field.name] = _indices(text, self.tokenize(content["sentence"]).words)
        return content


def index_of(word: str, words: list[str]) -> int | None:
    """Returns the first index of a word, in its own case or else in any; `None` if it is not there."""
    if word in words:
        return words.index(word)
    folded = [other.casefold() for other in words]
    return folded.index(word.casefold()) if word.casefold() in folded else None


def _indices(text: str, words: list[str]) -> list[int]:
    indices = []
    for part in re.split(r"[\s,]+", text.strip().strip(",")):
        index = index_of(part, words)
        if index is None and part.isdecimal() and len(part) < 10:
            index = int(part)
        if index is None or index >= len(words):
            raise ConfigurationError(
                f"“{shorten(part)}” is not in the sentence. Predicates are words of the sentence, or their "
                f"positions from 0 to {len(words) - 1}; leave the field empty to have them found."
            )
        indices.append(index)
    return indices
