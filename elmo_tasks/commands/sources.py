"""What a verb reads is never overwritten by what it writes."""

import argparse
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from allennlp.common.checks import ConfigurationError


class Source(str):
    """The type of an argument that names what is read: a file or folder, or a URL or pattern of some."""

    __slots__ = ()


def check_sources_stay(arguments: argparse.Namespace, outputs: Iterable[Path]) -> None:
    """
    # Raises
    `ConfigurationError`: one of the outputs is one of the sources, by whatever name.
    """
    existing = [output for output in outputs if output.exists()]
    for source in _sources(arguments):
        for output in existing:
            if os.path.exists(source) and os.path.samefile(source, output):
                raise ConfigurationError(f"{output} is the input, expected another file for the output")


def _sources(arguments: argparse.Namespace) -> Iterator[Source]:
    for value in vars(arguments).values():
        values = value if isinstance(value, list) else [value]
        yield from (each for each in values if isinstance(each, Source))
