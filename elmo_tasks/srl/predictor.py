"""The predictor of predicates and their arguments in plain or tokenised text, from JSON Lines."""

from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property, partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.common.batches import batches
from elmo_tasks.data.input_files import shorten
from elmo_tasks.data.line_starts import line_starts
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.tokenization import RenewedPipeline, Words, sentence_rules
from elmo_tasks.pipeline.predictor import (
    InputRecord,
    SentencePredictor,
    TaskPredictor,
    attempt,
    check_tokens,
    check_word_lengths,
    require,
    value_of,
)
from elmo_tasks.srl.model import SrlResult
from elmo_tasks.srl.reader import SentenceInstance

_VERBS = ("VERB", "AUX")
_HELPING = ("aux", "auxpass")
_ENGLISH = "en_"
_READINGS = 16
"""Times that a limit of words allows each to be read, on average; in English prose it is some 12."""


class SrlText(NamedTuple):
    """A text, the first word of each of its sentences, and the indices of its predicates."""

    words: Words
    starts: list[int]
    predicates: list[int] | None
    """`None` if they are to be found."""

    def sentence_of(self, predicate: int) -> range:
        sentence = bisect_right(self.starts, predicate)
        return range(self.starts[sentence - 1], [*self.starts, len(self.words.words)][sentence])


@Predictor.register("elmo_srl")
class SrlPredictor(SentencePredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`, and optionally `"predicates"`, the indices of tokens,
    from 0. A `sentence` may be a text of several, which are read one by one; spaCy's rules find them, and
    paragraphs and lines of a list end them. By default the predicates are the words that `elmo:predicates`
    finds, verbs, nouns and adjectives; with `spacy_model`, or where elmo_tasks[models] is not installed, the
    verbs that a spaCy model finds, without auxiliaries of other verbs.

    Out: `tokens` and `predicates`. A predicate has its `index`, its word (`predicate`), its `char_start` and
    `char_end`, `arguments`, `tags` (IOB2) and a `description`, its sentence with labelled brackets. An
    argument has `label`, `text`, and its parts as `spans` of tokens and `char_spans` of characters; the
    argument labelled V is the predicate itself. Ends are half-open; characters are of the text, or of the
    tokens joined by blanks. With a dataset reader, a sentence without predicates has the reason as
    `no_prediction`; where the file does not mark them, they are found as above. An instance of one predicate
    gives a sentence with this one.

    # Parameters

    spacy_model : name of an installed spaCy model that splits `sentence` into words and finds verbs; by
        default the tokenizer of blank English, and `elmo:predicates` or the first installed English model.
    """

    optional_fields: ClassVar[Mapping[str, type]] = {"predicates": list[int]}

    @staticmethod
    def open_finder() -> TaskPredictor | None:
        """Opens the predictor that finds the words that have roles; the suite gives it, if there is one."""
        return None

    def read(self, json_dict: JsonDict) -> SrlText:
        text: Words = super().read(json_dict)
        check_word_lengths(text.words)
        starts = [0] if "tokens" in json_dict else sentence_starts(text)
        if "predicates" not in json_dict:
            return SrlText(text, starts, None)
        expected = f'"predicates": indices of the {len(text.words)} tokens, from 0'
        predicates = require(json_dict, "predicates", list, expected)
        for index in predicates:
            if type(index) is not int or index not in range(len(text.words)):
                raise ConfigurationError(
                    f'"predicates" has {shorten(repr(index))}; the input needs {expected}'
                )
        return SrlText(text, starts, predicates)

    def complete(self, contents: list[Any]) -> list[Any]:
        """Finds the predicates of all texts together, which is several times as fast as one by one."""
        unmarked = [
            index
            for index, content in enumerate(contents)
            if isinstance(content, SrlText) and content.predicates is None
        ]
        predicates_of_texts = self._find_predicates([contents[index].words.words for index in unmarked])
        completed = list(contents)
        for index, predicates in zip(unmarked, predicates_of_texts, strict=True):
            is_error = isinstance(predicates, Exception)
            completed[index] = predicates if is_error else contents[index]._replace(predicates=predicates)
        return completed

    def lengths(self, content: SrlText | Instance) -> list[int]:
        """Returns the number of tokens of each instance: a sentence's once for each of its predicates."""
        if isinstance(content, Instance):
            propositions = content.propositions or [] if isinstance(content, SentenceInstance) else []
            return [len(proposition["metadata"].metadata) for proposition in propositions]
        if content.predicates is None:
            return [len(content.words.words)]
        return [len(content.sentence_of(predicate)) for predicate in content.predicates]

    def _read(self, max_tokens: int | None, content: JsonDict | Instance) -> Any:
        read = super()._read(None, content)
        if isinstance(read, SrlText):
            check_tokens(len(read.words.words), max_tokens)
        return read

    def _example(self, max_tokens: int | None, content: Any) -> Any:
        """Limits the words of all sentences, each once for each of its predicates, to `_READINGS` as many."""
        if max_tokens is not None and (words := sum(self.lengths(content))) > _READINGS * max_tokens:
            raise ConfigurationError(
                f"the model would have to read {words:,} words, a sentence once for each of its predicates, "
                f"and the limit is {_READINGS * max_tokens:,}; shorter sentences take less"
            )
        return super()._example(None, content)

    def batch_tokens(self) -> int:
        return 4 * super().batch_tokens()

    def to_instance(self, content: SrlText) -> SentenceInstance:
        words, predicates = content.words.words, content.predicates or []
        sentences = list(map(content.sentence_of, predicates))
        propositions = [
            self._dataset_reader.text_to_instance(words[sentence[0] : sentence[-1] + 1], index - sentence[0])
            for index, sentence in zip(predicates, sentences, strict=True)
        ]
        return SentenceInstance(content.words, propositions, starts=[sentence[0] for sentence in sentences])

    def run(self, instances: list[Instance]) -> list[SrlResult]:
        """Predicts the predicates of all texts, in few batches."""
        sentences = self._sentences(instances)
        propositions = [instance for sentence in sentences for instance in sentence.propositions or []]
        parts = batches(propositions, lambda instance: len(instance["tokens"]), super().batch_tokens())
        results = chain.from_iterable(map(super().run, parts))
        return [
            SrlResult(
                sentence.text,
                [
                    predicate._replace(start=start)
                    for start in sentence.starts
                    for predicate in next(results).predicates
                ],
                sentence.reason,
            )
            for sentence in sentences
        ]

    def _sentences(self, instances: list[Instance]) -> list[SentenceInstance]:
        contents = [
            SrlText(instance.text, [0], None)
            if isinstance(instance, SentenceInstance) and instance.propositions is None
            else instance
            for instance in instances
        ]
        return list(map(self._sentence, instances, self.complete(contents)))

    def _sentence(self, instance: Instance, content: Any) -> SentenceInstance:
        if isinstance(instance, SentenceInstance) and isinstance(content, ConfigurationError):
            return SentenceInstance(instance.text, [], str(content))
        if isinstance(value_of(content), SrlText):
            sentence = self.to_instance(content)
            sentence.reason = "" if content.predicates else "no predicate is found in the sentence"
            return sentence
        if isinstance(instance, SentenceInstance):
            return instance
        return SentenceInstance(join_words(instance["metadata"].metadata.words), [instance])

    def _find_predicates(self, sentences: list[list[str]]) -> list[list[int] | Exception]:
        if not any(sentences):
            return [[] for _ in sentences]
        if self._finder is None:
            return [attempt(self._verbs, words) for words in sentences]
        results: list[Any] = self._finder.results([InputRecord({"tokens": words}) for words in sentences])
        return [
            result if isinstance(result, Exception) else [span.start for span in result.spans]
            for result in results
        ]

    def _verbs(self, words: list[str]) -> list[int]:
        if not words:
            return []
        tagged = self._tagger.analyze(words)
        if not any(token.pos_ for token in tagged):
            name = self._tagger(0).meta["name"]
            raise ConfigurationError(
                f"the spaCy model {name!r} finds no parts of speech; choose another, or add "
                '"predicates" to the input'
            )
        return [token.i for token in tagged if token.pos_ in _VERBS and token.dep_ not in _HELPING]

    @cached_property
    def _english_model(self) -> str | None:
        """The spaCy model that is asked for, or the first English one that is installed."""
        from spacy.util import get_installed_models

        installed = (name for name in sorted(get_installed_models()) if name.startswith(_ENGLISH))
        return self._spacy_model or next(installed, None)

    @cached_property
    def _finder(self) -> TaskPredictor | None:
        return None if self._spacy_model is not None else self.open_finder()

    @cached_property
    def _tagger(self) -> RenewedPipeline:
        import spacy  # takes a third of a second

        if self._english_model is None:
            raise ConfigurationError(
                'no model finds the predicates: add "predicates", the indices of tokens, to the input, or '
                "install elmo_tasks[models], or `python -m spacy download en_core_web_sm`"
            )
        return RenewedPipeline(partial(spacy.load, self._english_model))


def sentence_starts(text: Words) -> list[int]:
    """Starts a sentence at a paragraph and a line, too. One in lower case continues the one before."""
    words = text.words
    sentences = sentence_rules().analyze(words).sents if words else ()
    starts = (sentence.start for sentence in sentences if not words[sentence.start].islower())
    return sorted({*starts, *line_starts(text.text, text.offsets)})
