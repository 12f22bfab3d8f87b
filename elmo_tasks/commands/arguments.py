"""The groups of arguments that say which vectors are meant: a biLM's, static ones, words in contexts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.base import DeviceName, Input, Positive, Seed, device_option, option
from elmo_tasks.commands.texts import copy_corpus
from elmo_tasks.elmo import FrozenBiLm, LstmState
from elmo_tasks.elmo.files import move_to, read_chosen_bilm, read_initial_state
from elmo_tasks.elmo.inference import PRECISIONS
from elmo_tasks.evaluation.mixes import read_mixes, same_weights
from elmo_tasks.vectors.encoder import (
    BiLmEncoder,
    LayerMix,
    StaticVectors,
    VectorEncoder,
    WordVectors,
    in_contexts,
    out_of_context,
)
from elmo_tasks.vectors.files import read_vectors

_DEFAULT_BILM = "(default: the biLM that comes with the project)"


@dataclass(frozen=True, kw_only=True)
class BilmArguments:
    """The biLM that runs, and where."""

    options_file: Input | None = option(f"path, URL or hf:// name of options.json {_DEFAULT_BILM}")
    weight_file: Input | None = option(
        "path, URL or hf:// name of the HDF5 weights; or, without options, of a folder or zip of `allennlp "
        f"elmo export`, of ELMoForManyLangs or of NLPL's repository {_DEFAULT_BILM}"
    )
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


@dataclass(frozen=True, kw_only=True)
class VectorArguments:
    """The vectors to evaluate, from a biLM and from tables of static vectors."""

    mix: list[Input] = option(
        "evaluate a weighted sum of the layers, too: numbers with commas, the token layer's first, or the "
        "archive of a model with this biLM, for the mixes that it has learned; may be repeated",
        [],
        action="append",
        metavar="WEIGHTS",
    )
    vectors: list[Input] = option(
        "evaluate static word vectors, too: text as of GloVe, or word2vec's binary file, gzip or not; may be "
        "repeated",
        [],
        action="append",
        metavar="FILE",
    )
    bilm: BilmArguments

    def encoders(self) -> tuple[BiLmEncoder, list[StaticVectors]]:
        """
        Reads the biLM, whose encoder gives its layers, their average and the mixes; and the static vectors,
        by the names of their files, or by their paths where two files have one name.
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
    """Returns the mix of given weights, or the mixes of an archive, by their names."""
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


@dataclass(frozen=True, kw_only=True)
class ContextArguments:
    """The text in which words are encoded."""

    contexts: Input | None = option(
        "text, one tokenised sentence a line, in which words are encoded; a word that the text has only in "
        "other case is found there, too (default: words are encoded alone)",
        metavar="TEXT",
    )
    occurrences: Positive = option(
        "the largest number of occurrences of a word in --contexts that are averaged", 20
    )
    seed: Seed = option("by which occurrences are drawn", 13)

    def word_vectors(self, encoder: VectorEncoder, words: Sequence[str], folder: Path) -> list[WordVectors]:
        """Encodes words alone, or in the text, which is copied to `folder`."""
        if self.contexts is None:
            return out_of_context(encoder, words)
        text = copy_corpus(self.contexts, folder)
        return in_contexts(encoder, words, text, limit=self.occurrences, seed=self.seed)
