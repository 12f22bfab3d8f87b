"""The predictor of predicates and their arguments in plain or tokenised text, from JSON Lines."""

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.compat.archives import trained_archives
from elmo_tasks.data.input_files import shorten
from elmo_tasks.data.tokenization import RenewedPipeline
from elmo_tasks.predictors.json_lines import INPUT_ERRORS
from elmo_tasks.predictors.text import SentencePredictor, require
from elmo_tasks.predictors.trained import load
from elmo_tasks.srl.reader import SentenceInstance

_VERBS = ("VERB", "AUX")
_HELPING = ("aux", "auxpass")
_ENGLISH = "en_"
TOKENS_AT_ONCE = 4096
"""Tokens, and padding, of sentences whose predicates are found together."""
PREDICATES = "predicates"
"""The archive of the project that finds the words that have roles."""


@Predictor.register("elmo_srl")
class SrlPredictor(SentencePredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`, and optionally `"predicates"`, the places of tokens,
    from 0. By default the predicates are the words that `elmo:predicates` finds, verbs, nouns and adjectives;
    with `spacy_model`, or where elmo_tasks[models] is not installed, the verbs that a spaCy model finds,
    without auxiliaries of other verbs.

    Out: `tokens` and `predicates`. A predicate has its `index`, its word (`predicate`), `arguments`, `tags`
    (IOB2) and a `description`, the sentence with labelled brackets. An argument has `label`, `text` and
    `spans` (half-open; several if it is in parts); the argument labelled V is the predicate itself. With a
    dataset reader, a sentence without predicates has the reason as `no_prediction`; where the file does not
    mark them, they are found as above. An instance of one predicate gives a sentence with this one.

    # Parameters

    spacy_model : name of an installed spaCy model that splits `sentence` into words and finds verbs; by
        default the tokenizer of blank English, and `elmo:predicates` or the first installed English model.
    """

    optional_fields: ClassVar[dict[str, Any]] = {"predicates": list[int]}
    _found: Mapping[tuple[str, ...], list[int]] = MappingProxyType({})

    def predict_instance(self, instance: Instance) -> JsonDict:
        return self.predict_batch_instance([instance])[0]

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        """Predicts all predicates of all sentences in one batch."""
        sentences = list(map(self._sentence, instances))
        propositions = [each for sentence in sentences for each in self.parts(sentence)]
        outputs = iter(super().predict_batch_instance(propositions) if propositions else [])
        return [
            {
                "tokens": sentence.words,
                "predicates": [one for _ in self.parts(sentence) for one in next(outputs)["predicates"]],
                **({"no_prediction": sentence.reason} if sentence.reason else {}),
            }
            for sentence in sentences
        ]

    def parts(self, instance: Instance) -> list[Instance]:
        return (instance.propositions or []) if isinstance(instance, SentenceInstance) else [instance]

    def _sentence(self, instance: Instance) -> SentenceInstance:
        if not isinstance(instance, SentenceInstance):
            return SentenceInstance(instance["metadata"].metadata.words, [instance])
        if instance.propositions is not None:
            return instance
        try:
            predicates = self._verbs(instance.words)
        except ConfigurationError as error:
            return SentenceInstance(instance.words, [], error.message)
        found = self.to_instance((instance.words, predicates))
        found.reason = "" if predicates else "no predicate is found in the sentence"
        return found

    def expect(self, inputs: list[JsonDict]) -> None:
        """Finds the predicates of all sentences together, which is several times as fast as one by one."""
        self._found = {}
        unmarked = [each for each in inputs if isinstance(each, dict) and "predicates" not in each]
        if len(unmarked) < 2 or self._finder is None:
            return
        sentences: list[list[str]] = []
        for json_dict in unmarked:
            # An error comes when the input is read.
            with suppress(*INPUT_ERRORS):
                sentences.append(super().read(json_dict).words)
        sentences = list(filter(None, sentences))
        results = self._finder.answers([{"tokens": words} for words in sentences], TOKENS_AT_ONCE)
        self._found = {
            tuple(words): _places(result)
            for words, result in zip(sentences, results, strict=True)
            if isinstance(result, dict)
        }

    def read(self, json_dict: JsonDict) -> tuple[list[str], list[int]]:
        """Returns the words of a sentence, and the places of its predicates."""
        words = super().read(json_dict).words
        expected = f'"predicates": places of the {len(words)} tokens, from 0'
        indices = require(json_dict, "predicates", list, expected) if "predicates" in json_dict else None
        for index in indices or []:
            if type(index) is not int or index not in range(len(words)):
                raise ConfigurationError(f'"predicates" has {shorten(repr(index))}; expected {expected}')
        return words, self._verbs(words) if indices is None else indices

    def to_instance(self, content: tuple[list[str], list[int]]) -> SentenceInstance:
        words, indices = content
        return SentenceInstance(
            words, [self._dataset_reader.text_to_instance(words, index) for index in indices]
        )

    def least_tokens(self, content: tuple[list[str], list[int]]) -> int:
        """Returns the number of tokens in all instances: the sentence once for each predicate."""
        words, indices = content
        return len(words) * len(indices)

    def _verbs(self, words: list[str]) -> list[int]:
        if not words:
            return []
        if (found := self._found.get(tuple(words))) is not None:
            return found
        if self._finder is not None:
            return _places(self._finder.predict_json({"tokens": words}))
        tagged = self._tagger.analyze(words)
        if not any(token.pos_ for token in tagged):
            name = self._tagger(0).meta["name"]
            raise ConfigurationError(
                f"the spaCy model {name!r} finds no parts of speech; expected one that does, or "
                '"predicates" in the input'
            )
        return [token.i for token in tagged if token.pos_ in _VERBS and token.dep_ not in _HELPING]

    @cached_property
    def _english_model(self) -> str | None:
        """The spaCy model that is asked for, or the first English one that is installed."""
        from spacy.util import get_installed_models

        installed = (name for name in sorted(get_installed_models()) if name.startswith(_ENGLISH))
        return self._spacy_model or next(installed, None)

    @cached_property
    def _finder(self) -> SentencePredictor | None:
        """The predictor of `elmo:predicates`, unless a spaCy model takes its place."""
        if self._spacy_model is not None or PREDICATES not in trained_archives():
            return None
        return load(PREDICATES).predictor

    @cached_property
    def _tagger(self) -> RenewedPipeline:
        import spacy  # takes a third of a second

        if self._english_model is None:
            raise ConfigurationError(
                'found no "predicates", and no model that finds them; expected "predicates": the places of '
                "tokens, from 0, or elmo_tasks[models], or `python -m spacy download en_core_web_sm`"
            )
        return RenewedPipeline(partial(spacy.load, self._english_model))


def _places(result: JsonDict) -> list[int]:
    """Returns the places of the words that `elmo:predicates` finds."""
    return [entity["token_start"] for entity in result["entities"]]
