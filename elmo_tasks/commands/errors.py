"""`allennlp elmo errors`: what a classifier or a model of entities confuses, with the texts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance
from allennlp.data.fields import LabelField

from elmo_tasks.commands.base import Input, ModelVerb, positional
from elmo_tasks.common.progress import progress
from elmo_tasks.data.fields import TagField
from elmo_tasks.data.input_files import shorten
from elmo_tasks.data.reader import texts_of
from elmo_tasks.data.tag_schemes import Scheme, Span, to_spans
from elmo_tasks.ner.model import NerResult
from elmo_tasks.pipeline.predictor import InputRecord, TaskPredictor
from elmo_tasks.pipeline.results import LabelResult, TaskResult
from elmo_tasks.pipeline.trained import task_predictor

SUREST, TEXTS = 10, 3
"""The mistakes that are shown, and the texts of each confusion."""
_NONE = "none"
_LONGEST, _CONTEXT = 120, 4
"""Characters of a text, and the words beside an entity."""


class Mistake(NamedTuple):
    """A wrong label, or an entity that is wrong or missing; its `probability` is that of the prediction."""

    gold: str
    predicted: str
    probability: float
    text: str


class Errors(ModelVerb):
    name = "errors"
    help = "The surest mistakes of a model, and what it confuses."
    description = """Predicts labelled data, as `allennlp evaluate` reads them, with a classifier or a model
        of entities. Shows the ten mistakes with the highest probability, and then how often each class, or
        type of entity, is taken for another, with three texts."""

    input: Input = positional("FILE", "data, as the archive's dataset reader reads it")

    def run(self) -> None:
        archive = self.open()
        instances = progress(archive.validation_dataset_reader.read(self.input), work="errors", unit="texts")
        for line in shown_mistakes(find_mistakes(task_predictor(archive), instances)):
            print(line)


def find_mistakes(predictor: TaskPredictor, instances: Iterable[Instance]) -> list[Mistake]:
    """
    Predicts labelled instances, and returns what is wrong. `ConfigurationError`: a result is neither a label
    nor entities, or an instance has no gold label.
    """
    instances = list(instances)
    results = predictor.stream(map(InputRecord, instances))
    return [
        each
        for instance, result in zip(instances, results, strict=True)
        for each in _mistakes(instance, result)
    ]


def _mistakes(instance: Instance, result: TaskResult) -> Iterator[Mistake]:
    label, tags = instance.fields.get("label"), instance.fields.get("tags")
    if isinstance(result, LabelResult) and isinstance(label, LabelField):
        if result.label is not None and result.label != label.label:
            words = (" ".join(token.text or "" for token in text.tokens) for text in texts_of([instance]))
            probability = result.probabilities[result.label]
            yield Mistake(str(label.label), result.label, probability, " | ".join(words))
    elif isinstance(result, NerResult) and isinstance(tags, TagField):
        yield from _wrong_entities(result, to_spans(tags.labels, Scheme.BIOUL))
    else:
        kinds = "labelled texts and a classifier, or tagged words and a model of entities"
        raise ConfigurationError(f"mistakes are found of {kinds}, not of a {type(result).__name__}")


def _wrong_entities(result: NerResult, gold: Sequence[Span]) -> Iterator[Mistake]:
    """Yields predicted entities that are not in the data, and entities that no prediction overlaps."""
    for span, probability in zip(result.spans, result.probabilities, strict=True):
        if span not in gold:
            overlapping = next((each for each in gold if _overlap(each, span)), None)
            truth = _NONE if overlapping is None else overlapping.label
            yield Mistake(truth, span.label, probability, _in_context(result.sentence.words, span))
    for span in gold:
        if not any(_overlap(span, each) for each in result.spans):
            yield Mistake(span.label, _NONE, 0.0, _in_context(result.sentence.words, span))


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _in_context(words: Sequence[str], span: Span) -> str:
    before, after = words[max(0, span.start - _CONTEXT) : span.start], words[span.end : span.end + _CONTEXT]
    return " ".join([*before, f"[{' '.join(words[span.start : span.end])}]", *after])


def shown_mistakes(mistakes: Sequence[Mistake]) -> Iterator[str]:
    """Yields lines with the surest mistakes, and with the confusions, the most frequent first."""
    if not mistakes:
        yield "No mistake."
        return
    yield "The surest mistakes:"
    for each in sorted(mistakes, key=lambda each: -each.probability)[:SUREST]:
        if each.predicted != _NONE:
            yield f"  {_confusion(each)} ({each.probability:.2f}): {shorten(each.text, _LONGEST)}"
    texts: dict[str, list[str]] = defaultdict(list)
    for each in mistakes:
        texts[_confusion(each)].append(each.text)
    yield "The confusions:"
    for confusion, count in Counter(map(_confusion, mistakes)).most_common():
        yield f"  {confusion}: {count:,}"
        yield from (f"    {shorten(text, _LONGEST)}" for text in texts[confusion][:TEXTS])


def _confusion(mistake: Mistake) -> str:
    if mistake.gold == mistake.predicted:
        return f"{mistake.gold} with other words"
    return f"{mistake.gold} taken for {mistake.predicted}"
