"""
The groups of arguments that say which vectors are meant: a biLM's, static ones, words in contexts; and the
copy of the text that a verb reads, whatever its format.
"""

import math
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, islice, starmap
from pathlib import Path

import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.base import ArgumentGroup, DeviceName, Input, Positive, Seed, device_option, option
from elmo_tasks.commands.partial_outputs import PARTIAL
from elmo_tasks.common.files import STDIN
from elmo_tasks.common.text_checks import CHECKED
from elmo_tasks.data.input_files import (
    InputError,
    check_found,
    input_files,
    read_lines,
    read_sentences,
    shorten,
)
from elmo_tasks.data.text_stream import read_fasta
from elmo_tasks.data.tokenization import first_raw_word, tokenizer, tokenizer_of_script
from elmo_tasks.elmo import FrozenBiLm, LstmState
from elmo_tasks.elmo.files import move_to, read_chosen_bilm, read_initial_state
from elmo_tasks.elmo.inference import PRECISIONS
from elmo_tasks.embedding.corpus import Corpus, SourceLine, write_corpus
from elmo_tasks.jobs.locations import texts_among
from elmo_tasks.vectors.encoder import (
    BiLmEncoder,
    LayerMix,
    StaticVectors,
    VectorEncoder,
    WordVectors,
    in_contexts,
    out_of_context,
    read_mixes,
    same_weights,
)
from elmo_tasks.vectors.files import read_vectors

FORMATS = ("text", "fasta")


def copy_corpus(
    source: str,
    folder: Path,
    *,
    format: str = "text",
    tokenize: str | None = None,
    skip_empty: bool = False,
    limit: int | None = None,
) -> Corpus:
    """
    Copies the text of `source` to `folder`: see `input_files`; `-` is standard input. It copies at most
    `limit` lines, without blank ones if they are skipped, and no file that the verb itself writes.

    # Parameters

    format : one of `FORMATS`: one tokenised sentence a line, or proteins.
    tokenize : splits the lines, see `chosen_tokenizer`. Without it, a warning names the first line that looks
        like raw text.

    # Raises
    `ElmoError`, with file and line: nothing to read but the file that the verb writes, no protein in FASTA;
    and see `read_sentences`, `write_corpus` and `read_fasta`. `ConfigurationError`: `tokenize` for proteins.
    """
    if format == "fasta" and tokenize is not None:
        raise ConfigurationError("--tokenize is not for --format fasta")
    read = read_lines if format == "fasta" else read_sentences
    with closing(_lines(source, folder, read)) as lines:
        sentences: Iterable[SourceLine]
        if format == "fasta":
            proteins = read_fasta((line.where, line.line_number, line.text) for line in lines)
            sentences = starmap(SourceLine, proteins)
        elif tokenize is not None:
            split = tokenizer(tokenize)
            sentences = (line._replace(text=" ".join(split(line.text).words)) for line in lines)
        else:
            sentences = _warning_of_raw_text(lines)
        if skip_empty:
            sentences = (sentence for sentence in sentences if sentence.text.strip())
        corpus = write_corpus(islice(sentences, limit), folder)
    if format == "fasta":
        check_found(len(corpus), "protein", source)
    return corpus


def _warning_of_raw_text(lines: Iterator[SourceLine]) -> Iterator[SourceLine]:
    first_lines = list(islice(lines, CHECKED))
    if (raw := first_raw_word(line.text for line in first_lines)) is not None:
        line, word = first_lines[raw[0]], raw[1]
        choice = "characters" if tokenizer_of_script(word) == "characters" else "LANGUAGE"
        print(
            f"warning: {line.where}, line {line.line_number}: {shorten(word)!r} is read as one token; "
            f"`embed --tokenize {choice}` splits raw text",
            file=sys.stderr,
        )
    return chain(first_lines, lines)


def _lines(
    source: str, folder: Path, read: Callable[[str | Path], Iterator[tuple[int, str]]]
) -> Generator[SourceLine, None, None]:
    if source == "-":
        try:
            for line_number, line in read(source):
                yield SourceLine(STDIN, line_number, line)
        except InputError as error:
            error.where = STDIN
            raise
        return
    # A verb without OUT has a temporary folder, whose parent holds files of others.
    partial = folder.parent if folder.parent.name.endswith(PARTIAL) else folder
    output = partial.with_name(partial.name.removesuffix(PARTIAL))
    # All files are listed before the first line is written to the folder.
    for file in texts_among(list(map(str, input_files(source))), source, [str(partial), str(output)]):
        for line_number, line in read(file):
            yield SourceLine(file, line_number, line)


_DEFAULT_BILM = "(default: the biLM that comes with the project)"


BILM_FILES = {
    "options_file": f"path, URL or hf:// name of options.json {_DEFAULT_BILM}",
    "weight_file": "path, URL or hf:// name of the weights, HDF5 or safetensors; or, without options, of a "
    f"folder or zip of `allennlp elmo export`, of ELMoForManyLangs or of NLPL's repository {_DEFAULT_BILM}",
}
"""The arguments of a biLM's files, and their help."""


class BilmArguments(ArgumentGroup):
    """The biLM that runs, and where."""

    options_file: Input | None = option(BILM_FILES["options_file"])
    weight_file: Input | None = option(BILM_FILES["weight_file"])
    vocabulary_file: Input | None = option(
        "path, URL or hf:// name of the words of a biLM that reads words, one a line"
    )
    device: DeviceName = device_option()
    precision: str = option(
        "number format in which the biLM multiplies; only float32 is exact", "float32", choices=PRECISIONS
    )

    def read(self, *, device: str | None = None) -> FrozenBiLm:
        """Reads the frozen biLM, and puts it on its device, or on another `device`."""
        bilm = read_chosen_bilm(
            self.options_file,
            self.weight_file,
            self.vocabulary_file,
            precision=self.precision,
            names="--options-file and --weight-file",
        )
        return move_to(bilm, device or self.device, option="--device")


def read_start(initial_state: str | None, bilm: FrozenBiLm) -> LstmState:
    """Reads the state in which a sentence starts; zeros by default."""
    zeros = bilm.initial_state(1)
    if initial_state is None:
        return zeros
    parts = read_initial_state(initial_state, bilm.options, bilm)
    return LstmState(*(part.unsqueeze(2).to(zero) for part, zero in zip(parts, zeros, strict=True)))


class VectorArguments(ArgumentGroup):
    """The vectors to evaluate, from a biLM and from tables of static vectors."""

    mix: list[Input] = option(
        "also evaluate a weighted sum of the layers: numbers with commas between them, the token layer's "
        "first; or the archive of a model with this biLM, for the mixes that it learned; may be repeated",
        [],
        action="append",
        metavar="WEIGHTS",
    )
    vectors: list[Input] = option(
        "also evaluate static word vectors: a text such as GloVe's, or word2vec's binary file, gzip or not; "
        "may be repeated",
        [],
        action="append",
        metavar="FILE",
    )
    bilm: BilmArguments

    def encoders(self) -> tuple[BiLmEncoder, list[StaticVectors]]:
        """
        Reads the biLM, whose encoder gives its layers, their average and the mixes; and the static vectors.
        They are named as their files, or by their paths if two files have one name.
        """
        bilm = self.bilm.read()
        mixes: dict[str, LayerMix] = {}
        for text in self.mix:
            mixes |= _mixes(text, bilm)
        names = [Path(path).name for path in self.vectors]
        static = [
            StaticVectors(name=name if names.count(name) == 1 else path, table=read_vectors(path))
            for path, name in zip(self.vectors, names, strict=True)
        ]
        return BiLmEncoder(bilm=bilm, mixes=mixes), static


def _mixes(text: str, bilm: FrozenBiLm) -> dict[str, LayerMix]:
    """Reads the mix of given weights, or the mixes of an archive, by their names."""
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        learned = read_mixes(text)
        if not all(same_weights(bilm, mix.bilm) for mix in learned):
            raise ConfigurationError(
                f"--mix: {text} was trained with another biLM; `allennlp elmo export` writes its biLM, for "
                "--options-file and --weight-file"
            ) from None
        return {f"{text} {mix.placement}": mix.mix.to(bilm.device) for mix in learned}
    if len(weights) != bilm.num_layers or not all(map(math.isfinite, weights)):
        raise ConfigurationError(
            f"--mix {text} must be {bilm.num_layers} numbers, one a layer, with commas between them"
        )
    return {f"mix {text}": partial(torch.tensordot, torch.tensor(weights, device=bilm.device), dims=1)}


class ContextArguments(ArgumentGroup):
    """The text in which words are encoded."""

    contexts: Input | None = option(
        "text, one tokenised sentence a line, in which words are encoded; a word that never occurs in its "
        "own spelling is found in any case (default: words are encoded alone)",
        metavar="TEXT",
    )
    occurrences: Positive = option(
        "the largest number of occurrences of a word in --contexts that are averaged", 20
    )
    seed: Seed = option("the seed by which occurrences are drawn", 13)

    def word_vectors(self, encoder: VectorEncoder, words: Sequence[str], folder: Path) -> list[WordVectors]:
        """Encodes words alone, or in the text, which is copied to `folder`."""
        if self.contexts is None:
            return out_of_context(encoder, words)
        text = copy_corpus(self.contexts, folder)
        return in_contexts(encoder, words, text, limit=self.occurrences, seed=self.seed)
