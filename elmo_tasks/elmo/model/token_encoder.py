"""What the biLM asks of its token layer, whether it reads characters or words."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from elmo_tasks.elmo.model.characters import BEGIN_SENTENCE, END_SENTENCE
from elmo_tasks.elmo.model.errors import ElmoError


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
