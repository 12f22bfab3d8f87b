"""What a verb of `allennlp elmo` is made of, and the arguments that several share."""

import argparse
from abc import ABC, abstractmethod
from typing import ClassVar


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

    @abstractmethod
    def run(self, arguments: argparse.Namespace) -> None:
        """Does what the arguments say."""


def positive(text: str) -> int:
    """The type of an argument that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a positive whole number")
    return int(text)
