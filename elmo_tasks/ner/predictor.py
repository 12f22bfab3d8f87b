"""The predictor of entities in plain or tokenised text, from JSON Lines."""

from itertools import chain, islice, pairwise
from typing import Any, cast

from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.data.fields import TextField
from allennlp.predictors import Predictor

from elmo_tasks.common.batches import batch_sizes
from elmo_tasks.data.fields import TagField
from elmo_tasks.data.line_starts import line_starts
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.tag_schemes import Scheme, Span, convert, from_spans
from elmo_tasks.data.tokenization import Words
from elmo_tasks.ner.model import NerResult
from elmo_tasks.ner.reader import NerSentence
from elmo_tasks.pipeline.gradients import Gradients, labelled
from elmo_tasks.pipeline.predictor import SentencePredictor


class NerGradients(Gradients):
    """Gradients of the loss of the tags."""

    def metadata_of(self, instance: Instance) -> NerSentence:
        (words,) = self.texts(instance)
        before = cast(NerSentence, instance["metadata"].metadata)
        tags = convert(cast(TagField, instance["tags"]).labels, Scheme.BIOUL, Scheme.IOB2)
        # A word that has been replaced has no place in the text.
        places = [token.idx for token in cast(TextField, instance["tokens"]).tokens]
        if places == [start for start, _ in before.offsets]:
            return NerSentence(before.words, before.text, before.offsets, tags)
        text = join_words(words)
        return NerSentence(words, text.text, text.offsets, tags)

    def of(self, instances: list[Instance]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tags of the output are BIOUL, as in the instances, since AllenNLP compares the two."""
        gradients, outputs = super().of(instances)
        outputs["tags"] = [convert(tags, Scheme.IOB2, Scheme.BIOUL) for tags in outputs["tags"]]
        return gradients, outputs


@Predictor.register("elmo_ner")
class NerPredictor(SentencePredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`.

    Out: `tokens`, `tags` (IOB2) and `entities`. An entity has `text`, `type`, `token_start`, `token_end`,
    `char_start`, `char_end` (half-open; characters of the sentence, or of the tokens joined by blanks) and
    its `probability` under the CRF, whatever the other entities are. A paragraph, a line of a list or a cell
    is a sentence of its own, which no entity crosses.
    """

    gradients_class = NerGradients
    columns = ("entity", "type", "char_start", "char_end", "probability")

    def empty_result(self, content: Words) -> NerResult | None:
        return None if content.words else NerResult(NerSentence([], content.text, []), [], [])

    def to_instance(self, content: Words) -> Instance:
        return self._dataset_reader.text_to_instance(
            content.words, text=content.text, offsets=content.offsets
        )

    def run(self, instances: list[Instance]) -> list[NerResult]:
        """Runs the model on the lines of all texts, and joins the results of each text."""
        lines_by_text = list(map(self._lines, instances))
        lines = list(chain.from_iterable(lines_by_text))
        if len(lines) == 1:
            return list(super().run(lines))
        results: list[NerResult] = []
        for size in list(batch_sizes([len(line["tokens"]) for line in lines], self.batch_tokens())):
            results += super().run(lines[len(results) : len(results) + size])
        remaining = iter(results)
        return [
            _joined(instance, list(islice(remaining, len(lines_of_text))))
            for instance, lines_of_text in zip(instances, lines_by_text, strict=True)
        ]

    def _lines(self, instance: Instance) -> list[Instance]:
        sentence = instance["metadata"].metadata
        ends = [*line_starts(sentence.text, sentence.offsets)[1:], len(instance["tokens"])]
        if len(ends) == 1:
            return [instance]
        return [
            self.to_instance(Words(sentence.text, sentence.words[start:end], sentence.offsets[start:end]))
            for start, end in pairwise([0, *ends])
        ]

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        """Returns an instance for each entity, with no other entity; without any, one without entities."""
        spans = [
            [Span(entity["token_start"], entity["token_end"], entity["type"])]
            for entity in outputs["entities"]
        ]
        return [self._with_entities(instance, entities) for entities in spans or [[]]]

    def _with_entities(self, instance: Instance, entities: list[Span]) -> Instance:
        copy = labelled(instance)
        tokens = cast(TextField, copy["tokens"])
        copy.fields["tags"] = TagField(from_spans(entities, len(tokens), Scheme.BIOUL), tokens)
        return copy


def _joined(instance: Instance, lines: list[NerResult]) -> NerResult:
    result, start = NerResult(instance["metadata"].metadata, [], []), 0
    for line in lines:
        result.spans += [Span(span.start + start, span.end + start, span.label) for span in line.spans]
        result.probabilities += line.probabilities
        start += len(line.sentence)
    return result
