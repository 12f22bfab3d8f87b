"""
The vocabulary of a softmax that was trained before, from its file.

Text for a bidirectional language model: streams of consecutive sentences.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import blake2b
from itertools import chain, repeat
from math import sqrt
from random import Random
from typing import Annotated, Any, ClassVar, Optional, TypeVar

import torch
import torch.distributed as dist
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.data import DatasetReader, Instance, Vocabulary
from allennlp.data.dataset_readers.dataset_reader import DatasetReaderInput
from allennlp.nn.util import dist_reduce

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import (
    Name,
    NonNegativeInt,
    OneOf,
    PositiveFloat,
    PositiveInt,
    Probability,
)
from elmo_tasks.data.input_files import InputError, input_files
from elmo_tasks.data.reader import ShardedReader
from elmo_tasks.data.text_stream import (
    LongSentences,
    Passage,
    SentenceSplitter,
    WordsOrLine,
    file_paragraphs,
    file_sentences,
    instance_sentences,
    passages,
    shuffled,
    subsampled,
    words_of,
)
from elmo_tasks.elmo.files import read_words
from elmo_tasks.elmo.model.characters import UNKNOWN
from elmo_tasks.language_model.bptt_batch import ENCODERS, NAMESPACE, blocks, dry_block


# ==== language_model.vocabulary
@Vocabulary.register("elmo_words", constructor="from_words_file")
class WordsVocabulary(StrictParams, Vocabulary):
    """
    A vocabulary file of bilm-tf, in its order: the word of line n has index n in the namespace `tokens`.

    `<UNK>`, wherever it stands, is the index of all other words.
    """

    @classmethod
    def from_words_file(cls, words_file: Name) -> "WordsVocabulary":
        """
        # Parameters

        words_file : path, URL or `hf://` name; gzip or not.

        # Raises
        `ConfigurationError`, with the file and the line: see `read_words`.
        """
        vocab = cls()
        words = [vocab._padding_token, *read_words(words_file)]
        words[words.index(UNKNOWN)] = vocab._oov_token
        vocab._index_to_token[NAMESPACE] = dict(enumerate(words))
        vocab._token_to_index[NAMESPACE] = {word: index for index, word in enumerate(words)}
        return vocab


# ==== language_model.reader
logger = logging.getLogger(__name__)

Item = TypeVar("Item")


@DatasetReader.register("elmo_bilm")
class BiLmReader(ShardedReader):
    """
    One tokenised sentence a line, its words between blanks; an empty line ends a document. An instance is
    a whole *block*: what all streams read at once, as in bilm-tf (Peters et al. 2018, section 3.1). Its one
    field is `block`, a `BlockField`; data loaders have `batch_size` 1.

    The text may be a file, a folder, a pattern or a list of these, plain or gzip, of any size: it is read
    again in each epoch, and only passages being read and those to be shuffled are in memory.

    # Parameters

    input : how the model reads words: `characters` or `words`.
    streams : passages read side by side.
    bptt_steps : steps of a stream in a block, and so of truncated back-propagation; null: whole passages.
    passage : up to so many consecutive sentences of a document are read with one LSTM state; null: whole
        documents, which are then held in memory.
    restart : the probability with which a passage ends behind a sentence, so that the next one starts from a
        state of zeros, as a sentence does in a task.
    shuffle_buffer : passages from which the next one is drawn, files being in random order too; 0: in order.
    seed : of the order and of subsampling.
    max_sentence : words; a longer sentence is cut into several, which are counted in the log.
    running_text : lines are not sentences; empty lines end paragraphs, whose sentences and words are found.
    language : of running text, by spaCy's code.
    source : another reader, whose texts are read in place of lines: each different text of an instance is a
        sentence, one instance after the other, but for texts that the instance before has, too.
    subsample : t of Mikolov et al. 2013, section 2.3: words of relative frequency f > t stay with probability
        sqrt(t / f). Frequencies are those of the whole text, from a first pass over it, and with `source` in
        a distributed training those of each worker's share; loader processes make the pass in each epoch.
    max_instances, serialization_dir : see `ShardedReader`; the instances are blocks.

    # Order and resuming

    The order depends on `seed`, on how many times this path was read before, and on the loader process;
    no global random numbers are drawn. `allennlp train --recover` counts the vocabulary and reads skipped
    epochs again, so that a resumed run goes on with the same blocks. With two or more loader processes
    AllenNLP takes blocks as they come, in an order that nothing repeats.

    Processes share the text passage by passage (paragraph by paragraph of running text); `source` shares
    its own instances among the workers of a distributed training. These get the same number of blocks, so
    that all of the text is used: a worker whose text has ended gets blocks without steps. With loader
    processes AllenNLP ends an epoch, with a warning, where the first worker's text does.

    # Raises
    `ConfigurationError`: a parameter out of its range. When reading, `InputError`: no file, no sentence at
    all, a byte that is not UTF-8.
    """

    renamed_keys: ClassVar[dict[str, str]] = {"lanes": "streams", "unroll": "bptt_steps"}

    def __init__(
        self,
        *,
        input: Annotated[str, OneOf(ENCODERS)] = "characters",
        streams: PositiveInt = 64,
        bptt_steps: Optional[PositiveInt] = 20,
        passage: Optional[PositiveInt] = 64,
        restart: Probability = 0.0,
        shuffle_buffer: NonNegativeInt = 1024,
        seed: int = 13,
        max_sentence: PositiveInt = 400,
        running_text: bool = False,
        language: Name = "en",
        source: Optional[DatasetReader] = None,
        subsample: Optional[PositiveFloat] = None,
        **kwargs: Any,
    ) -> None:
        if running_text and source is not None:
            raise ConfigurationError("found running_text and source, expected one of them at most")
        super().__init__(**kwargs)
        self.input, self.streams, self.bptt_steps = input, streams, bptt_steps
        self.passage, self.restart = passage, restart
        self.shuffle_buffer, self.seed = shuffle_buffer, seed
        self.max_sentence, self.source = max_sentence, source
        self._split = SentenceSplitter(language) if running_text else None
        self.subsample = subsample
        self._reads = _Reads()
        self._probabilities: dict[str, dict[str, float]] = {}

    def read(self, file_path: DatasetReaderInput) -> Iterator[Instance]:
        instances = super().read(file_path)
        # Loader processes are not members of the process group.
        return self._in_step(instances) if is_distributed() and not self.get_worker_info() else instances

    def text_to_instance(self, sentences: list[list[str]]) -> Instance:
        """
        One block of whole sentences, a stream each, for prediction.

        # Raises
        `ConfigurationError`: no sentences.
        """
        if not sentences:
            raise ConfigurationError("found no sentences, expected at least one")
        streams = ([words] for words in sentences)
        block = next(blocks(streams, streams=len(sentences), bptt_steps=None, process=0, input=self.input))
        return Instance({"block": block})

    def words(self, text: str) -> list[str]:
        """The words of a text, as the reader's files have them: between blanks, or found in running text."""
        sentences = self._split([text]) if self._split else [text]
        return [word for sentence in sentences if sentence for word in words_of(sentence)]

    def _read(self, file_path: DatasetReaderInput) -> Iterator[Instance]:
        worker, share, _ = self._share()
        random = self.shuffle_buffer > 0 or self.subsample is not None or self.restart > 0
        epoch = self._reads.add(file_path, worker) if random else 0
        order = Random(f"{self.seed} {epoch}")
        draws = Random(f"{self.seed} {epoch} {share}")
        long = LongSentences(self.max_sentence)
        parts = self._passages(file_path, partial(self._deal, path=file_path), long, order)
        if self.shuffle_buffer:
            parts = shuffled(parts, self.shuffle_buffer, draws)
        counts: Counter[str] = Counter()
        texts = self._texts(parts, self._frequent(file_path), draws, counts)
        for block in blocks(
            texts, streams=self.streams, bptt_steps=self.bptt_steps, process=worker, input=self.input
        ):
            counts["blocks"] += 1
            yield Instance({"block": block})
        if long.cut:
            counts[f"sentences of more than {self.max_sentence} words, cut"] = long.cut
        logger.info("%s: %s", file_path, ", ".join(f"{count:,} {name}" for name, count in counts.items()))

    def _in_step(self, instances: Iterator[Instance]) -> Iterator[Instance]:
        """The instances, and then blocks without steps until the text of all workers has ended."""
        dry = Instance({"block": dry_block(streams=self.streams, input=self.input)})
        for instance in chain(instances, repeat(None)):
            if not dist_reduce(int(instance is not None), dist.ReduceOp.MAX):
                return
            yield dry if instance is None else instance

    def _passages(
        self,
        path: DatasetReaderInput,
        deal: Callable[[Iterable[Any]], Iterator[Any]],
        long: LongSentences,
        order: Random | None = None,
    ) -> Iterator[Passage]:
        """The passages that `deal` leaves, with files in random order if there is one."""
        cut = partial(passages, size=self.passage, restart=self.restart, random=order)
        if self.source is not None:
            return deal(cut(long(self._of_source(path))))
        files = input_files(path)
        if self.shuffle_buffer and order is not None:
            order.shuffle(files)
        if self._split is not None:
            return cut(long(self._split(deal(file_paragraphs(files)))))
        return deal(cut(long(file_sentences(files))))

    def _deal(self, items: Iterable[Item], path: DatasetReaderInput) -> Iterator[Item]:
        """This process's share of the text: every so many-th item."""
        _, share, shares = self._share()
        number = -1
        for number, item in enumerate(items):
            if number % shares == share:
                yield item
        if number < 0:
            raise InputError.at(str(path), found="no sentence", expected="at least one")

    def _share(self) -> tuple[int, int, int]:
        """Number of the loader process, number of the share, and how many shares there are."""
        process, group = self.get_worker_info(), self.get_distributed_info()
        worker, workers = (process.id, process.num_workers) if process else (0, 1)
        # A source deals its instances to the workers of a distributed training itself.
        rank, ranks = (group.global_rank, group.world_size) if group and self.source is None else (0, 1)
        return worker, rank * workers + worker, ranks * workers

    def _of_source(self, path: DatasetReaderInput) -> Iterator[WordsOrLine]:
        assert self.source is not None
        try:
            yield from instance_sentences(self.source.read(path))
        except InputError as error:
            reader = type(self.source).__name__
            raise InputError(f"{error.message} (of {reader}, the source; null reads plain text)") from error

    def _texts(
        self, parts: Iterable[Passage], frequent: dict[str, float], draws: Random, counts: Counter[str]
    ) -> Iterator[list[list[str]]]:
        """The passages as words, those of `frequent` left in at their probabilities; counted."""
        for part in parts:
            sentences = [words_of(sentence) for sentence in part]
            if frequent:
                every = sum(map(len, sentences))
                sentences = [subsampled(words, frequent, draws) for words in sentences]
                counts["words left out (subsample)"] += every - sum(map(len, sentences))
                counts["sentences left without words"] += sentences.count([])
                sentences = [words for words in sentences if words]
            counts["sentences"] += len(sentences)
            counts["words"] += sum(map(len, sentences))
            if sentences:
                yield sentences

    def _frequent(self, path: DatasetReaderInput) -> dict[str, float]:
        """The words to be subsampled, and the probability with which each stays."""
        if self.subsample is None:
            return {}
        if (key := str(path)) not in self._probabilities:
            counts: Counter[str] = Counter()
            for part in self._passages(path, iter, LongSentences(self.max_sentence)):
                for sentence in part:
                    counts.update(words_of(sentence))
            most = self.subsample * counts.total()
            self._probabilities[key] = {
                word: sqrt(most / count) for word, count in counts.items() if count > most
            }
            logger.info("%s: %d of %d words are subsampled", path, len(self._probabilities[key]), len(counts))
        return self._probabilities[key]


class _Reads:
    """
    How many times each text was read; a data loader's processes, new ones in each epoch, have it in common.

    Each loader process counts in a row of its own, so that none waits for another.
    """

    _PROCESSES, _PATHS = 256, 64

    def __init__(self) -> None:
        self._rows = torch.zeros(self._PROCESSES, self._PATHS, 2, dtype=torch.int64).share_memory_()

    def add(self, path: DatasetReaderInput, process: int) -> int:
        """
        Count a read, and say how many there were before it.

        # Raises
        `ConfigurationError`: too many texts or loader processes.
        """
        key = 1 + int.from_bytes(blake2b(str(path).encode(), digest_size=7).digest(), "big")
        if process < self._PROCESSES:
            for entry in self._rows[process]:
                if entry[0] in (0, key):
                    entry[0] = key
                    entry[1] += 1
                    return int(entry[1]) - 1
        raise ConfigurationError(
            f"found {process + 1} loader processes, and one text more than before; expected at most "
            f"{self._PROCESSES} processes, and {self._PATHS} texts read by one reader"
        )
