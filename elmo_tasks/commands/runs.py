"""Runs of `embed` and `predict`, which can be resumed and may be on Ray: arguments, engine and folder."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.base import Positive, flag, option, refuse_given
from elmo_tasks.commands.partial_outputs import check_output, partial_folder
from elmo_tasks.jobs.engines import LocalEngine, RayEngine
from elmo_tasks.jobs.locations import Folder
from elmo_tasks.jobs.runs import PLAN, must_run

ENGINES = ("local", "ray")


@dataclass(frozen=True, kw_only=True)
class RunArguments:
    """How a run begins, and where."""

    resume: bool = flag("continue a run that was stopped: the same IN and options", exclusive="again")
    force: bool = flag("overwrite OUT, discard a run that was stopped", exclusive="again")
    engine: str = option("local: this process; ray: workers", "local", choices=ENGINES)


@dataclass(frozen=True, kw_only=True)
class RayArguments:
    """The workers on Ray."""

    workers: Positive | None = option("processes of one thread each (default: one a processor)", metavar="N")
    ray_address: str | None = option("address of a cluster (default: a Ray for this run alone)", metavar="A")
    shard_bytes: Positive | None = option(
        "bytes of IN that a worker reads at a time (default: 16 KiB to 1 MiB, more for a larger IN)",
        metavar="N",
    )


def engine_of(run: RunArguments, ray: RayArguments, output: str) -> LocalEngine | RayEngine:
    """Returns the engine that the arguments name. Arguments and outputs of Ray without it are an error."""
    if run.engine == "local":
        refuse_given(ray, "belongs to --engine ray")
        if "://" in output:
            raise ConfigurationError(f"{output} needs --engine ray; name a file for OUT")
        return LocalEngine()
    if missing := [package for package in ("ray", "pyarrow") if find_spec(package) is None]:
        raise ConfigurationError(
            f"--engine ray needs {' and '.join(missing)}; install it: make install EXTRAS='ray'"
        )
    return RayEngine(ray.workers, ray.ray_address)


@contextmanager
def run_folder(output: str, arguments: RunArguments) -> Iterator[Folder | None]:
    """
    Yields the folder OUT.partial, or `None` if there is nothing to do. On a disk it is for this process
    alone, and stays only if a later run can resume the run in it.

    # Raises
    `ConfigurationError`: no file can be written to OUT; and see `partial_folder` and `must_run`.
    """
    remote = "://" in output
    context = nullcontext(f"{output}.partial") if remote else partial_folder(Path(output), keep=PLAN)
    with context as path:
        if not remote:
            check_output(Path(output), force=True)
        folder = Folder(str(path))
        if not must_run(folder, output, resume=arguments.resume, force=arguments.force):
            print(f"{output} is complete; use --force to overwrite it")
            yield None
            return
        yield folder
        if remote:
            folder.remove_itself()
