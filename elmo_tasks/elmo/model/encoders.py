"""
The token layers of the biLM, which turn words into vectors that do not depend on their context.

- `CharacterEncoder` reads characters: a character CNN with highway layers and a projection (Kim et al. 2016,
  arXiv:1508.06615; Peters et al. 2018, section 3.2).
- `UnicodeEncoder`, of ELMoForManyLangs (Che et al. 2018, arXiv:1807.03121), reads Unicode characters, and has
  also a table of word vectors.
- `WordEncoder` reads words: a table of word vectors.

Tables are found by ids. Three buffers, which are part of the state dict, map an id to its row: `known`
`(rows,)`, the ids in the table, ascending; `rows` `(rows,)`, the row of each; `unknown` `()`, the row of all
other ids.
"""

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from elmo_tasks.common.batches import row_keys
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model.characters import (
    BEGIN_SENTENCE,
    BEGIN_TEXT,
    END_SENTENCE,
    END_TEXT,
    NUM_CHARACTERS,
    SPECIAL_IDS,
    UNKNOWN,
    character_id,
    character_ids,
    shortened,
    unicode_ids,
    word_ids,
)
from elmo_tasks.elmo.model.options import CharacterOptions, WordOptions

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}
OUT_OF_VOCABULARY = "<oov>"
Dictionary = Mapping[str, int]
"""The row of each entry in its table."""


class Token(Protocol):
    """A token of spaCy or AllenNLP."""

    @property
    def text(self) -> str | None: ...


class TokenEncoder(nn.Module, ABC):
    """
    The base of the token layers. A word comes as its id, whose shape `*id` is the encoder's own: `(50,)` for
    characters, `()` for words.
    """

    reads: ClassVar[str]
    """The tensor of a batch that holds the ids; `elmo_` and this name is the indexer that makes it."""
    dtype: ClassVar[torch.dtype]
    also_dtypes: ClassVar[tuple[torch.dtype, ...]] = ()
    """Other types that the ids may have. Ids of bytes and of Unicode characters differ in nothing else."""
    bos_eos: ClassVar[tuple[str, str]] = BEGIN_SENTENCE, END_SENTENCE
    """The boundary tokens of a sentence: BOS and EOS."""
    num_ids: ClassVar[int | None] = None
    embedding: nn.Parameter

    def __init__(self) -> None:
        super().__init__()
        # Not a buffer, which `to_empty` would leave without its values
        self.bos_eos_ids = torch.from_numpy(self.ids(self.bos_eos).copy())
        """The ids of `bos_eos`, `(2, *id)`, on the CPU."""

    @staticmethod
    @abstractmethod
    def ids(words: Iterable[str]) -> np.ndarray:
        """Returns the ids of words. *Shape:* `(words, *id)`."""

    @staticmethod
    @abstractmethod
    def present(ids: torch.Tensor) -> torch.Tensor:
        """Returns where there is a word. *Shape:* `(batch, tokens, *id)` to `(batch, tokens)`."""

    @classmethod
    def padded_ids(cls, sentences: Iterable[Iterable[str | Token]]) -> torch.Tensor:
        """
        Returns the ids of sentences; for errors see `checked_words`. *Shape:* `(sentences, longest, *id)`, 0
        after the end of a sentence.
        """
        checked = [checked_words(index, words) for index, words in enumerate(sentences)]
        ids = [torch.tensor(cls.ids(words)) for words in checked or [[]]]
        return pad_sequence(ids, batch_first=True)[: len(checked)]

    def checked_present(self, ids: torch.Tensor) -> torch.Tensor:
        """
        Returns where there is a word, as `present` does. Ids of another kind, out of range, or with padding
        before a word are an `ElmoError`.
        """
        problem = ""
        if ids.dim() < 2 or ids.shape[2:] != self.bos_eos_ids.shape[1:]:
            shape = ("batch", "tokens", *self.bos_eos_ids.shape[1:])
            problem = f"have the shape {tuple(ids.shape)} instead of {shape}"
        elif ids.dtype not in (self.dtype, *self.also_dtypes):
            problem = f"have the type {ids.dtype} instead of {self.dtype}"
        elif self.num_ids is not None and ids.numel() and not is_traced():
            lowest, highest = map(int, ids.aminmax())
            if lowest < 0 or highest >= self.num_ids:
                problem = f"are {lowest} to {highest} instead of 0 to {self.num_ids - 1}"
        if problem:
            raise ElmoError(f"the biLM reads {self.reads}, but the ids {problem}")
        present = self.present(ids)
        if not is_traced() and (present[:, 1:] > present[:, :-1]).any():
            raise ElmoError(
                f"the biLM reads {self.reads}, but a sentence has padding, ids of 0, before one of its words",
                remedy="put padding after the last word",
            )
        return present


def is_traced() -> bool:
    """Tells whether tensors have no values yet, within `torch.export` or a transform of `torch.func`."""
    return torch.compiler.is_exporting() or torch._C._are_functorch_transforms_active()


def checked_words(index: int, words: Iterable[str | Token]) -> list[str]:
    """Returns a sentence's tokens as texts; a text, mapping or set, or another object, is an `ElmoError`."""
    tokens: list[Any] = list(words) if isinstance(words, Iterable) else [words]
    tokens = [token if isinstance(token, str) else getattr(token, "text", token) for token in tokens]
    if isinstance(words, str | Mapping | Set) or not all(isinstance(token, str) for token in tokens):
        raise ElmoError(
            f"{textwrap.shorten(repr(words), 60)} is not a list of tokens",
            where=f"sentence {index}",
            # NaN of pandas
            remedy='fillna("") makes empty texts of missing ones' if isinstance(words, float) else "",
        )
    return tokens


class CharacterEncoder(TokenEncoder):
    """A character CNN: the largest value of each filter, highway layers, a projection."""

    reads = "character_ids"
    dtype = torch.int16
    # AllenNLP's `batch_to_ids`
    also_dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.int64,)
    num_ids: ClassVar[int | None] = NUM_CHARACTERS
    ids = staticmethod(character_ids)
    characters: nn.Module
    """Maps the ids of characters to their rows in the table."""
    words: nn.Module | None
    """Maps words, as their characters, to features in addition to the CNN's features, if there are any."""

    def __init__(self, *, options: CharacterOptions, projection_dim: int) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[options.activation]
        self.max_characters = options.max_characters
        self.characters, self.words = nn.Identity(), None
        self.embedding = nn.Parameter(torch.empty(NUM_CHARACTERS, options.dim))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(options.dim, count, width) for width, count in options.filters
        )
        self.highways = nn.ModuleList(Highway(size=options.num_filters) for _ in range(options.n_highway))
        # The official layout leaves the projection out where the sizes agree.
        self.projection = (
            nn.Linear(options.num_filters, projection_dim) if options.num_filters != projection_dim else None
        )
        nn.init.uniform_(self.embedding, -1.0, 1.0)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        ids = shortened(ids, self.max_characters)
        # (words, character dim, max_characters)
        characters = F.embedding(self.characters(ids.long()), self.embedding).transpose(1, 2)
        # (words, filters)
        features = torch.cat([cnn(characters).amax(dim=2) for cnn in self.convolutions], dim=1)
        features = self.activation(features)
        for highway in self.highways:
            features = highway(features)
        if self.words is not None:
            features = torch.cat([self.words(ids), features], dim=1)
        return features if self.projection is None else self.projection(features)

    @staticmethod
    def present(ids: torch.Tensor) -> torch.Tensor:
        # A word begins with a mark, so that its first id is never 0.
        return ids[:, :, 0] != 0


class Highway(nn.Module):
    """
    A highway layer `c * relu(W x) + (1 - c) * x` (Srivastava et al. 2015), with the gate `c` that bilm-tf
    calls carry. It keeps the shape.
    """

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.carry = nn.Linear(size, size)
        self.transform = nn.Linear(size, size)
        # At first most of the input passes unchanged: bilm-tf adds -2 to the gate of the transformed input.
        nn.init.constant_(self.carry.bias, -2.0)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        carry = torch.sigmoid(self.carry(inputs))
        return carry * torch.relu(self.transform(inputs)) + (1 - carry) * inputs


class UnicodeEncoder(CharacterEncoder):
    """A character CNN over the characters of a dictionary; the projection takes the word's vector, too."""

    reads = "unicode_ids"
    dtype = torch.int32
    also_dtypes = ()
    num_ids = None
    ids = staticmethod(unicode_ids)
    bos_eos = BEGIN_TEXT, END_TEXT

    def __init__(self, *, options: CharacterOptions, projection_dim: int) -> None:
        super().__init__(options=options, projection_dim=projection_dim)
        sizes = options.dictionaries
        assert sizes is not None
        self.characters = Lookup(num_rows=sizes.n_characters)
        self.embedding = nn.Parameter(torch.empty(sizes.n_characters, options.dim))
        nn.init.uniform_(self.embedding, -1.0, 1.0)
        if sizes.word_dim:
            self.words = WordTable(num_rows=sizes.n_words, dim=sizes.word_dim)
        self.projection = nn.Linear(options.num_filters + sizes.word_dim, projection_dim)


class WordTable(nn.Module):
    """Vectors of words, which are found by their characters."""

    def __init__(self, *, num_rows: int, dim: int) -> None:
        super().__init__()
        self.lookup = Lookup(num_rows=num_rows)
        self.embedding = nn.Parameter(torch.empty(num_rows, dim))
        nn.init.uniform_(self.embedding, -1.0, 1.0)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(words, length)` to `(words, dim)`."""
        return F.embedding(self.lookup(row_keys(ids)), self.embedding)


class WordEncoder(TokenEncoder):
    """
    A table of word vectors. `set_vocabulary` sets the words, whose ids are part of the state dict. Words that
    are not in the vocabulary have the vector of `<UNK>`.
    """

    reads = "word_ids"
    dtype = torch.int64
    ids = staticmethod(word_ids)

    def __init__(self, *, options: WordOptions, projection_dim: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(options.n_tokens, projection_dim))
        register_lookup(self, num_rows=options.n_tokens)
        nn.init.xavier_uniform_(self.embedding)

    @torch.no_grad()
    def set_vocabulary(self, words: Sequence[str]) -> None:
        for name, part in vocabulary_rows(words, num_rows=len(self.embedding)).items():
            self.get_buffer(name).copy_(part)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return F.embedding(looked_up(ids, self), self.embedding)

    @staticmethod
    def present(ids: torch.Tensor) -> torch.Tensor:
        return ids != 0


# The lookup of ids in tables


class Lookup(nn.Module):
    """The rows of ids in a table of `num_rows` rows."""

    def __init__(self, *, num_rows: int) -> None:
        super().__init__()
        register_lookup(self, num_rows=num_rows)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return looked_up(ids, self)


def register_lookup(module: nn.Module, *, num_rows: int) -> None:
    module.register_buffer("known", torch.zeros(num_rows, dtype=torch.long))
    module.register_buffer("rows", torch.zeros(num_rows, dtype=torch.long))
    module.register_buffer("unknown", torch.tensor(0))


def looked_up(ids: torch.Tensor, module: nn.Module) -> torch.Tensor:
    """Returns the rows of ids by the buffers of `module`. *Shape:* any, kept."""
    known, rows, unknown = map(module.get_buffer, ("known", "rows", "unknown"))
    ids = ids.long()
    indices = torch.searchsorted(known, ids).clamp(max=len(known) - 1)
    return torch.where(known[indices] == ids, rows[indices], unknown)


def vocabulary_rows(words: Sequence[str], *, num_rows: int) -> dict[str, torch.Tensor]:
    """Returns the buffers of a `WordEncoder` whose rows are the vectors of `words`, which must be as many."""
    if len(words) != num_rows:
        raise ElmoError(f"the vocabulary has {len(words):,} words, but the options say {num_rows:,}")
    known, rows = torch.from_numpy(word_ids(words)).sort(stable=True)
    return {"known": known, "rows": rows, "unknown": torch.tensor(words.index(UNKNOWN))}


def character_lookup(dictionary: Dictionary, *, num_rows: int) -> dict[str, torch.Tensor]:
    """Returns the buffers of the `Lookup` of characters, from the entries that are a character or a mark."""
    entries = [entry for entry in dictionary if len(entry) == 1 or entry in SPECIAL_IDS]
    ids = torch.tensor([SPECIAL_IDS.get(entry) or character_id(entry) for entry in entries])
    return _dictionary_lookup(ids, entries, dictionary, num_rows)


def word_lookup(dictionary: Dictionary, *, num_rows: int, length: int) -> dict[str, torch.Tensor]:
    """Returns the buffers of the `Lookup` of words, without those of more than `length` characters."""
    words = [word for word in dictionary if len(word) <= length - 2]
    ids = shortened(torch.tensor(unicode_ids(words)), length)
    return _dictionary_lookup(row_keys(ids), words, dictionary, num_rows)


def _dictionary_lookup(
    ids: torch.Tensor, entries: Sequence[str], dictionary: Dictionary, num_rows: int
) -> dict[str, torch.Tensor]:
    known, order = ids.sort(stable=True)
    rows = torch.tensor([dictionary[entry] for entry in entries])[order]
    # The buffers have one entry per row, so that the sizes say all shapes: the last entry is repeated.
    missing = num_rows - len(known)
    return {
        "known": torch.cat([known, known[-1:].expand(missing)]),
        "rows": torch.cat([rows, rows[-1:].expand(missing)]),
        "unknown": torch.tensor(dictionary[OUT_OF_VOCABULARY]),
    }
