"""The arguments that say which vectors are evaluated: those of a biLM, and static ones beside them."""

import argparse
import math
from functools import partial

import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.bilm_arguments import add_bilm_arguments, read_bilm
from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.evaluation.mixes import read_mixes, same_weights
from elmo_tasks.vectors.encoder import BiLmEncoder, Mix
from elmo_tasks.vectors.static_vectors import StaticVectors
from elmo_tasks.vectors.text_format import read_table


def add_vector_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mix",
        action="append",
        default=[],
        metavar="WEIGHTS",
        help="evaluate a weighted sum of the layers, too: numbers with commas, the token layer's first, or "
        "the archive of a model with this biLM, for the mixes that it has learned; may be repeated",
    )
    parser.add_argument(
        "--vectors",
        action="append",
        default=[],
        metavar="FILE",
        help="evaluate static word vectors, too: text as GloVe and word2vec write it, gzip or not; may be "
        "repeated",
    )
    add_bilm_arguments(parser)


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
    """The static vectors of `--vectors`, in that order, by the names of their files."""
    return [
        StaticVectors(name=path.rstrip("/").rpartition("/")[2], table=read_table(path))
        for path in arguments.vectors
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
