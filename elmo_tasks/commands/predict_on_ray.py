"""`allennlp elmo predict --engine ray`: from its arguments to a run."""

import argparse
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path

from elmo_tasks.scale.pool import Engine
from elmo_tasks.scale.predict import Prediction, predict
from elmo_tasks.scale.runs import RunRequest
from elmo_tasks.scale.shards import Reading
from elmo_tasks.scale.storage import Folder


def predict_on_ray(arguments: argparse.Namespace, engine: Engine, predictor_args: dict[str, Any]) -> None:
    """
    # Raises
    `ConfigurationError`: a folder without an archive. See `predict`, too.
    """
    path = Path(cached_path(arguments.archive))
    if path.is_dir():
        path /= "model.tar.gz"
        if not path.exists():
            raise ConfigurationError(f"{path}: found nothing, expected an archive, which every worker gets")
    archive = path.read_bytes()
    prediction = Prediction(
        archive=archive,
        overrides=arguments.overrides,
        predictor=arguments.predictor,
        predictor_args=predictor_args,
        batch_size=arguments.batch_size,
        cuda=arguments.cuda_device >= 0,
        folder=Folder(f"{arguments.output}.partial"),
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
    )
    run = predict(prediction, request, arguments.output)
    print(f"{arguments.output}: {run.total('sentences'):,} lines, of {len(run.shards):,} shards")
