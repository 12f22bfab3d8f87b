"""`ElmoEmbedder`: lists of tokens to arrays, with the calls of AllenNLP 0.9."""

from collections.abc import Iterable, Iterator, Sized
from functools import lru_cache
from itertools import chain
from numbers import Integral
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import put_in_place, refuse_inputs_as_outputs, text_lines
from elmo_tasks.common.machine import Device
from elmo_tasks.common.progress import progress as progress_bar
from elmo_tasks.common.text_checks import checked_sentences
from elmo_tasks.elmo.files import Precision, Source, move_to, read_chosen_bilm
from elmo_tasks.elmo.model.array_file import needing_h5py
from elmo_tasks.elmo.model.encoders import Token, checked_words
from elmo_tasks.embedding.batches import (
    BATCH_TOKENS,
    BatchEncoder,
    NumberedSentence,
    batches_by_length,
    check_layers,
    windows,
)
from elmo_tasks.embedding.corpus import SourceLine, write_corpus

BATCHES_AHEAD = 8


class ElmoEmbedder:
    """
    The layers of a biLM for sentences that are split into tokens (Peters et al. 2018, arXiv:1802.05365).

    The class has the constructor and the methods of AllenNLP 0.9's. There, the LSTM state was carried from
    batch to batch, and a sentence had other vectors in every call. Here, each sentence starts from zeros, and
    has the same vectors in every call, alone or in any batch. Tokens of spaCy and AllenNLP are read by their
    text. Threads may share one embedder.

    # Parameters

    options_file, weight_file : path, URL or `hf://` name of the official `options.json` and weights, HDF5 or
        safetensors; by default the biLM that comes with the project. Give both, or neither, or a folder or
        zip of `allennlp elmo export`, of ELMoForManyLangs or of NLPL's repository as `weight_file`.
    cuda_device : `cpu`, `cuda`, `cuda:1`, a `torch.device`, or the index of a GPU, -1 for the CPU.
    vocabulary_file : of a biLM that reads words: one word a line, in the order of its table.
    precision : of the biLM's products; `float32` is exact, `bfloat16` is faster and less exact.
    batch_size : the largest number of sentences computed together, unless a call gives its own.
    progress : show a bar on stderr where many sentences take more than a few seconds.

    # Raises
    `ElmoError`: files that do not fit together, or a GPU that does not exist. `FileNotFoundError`.
    """

    def __init__(
        self,
        options_file: Source | None = None,
        weight_file: Source | None = None,
        cuda_device: Device = -1,
        *,
        vocabulary_file: Source | None = None,
        precision: Precision = "float32",
        batch_size: int = 64,
        progress: bool = True,
    ) -> None:
        self.batch_size = _positive("batch_size", batch_size)
        self.progress = progress
        bilm = read_chosen_bilm(
            options_file,
            weight_file,
            vocabulary_file,
            precision=precision,
            names="options_file and weight_file",
        )
        self.cuda_device = cuda_device
        self.bilm = move_to(bilm, cuda_device, option="cuda_device")
        self.bilm.prepare()

    @property
    def num_layers(self) -> int:
        """The token layer and the LSTM layers."""
        return self.bilm.num_layers

    @property
    def dim(self) -> int:
        """The size of a vector."""
        return self.bilm.options.output_dim

    def embed_sentence(self, sentence: Iterable[str | Token]) -> np.ndarray:
        """Returns the vectors of a sentence, float32. *Shape:* `(layers, tokens, dim)`, token layer first."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Iterable[Iterable[str | Token]]) -> list[np.ndarray]:
        """Returns each sentence as `embed_sentence` does. A sentence without tokens is `(layers, 0, dim)`."""
        return self._embed([_numbered(index, tokens) for index, tokens in enumerate(batch)], self.batch_size)

    def batch_to_embeddings(
        self, batch: Iterable[Iterable[str | Token]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Returns a batch as tensors on the biLM's device, computed together, whatever `batch_size` is. *Shape:*
        `(sentences, layers, longest, dim)`, zero after the end of a sentence, and the mask `(sentences,
        longest)`.
        """
        sentences = [checked_words(index, tokens) for index, tokens in enumerate(batch)]
        ids = self.bilm.padded_ids(sentences)
        lengths = torch.tensor(list(map(len, sentences)), device=ids.device)
        mask = torch.arange(ids.size(1), device=ids.device) < lengths.unsqueeze(1)
        return self.bilm.encode(ids).transpose(0, 1), mask

    def embed_sentences(
        self, sentences: Iterable[Iterable[str | Token]], batch_size: int | None = None
    ) -> Iterator[np.ndarray]:
        """
        Yields each sentence as `embed_sentence` returns it, in their order. Some batches are read ahead, so
        that sentences of similar length are computed together, `batch_size` of them at most.
        """
        size = self.batch_size if batch_size is None else _positive("batch_size", batch_size)
        total = len(sentences) if isinstance(sentences, Sized) else None
        numbered = (_numbered(index, tokens) for index, tokens in enumerate(sentences))
        with tqdm(desc="embed", total=total, unit=" sentences", delay=5, disable=not self.progress) as bar:
            for window in windows(
                numbered, sentences=BATCHES_AHEAD * size, tokens=BATCHES_AHEAD * BATCH_TOKENS
            ):
                for vectors in self._embed(window, size):
                    yield vectors
                    bar.update()

    def embed_file(
        self,
        input_file: Iterable[str] | Source,
        output_file_path: Source,
        output_format: str | int = "all",
        batch_size: int | None = None,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """
        Writes the vectors of a text to HDF5, in bounded memory; see `vector_file` for the layout. The file
        appears when it is complete, and replaces an existing one.

        # Parameters

        input_file : an open text file or other lines, or the path of one, gzip or not; one sentence a line,
            its tokens between white space.
        output_format : `all` for `(layers, tokens, dim)`; `top`, `average` or `sum` (of the layers), or the
            index of a layer, 0 for the token layer, for `(tokens, dim)`.
        batch_size : as in `embed_sentences`.
        forget_sentences : leave out `sentence_to_index`.
        use_sentence_keys : name the datasets by the sentences, and not by their numbers, from 0.

        # Raises
        `ElmoError`: with file and line, no text, not UTF-8, or too long; an unknown `output_format`; two
        equal sentences as keys, or one with a NUL; the output is the input, a folder, or has the name of
        another format. `OSError`.
        """
        output = Path(output_file_path)
        with needing_h5py(output):
            from elmo_tasks.embedding.vector_file import check_name, check_writable, write_vectors
        output_format = str(output_format)
        check_layers(output_format, self.num_layers, option="output_format")
        size = self.batch_size if batch_size is None else _positive("batch_size", batch_size)
        if output.is_dir():
            raise ElmoError(f"{output} is a folder, not a file")
        source = input_file if isinstance(input_file, str | PathLike) else getattr(input_file, "name", None)
        if isinstance(source, str | PathLike):
            refuse_inputs_as_outputs([output], [source], error=ElmoError)
        check_name(output)
        output.parent.mkdir(parents=True, exist_ok=True)
        lines = _source_lines(input_file)
        if use_sentence_keys:
            lines = (line._replace(key=line.text.strip()) for line in lines)
        with TemporaryDirectory(prefix=f"{output.name}.", dir=output.parent) as name:
            folder = Path(name)
            path = folder / "vectors.hdf5"
            text = write_corpus(lines, folder)
            encoder = BatchEncoder(
                bilm=self.bilm, start=self.bilm.initial_state(1), layers=output_format, batch_sentences=size
            )
            with_index = not forget_sentences
            bytes_of_vectors = 4 * encoder.num_layers * text.tokens * self.dim
            check_writable(folder, text, size=bytes_of_vectors, with_index=with_index)
            sentences = (
                NumberedSentence(line_number, line.split()) for line_number, line in enumerate(text, start=1)
            )
            vectors = chain.from_iterable(map(encoder.vectors, windows(sentences)))
            bar = progress_bar(
                vectors, work="embed", total=len(text), unit="lines", disable=not self.progress
            )
            write_vectors(path, text, bar, shape=encoder.shape, with_index=with_index)
            put_in_place(path, output)

    def _embed(self, window: list[NumberedSentence], batch_size: int) -> list[np.ndarray]:
        results = [np.empty((self.num_layers, 0, self.dim), dtype=np.float32)] * len(window)
        for batch in batches_by_length(window, BATCH_TOKENS, sentences=batch_size):
            ids = self.bilm.padded_ids(sentence.words for sentence in batch)
            layers = self.bilm.encode(ids).float().cpu().numpy()
            for row, (index, tokens) in enumerate(batch):
                results[index - window[0].number] = np.ascontiguousarray(layers[:, row, : len(tokens)])
        return results


def _source_lines(source: Iterable[str] | Source) -> Iterator[SourceLine]:
    lines: Iterable[tuple[int, str]]
    if isinstance(source, str | PathLike):
        name, lines = source, checked_sentences(source, text_lines(source))
    else:
        name, lines = str(getattr(source, "name", "input_file")), enumerate(source, start=1)
    for line_number, line in lines:
        if not isinstance(line, str):
            raise ElmoError(f"a line is a {type(line).__name__}, not a str", where=name, line=line_number)
        yield SourceLine(name, line_number, line)


def _numbered(index: int, tokens: Iterable[str | Token]) -> NumberedSentence:
    return NumberedSentence(index, checked_words(index, tokens))


def _positive(name: str, value: int) -> int:
    if not isinstance(value, Integral) or value < 1:
        raise ElmoError(f"{name} is {value!r}, not a positive whole number")
    return value


AVERAGE = "average"

_read_lock = Lock()


class BiLmFiles(NamedTuple):
    """The files of a biLM and how to run it, see `ElmoEmbedder`."""

    options_file: Source | None = None
    weight_file: Source | None = None
    vocabulary_file: Source | None = None
    precision: Precision = "float32"
    cuda_device: Device = -1

    def embedder(self) -> ElmoEmbedder:
        """Returns the embedder of these files; the last one stays in memory until a file changes."""
        sources = [Path(source).expanduser() for source in self[:3] if source is not None]
        files = [file for source in sources for file in (sorted(source.rglob("*")) or [source])]
        changed = tuple(file.stat().st_mtime_ns for file in files if file.exists())
        with _read_lock:
            return _read_embedder(self, changed)


@lru_cache(maxsize=1)
def _read_embedder(files: BiLmFiles, changed: tuple[int, ...]) -> ElmoEmbedder:
    return ElmoEmbedder(**files._asdict(), progress=False)


def check_layer(layer: int | str, num_layers: int) -> None:
    if layer == AVERAGE or (isinstance(layer, Integral) and -num_layers <= layer < num_layers):
        return
    raise ElmoError(f"layer {layer!r} must be {AVERAGE!r} or a number from {-num_layers} to {num_layers - 1}")


def chosen_layer(layers: np.ndarray, layer: int | str) -> np.ndarray:
    """Returns the layer, or the mean of all. *Shape:* `(layers, tokens, dim)` to `(tokens, dim)`."""
    return layers.mean(axis=0) if layer == AVERAGE else layers[int(layer)]
