"""
`allennlp elmo predict --engine ray`: from its arguments to a run.

`allennlp elmo predict`: `allennlp predict`, also on Ray.
"""

import argparse
import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from allennlp.commands import predict
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path

from elmo_tasks.commands.base import (
    Source,
    Verb,
    archive_argument,
    device_option,
    flag,
    option,
    positional,
    positive,
    titled,
)
from elmo_tasks.commands.embed import RayArguments, engine_of, engine_option
from elmo_tasks.commands.staging import check_output
from elmo_tasks.jobs.pool import Engine
from elmo_tasks.jobs.predict import PredictJob
from elmo_tasks.jobs.predict import predict as predict_shards
from elmo_tasks.jobs.runs import RunRequest
from elmo_tasks.jobs.shards import Reading
from elmo_tasks.jobs.storage import Folder, split_place
from elmo_tasks.predictors.command import predictor_arguments


# ==== commands.predict_on_ray
def predict_on_ray(arguments: "PredictArguments", engine: Engine, predictor_args: dict[str, Any]) -> None:
    """
    # Raises
    `ConfigurationError`: a folder without an archive, or an output that must not be replaced. See `predict`,
    too.
    """
    partial = Folder(f"{arguments.output}.partial")
    if not _must_run(arguments, partial):
        print(f"{arguments.output} is there, and no run to go on with; --force makes it anew")
        return
    path = Path(cached_path(arguments.archive))
    if path.is_dir():
        path /= "model.tar.gz"
        if not path.exists():
            raise ConfigurationError(f"{path}: found nothing, expected an archive, which every worker gets")
    archive = path.read_bytes()
    job = PredictJob(
        archive=archive,
        overrides=arguments.overrides,
        predictor=arguments.predictor,
        predictor_args=predictor_args,
        batch_size=arguments.batch_size,
        cuda=arguments.cuda_device >= 0,
        folder=partial,
        reading=Reading(os.getcwd(), objects=True, multiple=arguments.batch_size, checked=False),
    )
    request = RunRequest(
        source=arguments.input,
        settings={
            "the archive": blake2b(archive, digest_size=16).hexdigest(),
            "--batch-size": arguments.batch_size,
            "--predictor": arguments.predictor,
            "--predictor-args": arguments.predictor_args,
            "--overrides": arguments.overrides,
        },
        engine=engine,
        resume=arguments.resume,
        force=arguments.force,
        output=arguments.output,
    )
    run = predict_shards(job, request, arguments.output)
    print(f"{arguments.output}: {run.total('sentences'):,} lines, of {len(run.shards):,} shards")


def _must_run(arguments: "PredictArguments", partial: Folder) -> bool:
    """
    Whether there is something to do.

    # Raises
    `ConfigurationError`: the output is there, and nothing says that it may be replaced.
    """
    folder, name = split_place(arguments.output)
    if "://" not in arguments.output:
        check_output(Path(arguments.output), force=arguments.force or arguments.resume)
    if name not in folder.names():
        return True
    if arguments.resume:
        return partial.exists()
    if not arguments.force:
        raise ConfigurationError(f"{arguments.output} exists; --force overwrites it")
    # So that --resume does not take what is to be replaced for what replaces it
    partial.create()
    return True


# ==== commands.predict
@dataclass(frozen=True, kw_only=True)
class PredictArguments:
    """The arguments of `predict`."""

    archive: str = archive_argument()
    input: str = positional("IN", "what to predict, an object a line", type=Source)
    output: str = positional("OUT", "JSON Lines to write")
    batch_size: int = option("lines at once", type=positive, default=1)
    cuda_device: int = device_option()
    predictor: str | None = option("the name of a predictor, instead of the task's")
    predictor_args: str = option("its parameters, as JSON", default="")
    overrides: str = option("overrides of the archive's config, as JSON", default="")
    resume: bool = flag("with --engine ray: go on with a run that was stopped", exclusive="again")
    force: bool = flag("overwrite OUT, discard a run that was stopped", exclusive="again")
    engine: str = engine_option()
    ray: RayArguments = titled("with --engine ray")


class Predict(Verb[PredictArguments]):
    """The verb `predict`; see `elmo_tasks.jobs.predict` for how it runs on Ray."""

    name = "predict"
    help = "Predictions of an archive, to JSON Lines."
    description = """Reads JSON Lines, and with --engine ray Parquet as well, a row an object; writes what
        `allennlp predict` writes, line for line. With --engine ray, IN may be a folder, a pattern, s3:// or
        gs://, and OUT appears when it is whole; until then the work is in OUT.partial, for --resume."""
    arguments = PredictArguments

    def run(self, arguments: PredictArguments) -> None:
        engine = engine_of(arguments.engine, arguments.ray, resume=arguments.resume)
        predictor_args = predictor_arguments(arguments.predictor_args)
        if engine is None:
            output = Path(arguments.output)
            check_output(output, force=arguments.force)
            output.parent.mkdir(parents=True, exist_ok=True)
            predict._predict(_of_allennlp(arguments))
            with open(output, "rb") as results:
                print(f"{output}: {sum(1 for _ in results):,} lines")
            return
        predict_on_ray(arguments, engine, predictor_args)


def _of_allennlp(arguments: PredictArguments) -> argparse.Namespace:
    """The arguments of `allennlp predict`."""
    return argparse.Namespace(
        archive_file=arguments.archive,
        input_file=arguments.input,
        output_file=arguments.output,
        weights_file=None,
        silent=True,
        use_dataset_reader=False,
        dataset_reader_choice="validation",
        multitask_head=None,
        file_friendly_logging=False,
        batch_size=arguments.batch_size,
        cuda_device=arguments.cuda_device,
        predictor=arguments.predictor,
        predictor_args=arguments.predictor_args,
        overrides=arguments.overrides,
    )
