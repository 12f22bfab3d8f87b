"""`allennlp elmo errors`: what a classifier or a model of entities confuses, with the texts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data.fields import LabelField, MultiLabelField

from elmo_tasks.commands.base import Input, ModelVerb, positional
from elmo_tasks.common.progress import progress
from elmo_tasks.data.input_files import shorten
from elmo_tasks.data.tag_schemes import Scheme, Span, to_spans
from elmo_tasks.pipeline.predictor import InputRecord
from elmo_tasks.pipeline.stream import predict
from elmo_tasks.pipeline.trained import task_predictor

SUREST, TEXTS = 10, 3
"""The mistakes that are shown, and the texts of each confusion."""
_LONGEST, _CONTEXT = 120, 4
"""The characters of a text, and the words before and after an entity, that are shown."""


class Mistake(NamedTuple):
    """A wrong label or entity, or a missing one, whose prediction is `None` and has the probability 0."""

    gold: str | None
    predicted: str | None
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
        instances = archive.validation_dataset_reader.read(self.input)
        results: list[JsonDict] = []

        def add(record: InputRecord, result: JsonDict) -> None:
            results.append(result | gold_of(record.content))

        records = map(InputRecord, progress(instances, work="errors", unit="texts"))
        predict(records, task_predictor(archive), add)
        print("\n".join(shown_mistakes(mistakes_in(results))))


def gold_of(instance: Any) -> dict[str, Any]:
    """
    Returns what the data say of an instance: `gold_label`, `gold_labels` or `gold_tags` (IOB2). An instance
    without them is a `ConfigurationError`.
    """
    label = instance.fields.get("label")
    if isinstance(label, LabelField):
        return {"gold_label": label.label}
    if isinstance(label, MultiLabelField):
        return {"gold_labels": list(label.labels)}
    if (tags := getattr(instance["metadata"].metadata, "gold_tags", None)) is not None:
        return {"gold_tags": tags}
    problem = "the text has no label and no tags, so that no mistake can be found"
    raise ConfigurationError(f"{problem}; errors are of classifiers and of models of entities")


def mistakes_in(results: Iterable[JsonDict]) -> list[Mistake]:
    """Returns what is wrong in the JSON objects of results, each with the fields of `gold_of`."""
    return [mistake for result in results for mistake in _mistakes(result)]


def _mistakes(result: JsonDict) -> Iterator[Mistake]:
    if "gold_tags" in result:
        yield from _wrong_entities(result)
        return
    texts = (" ".join(words) for name, words in result.items() if name.endswith("tokens"))
    text, probabilities = " | ".join(texts), result["probabilities"]
    if "gold_labels" in result:
        gold, labels = result["gold_labels"], result["labels"]
        for label in labels:
            if label not in gold:
                yield Mistake(None, label, probabilities[label], text)
        yield from (Mistake(label, None, 0.0, text) for label in gold if label not in labels)
    elif result["label"] is not None and result["label"] != result["gold_label"]:
        label = result["label"]
        yield Mistake(str(result["gold_label"]), label, probabilities[label], text)


def _wrong_entities(result: JsonDict) -> Iterator[Mistake]:
    """Yields predicted entities that are not in the data, and entities that no prediction overlaps."""
    words, gold = result["tokens"], to_spans(result["gold_tags"], Scheme.IOB2)
    entities = result["entities"]
    spans = [Span(each["token_start"], each["token_end"], each["type"]) for each in entities]
    for span, entity in zip(spans, entities, strict=True):
        if span not in gold:
            overlapping = next((each for each in gold if _overlap(each, span)), None)
            truth = None if overlapping is None else overlapping.label
            yield Mistake(truth, span.label, entity["probability"], _in_context(words, span))
    for span in gold:
        if not any(_overlap(span, each) for each in spans):
            yield Mistake(span.label, None, 0.0, _in_context(words, span))


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
    if predicted := [each for each in mistakes if each.predicted is not None]:
        yield "The surest mistakes:"
    for each in sorted(predicted, key=lambda each: -each.probability)[:SUREST]:
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
    if mistake.predicted is None:
        return f"{mistake.gold} missed"
    if mistake.gold is None:
        return f"{mistake.predicted} where it is not"
    return f"{mistake.gold} taken for {mistake.predicted}"
