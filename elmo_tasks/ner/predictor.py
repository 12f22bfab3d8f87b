"""The predictor of entities in plain or tokenised text, from JSON Lines."""

from collections.abc import Iterable
from itertools import chain, islice, pairwise
from typing import Any, cast

from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.data.fields import TextField
from allennlp.predictors import Predictor

from elmo_tasks.common.batches import batches
from elmo_tasks.data.fields import TagField
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.tag_schemes import Scheme, Span, convert, from_spans
from elmo_tasks.data.tokenization import Words, line_starts
from elmo_tasks.ner.model import NerResult
from elmo_tasks.ner.reader import NerSentence
from elmo_tasks.pipeline.explanations import labelled
from elmo_tasks.pipeline.predictor import SentencePredictor


@Predictor.register("elmo_ner")
class NerPredictor(SentencePredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`.

    Out: `tokens`, `tags` (IOB2) and `entities`. An entity has `text`, `type`, `token_start`, `token_end`,
    `char_start`, `char_end` (half-open; characters of the sentence, or of the tokens joined by blanks) and
    its `probability` under the CRF, whatever the other entities are. A paragraph, a line of a list or a cell
    is a sentence of its own, which no entity crosses.
    """

    def empty_result(self, content: Words) -> NerResult | None:
        return None if content.words else NerResult(NerSentence([], content.text, []), [], [])

    def to_instance(self, content: Words) -> Instance:
        return self._dataset_reader.text_to_instance(
            content.words, text=content.text, offsets=content.offsets
        )

    def run(self, instances: list[Instance]) -> list[NerResult]:
        """Runs the model on the lines of all texts, and joins the results of each text."""
        lines = [self._lines(instance) for instance in instances]
        parts = batches(
            chain.from_iterable(lines), lambda line: len(line["metadata"].metadata), self.batch_tokens()
        )
        results = chain.from_iterable(map(super().run, parts))
        return [
            _joined(instance["metadata"].metadata, islice(results, len(lines_of_text)))
            for instance, lines_of_text in zip(instances, lines, strict=True)
        ]

    def _lines(self, instance: Instance) -> list[Instance]:
        sentence = instance["metadata"].metadata
        ends = [*line_starts(sentence.text, sentence.offsets)[1:], len(sentence)]
        if len(ends) == 1:
            return [instance]
        return [
            self.to_instance(Words(sentence.text, sentence.words[start:end], sentence.offsets[start:end]))
            for start, end in pairwise([0, *ends])
        ]

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        """Returns an instance for each entity, with no other entity; without any, one without entities."""
        spans = [Span(each["token_start"], each["token_end"], each["type"]) for each in outputs["entities"]]
        return [self._with_entities(instance, [span]) for span in spans] or [
            self._with_entities(instance, [])
        ]

    def metadata_of(self, instance: Instance) -> NerSentence:
        (words,) = self.texts(instance)
        before = cast(NerSentence, instance["metadata"].metadata)
        tags = convert(cast(TagField, instance["tags"]).labels, Scheme.BIOUL, Scheme.IOB2)
        text = Words(before.text, words, before.offsets) if words == before.words else join_words(words)
        return NerSentence(words, text.text, text.offsets, tags)

    def get_gradients(self, instances: list[Instance]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tags of the output are BIOUL, as in the instances, since AllenNLP compares the two."""
        gradients, outputs = super().get_gradients(instances)
        outputs["tags"] = [convert(tags, Scheme.IOB2, Scheme.BIOUL) for tags in outputs["tags"]]
        return gradients, outputs

    def _with_entities(self, instance: Instance, entities: list[Span]) -> Instance:
        copy = labelled(instance)
        tokens = cast(TextField, copy["tokens"])
        copy.fields["tags"] = TagField(from_spans(entities, len(tokens), Scheme.BIOUL), tokens)
        return copy


def _joined(sentence: NerSentence, lines: Iterable[NerResult]) -> NerResult:
    result, start = NerResult(sentence, [], []), 0
    for line in lines:
        result.spans += [Span(span.start + start, span.end + start, span.label) for span in line.spans]
        result.probabilities += line.probabilities
        start += len(line.sentence)
    return result
