"""The tabs of the page: the form of each model, examples, and the title of its answers."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Optional

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.files import bundled
from elmo_tasks.data.json_lines import shorten
from elmo_tasks.data.tokenization import Words, tokenizer
from elmo_tasks.evaluation.mixes import LearnedMix, mixes_of
from elmo_tasks.predictors.interpretation import can_explain
from elmo_tasks.predictors.json_lines import JsonLinesPredictor

EXAMPLES = 5


class Task(NamedTuple):
    """The title of a task, and a sentence about its results."""

    title: str
    description: str


TASKS = {
    "ner": Task("Named entities", "The names in a sentence, their types, and how probable each is."),
    "srl": Task("Semantic roles", "Who did what to whom: the arguments of each predicate."),
    "coref": Task("Coreference", "The words of a text that refer to the same thing."),
    "squad": Task("Question answering", "The part of a passage that answers a question."),
    "snli": Task("Entailment", "Whether a sentence follows from another, contradicts it, or neither."),
    "sst": Task("Sentiment", "How positive a sentence is, and the words that the model attends to."),
    "classification": Task("Classification", "The class of a sentence, or of a pair of sentences."),
}
"""The tasks by their packages; the results of other tasks are shown as JSON."""
_LONG = ("document", "passage")
_LABELS = {"sentence1": "First sentence", "sentence2": "Second sentence"}
_MAX_DIGITS = 9
"""The longest number of a place; Python reads no more than 4,300 digits."""
_CLASSIFIED = {"World": "agnews", "positive": "sst2"}
"""The folder of examples for single sentences, by a label of the data set."""


class Field(NamedTuple):
    """A field of a form."""

    name: str
    label: str
    rows: int = 2
    required: bool = True
    hint: str = ""


_PREDICATES = Field(
    "predicates",
    "Predicates",
    rows=1,
    required=False,
    hint="Words of the sentence, or their places from 0. If empty, a spaCy model finds the verbs.",
)


@dataclass(frozen=True, kw_only=True)
class Tab:
    """
    The tab of a model on the page.

    # Parameters

    name : name of the model.
    task : package of the task.
    fields : the fields of the form.
    examples : example inputs, by field.
    mixes : the mixes that the model has learned.
    explains : whether the model can explain which words a prediction depends on.
    tokenize : the predictor's tokenizer, if words can stand for their places in a field.
    """

    name: str
    task: str
    fields: tuple[Field, ...]
    examples: list[dict[str, str]]
    mixes: list[LearnedMix]
    explains: bool
    tokenize: Optional[Callable[[str], Words]] = None

    @classmethod
    def of(cls, name: str, predictor: JsonLinesPredictor) -> "Tab":
        """Returns the tab of the model with this name."""
        task = predictor.task()
        fields = [
            Field(field, _LABELS.get(field, field.capitalize()), rows=6 if field in _LONG else 2)
            for field in predictor.forms[0]
        ]
        tokenize = None
        if "predicates" in predictor.optional_fields:
            fields.append(_PREDICATES)
            tokenize = getattr(predictor, "_tokenize", None) or tokenizer()
        return cls(
            name=name,
            task=task,
            fields=tuple(fields),
            examples=list(_examples(_fixture(task, predictor), fields, tokenize)),
            mixes=mixes_of(predictor._model, name),
            explains=can_explain(predictor),
            tokenize=tokenize,
        )

    @property
    def about(self) -> Task:
        """The title and description of the task."""
        return TASKS.get(self.task, Task(self.name, "The result of the model, as JSON."))

    def content(self, form: Mapping[str, str]) -> JsonDict:
        """
        Returns the predictor's input from a form.

        # Raises
        `ConfigurationError`: a field is empty, or a word is not in the sentence.
        """
        content: JsonDict = {}
        for field in self.fields:
            text = form.get(field.name, "").replace("\r\n", "\n")
            if field.required and not text.strip():
                raise ConfigurationError(f"{field.label}: found nothing, expected a text")
            if field.required:
                content[field.name] = text
            elif text.strip() and self.tokenize is not None:
                content[field.name] = _places(text, self.tokenize(content["sentence"]).words)
        return content


def _places(text: str, words: list[str]) -> list[int]:
    first_places = {word: place for place, word in reversed([*enumerate(words)])}
    places = []
    for part in re.split(r"[\s,]+", text.strip()):
        if part in first_places:
            places.append(first_places[part])
        elif part.isdecimal() and len(part) <= _MAX_DIGITS:
            places.append(int(part))
        else:
            raise ConfigurationError(
                f"Predicates: found {shorten(repr(part))}, expected words of the sentence, or their places "
                "from 0"
            )
    return places


def _fixture(task: str, predictor: JsonLinesPredictor) -> str:
    """Returns the folder of fixtures with inputs for the model."""
    if task != "classification":
        return task
    if len(predictor.forms[0]) > 1:
        return "classification/mrpc"
    labels = predictor._model.vocab.get_token_to_index_vocabulary("labels")
    folder = next((name for label, name in _CLASSIFIED.items() if label in labels), "klue_tc")
    return f"classification/{folder}"


def _examples(
    folder: str, fields: list[Field], tokenize: Callable[[str], Words] | None
) -> Iterator[dict[str, str]]:
    """Yields a few example inputs, by the fields of the form."""
    path = bundled(f"fixtures/{folder}/predict.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    inputs = (json.loads(line) for line in lines)
    fitting = (one for one in inputs if all(field.name in one for field in fields if field.required))
    for one in islice(fitting, EXAMPLES):
        example = {field.name: one[field.name] for field in fields if one.get(field.name)}
        if tokenize is not None and "predicates" in example:
            words = tokenize(example["sentence"]).words
            example["predicates"] = " ".join(words[place] for place in example["predicates"])
        yield example
