"""
What a verb reads, which it never overwrites.

What a verb of `allennlp elmo` is made of, and the arguments that several share.
"""

import argparse
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from allennlp.common.checks import check_for_gpu
from allennlp.common.util import int_to_device
from allennlp.models.archival import Archive

from elmo_tasks.compat.archives import open_archive


# ==== commands.sources
class Source(str):
    """The type of an argument that names what is read: a file or folder, or a URL or pattern of some."""

    __slots__ = ()


def sources_of(arguments: argparse.Namespace) -> list[Source]:
    """Each `Source` among the arguments."""
    values = (value if isinstance(value, list) else [value] for value in vars(arguments).values())
    return [each for some in values for each in some if isinstance(each, Source)]


# ==== commands.base
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
DEFAULT = "default = %(default)s"
"""For the help of an argument whose default AllenNLP's parser does not see: in a group, or set later."""
_MAX_SEED = (1 << 32) - 1


class Verb(ABC):
    """One verb. `run` raises `ConfigurationError` or `OSError` for what the user can mend."""

    name: ClassVar[str]
    help: ClassVar[str]
    """A few words, for the list of verbs."""
    description: ClassVar[str]
    """A few sentences, for `--help` of the verb."""

    @abstractmethod
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Defaults are added to the help texts by AllenNLP's parser."""

    def outputs(self, arguments: argparse.Namespace) -> Iterable[Path]:
        """Where it writes: none of these may be a `Source`."""
        output = getattr(arguments, "output", None)
        return () if output is None else (Path(output),)

    @abstractmethod
    def run(self, arguments: argparse.Namespace) -> None:
        """Does what the arguments say."""


def positive(text: str) -> int:
    """The type of an argument that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a positive whole number")
    return int(text)


def seed(text: str) -> int:
    """The type of an argument that NumPy takes for a seed, too."""
    if not text.isdecimal() or int(text) > _MAX_SEED:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number from 0 to {_MAX_SEED}")
    return int(text)


class Distinct(argparse.Action):
    """Takes the first of equal values of an argument with `nargs`."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        setattr(namespace, self.dest, list(dict.fromkeys(values)))


def add_text_argument(parser: argparse.ArgumentParser, *, metavar: str) -> None:
    """The text that `copy_corpus` reads."""
    parser.add_argument(
        "input", metavar=metavar, help="text, gzip or not: a file, folder, pattern or URL, or - for stdin"
    )


def add_archive_argument(
    parser: argparse.ArgumentParser, name: str = "archive", nargs: str | None = None
) -> None:
    """ARCHIVE, as `open_archive` reads it."""
    parser.add_argument(
        name,
        type=Source,
        nargs=nargs,
        metavar="ARCHIVE",
        help="model.tar.gz, a path or URL; or the folder of a run",
    )


def add_model_arguments(
    parser: argparse.ArgumentParser, *, metavar: str, help: str, size: int, of: str
) -> None:
    """
    Adds what a verb that runs a model reads: ARCHIVE, as `archive_on_device` reads it, the data, and its
    batches.
    """
    add_archive_argument(parser)
    parser.add_argument("input", type=Source, metavar=metavar, help=help)
    parser.add_argument("--batch-size", type=positive, default=size, help=f"{of} at once")
    add_device_argument(parser)


def add_device_argument(parser: argparse.ArgumentParser) -> None:
    """Where a model runs that AllenNLP loads."""
    parser.add_argument("--cuda-device", type=int, default=-1, help="number of the GPU to use, -1 for none")


def run_name(archive: str) -> str:
    """The name of the run that an archive is of: that of its folder."""
    path = Path(archive)
    return path.parent.name if path.suffix == ".gz" else path.name


def archive_on_device(arguments: argparse.Namespace) -> Archive:
    """
    The archive, its model on the device that the arguments name.

    # Raises
    `ConfigurationError`: there is no such GPU; and see `open_archive`.
    """
    check_for_gpu(arguments.cuda_device)
    archive = open_archive(arguments.archive)
    archive.model.to(int_to_device(arguments.cuda_device))
    return archive
