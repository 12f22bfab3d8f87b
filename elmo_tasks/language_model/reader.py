"""Text for a bidirectional language model: streams of consecutive sentences, and a vocabulary from a file."""

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
from elmo_tasks.common.text_checks import WarnedOnce
from elmo_tasks.common.values import Name, NonNegativeInt, OneOf, PositiveFloat, PositiveInt, Probability
from elmo_tasks.data.input_files import InputError, check_found, input_files
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
from elmo_tasks.language_model.bptt_batch import ENCODERS, NAMESPACE, blocks, empty_block

logger = logging.getLogger(__name__)

Item = TypeVar("Item")


@Vocabulary.register("elmo_words", constructor="from_words_file")
class WordsVocabulary(StrictParams, Vocabulary):
    """
    The words of a trained softmax, in the order of their file: line n has index n in the namespace `tokens`.
    All words outside the file have the index of `<UNK>`.
    """

    @classmethod
    def from_words_file(cls, words_file: Name) -> "WordsVocabulary":
        """Reads a vocabulary file of bilm-tf, by a path, URL or `hf://` name; for errors see `read_words`."""
        vocab = cls()
        words = [vocab._padding_token, *read_words(words_file)]
        words[words.index(UNKNOWN)] = vocab._oov_token
        vocab._index_to_token[NAMESPACE] = dict(enumerate(words))
        vocab._token_to_index[NAMESPACE] = {word: index for index, word in enumerate(words)}
        return vocab


@DatasetReader.register("elmo_bilm")
class BiLmReader(ShardedReader):
    """
    Reads text into blocks: the steps that all streams read together, as in bilm-tf (Peters et al. 2018,
    section 3.1).

    A line is a tokenised sentence, its words between blanks; an empty line ends a document. An instance is a
    whole block. Its one field is `block`, a `BlockField`; data loaders have `batch_size` 1.

    The text is a file, a folder, a pattern or a list of these, plain or gzip, of any size. It is read again
    in each epoch; memory holds the passages being read and the shuffle buffer.

    # Parameters

    input : how the model reads words: `characters` or `words`.
    streams : the number of passages read side by side.
    bptt_steps : steps of a stream in a block, and so of truncated back-propagation; null: whole passages.
    passage : the number of consecutive sentences of a document, at most, that are read with one LSTM state;
        null: whole documents, which are then held in memory.
    restart : the probability with which a passage ends after a sentence, so that the next one starts from a
        state of zeros, as a sentence does in a task.
    shuffle_buffer : the number of passages from which the next one is drawn; files are in random order too.
        0: everything in order.
    seed : the seed of the order and of subsampling.
    max_sentence : words of a sentence; a longer one is cut into several, which the log counts.
    running_text : lines are not sentences; empty lines end paragraphs, which are split into sentences and
        words.
    language : the language of running text, by spaCy's code.
    source : another reader, whose texts are read in place of lines: each different text of an instance is a
        sentence, unless the previous instance has the same text.
    subsample : t of Mikolov et al. 2013, section 2.3: words of relative frequency f > t are kept with
        probability sqrt(t / f). The frequencies come from a first pass over the whole text; with `source` in
        a distributed training, from a pass over each worker's share. Loader processes make the pass in each
        epoch.
    max_instances, serialization_dir : see `ShardedReader`; the instances are blocks.

    # Order and resuming

    The order depends on `seed`, on the number of times that this path was read before, and on the loader
    process; no global random numbers are drawn. `allennlp train --recover` counts the vocabulary and reads
    skipped epochs again, so that a resumed run gets the same blocks. With two or more loader processes
    AllenNLP takes blocks as they come, in an order that cannot be repeated.

    Processes share the text passage by passage (running text: paragraph by paragraph); `source` shares its
    own instances among the workers of a distributed training. All workers get the same number of blocks, so
    that the whole text is used: a worker whose text has ended gets blocks without steps. With loader
    processes AllenNLP ends an epoch, with a warning, where the first worker's text ends.
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
            raise ConfigurationError("`running_text` and `source` exclude each other")
        super().__init__(**kwargs)
        self.input, self.streams, self.bptt_steps = input, streams, bptt_steps
        self.passage, self.restart = passage, restart
        self.shuffle_buffer, self.seed = shuffle_buffer, seed
        self.max_sentence, self.source = max_sentence, source
        self._split = SentenceSplitter(language) if running_text else None
        self.subsample = subsample
        self._reads, self._warn = _Reads(), WarnedOnce()
        self._probabilities: dict[str, dict[str, float]] = {}

    def read(self, file_path: DatasetReaderInput) -> Iterator[Instance]:
        instances = super().read(file_path)
        # Loader processes are not members of the process group.
        if not is_distributed() or self.get_worker_info():
            return instances

        def in_step() -> Iterator[Instance]:
            # Blocks without steps come last, until the text of all workers has ended.
            empty = Instance({"block": empty_block(streams=self.streams, input=self.input)})
            for instance in chain(instances, repeat(None)):
                if not dist_reduce(int(instance is not None), dist.ReduceOp.MAX):
                    return
                yield empty if instance is None else instance

        return in_step()

    def text_to_instance(self, sentences: list[list[str]]) -> Instance:
        """Makes one block of whole sentences, a stream each, for prediction."""
        streams = ([words] for words in sentences)
        block = next(blocks(streams, streams=len(sentences), bptt_steps=None, process=0, input=self.input))
        return Instance({"block": block})

    def check(self, path: DatasetReaderInput) -> None:
        """Reads the whole text, so that a byte that is not UTF-8 is found wherever it is."""
        sentences: Iterator[WordsOrLine | None]
        if self.source is not None:
            sentences = self._source_sentences(path)
        else:
            read = file_sentences if self._split is None else file_paragraphs
            sentences = read(input_files(path), self._warn)
        check_found(sum(sentence is not None for sentence in sentences), "sentences", str(path))

    def words(self, text: str) -> list[str]:
        """Splits a text into words, as the reader splits its files: at blanks, or as running text."""
        sentences = self._split([text]) if self._split else [text]
        return [word for sentence in sentences if sentence for word in words_of(sentence)]

    def _read(self, file_path: DatasetReaderInput) -> Iterator[Instance]:
        worker, share, _ = self._share()
        random = self.shuffle_buffer > 0 or self.subsample is not None or self.restart > 0
        epoch = self._reads.add(file_path, worker) if random else 0
        order = Random(f"{self.seed} {epoch}")
        draws = Random(f"{self.seed} {epoch} {share}")
        cutter = LongSentences(self.max_sentence)
        passages_read = self._passages(file_path, partial(self._own_share, path=file_path), cutter, order)
        if self.shuffle_buffer:
            passages_read = shuffled(passages_read, self.shuffle_buffer, draws)
        counts: Counter[str] = Counter()
        texts = self._texts(passages_read, self._keep_probabilities(file_path), draws, counts)
        for block in blocks(
            texts, streams=self.streams, bptt_steps=self.bptt_steps, process=worker, input=self.input
        ):
            counts["blocks"] += 1
            yield Instance({"block": block})
        if cutter.cut:
            counts[f"sentences of more than {self.max_sentence} words, cut"] = cutter.cut
        logger.info("%s: %s", file_path, ", ".join(f"{count:,} {name}" for name, count in counts.items()))

    def _passages(
        self,
        path: DatasetReaderInput,
        select: Callable[[Iterable[Any]], Iterator[Any]],
        cutter: LongSentences,
        order: Random | None = None,
    ) -> Iterator[Passage]:
        """Yields the passages, or for running text the passages of paragraphs, that `select` keeps."""
        to_passages = partial(passages, size=self.passage, restart=self.restart, random=order)
        if self.source is not None:
            return select(to_passages(cutter(self._source_sentences(path))))
        files = input_files(path)
        if self.shuffle_buffer and order is not None:
            order.shuffle(files)
        if self._split is not None:
            return to_passages(cutter(self._split(select(file_paragraphs(files, self._warn)))))
        return select(to_passages(cutter(file_sentences(files, self._warn))))

    def _own_share(self, items: Iterable[Item], path: DatasetReaderInput) -> Iterator[Item]:
        _, share, shares = self._share()
        index = -1
        for index, item in enumerate(items):
            if index % shares == share:
                yield item
        check_found(index >= 0, "sentences", str(path))

    def _share(self) -> tuple[int, int, int]:
        process, group = self.get_worker_info(), self.get_distributed_info()
        worker, workers = (process.id, process.num_workers) if process else (0, 1)
        # A source shares its instances among the workers of a distributed training itself.
        rank, ranks = (group.global_rank, group.world_size) if group and self.source is None else (0, 1)
        return worker, rank * workers + worker, ranks * workers

    def _source_sentences(self, path: DatasetReaderInput) -> Iterator[WordsOrLine]:
        assert self.source is not None
        try:
            yield from instance_sentences(self.source.read(path))
        except InputError as error:
            error.add_note(f"it is read by the source, {type(self.source).__name__}; null reads plain text")
            raise

    def _texts(
        self,
        passages_read: Iterable[Passage],
        keep_probabilities: dict[str, float],
        draws: Random,
        counts: Counter[str],
    ) -> Iterator[list[list[str]]]:
        for passage in passages_read:
            sentences = [words_of(sentence) for sentence in passage]
            if keep_probabilities:
                num_words = sum(map(len, sentences))
                sentences = [subsampled(words, keep_probabilities, draws) for words in sentences]
                counts["words left out (subsample)"] += num_words - sum(map(len, sentences))
                counts["sentences left without words"] += sentences.count([])
                sentences = [words for words in sentences if words]
            counts["sentences"] += len(sentences)
            counts["words"] += sum(map(len, sentences))
            if sentences:
                yield sentences

    def _keep_probabilities(self, path: DatasetReaderInput) -> dict[str, float]:
        if self.subsample is None:
            return {}
        if (key := str(path)) not in self._probabilities:
            counts: Counter[str] = Counter()
            for passage in self._passages(path, iter, LongSentences(self.max_sentence)):
                for sentence in passage:
                    counts.update(words_of(sentence))
            threshold = self.subsample * counts.total()
            self._probabilities[key] = {
                word: sqrt(threshold / count) for word, count in counts.items() if count > threshold
            }
            logger.info("%s: %d of %d words are subsampled", path, len(self._probabilities[key]), len(counts))
        return self._probabilities[key]


class _Reads:
    """
    The number of times that each text was read, shared with the processes of data loaders, which are new in
    each epoch. Each counts in its own row, so that none waits for another.
    """

    _PROCESSES, _PATHS = 256, 64

    def __init__(self) -> None:
        self._rows = torch.zeros(self._PROCESSES, self._PATHS, 2, dtype=torch.int64).share_memory_()

    def add(self, path: DatasetReaderInput, process: int) -> int:
        key = 1 + int.from_bytes(blake2b(str(path).encode(), digest_size=7).digest(), "big")
        if process < self._PROCESSES:
            for entry in self._rows[process]:
                if entry[0] in (0, key):
                    entry[0] = key
                    entry[1] += 1
                    return int(entry[1]) - 1
        raise ConfigurationError(
            f"a reader can read {self._PATHS} texts in {self._PROCESSES} loader processes at most; this is a "
            f"further text, or process {process + 1}"
        )
