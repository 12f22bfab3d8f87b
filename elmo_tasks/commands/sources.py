"""What a verb reads is never overwritten by what it writes."""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_tasks.atomic_files import overwrites


class Source(str):
    """The type of an argument that names what is read: a file or folder, or a URL or pattern of some."""

    __slots__ = ()


def check_sources_stay(arguments: argparse.Namespace, outputs: Iterable[Path]) -> None:
    """
    # Raises
    `ConfigurationError`: one of the outputs is one of the sources, by whatever name.
    """
    sources = list(_sources(arguments))
    for output in outputs:
        if overwrites(output, sources):
            raise ConfigurationError(f"{output} is the input, expected another file for the output")


def _sources(arguments: argparse.Namespace) -> Iterator[Source]:
    for value in vars(arguments).values():
        values = value if isinstance(value, list) else [value]
        yield from (each for each in values if isinstance(each, Source))
