"""
The base classes of the verbs of `allennlp elmo`, and how a verb declares its arguments.

A verb is a frozen dataclass whose fields are its arguments. `positional`, `option` and `flag` make the
fields, and their types say how an argument is read. A field whose type is another dataclass is a
group of arguments that several verbs share. `Verb` turns argparse's Namespace into the object; no other
function sees it.
"""

import argparse
import io
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from allennlp.commands import ArgumentParserWithDefaults
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import Archive

from elmo_tasks.archives import open_archive
from elmo_tasks.common.files import local_or_bundled, refuse_inputs_as_outputs
from elmo_tasks.common.machine import chosen_device, device_name, read_gpu
from elmo_tasks.compat.command import USER_ERRORS, exit_code, print_error

Group = TypeVar("Group")
Number = TypeVar("Number", int, float)
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


@dataclass_transform(frozen_default=True, kw_only_default=True)
class ArgumentGroup:
    """A group of arguments; each of its classes becomes a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


class Verb(ArgumentGroup, ABC):
    """
    A verb of `allennlp elmo`, with its arguments.

    An error in the user's input or machine (`USER_ERRORS`) ends it with one line on stderr and exit code 1;
    the traceback is logged at debug level. SIGINT ends it with 130, SIGTERM with 143.
    """

    name: ClassVar[str]
    help: ClassVar[str]
    """A few words, for the list of verbs."""
    description: ClassVar[str]
    """A few sentences, for `--help` of the verb."""

    @abstractmethod
    def run(self) -> None:
        """Runs the verb."""

    @classmethod
    def outputs(cls, output: Path) -> Iterable[Path]:
        """Returns the files that the verb writes for its argument `output`; none may be an `Input`."""
        return [output]

    @classmethod
    def add_parser(cls, parsers: Subparsers) -> argparse.ArgumentParser:
        parser = parsers.add_parser(cls.name, description=cls.description, help=cls.help)
        add_arguments(parser, cls)
        # AllenNLP adds it to `elmo`, before the verb; that value is the default here. AllenNLP's own
        # `add_argument` would show a default.
        argparse.ArgumentParser.add_argument(
            parser,
            "--include-package",
            action="append",
            default=argparse.SUPPRESS,
            metavar="PACKAGE",
            help="package to import, such as the package of your own task; may be repeated",
        )
        parser.set_defaults(func=cls._start)
        return parser

    @classmethod
    def _start(cls, namespace: argparse.Namespace) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # Characters that the console lacks are written as `\N{...}`.
            sys.stdout.reconfigure(errors="namereplace")
        try:
            values = [value if isinstance(value, list) else [value] for value in vars(namespace).values()]
            inputs = [text for texts in values for text in texts if isinstance(text, _InputName)]
            output = getattr(namespace, "output", None)
            outputs = [] if output is None else cls.outputs(Path(output))
            refuse_inputs_as_outputs(outputs, inputs, error=ConfigurationError)
            read_arguments(cls, namespace).run()
            sys.stdout.flush()
        except USER_ERRORS as error:
            print_error(error)
            raise SystemExit(exit_code(error)) from error


@dataclass(frozen=True, kw_only=True)
class VerbGroup:
    """
    A verb that consists of verbs, such as `probe pos` and `probe wsd`, by the headings of their lists. Alone
    it shows the lists.
    """

    name: str
    help: str
    description: str
    metavar: str
    verbs: "dict[str, tuple[Union[type[Verb], VerbGroup], ...]]"

    def add_parser(self, parsers: Subparsers) -> argparse.ArgumentParser:
        parser = parsers.add_parser(self.name, description=self.description, help=self.help)
        about = f"one of those below; `%(prog)s {self.metavar} --help` describes it"
        of_verbs = parser.add_subparsers(metavar=self.metavar, help=about)
        listed = of_verbs._choices_actions
        for heading, verbs in self.verbs.items():
            for verb in verbs:
                verb.add_parser(of_verbs)
            parser.add_argument_group(heading)._group_actions += listed
            listed.clear()
        parser.set_defaults(func=lambda namespace: parser.exit(2, parser.format_help()))
        return parser


def positional(metavar: str, help: str, *, nargs: str | None = None) -> Any:
    """Declares an argument that is given by its position."""
    return field(metadata={"options": _without_none(metavar=metavar, help=help, nargs=nargs)})


def option(
    help: str,
    default: Any = None,
    *,
    short: str | None = None,
    also: str | None = None,
    metavar: str | None = None,
    choices: Collection[str] | None = None,
    nargs: str | None = None,
    const: Any = None,
    action: str | type[argparse.Action] | None = None,
    required: bool = False,
    exclusive: str | None = None,
) -> Any:
    """
    Declares an argument that is given by its name: `--max-tokens` for the field `max_tokens`. It may also be
    given by `short`, such as `-o`, and by the name `also`. Of the arguments with the same name `exclusive`,
    only one may be given. A field of the type `Literal` needs no `choices`.
    """
    options = _without_none(
        help=help, default=default, metavar=metavar, choices=choices, nargs=nargs, const=const, action=action
    )
    names = [name for name in (short, "--", also) if name is not None]
    metadata = {"names": names, "exclusive": exclusive, "options": options | {"required": required}}
    return field(default_factory=lambda: default, metadata=metadata)


def flag(help: str, *, exclusive: str | None = None) -> Any:
    return option(help, False, action="store_true", exclusive=exclusive)


def titled(title: str) -> Any:
    """Declares a group of arguments that `--help` lists under a title."""
    return field(metadata={"title": title})


def refuse_given(arguments: Any, why: str, *, names: Collection[str] | None = None) -> None:
    """Raises `ConfigurationError` if one of the options, by default of all, differs from its default."""
    for argument in fields(arguments):
        name, default = argument.name, cast(Callable[[], Any], argument.default_factory)
        if (names is None or name in names) and getattr(arguments, name) != default():
            raise ConfigurationError(f"--{name.replace('_', '-')} {why}")


def _without_none(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def add_arguments(container: argparse._ActionsContainer, kind: Any) -> None:
    """Adds an argument for each field of a dataclass, and of the dataclasses among its fields."""
    types = get_type_hints(kind, include_extras=True)
    exclusive: dict[str, argparse._ActionsContainer] = {}
    for argument in fields(kind):
        type_of_value, metadata = types[argument.name], argument.metadata
        if is_dataclass(type_of_value):
            title = metadata.get("title")
            add_arguments(container.add_argument_group(title) if title else container, type_of_value)
        elif metadata:
            group, options = container, _options_of_type(type_of_value) | metadata["options"]
            if (name := metadata.get("exclusive")) is not None:
                group = exclusive[name] = exclusive.get(name) or container.add_mutually_exclusive_group()
            # AllenNLP's parser itself adds defaults to the help.
            if options.get("default") and not isinstance(group, ArgumentParserWithDefaults):
                options["help"] += " (default = %(default)s)"
            names = metadata.get("names", [argument.name])
            long = f"--{argument.name.replace('_', '-')}"
            group.add_argument(*(long if name == "--" else name for name in names), **options)


def _options_of_type(kind: Any) -> dict[str, Any]:
    """Returns the options of `add_argument` that follow from a type, or from the type of a list's items."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else [kind]
    kind = next(kind for kind in kinds if kind is not NoneType)
    if get_origin(kind) is list:
        (kind,) = get_args(kind)
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    if get_origin(kind) is Annotated:
        return {"type": kind.__metadata__[0]}
    return {} if kind in (str, bool) else {"type": kind}


def read_arguments(kind: type[Group], namespace: argparse.Namespace) -> Group:
    """Fills the fields of a dataclass with the values that the namespace has by their names."""
    types = get_type_hints(kind)
    values = {
        name: read_arguments(types[name], namespace)
        if is_dataclass(types[name])
        else getattr(namespace, name)
        for name in (argument.name for argument in fields(kind))  # type: ignore[arg-type]
    }
    return kind(**values)


class _InputName(str):
    """
    The value of an argument that names what is read: a file or folder, or a URL or pattern of some. Names of
    the files that come with the project are found in any folder; the user's own files come first.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> "_InputName":
        return super().__new__(cls, local_or_bundled(text))


def number(
    read: Callable[[str], Number], expected: str, fits: Callable[[Number], bool]
) -> Callable[[str], Number]:
    """Makes the type of an argument: a number that `read` reads, and that fits."""

    def of_text(text: str) -> Number:
        with suppress(ValueError):
            value = read(text)
            if fits(value):
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")

    return of_text


positive = number(int, "a positive whole number", lambda value: value > 0)

DeviceName = Annotated[str, device_name]
DType = Literal["float32", "float16"]
"""The type of stored numbers."""
Gpu = Annotated[int, read_gpu]
Input = Annotated[str, _InputName]
Positive = Annotated[int, positive]
Seed = Annotated[int, number(int, "a whole number from 0 to 4294967295", lambda value: 0 <= value < 1 << 32)]
"""A seed in the range of NumPy's."""


def text_argument(metavar: str) -> Any:
    """Declares the text that `copy_corpus` reads, a `str`."""
    return positional(metavar, "text, gzip or not: a file, folder, pattern or URL, or - for stdin")


def archive_argument(nargs: str | None = None) -> Any:
    """Declares ARCHIVE, an `Input`, or several of them, as `open_archive` reads them."""
    return positional("ARCHIVE", "model.tar.gz, a path or URL; or the folder of a run", nargs=nargs)


def device_option() -> Any:
    """Declares the device on which a model, `Gpu`, or a biLM, `DeviceName`, runs."""
    return option("where it runs: cpu, cuda, cuda:1, or the number of a GPU", "cpu", also="--cuda-device")


def run_name(archive: str) -> str:
    """Returns the name of the folder of the run that an archive comes from."""
    path = Path(archive)
    return path.parent.name if path.suffix == ".gz" else path.name


class ModelVerb(Verb):
    archive: Input = archive_argument()
    device: Gpu = device_option()

    def open(self) -> Archive:
        device = chosen_device(self.device, option="--device")
        opened = open_archive(self.archive)
        opened.model.to(device)
        return opened
