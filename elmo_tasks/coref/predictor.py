"""The predictor of clusters in plain or tokenised documents, from JSON Lines."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

import torch
from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance, TextFieldTensors
from allennlp.data.fields import MetadataField
from allennlp.nn.util import get_text_field_mask
from allennlp.predictors import Predictor

from elmo_tasks.coref.documents import CorefDocument
from elmo_tasks.coref.model import CorefResult
from elmo_tasks.data.input_files import NoWordsError
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.tokenization import Words, sentence_rules
from elmo_tasks.pipeline.gradients import Gradients
from elmo_tasks.pipeline.predictor import TextPredictor, require, require_tokens

_INPUT_FORMS = '"document": a string, "sentences": a list of lists of strings, or "tokens": a list of strings'
_PARAGRAPH = re.compile(r"\S.*?(?=\n[ \t\r]*\n|\Z)", re.DOTALL)


class CorefGradients(Gradients):
    """Gradients of the loss of the clusters, by the whole document as one text."""

    def metadata_of(self, instance: Instance) -> CorefDocument:
        return instance["metadata"].metadata

    def texts(self, instance: Instance) -> list[list[str]]:
        return [self.metadata_of(instance).words.words]

    def observe(self, texts: list[torch.Tensor]) -> list[torch.Tensor]:
        return list(torch.cat(super().observe([torch.cat(texts)])).split(list(map(len, texts))))

    def observed_methods(self) -> dict[str, Callable[..., Any]]:
        embed = self._model.embed_sentences
        document: list[Any] = []

        def cached_embed(tokens: TextFieldTensors, rows: torch.Tensor, longest: int) -> Any:
            if not document:
                mask = get_text_field_mask(tokens, num_wrapping_dims=1)[0]
                document.extend(embed(tokens, torch.arange(len(mask), device=mask.device), mask.shape[1]))
            vectors, elmo = document
            if elmo.output is not None:
                elmo = elmo._replace(output=elmo.output[rows, :longest])
            return vectors[rows, :longest], elmo

        return super().observed_methods() | {"embed_sentences": cached_embed}


@Predictor.register("elmo_coref")
class CorefPredictor(TextPredictor):
    """
    In: `{"document": "..."}` or `{"tokens": ["..."]}`, both split into sentences by spaCy's rules, a document
    also at empty lines; or `{"sentences": [["..."]]}`, optionally with `speakers`, a list for each sentence.
    All may have a `doc_key`, which tells the genre. So the reader's JSON Lines are inputs, too.

    Out: `tokens`; `clusters`, each a list of [first, last] token, both inclusive, from 0; `mentions`, the
    same with `text`, `char_start` and `char_end` (half-open); `marked`, the text with `[0 ...]` around the
    mentions of cluster 0, and so on; `pronouns`, for each its `token`, the most probable `name` in its
    cluster ([first, last] token), the `probability` of the name, and whether it is `replaced` in `resolved`,
    the text with pronouns replaced whose name has a probability of 0.9 or more.
    The text is the document, or the tokens joined by blanks.
    """

    forms = ({"document": str}, {"tokens": list[str]}, {"sentences": list[list[str]]})
    max_group = 1
    gradients_class = CorefGradients
    optional_fields: ClassVar[Mapping[str, type]] = {"doc_key": str, "speakers": list[list[str]]}

    def run(self, instances: list[Instance]) -> list[CorefResult]:
        """Predicts the documents one by one, since a batch of the model is one document."""
        run = super().run
        return [result for instance in instances for result in run([instance])]

    def empty_result(self, content: CorefDocument | None) -> CorefResult | None:
        if content is not None:
            return None
        return CorefResult(CorefDocument("", [], [], words=join_words([])), [], {})

    def to_instance(self, content: CorefDocument) -> Instance:
        return self._dataset_reader.text_to_instance(content)

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        """Returns an instance for each cluster, with no other cluster; without any, one without clusters."""
        document: CorefDocument = instance["metadata"].metadata
        clusters = [[list(map(tuple, cluster))] for cluster in outputs["clusters"]]
        return [
            Instance({**instance.fields, "metadata": MetadataField(replace(document, clusters=one))})
            for one in clusters or [[]]
        ]

    def read(self, json_dict: JsonDict) -> CorefDocument | None:
        if "sentences" in json_dict:
            try:
                return CorefDocument.from_record(json_dict | {"clusters": None})
            except NoWordsError:
                return None
        if "speakers" in json_dict:
            raise ConfigurationError('"speakers" is a list for each sentence, and needs "sentences"')
        if "tokens" in json_dict:
            words = join_words(require_tokens(json_dict, _INPUT_FORMS))
            paragraphs = [words.words]
        else:
            words, paragraphs = self._paragraphs(require(json_dict, "document", str, _INPUT_FORMS))
        if not words.words:
            return None
        sentences = [
            paragraph[sentence.start : sentence.end]
            for paragraph in paragraphs
            for sentence in sentence_rules().analyze(paragraph).sents
        ]
        return CorefDocument.of(sentences, id=str(json_dict.get("doc_key", "")), words=words)

    def _paragraphs(self, text: str) -> tuple[Words, list[list[str]]]:
        paragraphs = [(match.start(), self._tokenize(match[0])) for match in _PARAGRAPH.finditer(text)]
        offsets = [
            (before + start, before + end)
            for before, paragraph in paragraphs
            for start, end in paragraph.offsets
        ]
        words = [paragraph.words for _, paragraph in paragraphs]
        return Words(text, list(chain.from_iterable(words)), offsets), words
