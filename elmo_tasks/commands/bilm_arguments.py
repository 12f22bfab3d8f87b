"""The arguments that say which biLM runs, and where."""

import argparse

from elmo_tasks.commands.sources import Source
from elmo_tasks.elmo import FrozenBiLm, LstmState
from elmo_tasks.elmo.files import prepare_on
from elmo_tasks.elmo.inference import PRECISIONS
from elmo_tasks.elmo.sources import (
    DEFAULT_OPTIONS,
    DEFAULT_WEIGHTS,
    check_together,
    configuration_errors,
    read_frozen_bilm,
    read_initial_state,
    read_options,
)


def add_bilm_arguments(parser: argparse._ActionsContainer) -> None:
    shipped = "(default: the biLM that comes with the project)"
    parser.add_argument(
        "--options-file", type=Source, help=f"path, URL or hf:// name of options.json {shipped}"
    )
    parser.add_argument(
        "--weight-file",
        type=Source,
        help="path, URL or hf:// name of the HDF5 weights; or, without options, of a folder or zip of "
        f"ELMoForManyLangs or of NLPL's repository {shipped}",
    )
    parser.add_argument(
        "--vocabulary-file",
        type=Source,
        help="path, URL or hf:// name of the words of a biLM that reads words, one a line",
    )
    parser.add_argument(
        "--device", default="cpu", help="where the biLM runs, as PyTorch calls it: cpu, cuda:0"
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="number format in which the biLM multiplies; only float32 is exact",
    )


def read_bilm(arguments: argparse.Namespace, *, device: str | None = None) -> FrozenBiLm:
    """
    The biLM of the arguments, frozen, on its device, or on another `device`.

    # Raises
    `ConfigurationError`: options without weights or the reverse, a device that is not there, or whatever
    reading the files raises.
    """
    check_together(arguments.options_file, arguments.weight_file, names="--options-file and --weight-file")
    weight_file = arguments.weight_file or DEFAULT_WEIGHTS
    bilm = read_frozen_bilm(
        read_options(arguments.options_file or DEFAULT_OPTIONS, weight_file),
        weight_file,
        arguments.vocabulary_file,
        precision=arguments.precision,
    )
    with configuration_errors():
        return prepare_on(bilm, device or arguments.device, asked="--device")


def read_start(initial_state: str | None, bilm: FrozenBiLm) -> LstmState:
    """Where a single sentence starts."""
    zeros = bilm.initial_state(1)
    if initial_state is None:
        return zeros
    parts = read_initial_state(initial_state, bilm.options)
    return LstmState(*(part.unsqueeze(2).to(zero) for part, zero in zip(parts, zeros, strict=True)))
