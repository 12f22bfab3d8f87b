"""
What the biLM asks of its token layer, whether it reads characters or words.

Ids to the rows of a table, all that are not known to one row.

Three buffers of a module, which are part of its state dict, say which row is whose: `known` `(rows,)`, the
ids that are known, rising; `rows` `(rows,)`, the row of each; `unknown` `()`, the row of all others.

The token layer of a biLM that reads characters: a character CNN with highway layers and a projection
(Kim et al. 2016, arXiv:1508.06615; Peters et al. 2018, section 3.2).

The token layer of a biLM that reads words: a table of their vectors.

The token layer of ELMoForManyLangs (Che et al. 2018, arXiv:1807.03121): a character CNN over Unicode
characters, and, beside its features, the vector of the word in a table.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

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
    MARK_IDS,
    MARKERS,
    NUM_CHARACTERS,
    UNKNOWN,
    character_id,
    character_ids,
    shortened,
    unicode_ids,
    word_ids,
)
from elmo_tasks.elmo.model.options import CharacterOptions, WordOptions


# ==== elmo.model.token_encoder
class TokenEncoder(nn.Module):
    """
    Words to vectors that do not depend on their context.

    A word comes as its id, whose shape `*id` is the encoder's own: `(50,)` for characters, `()` for words.
    """

    reads: ClassVar[str]
    """The tensor of a batch that holds the ids; with `elmo_` before it, the indexer that makes it."""
    dtype: ClassVar[torch.dtype]
    """Of the ids."""
    also_dtypes: ClassVar[tuple[torch.dtype, ...]] = ()
    """Other types that the ids may have. Ids of bytes and of Unicode characters differ in nothing else."""
    marks: ClassVar[tuple[str, str]] = BEGIN_SENTENCE, END_SENTENCE
    """The borders of a sentence."""
    embedding: nn.Parameter
    bos_eos_ids: torch.Tensor
    """
    Of `marks`, `(2, *id)`, in 64 bits: distributed training broadcasts buffers, and gloo knows no 16.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bos_eos_ids", self.padded_ids([self.marks])[0].long(), persistent=False)

    def check(self, ids: torch.Tensor) -> None:
        """
        # Raises
        `ElmoError`: the ids of a batch are not those that it reads.
        """
        if ids.shape[2:] != self.bos_eos_ids.shape[1:]:
            expected = ("batch", "tokens", *self.bos_eos_ids.shape[1:])
            raise ElmoError(
                f"the biLM reads {self.reads}: found ids of shape {tuple(ids.shape)}, expected {expected}"
            )
        if ids.dtype not in (self.dtype, *self.also_dtypes):
            expected_types = " or ".join(map(str, (self.dtype, *self.also_dtypes)))
            raise ElmoError(
                f"the biLM reads {self.reads}: found ids of type {ids.dtype}, expected {expected_types}"
            )
        present = self.present(ids)
        if (present[:, 1:] > present[:, :-1]).any():
            raise ElmoError(
                f"the biLM reads {self.reads}: found ids of 0 before a word of the same sentence, expected "
                "them behind its end alone"
            )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """*Shape:* words `(words, *id)` to their vectors `(words, projection_dim)`."""
        raise NotImplementedError

    @staticmethod
    def present(ids: torch.Tensor) -> torch.Tensor:
        """Where there is a word. *Shape:* `(batch, tokens, *id)` to `(batch, tokens)`."""
        raise NotImplementedError

    @staticmethod
    def ids(words: Sequence[str]) -> np.ndarray:
        """*Shape:* `(len(words), *id)`."""
        raise NotImplementedError

    @classmethod
    def padded_ids(cls, sentences: Iterable[Iterable[str]]) -> torch.Tensor:
        """
        *Shape:* `(sentences, longest, *id)`, 0 behind the end of a sentence.

        # Raises
        `ElmoError`: see `checked_words`.
        """
        checked = [checked_words(number, words) for number, words in enumerate(sentences)]
        ids = [torch.tensor(cls.ids(words)) for words in checked or [[]]]
        return pad_sequence(ids, batch_first=True)[: len(checked)]


def checked_words(number: int, words: Iterable[str]) -> list[str]:
    """
    The tokens of a sentence, of which `number` says which one it is.

    # Raises
    `ElmoError`: a text in the place of its tokens, or a token that is no string.
    """
    listed = list(words) if isinstance(words, Iterable) and not isinstance(words, str) else None
    if listed is None or not all(isinstance(word, str) for word in listed):
        raise ElmoError(
            f"sentence {number}: found {textwrap.shorten(repr(words), 60)}, expected a list of its tokens"
        )
    return listed


# ==== elmo.model.lookup
def register_lookup(module: nn.Module, *, number: int) -> None:
    """Gives a module the three buffers, with zeros, for a table of `number` rows."""
    module.register_buffer("known", torch.zeros(number, dtype=torch.long))
    module.register_buffer("rows", torch.zeros(number, dtype=torch.long))
    module.register_buffer("unknown", torch.tensor(0))


def looked_up(ids: torch.Tensor, module: nn.Module) -> torch.Tensor:
    """*Shape:* ids, any, to their rows by the buffers of `module`, the same."""
    known, rows, unknown = map(module.get_buffer, ("known", "rows", "unknown"))
    ids = ids.long()
    indices = torch.searchsorted(known, ids).clamp(max=len(known) - 1)
    return torch.where(known[indices] == ids, rows[indices], unknown)


class Lookup(nn.Module):
    """
    These buffers as a module of their own.

    # Parameters

    number : rows of the table.
    """

    def __init__(self, *, number: int) -> None:
        super().__init__()
        register_lookup(self, number=number)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """*Shape:* any, kept."""
        return looked_up(ids, self)


def sorted_ids(ids: torch.Tensor, entries: Sequence[str], *, where: str) -> tuple[torch.Tensor, torch.Tensor]:
    """
    The ids of `entries`, rising, and where each was among them, both `(entries,)`.

    # Raises
    `ElmoError`, with `where`: two entries with one id.
    """
    rising, order = ids.sort(stable=True)
    for index in (rising[1:] == rising[:-1]).nonzero()[:1, 0].tolist():
        one, other = (entries[place] for place in order[index : index + 2].tolist())
        raise ElmoError(f"{one!r} and {other!r} in {where} have the same id")
    return rising, order


# ==== elmo.model.character_encoder
ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class CharacterEncoder(TokenEncoder):
    """
    Takes of each filter the largest value over the word's characters; then highway layers and a projection.
    """

    reads = "character_ids"
    dtype = torch.int16
    # AllenNLP's `batch_to_ids`
    also_dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.int64,)
    characters: nn.Module
    """Ids of characters to their rows in the table."""
    words: nn.Module | None
    """Words, as their characters, to what is put beside the features of the CNN; `None` for nothing."""

    def __init__(self, *, options: CharacterOptions, projection_dim: int) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[options.activation]
        self.max_characters = options.max_characters
        self.characters, self.words = nn.Identity(), None
        self.embedding = nn.Parameter(torch.empty(NUM_CHARACTERS, options.dim))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(options.dim, number, width) for width, number in options.filters
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

    @staticmethod
    def ids(words: Sequence[str]) -> np.ndarray:
        return character_ids(words)


class Highway(nn.Module):
    """
    `c * relu(W x) + (1 - c) * x` (Srivastava et al. 2015) with the gate `c` that bilm-tf calls carry; keeps
    the shape.
    """

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.carry = nn.Linear(size, size)
        self.transform = nn.Linear(size, size)
        # At the start most of the input is carried on: bilm-tf adds -2 to what is let through.
        nn.init.constant_(self.carry.bias, -2.0)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        carry = torch.sigmoid(self.carry(inputs))
        return carry * torch.relu(self.transform(inputs)) + (1 - carry) * inputs


# ==== elmo.model.word_encoder
class WordEncoder(TokenEncoder):
    """
    Words to the rows of a table; all words that are not in its vocabulary to the row of `<UNK>`.

    `set_vocabulary` says which words they are; their ids are part of its state dict (`lookup.py`).
    """

    reads = "word_ids"
    dtype = torch.int64

    def __init__(self, *, options: WordOptions, projection_dim: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(options.n_tokens, projection_dim))
        register_lookup(self, number=options.n_tokens)
        nn.init.xavier_uniform_(self.embedding)

    @torch.no_grad()
    def set_vocabulary(self, words: Sequence[str]) -> None:
        """
        From now on, `words` are the words of the table's rows.

        # Raises
        `ElmoError`: not as many words as rows, none of the `MARKERS`, or two words with one id.
        """
        for name, part in vocabulary_rows(words, number=len(self.embedding)).items():
            self.get_buffer(name).copy_(part)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return F.embedding(looked_up(ids, self), self.embedding)

    @staticmethod
    def present(ids: torch.Tensor) -> torch.Tensor:
        return ids != 0

    @staticmethod
    def ids(words: Sequence[str]) -> np.ndarray:
        return word_ids(words)


def vocabulary_rows(words: Sequence[str], *, number: int) -> dict[str, torch.Tensor]:
    """
    The buffers of a `WordEncoder` with `number` rows whose words are `words`.

    # Raises
    `ElmoError`: see `WordEncoder.set_vocabulary`.
    """
    if len(words) != number:
        raise ElmoError(f"the vocabulary has {len(words):,} words, expected {number:,}, as the options say")
    for marker in MARKERS:
        if marker not in words:
            raise ElmoError(f"the vocabulary has no {marker}, expected {', '.join(MARKERS)}")
    known, rows = sorted_ids(torch.from_numpy(word_ids(words)), words, where="the vocabulary")
    return {"known": known, "rows": rows, "unknown": torch.tensor(words.index(UNKNOWN))}


# ==== elmo.model.unicode_encoder
OUT_OF_VOCABULARY = "<oov>"
Dictionary = Mapping[str, int]
"""The row of each entry in its table."""


class WordTable(nn.Module):
    """Words, as their characters, to vectors of their own."""

    def __init__(self, *, number: int, dim: int) -> None:
        super().__init__()
        self.lookup = Lookup(number=number)
        self.embedding = nn.Parameter(torch.empty(number, dim))
        nn.init.uniform_(self.embedding, -1.0, 1.0)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(words, length)` to `(words, dim)`."""
        return F.embedding(self.lookup(row_keys(ids)), self.embedding)


class UnicodeEncoder(CharacterEncoder):
    """`CharacterEncoder` over the characters of a dictionary; its projection is of the word's vector, too."""

    reads = "unicode_ids"
    dtype = torch.int32
    also_dtypes = ()
    marks = BEGIN_TEXT, END_TEXT

    def __init__(self, *, options: CharacterOptions, projection_dim: int) -> None:
        super().__init__(options=options, projection_dim=projection_dim)
        sizes = options.dictionaries
        assert sizes is not None
        self.characters = Lookup(number=sizes.n_characters)
        self.embedding = nn.Parameter(torch.empty(sizes.n_characters, options.dim))
        nn.init.uniform_(self.embedding, -1.0, 1.0)
        if sizes.word_dim:
            self.words = WordTable(number=sizes.n_words, dim=sizes.word_dim)
        self.projection = nn.Linear(options.num_filters + sizes.word_dim, projection_dim)

    @staticmethod
    def ids(words: Sequence[str]) -> np.ndarray:
        return unicode_ids(words)


def character_lookup(dictionary: Dictionary, *, number: int) -> dict[str, torch.Tensor]:
    """The buffers of the `Lookup` of characters, from the entries that are a character or a mark."""
    entries = [entry for entry in dictionary if len(entry) == 1 or entry in MARK_IDS]
    ids = torch.tensor([MARK_IDS.get(entry) or character_id(entry) for entry in entries])
    return _lookup(ids, entries, dictionary, number)


def word_lookup(dictionary: Dictionary, *, number: int, length: int) -> dict[str, torch.Tensor]:
    """
    The buffers of the `Lookup` of words, as `length` characters; those that are too long to be read whole are
    not used.

    # Raises
    `ElmoError`: two words with one key.
    """
    words = [word for word in dictionary if len(word) <= length - 2]
    ids = shortened(torch.tensor(unicode_ids(words)), length)
    return _lookup(row_keys(ids), words, dictionary, number)


def _lookup(
    ids: torch.Tensor, entries: Sequence[str], dictionary: Dictionary, number: int
) -> dict[str, torch.Tensor]:
    known, order = sorted_ids(ids, entries, where="the dictionary")
    rows = torch.tensor([dictionary[entry] for entry in entries])[order]
    # As many as rows, so that the sizes say all shapes: the last again for those that are not used
    missing = number - len(known)
    return {
        "known": torch.cat([known, known[-1:].expand(missing)]),
        "rows": torch.cat([rows, rows[-1:].expand(missing)]),
        "unknown": torch.tensor(dictionary[OUT_OF_VOCABULARY]),
    }
