"""The tab "ELMo": the neighbours of a word in its sentence, by the layers of the biLM."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

import torch
from allennlp.common.checks import ConfigurationError
from torch.nn import functional as F

from elmo_tasks.common.errors import FilePath
from elmo_tasks.common.progress import progress
from elmo_tasks.data.input_files import InputError, read_lines, shorten
from elmo_tasks.data.tokenization import tokenizer
from elmo_tasks.evaluation.words import Occurrence, nearest_tokens, text_blocks
from elmo_tasks.page.tabs import Field, index_of
from elmo_tasks.serving.answers import Limits
from elmo_tasks.vectors.encoder import BiLmEncoder, StaticVectors

MAX_WORDS = 100_000
"""The size of a corpus, whose vectors stay in memory: with the original biLM, 1.6 GB."""
NEIGHBOURS = 5


class Neighbour(NamedTuple):
    """A neighbour: a word, or a line of the corpus with `**` around a word."""

    text: str
    cosine: float
    line: int | None = None


class WordsInContext:
    """
    An explorer of words in context. It finds the neighbours of a word in its sentence, among the words of the
    tokenised sentences of `corpus`, and in `static` vectors; and its cosine to the same word in another
    sentence. The vectors of the corpus are computed when it is made.
    """

    examples = (
        {
            "word": "play",
            "sentence": "We play chess after school.",
            "other": "She wrote a play for the theatre.",
        },
        {
            "word": "bank",
            "sentence": "They rested on the bank of the river.",
            "other": "The bank raised its fees.",
        },
        {
            "word": "spring",
            "sentence": "The garden is green in spring.",
            "other": "The spring of the watch is broken.",
        },
    )

    def __init__(
        self,
        *,
        encoder: BiLmEncoder,
        static: Sequence[StaticVectors] = (),
        corpus: Sequence[str] = (),
        max_tokens: int = Limits.max_tokens,
    ) -> None:
        self._encoder = encoder
        self._static = static
        self.corpus = corpus
        lines = progress(corpus, work="reading the corpus", unit="lines")
        self._blocks = list(text_blocks(encoder, lines))
        self._vocabulary = sorted({word for line in corpus for word in line.split()})
        # The vectors of layer 0 do not depend on the sentence.
        self._alone = list(text_blocks(encoder, self._vocabulary))
        other = Field("other", "Another sentence with it", required=not corpus)
        self.fields = (Field("word", "Word", rows=1), Field("sentence", "A sentence with it"), other)
        self._max_tokens = max_tokens
        self._tokenize = tokenizer(None)
        # The biLM answers one question at a time.
        self._lock = Lock()

    def __call__(self, form: Mapping[str, str]) -> dict[str, Any]:
        """
        Returns `neighbours`: for the name of each layer and static table, a list of `Neighbour`, or `None` if
        the table does not have the word. With two sentences it also returns `cosines` by the same names.
        `ConfigurationError`: a sentence does not have the word, or is too long.
        """
        word = form.get("word", "").strip()
        one = self._occurrence("A sentence with it", form.get("sentence", ""), word)
        with self._lock:
            answer: dict[str, Any] = {"neighbours": self._neighbours(one) if self.corpus else {}}
            if not self.corpus or form.get("other", "").strip():
                other = self._occurrence("Another sentence with it", form.get("other", ""), word)
                answer["cosines"] = self._cosines(one, other)
        return answer

    def _occurrence(self, label: str, sentence: str, word: str) -> Occurrence:
        words = self._tokenize(sentence).words
        if len(words) > self._max_tokens:
            raise ConfigurationError(
                f"“{label}” has {len(words):,} words and signs, and {self._max_tokens:,} at most can be read."
            )
        if (index := index_of(word, words)) is None:
            parts = f" It is split into: {shorten(' '.join(words))}" if words else ""
            raise ConfigurationError(f"“{label}” does not have the word “{shorten(word)}”.{parts}")
        return Occurrence(words, index)

    def _neighbours(self, query: Occurrence) -> dict[str, list[Neighbour] | None]:
        word = query.words[query.position]
        (by_row,) = nearest_tokens(self._encoder, [query], self._blocks, count=NEIGHBOURS)
        neighbours: dict[str, list[Neighbour] | None] = {
            name: [
                Neighbour(Occurrence(self.corpus[line].split(), position).marked(), cosine, line + 1)
                for line, position, cosine in row
            ]
            for name, row in zip(self._encoder.names, by_row, strict=True)
        }
        # In layer 0 the word itself, and every other word, has one vector wherever it stands.
        ((nearest_words, *_),) = nearest_tokens(
            self._encoder, [Occurrence([word], 0)], self._alone, count=NEIGHBOURS
        )
        neighbours[self._encoder.names[0]] = [
            Neighbour(self._vocabulary[row], cosine) for row, _, cosine in nearest_words
        ]
        for vectors in self._static:
            has_word = bool(vectors.known([word]).all())
            nearest = [Neighbour(*pair) for pair in vectors.nearest(word, NEIGHBOURS)] if has_word else None
            neighbours[vectors.names[0]] = nearest
        return neighbours

    def _cosines(self, one: Occurrence, other: Occurrence) -> dict[str, float]:
        pairs = self._encoder.encode_items([one, other], lambda occurrence: occurrence.words)
        # (2, rows, dim)
        vectors = torch.stack([encoded[:, occurrence.position] for occurrence, encoded in pairs])
        cosines = F.cosine_similarity(vectors[0], vectors[1], dim=1).tolist()
        word = one.words[one.position]
        static = {vectors.names[0]: 1.0 for vectors in self._static if vectors.known([word]).all()}
        return dict(zip(self._encoder.names, cosines, strict=True)) | static


def read_corpus(path: FilePath) -> list[str]:
    lines = [line.strip() for _, line in read_lines(path)]
    words = sum(len(line.split()) for line in lines)
    if not 0 < words <= MAX_WORDS:
        raise InputError(f"{path} has {words:,} words; the page needs 1 to {MAX_WORDS:,}")
    return lines
