"""The arguments that say where a verb runs: in this process, or on Ray."""

import argparse
from importlib.util import find_spec
from typing import TYPE_CHECKING

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.base import positive

if TYPE_CHECKING:
    from elmo_tasks.scale.pool import Engine

ENGINES = ("local", "ray")


def add_engine_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The group to which a verb adds what it alone has on Ray; `None` is the default of each."""
    parser.add_argument(
        "--engine", choices=ENGINES, default="local", help="local: this process; ray: workers"
    )
    group = parser.add_argument_group("with --engine ray")
    group.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="processes of one thread each (default: one a processor)",
    )
    group.add_argument(
        "--ray-address", metavar="A", help="address of a cluster (default: a Ray for this run alone)"
    )
    group.add_argument(
        "--shard-bytes",
        type=positive,
        metavar="N",
        help="bytes of IN that a worker reads at a time and writes as one file "
        "(default: 16 KiB to 1 MiB, more for a larger IN)",
    )
    return group


def engine_of(arguments: argparse.Namespace, *names: str) -> "Engine | None":
    """
    What the arguments say of Ray, or `None` to stay in this process.

    # Parameters

    names : the arguments that the verb alone has on Ray.

    # Raises
    `ConfigurationError`: arguments of Ray without it; or Ray is not installed.
    """
    if arguments.engine == "local":
        for name in ("workers", "ray_address", "shard_bytes", *names):
            if getattr(arguments, name) not in (None, False):
                raise ConfigurationError(f"--{name.replace('_', '-')} belongs to --engine ray")
        return None
    if missing := [name for name in ("ray", "pyarrow") if find_spec(name) is None]:
        raise ConfigurationError(
            f"--engine ray needs {' and '.join(missing)}, not installed here: make install EXTRAS='ray'"
        )
    from elmo_tasks.scale.pool import Engine

    return Engine(arguments.workers, arguments.ray_address, arguments.shard_bytes)
