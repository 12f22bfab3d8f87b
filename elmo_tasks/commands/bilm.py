"""
The verbs about a biLM itself. `export` writes a trained biLM in the official layout, or as ONNX; `calibrate`
an initial state of the LSTMs, from real text.

The original biLM carried its state from sentence to sentence in training, and hardly ever started from zeros.
The mean of the states between the sentences of a text is a start that it knows.
"""

import json
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.archives import open_archive
from elmo_tasks.commands.arguments import BilmArguments, copy_corpus
from elmo_tasks.commands.base import (
    DType,
    Input,
    Positive,
    Verb,
    archive_argument,
    flag,
    option,
    positional,
    refuse_given,
    text_argument,
)
from elmo_tasks.commands.partial_outputs import check_output, partial_file, partial_folder, publish
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.progress import progress
from elmo_tasks.data.input_files import input_files, read_lines
from elmo_tasks.elmo import BiLm, BiLmOptions, Elmo, FrozenBiLm, LstmState, WordOptions
from elmo_tasks.elmo.export import standardize_tokens, write_onnx
from elmo_tasks.elmo.files import (
    WEIGHTS,
    read_frozen_bilm,
    read_options,
    read_softmax,
    read_words,
    trained_copy,
)
from elmo_tasks.elmo.model.array_file import check_format
from elmo_tasks.elmo.model.folders import BiLmFolder, opened_folder
from elmo_tasks.elmo.model.weight_file import read_weights, write_initial_state, write_weights
from elmo_tasks.embedding.batches import BATCH_TOKENS, NumberedSentence, batches_by_length
from elmo_tasks.embedding.corpus import Corpus
from elmo_tasks.language_model.model import BiLmModel, words_by_class
from elmo_tasks.language_model.softmax import FullSoftmax, Softmax
from elmo_tasks.standalone import GRAPH, PAGE, TYPES

OPTIONS, VOCABULARY = "options.json", "vocab.txt"
OFFICIAL = {"official": "weights.hdf5", "safetensors": "weights.safetensors"}
"""The weights in the official layout, by the format."""
ONNX = "bilm.onnx"


class Export(Verb):
    name = "export"
    help = "A trained biLM, in the official layout."
    description = f"""Writes the biLM of a training, or of a task's model: {OPTIONS} and weights.hdf5, which
        this project, AllenNLP and other tools read, and {VOCABULARY}, the words of the softmax and of word
        input. An adaptive softmax has no place in that layout, and is left out. With --format safetensors it
        writes weights.safetensors, which this project reads without h5py. With --format onnx it writes a
        biLM, of a training or of a folder or zip of the official layout, as {ONNX}, from characters to all
        layers; and the model of a task ({", ".join(TYPES)}) as a whole, with its biLM: a graph, and {PAGE},
        which prints the lines of `allennlp predict` and needs NumPy and onnxruntime alone."""

    archive: Input = archive_argument()
    output: Path = positional("DIR", "folder to write the files to")
    format: str = option(
        "format of the files: the official layout, in HDF5 or in safetensors, or ONNX",
        "official",
        choices=(*OFFICIAL, "onnx"),
    )
    dtype: DType = option("type of the stored matrices; float16 rounds them", "float32")
    average_with: Input | None = option(
        "write the mean, number by number, of the weights and the weights in this folder, which is in the "
        "official layout and has the same sizes and words: the biLM that the training started from",
        metavar="DIR",
    )
    standardize: str | None = option(
        "give each feature of the token layer mean 0 and deviation 1 over this text, one tokenised sentence "
        "a line; all other layers are unchanged",
        metavar="TEXT",
    )
    no_softmax: bool = flag("leave the softmax out")
    force: bool = flag("overwrite the files in DIR")

    def run(self) -> None:
        output = self.output
        if output.exists() and not output.is_dir():
            raise ConfigurationError(f"{output} is not a folder")
        if self.format == "onnx":
            self._write_onnx()
            return
        weights = OFFICIAL[self.format]
        for name in (OPTIONS, weights, VOCABULARY):
            check_output(output / name, force=self.force)
        check_format(output / weights)
        trained = read_trained(self.archive)
        if self.no_softmax:
            trained = trained._replace(softmax=None)
        if self.average_with is not None:
            average_with(trained, Path(self.average_with))
        if self.standardize is not None:
            lines = (line for path in input_files(self.standardize) for _, line in read_lines(path))
            bar = progress(lines, work="reading", unit="lines")
            standardize_tokens(trained.bilm, map(str.split, bar))
        with partial_folder(output.resolve()) as folder:
            try:
                write_bilm(folder, *trained, dtype=self.dtype, weights=weights)
            except ElmoError as error:
                raise ElmoError(str(error), where=self.archive) from error
            # Nothing can be read without the options, so they go first and come last.
            output.mkdir(exist_ok=True)
            (output / OPTIONS).unlink(missing_ok=True)
            for name in (VOCABULARY, *OFFICIAL.values()):
                if not (folder / name).exists():
                    (output / name).unlink(missing_ok=True)
            written = publish(folder, output, (weights, VOCABULARY, OPTIONS))
        print(f"{output}: {', '.join(written)}; {self.dtype}, {_softmax_in_words(trained.softmax)}")
        if VOCABULARY not in written and isinstance(trained.bilm.options.tokens, WordOptions):
            print(f"A task's archive does not hold the words: copy the biLM's {VOCABULARY} to {output}")

    def _write_onnx(self) -> None:
        refuse_given(self, "is not for --format onnx", names=("dtype", "average_with", "standardize"))
        output = self.output
        archive = None if _is_official(self.archive) else open_archive(self.archive)
        of_task = archive is not None and not isinstance(archive.model, BiLmModel)
        check_output(output / (GRAPH if of_task else ONNX), force=self.force)
        with partial_folder(output.resolve()) as folder:
            if archive is not None and of_task:
                from elmo_tasks.standalone.folder import write_model  # takes a second

                try:
                    names = write_model(archive, folder)
                except ElmoError as error:
                    raise ElmoError(error.what, where=self.archive, remedy=error.remedy) from error
                content = f"the whole model; `python {output / PAGE} INPUT` predicts"
            else:
                bilm: BiLm | FrozenBiLm
                if archive is None:
                    bilm = read_frozen_bilm(read_options(self.archive), self.archive)
                else:
                    bilm = archive.model.bilm
                write_onnx(bilm, folder / ONNX)
                names, content = [ONNX], f"from characters to {bilm.options.n_layers + 1} layers"
            for name in names:
                check_output(output / name, force=self.force)
            output.mkdir(exist_ok=True)
            publish(folder, output, names)
        print(f"{output}: {', '.join(names)}; {content}")


class Trained(NamedTuple):
    bilm: BiLm
    softmax: Softmax | None
    words: list[str] | None
    """The words of the classes and, for word input, of the rows of the table; a task's archive has none."""


def _is_official(path: str) -> bool:
    with opened_folder(path) as folder:
        return folder is not None and folder.has(OPTIONS)


def read_trained(archive: str) -> Trained:
    if _is_official(archive):
        raise ConfigurationError(f"{archive} is already in the official layout; --format onnx takes it")
    model = open_archive(archive).model
    if isinstance(model, BiLmModel):
        return Trained(model.bilm, model.softmax, words_by_class(model.vocab))
    bilms = {part.bilm for part in model.modules() if isinstance(part, Elmo) and part.bilm is not None}
    if len(bilms) != 1:
        raise ConfigurationError(
            f"{archive}: the model, {type(model).__name__}, has {len(bilms)} biLMs, not one"
        )
    bilm = bilms.pop()
    return Trained(trained_copy(bilm) if isinstance(bilm, FrozenBiLm) else bilm, None, None)


@torch.no_grad()
def average_with(trained: Trained, folder: Path) -> None:
    """
    Makes each weight the mean of itself and the weight in `folder`. Where the weights before and after a
    training lie in one basin of the loss, their mean is often better than either
    ([Izmailov et al. 2018](https://arxiv.org/abs/1803.05407)). They must have the same options and words.
    """
    bilm, softmax, words = trained
    weights = BiLmFolder(folder).file(*WEIGHTS)
    if BiLmOptions.read(folder / OPTIONS).to_json() != bilm.options.to_json():
        raise ConfigurationError(f"{folder / OPTIONS} differs from the options of the trained biLM")
    of_softmax: list[tuple[torch.Tensor, torch.Tensor]] = []
    if isinstance(softmax, FullSoftmax):
        stored = read_softmax(weights, bilm.options)
        if stored is None:
            raise ConfigurationError(f"{weights} has no softmax; use --no-softmax")
        of_softmax = [(softmax.weight, stored[0]), (softmax.bias, stored[1])]
    if words is not None and _needs_words(bilm, softmax) and read_words(folder / VOCABULARY) != words:
        raise ConfigurationError(
            f"{folder / VOCABULARY} differs from the trained biLM's {len(words):,} words"
        )
    for name, other in read_weights(weights, bilm.options):
        bilm.get_parameter(name).lerp_(other, 0.5)
    for parameter, other in of_softmax:
        parameter.lerp_(other, 0.5)


def write_bilm(
    folder: Path,
    bilm: BiLm,
    softmax: Softmax | None,
    words: Sequence[str] | None,
    *,
    dtype: str,
    weights: str = OFFICIAL["official"],
) -> None:
    """
    Writes the files, the weights to the one that `weights` names; `ElmoError` for values that `dtype` cannot
    hold, and words that no line can.
    """
    options = bilm.options.to_json()
    for bound in ("cell_clip", "proj_clip"):
        # All readers take null for no bound; to bilm-tf 0 is a bound that leaves nothing.
        options["lstm"][bound] = options["lstm"][bound] or None
    stored = (softmax.weight, softmax.bias) if isinstance(softmax, FullSoftmax) else None
    if words is not None and _needs_words(bilm, softmax):
        options["n_tokens_vocab"] = len(words)
        (folder / VOCABULARY).write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
        if read_words(folder / VOCABULARY) != list(words):
            raise ConfigurationError("a word of the vocabulary has a line break, or is !!!MAXTERMID")
    (folder / OPTIONS).write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
    write_weights(folder / weights, bilm.options, bilm.state_dict(), dtype=dtype, softmax=stored)


def _needs_words(bilm: BiLm, softmax: Softmax | None) -> bool:
    return isinstance(softmax, FullSoftmax) or isinstance(bilm.options.tokens, WordOptions)


def _softmax_in_words(softmax: Softmax | None) -> str:
    if softmax is None:
        return "without a softmax"
    if isinstance(softmax, FullSoftmax):
        return f"with the softmax over {len(softmax.bias):,} words"
    return "without the adaptive softmax, which has no place in this layout"


class Calibrate(Verb):
    name = "calibrate"
    help = "An initial LSTM state, from a text."
    description = """Runs the biLM over a text, one tokenised sentence a line, with its state carried from
        sentence to sentence, and writes the mean of the states that sentences start from. Empty lines are
        left out. `embed --initial-state OUT` and the key initial_state of a config's elmo block read it."""

    input: str = text_argument("TEXT")
    output: Path = positional("OUT", "HDF5 file to write; safetensors, if it ends in .safetensors")
    force: bool = flag("overwrite OUT")
    bilm: BilmArguments
    lanes: Positive = option("parts of the text that are run in parallel, each from zeros", 32)
    max_sentences: Positive | None = option("the largest number of lines to read (default: all)")

    def run(self) -> None:
        began = time.monotonic()
        check_format(self.output)
        with partial_file(self.output, force=self.force) as path:
            bilm = self.bilm.read()
            limit = self.max_sentences
            text = copy_corpus(self.input, path.parent, skip_empty=True, limit=limit)
            mean, starts = mean_start(bilm, text, lanes=self.lanes)
            counts = {"sentences": len(text), "starts": starts}
            write_initial_state(path, *mean, attributes={**counts, "digest": bilm.digest()})
        seconds = time.monotonic() - began
        print(
            f"{self.output}: the mean of {starts:,} starts; {len(text):,} sentences, "
            f"{text.tokens:,} tokens, {text.tokens / seconds:,.0f} tokens/s, {seconds:.1f} s"
        )


def mean_start(bilm: FrozenBiLm, text: Corpus, *, lanes: int) -> tuple[LstmState, int]:
    """
    Returns the mean of the states after sentences, and their number.

    Each of at most `lanes` consecutive parts of the text starts from zeros, which does not count. A sentence
    hands on the state after its last step: `</S>` in the forward and `<S>` in the backward direction.

    *Shape:* `(layers, 2 directions, projection_dim)` and `(layers, 2 directions, dim)`.
    """
    if len(text) < 2:
        raise ConfigurationError("the text needs two sentences or more: a start follows a sentence")
    lanes = min(lanes, len(text) // 2)
    bounds = [lane * len(text) // lanes for lane in range(lanes + 1)]
    bar = progress(work="calibrate", total=text.tokens, unit="tokens", unit_scale=True)
    with bar, torch.no_grad():
        state = bilm.initial_state(lanes)
        sums = [torch.zeros(*part.shape[:2], part.shape[3], dtype=torch.float64) for part in state]
        # No lane is longer than the last.
        for step in range(bounds[-1] - bounds[-2]):
            # The lanes that have a sentence at this step, and the line of each
            lines = {
                lane: first + step for lane, (first, end) in enumerate(pairwise(bounds)) if first + step < end
            }
            if step:
                running = list(lines)
                for total, part in zip(sums, state, strict=True):
                    total += part[:, :, running].sum(dim=2, dtype=torch.float64).cpu()
            # Lanes that do not fit into one batch are run in another.
            for batch in batches_by_length(
                (NumberedSentence(lane, text[line].split()) for lane, line in lines.items()), BATCH_TOKENS
            ):
                rows = [sentence.number for sentence in batch]
                ids = bilm.padded_ids(sentence.words for sentence in batch)
                _, after = bilm(ids, LstmState(*(part[:, :, rows] for part in state)))
                for part, new in zip(state, after, strict=True):
                    part[:, :, rows] = new
                bar.update(sum(len(words) for _, words in batch))
    starts = len(text) - lanes
    return LstmState(*(total / starts for total in sums)), starts
