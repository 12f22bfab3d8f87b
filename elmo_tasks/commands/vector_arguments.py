"""The arguments that say which vectors are meant: a biLM's, static ones beside them, words in contexts."""

import argparse
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.base import positive, seed
from elmo_tasks.commands.bilm_arguments import add_bilm_arguments, read_bilm
from elmo_tasks.commands.corpus import copy_corpus
from elmo_tasks.commands.sources import Source
from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.evaluation.mixes import read_mixes, same_weights
from elmo_tasks.vectors.encoder import BiLmEncoder, Encoder, Mix
from elmo_tasks.vectors.static_vectors import StaticVectors
from elmo_tasks.vectors.text_format import read_table
from elmo_tasks.vectors.word_vectors import WordVectors, alone, in_contexts


def add_vector_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--mix",
        type=Source,
        action="append",
        default=[],
        metavar="WEIGHTS",
        help="evaluate a weighted sum of the layers, too: numbers with commas, the token layer's first, or "
        "the archive of a model with this biLM, for the mixes that it has learned; may be repeated",
    )
    parser.add_argument(
        "--vectors",
        type=Source,
        action="append",
        default=[],
        metavar="FILE",
        help="evaluate static word vectors, too: text as GloVe and word2vec write it, gzip or not; may be "
        "repeated",
    )
    add_bilm_arguments(parser)


def add_context_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that `word_vectors` reads."""
    parser.add_argument(
        "--contexts",
        type=Source,
        metavar="TEXT",
        help="text, one tokenised sentence a line, in which words are encoded; if a word never stands "
        "there as it is, case is ignored (default: words are encoded alone)",
    )
    parser.add_argument(
        "--occurrences",
        type=positive,
        default=20,
        help="of a word in --contexts that are averaged, at most",
    )
    parser.add_argument("--seed", type=seed, default=13, help="by which occurrences are drawn")


def word_vectors(
    encoder: Encoder, words: Sequence[str], arguments: argparse.Namespace, folder: Path
) -> list[WordVectors]:
    """
    The vectors of words alone, or in the text of `--contexts`, of which `folder` holds a copy meanwhile.
    """
    if arguments.contexts is None:
        return alone(encoder, words)
    text = copy_corpus(arguments.contexts, folder)
    return in_contexts(encoder, words, text, limit=arguments.occurrences, seed=arguments.seed)


def read_bilm_encoder(arguments: argparse.Namespace) -> BiLmEncoder:
    """
    An encoder with the layers of the biLM, their average, and the mixes of `--mix`.

    # Raises
    `ConfigurationError`: a mix that does not fit the biLM, and whatever reading the files raises.
    """
    bilm = read_bilm(arguments)
    mixes: dict[str, Mix] = {}
    for text in arguments.mix:
        mixes |= _mixes(text, bilm)
    return BiLmEncoder(bilm=bilm, mixes=mixes)


def read_static_vectors(arguments: argparse.Namespace) -> list[StaticVectors]:
    """The static vectors of `--vectors`, in that order, by the names of their files, or else their paths."""
    paths: list[str] = arguments.vectors
    names = [path.rstrip("/").rpartition("/")[2] for path in paths]
    return [
        StaticVectors(name=name if names.count(name) == 1 else path, table=read_table(path))
        for path, name in zip(paths, names, strict=True)
    ]


def _mixes(text: str, bilm: FrozenBiLm) -> dict[str, Mix]:
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        return _learned_mixes(text, bilm)
    if len(weights) != bilm.num_layers or not all(map(math.isfinite, weights)):
        raise ConfigurationError(
            f"--mix: found {text}, expected {bilm.num_layers} numbers, one a layer, with commas between them"
        )
    on_device = torch.tensor(weights, device=bilm.device)
    return {f"mix {text}": partial(torch.tensordot, on_device, dims=1)}


def _learned_mixes(archive: str, bilm: FrozenBiLm) -> dict[str, Mix]:
    learned = read_mixes(archive)
    if not all(same_weights(bilm, mix.bilm) for mix in learned):
        raise ConfigurationError(
            f"--mix: {archive} was trained with another biLM than the one to be evaluated; "
            "`allennlp elmo export` writes its biLM, for --options-file and --weight-file"
        )
    device = bilm.device
    return {f"{archive} {mix.placement}": mix.mix.to(device) for mix in learned}
