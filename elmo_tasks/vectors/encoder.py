"""
Vectors of the tokens of sentences, from the layers of a biLM or from a table of static vectors; one vector
per word, alone or averaged over its occurrences in a text; and the mixes of the layers that archived models
have learned (Peters et al. 2018, Figure 2).
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import tee
from operator import itemgetter
from typing import NamedTuple, cast

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model
from torch import nn
from torch.nn import functional as F

from elmo_tasks.archives import open_archive
from elmo_tasks.common.batches import Item, batches
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.progress import progress
from elmo_tasks.elmo import Elmo, FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model.scalar_mix import ScalarMix
from elmo_tasks.vectors.files import VectorTable

LayerMix = Callable[[torch.Tensor], torch.Tensor]
"""Mixes layers `(layers, ..., dim)` to `(..., dim)`."""

POSITIONS = 4096
"""The positions of a batch, padding included; a longer sentence is encoded alone."""


class VectorEncoder(ABC):
    """The base of encoders: several vectors of each token, of the size `dim`, the rows with `names`."""

    def __init__(self, *, names: Sequence[str], dim: int) -> None:
        self.names = list(names)
        self.dim = dim

    @abstractmethod
    def encode(self, sentences: Iterable[Sequence[str]]) -> Iterator[torch.Tensor]:
        """Yields the vectors of each sentence, in order, on the CPU. *Shape:* `(rows, tokens, dim)`."""

    @abstractmethod
    def known(self, words: Sequence[str]) -> torch.Tensor:
        """Tells which words have a vector of their own. *Shape:* `(words,)`."""

    def occurrence(self, vectors: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """Returns the mean of the tokens `[start, end)`. *Shape:* `(rows, tokens, dim)` to `(rows, dim)`."""
        return vectors[:, start:end].mean(dim=1)

    def encode_items(
        self, items: Iterable[Item], words: Callable[[Item], Sequence[str]]
    ) -> Iterator[tuple[Item, torch.Tensor]]:
        """Yields each item with the vectors of its words, see `encode`."""
        items, ahead = tee(items)
        return zip(items, self.encode(map(words, ahead)), strict=True)


class BiLmEncoder(VectorEncoder):
    """
    An encoder with a row for each layer of a frozen biLM, the token layer first, for their average, and for
    further `mixes` of the layers by their names; or with the row named `only`, an `ElmoError` if there is
    none.
    """

    def __init__(self, *, bilm: FrozenBiLm, mixes: Mapping[str, LayerMix], only: str | None = None) -> None:
        self._bilm = bilm
        layers: dict[str, LayerMix] = {
            f"layer {layer}": itemgetter(layer) for layer in range(bilm.num_layers)
        }
        rows = layers | {"average": partial(torch.mean, dim=0)} | dict(mixes)
        if only is not None:
            if only not in rows:
                layer, *layers_of_bilm = (name.removeprefix("layer ") for name in (only, *rows))
                raise ElmoError(f"the layer {layer!r} must be one of {', '.join(layers_of_bilm)}")
            rows = {only: rows[only]}
        self._rows = list(rows.values())
        super().__init__(names=list(rows), dim=bilm.options.output_dim)

    @torch.no_grad()
    def encode(self, sentences: Iterable[Sequence[str]]) -> Iterator[torch.Tensor]:
        for batch in batches(sentences, len, POSITIONS):
            # (layers, sentences, longest, dim)
            layers = self._bilm.encode(self._bilm.padded_ids(batch))
            # (rows, sentences, longest, dim)
            rows = torch.stack([row(layers) for row in self._rows]).cpu()
            for index, words in enumerate(batch):
                yield rows[:, index, : len(words)]

    def known(self, words: Sequence[str]) -> torch.Tensor:
        return self._bilm.knows(words)


class StaticVectors(VectorEncoder):
    """
    An encoder with one row, `name`, of a table of word vectors. A word has the same vector in all contexts.
    It is looked up in its own spelling, or else as the first word of the table that differs only in case; the
    first of equal words counts. An unknown word has zeros.
    """

    def __init__(self, *, name: str, table: VectorTable) -> None:
        super().__init__(names=[name], dim=table.vectors.shape[1])
        self._words = table.words
        self._table = torch.from_numpy(table.vectors)
        last_to_first = range(len(table.words) - 1, -1, -1)
        self._rows = {table.words[row]: row for row in last_to_first}
        self._folded = {table.words[row].lower(): row for row in last_to_first}
        self._repeated = [row for row, word in enumerate(table.words) if self._rows[word] != row]

    def encode(self, sentences: Iterable[Sequence[str]]) -> Iterator[torch.Tensor]:
        for words in sentences:
            # (tokens,)
            rows = self._lookup(words)
            # (1, tokens, dim)
            yield (self._table[rows] * (rows >= 0).unsqueeze(1)).unsqueeze(0)

    def known(self, words: Sequence[str]) -> torch.Tensor:
        return self._lookup(words) >= 0

    def occurrence(self, vectors: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """Takes the mean of all other words: the word itself has the same vector in every sentence."""
        other_words = torch.cat([vectors[:, :start], vectors[:, end:]], dim=1)
        return other_words.sum(dim=1) / max(1, other_words.size(1))

    def nearest(self, word: str, count: int) -> list[tuple[str, float]]:
        """Finds the other words with the highest cosines to a known word, and their cosines."""
        row = int(self._lookup([word]))
        # (words,)
        cosines = (
            self._table @ F.normalize(self._table[row], dim=0) / self._table.norm(dim=1).clamp(min=1e-12)
        )
        cosines[[row, *self._repeated]] = -torch.inf
        best, rows = cosines.topk(min(count, len(self._rows) - 1))
        return [(self._words[row], value) for row, value in zip(rows.tolist(), best.tolist(), strict=True)]

    def _lookup(self, words: Sequence[str]) -> torch.Tensor:
        # (words,): -1 for an unknown word
        rows = [self._rows.get(word, self._folded.get(word.lower(), -1)) for word in words]
        return torch.tensor(rows, dtype=torch.long)


Sentence = str | Sequence[str]


class WordVectors(NamedTuple):
    """The vectors of words in one row of an encoder. All rows have the same words in the same order."""

    name: str
    vectors: torch.Tensor
    """`(words, dim)`"""
    known: torch.Tensor
    """`(words,)`: which words have a vector. The vectors of other words have no meaning."""

    def table(self, words: Sequence[str]) -> VectorTable:
        known_words = [word for word, is_known in zip(words, self.known.tolist(), strict=True) if is_known]
        return VectorTable(known_words, self.vectors[self.known].float().numpy())


def out_of_context(encoder: VectorEncoder, words: Sequence[str]) -> list[WordVectors]:
    sentences = progress([[word] for word in words], work=f"{encoder.names[0]} ...", unit="words")
    # (words, rows, dim)
    vectors = torch.cat([vectors.transpose(0, 1) for vectors in encoder.encode(sentences)])
    return _by_row(encoder, vectors, encoder.known(words))


def in_contexts(
    encoder: VectorEncoder, words: Sequence[str], lines: Iterable[Sentence], *, limit: int, seed: int
) -> list[WordVectors]:
    """Averages the vectors of words over a sample of their occurrences; `lines` are read twice."""
    occurrences = sample_occurrences(lines, words, limit=limit, seed=seed)
    chosen = (
        (line_index, _tokens(line)) for line_index, line in enumerate(lines) if line_index in occurrences
    )
    bar = progress(chosen, total=len(occurrences), work="occurrences", unit="sentences")
    sums = torch.zeros(len(words), len(encoder.names), encoder.dim)
    counts = torch.zeros(len(words), 1, 1)
    for (line_index, _), vectors in encoder.encode_items(bar, itemgetter(1)):
        for position, word in occurrences[line_index]:
            sums[word] += vectors[:, position]
            counts[word] += 1
    known = encoder.known(words) & (counts.flatten() > 0)
    # (words, rows, dim)
    return _by_row(encoder, sums / counts.clamp(min=1), known)


def sample_occurrences(
    lines: Iterable[Sentence], words: Sequence[str], *, limit: int, seed: int
) -> dict[int, list[tuple[int, int]]]:
    """
    Returns for each line the positions of words in it, and their indices in `words`. `limit` occurrences of a
    word are drawn, all with the same chance. If it never occurs in this spelling, case is ignored.
    """
    draw = random.Random(seed)
    exact = {word: _Sample() for word in words}
    folded = {word.lower(): _Sample() for word in words}

    @lru_cache(maxsize=1 << 17)
    def samples(token: str) -> list["_Sample"]:
        both = (exact.get(token), folded.get(token.lower()))
        return [sample for sample in both if sample is not None]

    for line_index, line in enumerate(progress(lines, work="looking for words", unit="lines")):
        for position, token in enumerate(_tokens(line)):
            for sample in samples(token):
                sample.add((line_index, position), limit, draw)
    occurrences: dict[int, list[tuple[int, int]]] = {}
    for index, word in enumerate(words):
        for line_index, position in exact[word].sample or folded[word.lower()].sample:
            occurrences.setdefault(line_index, []).append((position, index))
    return occurrences


@dataclass
class _Sample:
    """A reservoir, which keeps each of all occurrences with the same chance (Vitter 1985, algorithm R)."""

    seen: int = 0
    sample: list[tuple[int, int]] = field(default_factory=list)

    def add(self, occurrence: tuple[int, int], limit: int, draw: random.Random) -> None:
        self.seen += 1
        if len(self.sample) < limit:
            self.sample.append(occurrence)
        elif (slot := draw.randrange(self.seen)) < limit:
            self.sample[slot] = occurrence


def _tokens(sentence: Sentence) -> Sequence[str]:
    return sentence.split() if isinstance(sentence, str) else sentence


def _by_row(encoder: VectorEncoder, vectors: torch.Tensor, known: torch.Tensor) -> list[WordVectors]:
    """*Shape:* `vectors` `(words, rows, dim)`."""
    return [WordVectors(name, vectors[:, row], known) for row, name in enumerate(encoder.names)]


class LearnedMix(NamedTuple):
    """One of the mixes of an archive."""

    model: str
    placement: str
    """`input` or `output`; in an ensemble, with the member before it."""
    mix: ScalarMix
    bilm: FrozenBiLm | TrainedBiLm

    def gamma(self) -> float:
        return 1.0 if self.mix.gamma is None else self.mix.gamma.item()

    def kind(self) -> str:
        """Names the `weights` of the mix's config, or `top` if it has only the top layer."""
        if self.mix.top or self.mix.function:
            return "top" if self.mix.top else "function"
        return "trainable" if isinstance(self.mix.scores, nn.Parameter) else "frozen"

    def shares(self) -> list[float] | None:
        """Returns the normalised weight of each layer; `None` for a function of the token."""
        if self.mix.function:
            return None
        if self.mix.top:
            return [0.0] * (self.bilm.num_layers - 1) + [1.0]
        return self.mix.scores.detach().softmax(dim=0).tolist()


def read_mixes(archive: str) -> list[LearnedMix]:
    opened = open_archive(archive)
    name = opened.config["model"]["type"]
    if not (mixes := mixes_of(opened.model, name)):
        raise ConfigurationError(f"{archive}: the model, {name}, has no ELMo")
    return mixes


def mixes_of(model: Model, name: str) -> list[LearnedMix]:
    return [
        LearnedMix(
            name,
            f"{path.removesuffix('elmo').rstrip('.')} {representation}".strip(),
            cast(ScalarMix, mix),
            module.bilm,
        )
        for path, module in model.named_modules()
        if isinstance(module, Elmo) and module.bilm is not None
        for representation, mix in module.mixes.items()
    ]


def same_weights(one: FrozenBiLm | TrainedBiLm, other: FrozenBiLm | TrainedBiLm) -> bool:
    """Compares two biLMs, whatever their precision and device."""
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(
        torch.equal(weight.cpu(), second[name].cpu()) for name, weight in first.items()
    )
