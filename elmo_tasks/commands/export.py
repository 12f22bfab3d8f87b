"""The verb `export`: a trained biLM in the official layout, or as ONNX."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_tasks.archives.opening import open_archive
from elmo_tasks.commands.base import (
    DType,
    Input,
    Verb,
    archive_argument,
    flag,
    option,
    positional,
    refuse_given,
)
from elmo_tasks.commands.partial_outputs import check_output, partial_folder, publish
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.progress import progress
from elmo_tasks.data.input_files import input_files, read_lines
from elmo_tasks.elmo import BiLm, BiLmOptions, Elmo, FrozenBiLm, WordOptions
from elmo_tasks.elmo.files import local_file, read_frozen_bilm, read_options, read_softmax, read_words
from elmo_tasks.elmo.model.bilm_folder import opened_folder
from elmo_tasks.elmo.model.weight_file import add_checksums, read_weights, write_weights
from elmo_tasks.elmo.onnx_file import write_onnx
from elmo_tasks.elmo.standardization import standardize_tokens
from elmo_tasks.language_model import BiLmModel
from elmo_tasks.language_model.model import words_by_class
from elmo_tasks.language_model.softmax import FullSoftmax, Softmax

FILES = OPTIONS, WEIGHTS, VOCABULARY = "options.json", "weights.hdf5", "vocab.txt"
ONNX = "bilm.onnx"


@dataclass(frozen=True, kw_only=True)
class Export(Verb):
    name = "export"
    help = "A trained biLM, in the official layout."
    description = f"""Writes {OPTIONS} and {WEIGHTS}, which this project, AllenNLP and other tools read, and
        {VOCABULARY}, the words of the softmax and of word input, of a trained biLM or of the biLM in a task's
        model. An adaptive softmax has no place in that layout, and is left out. With --format onnx it writes
        {ONNX}, from characters to all layers; ARCHIVE may also be a folder or zip of the official layout."""

    archive: Input = archive_argument()
    output: Path = positional("DIR", "folder to write the files to")
    format: str = option(
        "format of the files: the official layout, or ONNX", "official", choices=("official", "onnx")
    )
    dtype: DType = option("type of the stored matrices; float16 rounds them", "float32")
    average_with: Input | None = option(
        "write the mean, number by number, of the weights and the weights in this folder, which is in the "
        "official layout and has the same sizes and words: the biLM that the training started from",
        metavar="DIR",
    )
    standardize: str | None = option(
        "give each feature of the token layer mean 0 and deviation 1 over this text, one tokenised sentence "
        "a line; all other layers stay as they are",
        metavar="TEXT",
    )
    no_softmax: bool = flag("leave the softmax out")
    force: bool = flag("overwrite the files in DIR")

    def run(self) -> None:
        output = self.output
        if output.exists() and not output.is_dir():
            raise ConfigurationError(f"{output} is not a folder")
        for name in (ONNX,) if self.format == "onnx" else FILES:
            check_output(output / name, force=self.force)
        if self.format == "onnx":
            self._write_onnx()
            return
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
                write_bilm(folder, *trained, dtype=self.dtype)
            except ElmoError as error:
                raise ElmoError(f"{self.archive}: {error}") from error
            written = _move(folder, output)
        print(f"{output}: {', '.join(written)}; {self.dtype}, {_softmax_in_words(trained.softmax)}")
        if VOCABULARY not in written and isinstance(trained.bilm.options.tokens, WordOptions):
            print(f"A task's archive does not hold the words: copy the biLM's {VOCABULARY} to {output}")

    def _write_onnx(self) -> None:
        refuse_given(self, "is not for --format onnx", names=("dtype", "average_with", "standardize"))
        bilm: BiLm | FrozenBiLm
        if _is_official(self.archive):
            bilm = read_frozen_bilm(read_options(self.archive), self.archive)
        else:
            bilm = read_trained(self.archive).bilm
        with partial_folder(self.output.resolve()) as staging:
            write_onnx(bilm, staging / ONNX)
            self.output.mkdir(exist_ok=True)
            publish(staging, self.output, [ONNX])
        print(f"{self.output}: {ONNX}; from characters to {bilm.options.n_layers + 1} layers")


class Trained(NamedTuple):
    """The parts of a language model that an archive holds."""

    bilm: BiLm
    softmax: Softmax | None
    words: list[str] | None
    """The words of the classes and, for word input, of the rows of the table; a task's archive has none."""


def _is_official(path: str) -> bool:
    """Tells whether this is a folder or zip in the official layout."""
    with opened_folder(path) as folder:
        return folder is not None and folder.has(OPTIONS)


def read_trained(archive: str) -> Trained:
    """
    Reads the biLM of an archive, its softmax and its words.

    # Raises
    `ConfigurationError`: a model with no biLM or several, or files in the official layout.
    """
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
    return Trained(bilm.to_trainable() if isinstance(bilm, FrozenBiLm) else bilm, None, None)


@torch.no_grad()
def average_with(trained: Trained, folder: Path) -> None:
    """
    Makes each weight the mean of itself and the weight in `folder`. Where the weights before and after a
    training lie in one basin of the loss, their mean is often better than either
    ([Izmailov et al. 2018](https://arxiv.org/abs/1803.05407)).

    # Raises
    `ConfigurationError`: weights of other options, other words, or no softmax. `OSError`: no files.
    """
    bilm, softmax, words = trained
    _check_same_options(folder / OPTIONS, bilm.options)
    of_softmax: list[tuple[torch.Tensor, torch.Tensor]] = []
    if isinstance(softmax, FullSoftmax):
        stored = read_softmax(folder / WEIGHTS, bilm.options)
        if stored is None:
            raise ConfigurationError(f"{folder / WEIGHTS} has no softmax; use --no-softmax")
        of_softmax = [(softmax.weight, stored[0]), (softmax.bias, stored[1])]
    if words is not None and _needs_words(bilm, softmax) and read_words(folder / VOCABULARY) != words:
        raise ConfigurationError(
            f"{folder / VOCABULARY} differs from the trained biLM's {len(words):,} words"
        )
    with local_file(folder / WEIGHTS) as weights:
        for name, other in read_weights(weights, bilm.options):
            bilm.get_parameter(name).lerp_(other, 0.5)
    for parameter, other in of_softmax:
        parameter.lerp_(other, 0.5)


def _check_same_options(options_file: Path, options: BiLmOptions) -> None:
    other = Params(BiLmOptions.read(options_file).to_json()).as_flat_dict()
    own = Params(options.to_json()).as_flat_dict()
    for key in sorted(other.keys() | own.keys()):
        if other.get(key) != own.get(key):
            raise ConfigurationError(
                f"{options_file}: {key} is {other.get(key)}, but {own.get(key)} in the trained biLM"
            )


def write_bilm(
    folder: Path, bilm: BiLm, softmax: Softmax | None, words: Sequence[str] | None, *, dtype: str
) -> None:
    """
    Writes `options.json`, `weights.hdf5` with checksums and, for a softmax or word input, `vocab.txt`.

    # Raises
    `ElmoError`: values that `dtype` cannot hold, or words that no file of one word a line can.
    """
    options = bilm.options.to_json()
    for bound in ("cell_clip", "proj_clip"):
        # All readers take null for no bound; to bilm-tf 0 is a bound that leaves nothing.
        options["lstm"][bound] = options["lstm"][bound] or None
    stored = (softmax.weight, softmax.bias) if isinstance(softmax, FullSoftmax) else None
    if words is not None and _needs_words(bilm, softmax):
        options["n_tokens_vocab"] = len(words)
        _write_words(folder / VOCABULARY, words)
    (folder / OPTIONS).write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
    write_weights(folder / WEIGHTS, bilm.options, bilm.state_dict(), dtype=dtype, softmax=stored)
    add_checksums(folder / WEIGHTS)


def _needs_words(bilm: BiLm, softmax: Softmax | None) -> bool:
    """Returns whether the rows of a stored matrix stand for words."""
    return isinstance(softmax, FullSoftmax) or isinstance(bilm.options.tokens, WordOptions)


def _write_words(path: Path, words: Sequence[str]) -> None:
    path.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    if read_words(path) != list(words):
        raise ConfigurationError("a word of the vocabulary has a line break, or is !!!MAXTERMID")


def _move(folder: Path, output: Path) -> list[str]:
    """Moves the files; the options go first and come last, since nothing can be read without them."""
    output.mkdir(exist_ok=True)
    (output / OPTIONS).unlink(missing_ok=True)
    if not (folder / VOCABULARY).exists():
        (output / VOCABULARY).unlink(missing_ok=True)
    return publish(folder, output, (WEIGHTS, VOCABULARY, OPTIONS))


def _softmax_in_words(softmax: Softmax | None) -> str:
    if softmax is None:
        return "without a softmax"
    if isinstance(softmax, FullSoftmax):
        return f"with the softmax over {len(softmax.bias):,} words"
    return "without the adaptive softmax, which has no place in this layout"
