"""`allennlp elmo predict --engine ray`: from its arguments to a run."""

import argparse
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path

from elmo_tasks.commands.staging import check_output
from elmo_tasks.scale.pool import Engine
from elmo_tasks.scale.predict import PredictJob, predict
from elmo_tasks.scale.runs import RunRequest
from elmo_tasks.scale.shards import Reading
from elmo_tasks.scale.storage import Folder, split_place


def predict_on_ray(arguments: argparse.Namespace, engine: Engine, predictor_args: dict[str, Any]) -> None:
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
    run = predict(job, request, arguments.output)
    print(f"{arguments.output}: {run.total('sentences'):,} lines, of {len(run.shards):,} shards")


def _must_run(arguments: argparse.Namespace, partial: Folder) -> bool:
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
