"""What a verb reads, which it never overwrites."""

import argparse


class Source(str):
    """The type of an argument that names what is read: a file or folder, or a URL or pattern of some."""

    __slots__ = ()


def sources_of(arguments: argparse.Namespace) -> list[Source]:
    """Each `Source` among the arguments."""
    values = (value if isinstance(value, list) else [value] for value in vars(arguments).values())
    return [each for some in values for each in some if isinstance(each, Source)]
