"""
Blocks for truncated back-propagation through time (BPTT): a few steps of many streams, in both directions.

A sentence `w1 .. wn` is, forward, the inputs `<S> w1 .. wn` with the targets `w1 .. wn </S>`; backward, the
inputs `</S> wn .. w1` with the targets `wn .. w1 <S>`. Nothing predicts across the boundary of two sentences.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypedDict

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Field, TensorDict, Vocabulary

from elmo_tasks.elmo.model.characters import BEGIN_SENTENCE, END_SENTENCE, UNKNOWN, character_ids, word_ids

NAMESPACE = "tokens"
ENCODERS: dict[str, Callable[[Iterable[str]], np.ndarray]] = {"characters": character_ids, "words": word_ids}

LEXICON_SIZE = 1 << 18
"""Words. A larger lexicon is replaced by a new one, so that memory does not grow with the text."""

_BEGIN, _END = 0, 1
_ORDERS: tuple[Callable[[list[int]], list[int]], ...] = (
    lambda words: [_BEGIN, *words],
    lambda words: [_END, *reversed(words)],
    lambda words: [*words, _END],
    lambda words: [*reversed(words), _BEGIN],
)


class Lexicon(dict[str, int]):
    """The words of a text, with ids in the order in which they appear; the input and class of each."""

    def __init__(self, input: str) -> None:
        self.input = input
        self.words: list[str] = []
        self._encoded = _RowsByWord(ENCODERS[input])
        self._classes: tuple[Vocabulary | None, _RowsByWord] = (None, self._encoded)
        # Looking a word up gives it a word id; the boundary tokens have the first two.
        for boundary in (BEGIN_SENTENCE, END_SENTENCE):
            self[boundary]

    def __missing__(self, word: str) -> int:
        word_id = self[word] = len(self)
        self.words.append(word)
        return word_id

    def steps(self, sentences: Iterable[Sequence[str]]) -> np.ndarray:
        """Numbers the words of each step. *Shape:* `(4, steps)`, in the order of `_ORDERS`."""
        word_ids = [list(map(self.__getitem__, words)) for words in sentences]
        rows = [np.fromiter(chain.from_iterable(map(order, word_ids)), np.int64) for order in _ORDERS]
        return np.stack(rows)

    def encoded(self, word_ids: np.ndarray) -> np.ndarray:
        return self._encoded.rows(self.words, word_ids)

    def classes(self, vocab: Vocabulary, word_ids: np.ndarray) -> np.ndarray:
        if self._classes[0] is not vocab:
            self._classes = (vocab, _RowsByWord(partial(_classes, vocab)))
        return self._classes[1].rows(self.words, word_ids)

    def translate(self, steps: np.ndarray, other: "Lexicon") -> np.ndarray:
        if other is self or not steps.size:
            return steps
        used, inverse = np.unique(steps, return_inverse=True)
        return np.array([self[other.words[word_id]] for word_id in used])[inverse].reshape(steps.shape)


class Block(TypedDict):
    """The tensors of a block, whose steps are those of its streams end to end, forward and backward."""

    words: torch.Tensor
    """The distinct words. *Shape:* their characters `(distinct, 50)`, or hashes `(distinct,)`, `int64`."""
    inputs: torch.Tensor
    """The row in `words` of each step's input. *Shape:* `(2, steps)`, `int64`."""
    targets: torch.Tensor
    """The class of each step's target: its id in the vocabulary less 1. *Shape:* `(2, steps)`, `int64`."""
    lengths: torch.Tensor
    """The steps of each stream. *Shape:* `(streams,)`, `int64`."""
    fresh: torch.Tensor
    """Whether a stream begins a new passage. *Shape:* `(streams,)`, `bool`."""
    process: int


class BlockField(Field[Block]):
    """
    A block, whose streams may differ in their number of steps.

    *Shape:* `steps` `(4, steps)`, stream by stream: word ids of the `lexicon`. For each stream, `lengths` has
    its number of steps, and `fresh` whether it begins a new passage. A `process` has streams of its own.
    """

    __slots__ = ["_targets", "fresh", "lengths", "lexicon", "process", "steps"]

    def __init__(
        self,
        *,
        steps: np.ndarray,
        lexicon: Lexicon,
        lengths: Sequence[int],
        fresh: Sequence[bool],
        process: int,
    ) -> None:
        self.steps = steps
        self.lexicon = lexicon
        self.lengths = lengths
        self.fresh = fresh
        self.process = process
        self._targets: np.ndarray | None = None

    def count_vocab_items(self, counter: dict[str, dict[str, int]]) -> None:
        """Counts each word of the text once, each boundary token once a sentence, and `<UNK>` not at all."""
        for word_id, count in zip(*np.unique(self.steps[2], return_counts=True), strict=True):
            word = self.lexicon.words[word_id]
            if word_id != _BEGIN and word != UNKNOWN:
                counter[NAMESPACE][word] += int(count)
        if begins := int((self.steps[0] == _BEGIN).sum()):
            counter[NAMESPACE][BEGIN_SENTENCE] += begins

    def index(self, vocab: Vocabulary) -> None:
        self._targets = self.lexicon.classes(vocab, self.steps[2:])

    def get_padding_lengths(self) -> dict[str, int]:
        return {}

    def as_tensor(self, padding_lengths: dict[str, int]) -> Block:
        assert self._targets is not None, "index(vocab) was not called"
        words, inputs = np.unique(self.steps[:2], return_inverse=True)
        return {
            "words": torch.from_numpy(self.lexicon.encoded(words)),
            "inputs": torch.from_numpy(inputs.reshape(2, -1)),
            "targets": torch.from_numpy(self._targets),
            "lengths": torch.tensor(self.lengths),
            "fresh": torch.tensor(self.fresh),
            "process": self.process,
        }

    def batch_tensors(self, tensor_list: list[Block]) -> Block:
        if len(tensor_list) != 1:
            raise ConfigurationError(
                f"data_loader.batch_size must be 1 instead of {len(tensor_list)}: a block is already a batch "
                "of streams"
            )
        return tensor_list[0]

    def human_readable_repr(self) -> dict[str, list[str] | list[int]]:
        forward, backward = ([self.lexicon.words[word_id] for word_id in row] for row in self.steps[:2])
        return {"forward": forward, "backward": backward, "lengths": list(self.lengths)}

    def __len__(self) -> int:
        return self.steps.shape[1]

    def __getstate__(self) -> dict[str, Any]:
        """Replaces the lexicon of the whole text by one of the block's words, for another process."""
        lexicon = Lexicon(self.lexicon.input)
        state = {name: getattr(self, name) for name in self.__slots__}
        return state | {"steps": lexicon.translate(self.steps, self.lexicon), "lexicon": lexicon}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


def blocks(
    passages: Iterable[Iterable[Sequence[str]]],
    *,
    streams: int,
    bptt_steps: int | None,
    process: int,
    input: str,
) -> Iterator[BlockField]:
    """
    Yields the blocks of a text. Each stream reads a passage to its end, and takes the next one from the
    following block on. A stream has up to `bptt_steps` steps in a block; with `None` a whole passage.
    """

    def numbered() -> Iterator[tuple[Lexicon, np.ndarray]]:
        lexicon = Lexicon(input)
        for passage in passages:
            if len(lexicon) > LEXICON_SIZE:
                lexicon = Lexicon(input)
            yield lexicon, lexicon.steps(passage)

    def pieces_of_stream() -> Iterator[tuple[bool, Lexicon, np.ndarray]]:
        for lexicon, steps in remaining:
            length = steps.shape[1]
            for start in range(0, length, bptt_steps or length):
                yield start == 0, lexicon, steps[:, start : start + (bptt_steps or length)]

    remaining = numbered()
    rows = [pieces_of_stream() for _ in range(streams)]
    no_text = (False, Lexicon(input), np.empty((len(_ORDERS), 0), np.int64))
    while True:
        fresh, lexicons, pieces = zip(*(next(row, no_text) for row in rows), strict=True)
        lengths = [piece.shape[1] for piece in pieces]
        if not any(lengths):
            return
        # All pieces have the same lexicon, except for a while after a new one was begun.
        lexicon = lexicons[lengths.index(max(lengths))]
        steps = np.concatenate(list(map(lexicon.translate, pieces, lexicons)), axis=1)
        yield BlockField(steps=steps, lexicon=lexicon, lengths=lengths, fresh=fresh, process=process)


def empty_block(*, streams: int, input: str) -> BlockField:
    return BlockField(
        steps=np.empty((len(_ORDERS), 0), np.int64),
        lexicon=Lexicon(input),
        lengths=[0] * streams,
        fresh=[False] * streams,
        process=0,
    )


def pad_streams(block: Block) -> tuple[Block, torch.Tensor]:
    """
    Pads all streams to the longest, so that blocks have one shape. A shorter stream is at the end of its
    passage, so that the state after the padding is not read.

    *Shape:* a block and which of its steps are real, `(steps,)`.
    """
    lengths = block["lengths"]
    longest = int(lengths.max())
    # (streams, longest)
    real = torch.arange(longest, device=lengths.device) < lengths.unsqueeze(1)
    inputs, targets = (
        tensor.new_zeros(2, *real.shape).masked_scatter(real, tensor).flatten(1)
        for tensor in (block["inputs"], block["targets"])
    )
    padded: Block = {
        **block,
        "inputs": inputs,
        "targets": targets,
        "lengths": torch.full_like(lengths, longest),
    }
    return padded, real.flatten()


def tokens_trained(batches: Iterable[TensorDict], *, workers: int) -> int:
    """Counts the steps of one direction in a worker's blocks, times the number of workers."""
    return workers * sum(batch["block"]["inputs"].size(1) for batch in batches)


class _RowsByWord:
    """A row for each word of a growing list, made on first use."""

    def __init__(self, make: Callable[[list[str]], np.ndarray]) -> None:
        self._make = make
        self._rows = make([])
        self._made = 0

    def rows(self, words: list[str], word_ids: np.ndarray) -> np.ndarray:
        if self._made < len(words):
            new = self._make(words[self._made :])
            if len(self._rows) < len(words):
                larger = np.empty((2 * len(words), *new.shape[1:]), new.dtype)
                larger[: self._made] = self._rows[: self._made]
                self._rows = larger
            self._rows[self._made : len(words)] = new
            self._made = len(words)
        return self._rows[word_ids]


def _classes(vocab: Vocabulary, words: list[str]) -> np.ndarray:
    ids = vocab.get_token_to_index_vocabulary(NAMESPACE)
    unknown = ids[vocab._oov_token]
    # A word spelt like the padding entry, whose id is 0, has no class of its own.
    return np.array([ids.get(word, unknown) or unknown for word in words], dtype=np.int64) - 1
