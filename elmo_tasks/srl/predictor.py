"""The predictor of predicates and their arguments in plain or tokenised text, from JSON Lines."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.archives.slim import trained_archives
from elmo_tasks.common.batches import batches
from elmo_tasks.data.input_files import shorten
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.tokenization import RenewedPipeline, Words, sentence_rules
from elmo_tasks.predictors.json_lines import INPUT_ERRORS, TOKENS_AT_ONCE
from elmo_tasks.predictors.text import SentencePredictor, require
from elmo_tasks.predictors.trained import load
from elmo_tasks.srl.reader import SentenceInstance

_VERBS = ("VERB", "AUX")
_HELPING = ("aux", "auxpass")
_ENGLISH = "en_"
PREDICATES = "predicates"
"""The archive of the project that finds the words that have roles."""


class SentencesWithPredicates(NamedTuple):
    """The words of a text, the indices of its predicates, and the first word of each of its sentences."""

    text: Words
    predicates: list[int]
    starts: list[int]

    def sentence_of(self, predicate: int) -> range:
        """Returns the indices of the words of a predicate's sentence."""
        sentence = bisect_right(self.starts, predicate)
        return range(self.starts[sentence - 1], [*self.starts, len(self.text.words)][sentence])


@Predictor.register("elmo_srl")
class SrlPredictor(SentencePredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`, and optionally `"predicates"`, the indices of tokens,
    from 0. A `sentence` may be a text of several, which are found by spaCy's rules and read one by one. By
    default the predicates are the words that `elmo:predicates` finds, verbs, nouns and adjectives; with
    `spacy_model`, or where elmo_tasks[models] is not installed, the verbs that a spaCy model finds, without
    auxiliaries of other verbs.

    Out: `tokens` and `predicates`. A predicate has its `index`, its word (`predicate`), its `char_start` and
    `char_end`, `arguments`, `tags` (IOB2) and a `description`, its sentence with labelled brackets. An
    argument has `label`, `text`, and its parts as `spans` of tokens and `char_spans` of characters; the
    argument labelled V is the predicate itself. Ends are half-open; characters are those of the text, or of
    the tokens joined by blanks. With a dataset reader, a sentence without predicates has the reason as
    `no_prediction`; where the file does not mark them, they are found as above. An instance of one predicate
    gives a sentence with this one.

    # Parameters

    spacy_model : name of an installed spaCy model that splits `sentence` into words and finds verbs; by
        default the tokenizer of blank English, and `elmo:predicates` or the first installed English model.
    """

    optional_fields: ClassVar[dict[str, Any]] = {"predicates": list[int]}
    _predicates_by_words: Mapping[tuple[str, ...], list[int]] = MappingProxyType({})

    def predict_instance(self, instance: Instance) -> JsonDict:
        return self.predict_batch_instance([instance])[0]

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        """Predicts the predicates of all texts, many at once."""
        sentences = list(map(self._sentence, instances))
        propositions = [each for sentence in sentences for each in self.parts(sentence)]
        parts = batches(propositions, self._length, TOKENS_AT_ONCE)
        outputs = chain.from_iterable(map(super().predict_batch_instance, parts))
        return [
            {
                "tokens": sentence.text.words,
                "predicates": [
                    _in_text(predicate, start, sentence.text)
                    for start in sentence.starts
                    for predicate in next(outputs)["predicates"]
                ],
                **({"no_prediction": sentence.reason} if sentence.reason else {}),
            }
            for sentence in sentences
        ]

    @staticmethod
    def _length(proposition: Instance) -> int:
        return len(proposition["metadata"].metadata)

    def parts(self, instance: Instance) -> list[Instance]:
        return (instance.propositions or []) if isinstance(instance, SentenceInstance) else [instance]

    def _sentence(self, instance: Instance) -> SentenceInstance:
        if not isinstance(instance, SentenceInstance):
            return SentenceInstance(join_words(instance["metadata"].metadata.words), [instance])
        if instance.propositions is not None:
            return instance
        try:
            predicates = self._find_predicates(instance.text.words)
        except ConfigurationError as error:
            return SentenceInstance(instance.text, [], error.message)
        found = self.to_instance(SentencesWithPredicates(instance.text, predicates, [0]))
        found.reason = "" if predicates else "no predicate is found in the sentence"
        return found

    def begin_batch(self, inputs: list[JsonDict]) -> None:
        """Finds the predicates of all sentences together, which is several times as fast as one by one."""
        self._predicates_by_words = {}
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
        self._predicates_by_words = {
            tuple(words): _indices(result)
            for words, result in zip(sentences, results, strict=True)
            if isinstance(result, dict)
        }

    def read(self, json_dict: JsonDict) -> SentencesWithPredicates:
        """Returns the words of a text, its sentences, and the indices of its predicates."""
        text: Words = super().read(json_dict)
        expected = f'"predicates": indices of the {len(text.words)} tokens, from 0'
        indices = require(json_dict, "predicates", list, expected) if "predicates" in json_dict else None
        for index in indices or []:
            if type(index) is not int or index not in range(len(text.words)):
                raise ConfigurationError(f'"predicates" has {shorten(repr(index))}; expected {expected}')
        predicates = self._find_predicates(text.words) if indices is None else indices
        starts = [0] if "tokens" in json_dict else list(_sentence_starts(text.words))
        return SentencesWithPredicates(text, predicates, starts)

    def to_instance(self, content: SentencesWithPredicates) -> SentenceInstance:
        text, predicates, _ = content
        sentences = list(map(content.sentence_of, predicates))
        propositions = [
            self._dataset_reader.text_to_instance(
                text.words[sentence[0] : sentence[-1] + 1], index - sentence[0]
            )
            for index, sentence in zip(predicates, sentences, strict=True)
        ]
        return SentenceInstance(text, propositions, starts=[sentence[0] for sentence in sentences])

    def min_tokens(self, content: SentencesWithPredicates) -> int:
        """Returns the number of tokens in all instances: a sentence once for each of its predicates."""
        return sum(len(content.sentence_of(predicate)) for predicate in content.predicates)

    def _find_predicates(self, words: list[str]) -> list[int]:
        if not words:
            return []
        if (found := self._predicates_by_words.get(tuple(words))) is not None:
            return found
        if self._finder is not None:
            return _indices(self._finder.predict_json({"tokens": words}))
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
        """The predictor of `elmo:predicates`, unless a spaCy model replaces it."""
        if self._spacy_model is not None or PREDICATES not in trained_archives():
            return None
        return load(PREDICATES).predictor

    @cached_property
    def _tagger(self) -> RenewedPipeline:
        import spacy  # takes a third of a second

        if self._english_model is None:
            raise ConfigurationError(
                'found no "predicates", and no model that finds them; expected "predicates": the indices of '
                "tokens, from 0, or elmo_tasks[models], or `python -m spacy download en_core_web_sm`"
            )
        return RenewedPipeline(partial(spacy.load, self._english_model))


def _indices(result: JsonDict) -> list[int]:
    """Returns the indices of the words that `elmo:predicates` finds."""
    return [entity["token_start"] for entity in result["entities"]]


def _sentence_starts(words: list[str]) -> Iterator[int]:
    """Yields the first word of each sentence; one that begins in lower case continues the sentence before."""
    for sentence in sentence_rules().analyze(words).sents if words else ():
        if sentence.start == 0 or not words[sentence.start].islower():
            yield sentence.start


def _in_text(predicate: JsonDict, start: int, text: Words) -> JsonDict:
    """Returns a predicate with its positions in the text; its sentence begins at the word `start`."""
    index, tags = predicate["index"] + start, predicate["tags"]
    char_start, char_end = text.offsets[index]
    return predicate | {
        "index": index,
        "char_start": char_start,
        "char_end": char_end,
        "arguments": [_argument_in_text(argument, start, text) for argument in predicate["arguments"]],
        "tags": ["O"] * start + tags + ["O"] * (len(text.words) - start - len(tags)),
    }


def _argument_in_text(argument: JsonDict, start: int, text: Words) -> JsonDict:
    spans = [[first + start, end + start] for first, end in argument["spans"]]
    characters = [[text.offsets[first][0], text.offsets[end - 1][1]] for first, end in spans]
    parts = " ... ".join(text.text[first:end] for first, end in characters)
    return argument | {"text": parts, "spans": spans, "char_spans": characters}
