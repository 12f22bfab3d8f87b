"""Entities of plain or tokenised text, from JSON Lines."""

from typing import Any, cast

from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.data.fields import TextField
from allennlp.predictors import Predictor

from elmo_tasks.data.fields import TagField
from elmo_tasks.data.tag_schemes import Scheme, Span, convert, from_spans
from elmo_tasks.data.tokenization import Words, joined
from elmo_tasks.ner.reader import NerSentence
from elmo_tasks.predictors.interpretation import labelled
from elmo_tasks.predictors.text import SentencePredictor


@Predictor.register("elmo_ner")
class NerPredictor(SentencePredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`. Out: `tokens`, `tags` (IOB2) and `entities`: `text`,
    `type`, `token_start`, `token_end`, `char_start`, `char_end` (half-open; characters of the sentence, or
    of the tokens joined by blanks) and `probability`: of just this entity, under the CRF.
    """

    def empty_result(self, content: Words) -> JsonDict | None:
        return None if content.words else {"tokens": [], "tags": [], "entities": []}

    def to_instance(self, content: Words) -> Instance:
        return self._dataset_reader.text_to_instance(
            content.words, text=content.text, offsets=content.offsets
        )

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        """One for each entity, in which all else is O; of a sentence without any, one with that."""
        spans = [
            [Span(entity["token_start"], entity["token_end"], entity["type"])]
            for entity in outputs["entities"]
        ]
        return [self._labelled(instance, entity) for entity in spans or [[]]]

    def metadata_of(self, instance: Instance) -> NerSentence:
        (words,) = self.texts(instance)
        before = cast(NerSentence, instance["metadata"].metadata)
        tags = convert(cast(TagField, instance["tags"]).labels, Scheme.BIOUL, Scheme.IOB2)
        if words == before.words:
            return NerSentence(words, before.text, before.offsets, tags)
        placed = joined(words)
        return NerSentence(words, placed.text, placed.offsets, tags)

    def get_gradients(self, instances: list[Instance]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tags of the output are BIOUL, as in the instances: AllenNLP compares the two."""
        gradients, outputs = super().get_gradients(instances)
        outputs["tags"] = [convert(tags, Scheme.IOB2, Scheme.BIOUL) for tags in outputs["tags"]]
        return gradients, outputs

    def _labelled(self, instance: Instance, entity: list[Span]) -> Instance:
        copied = labelled(instance)
        tokens = cast(TextField, copied["tokens"])
        copied.fields["tags"] = TagField(from_spans(entity, len(tokens), Scheme.BIOUL), tokens)
        return copied
