"""`allennlp elmo embed --engine ray`: from its arguments to a run."""

import argparse
import os
import time

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.bilm_arguments import read_bilm, read_start
from elmo_tasks.scale.embed import embed, embed_job
from elmo_tasks.scale.pool import Engine
from elmo_tasks.scale.runs import RunRequest
from elmo_tasks.scale.shards import Reading
from elmo_tasks.scale.storage import Folder


def embed_on_ray(arguments: argparse.Namespace, engine: Engine) -> None:
    """
    # Raises
    `ConfigurationError`: an argument of HDF5, which has other files; and see `embed`.
    """
    _refuse_arguments_of_hdf5(arguments)
    began = time.monotonic()
    # Workers may have a GPU where this process has none.
    bilm = read_bilm(arguments, device="cpu")
    start = read_start(arguments.initial_state, bilm)
    job = embed_job(
        bilm,
        start,
        device=arguments.device,
        layers=arguments.layers,
        dtype=arguments.dtype or "float32",
        batch_tokens=arguments.batch_tokens,
        folder=Folder(str(arguments.output)),
        reading=Reading(os.getcwd(), column=arguments.column, checked=not arguments.skip_bad),
        skip_bad=arguments.skip_bad,
    )
    request = RunRequest(
        source=arguments.input,
        settings={
            "the biLM": bilm.digest(),
            "the initial state": start.digest(),
            "--layers": arguments.layers,
            "--precision": arguments.precision,
            "--device": arguments.device,
            "--dtype": job.dtype,
            "--column": arguments.column,
        },
        engine=engine,
        resume=arguments.resume,
        force=arguments.force,
    )
    run = embed(job, request)
    if run is None:
        print(f"{arguments.output} is whole already")
        return
    seconds = time.monotonic() - began
    print(
        f"{arguments.output}: {run.total('sentences'):,} sentences, {run.total('tokens'):,} tokens, "
        f"{run.total('rejected'):,} rejected lines, {len(run.shards):,} files, {seconds:.1f} s"
    )


def _refuse_arguments_of_hdf5(arguments: argparse.Namespace) -> None:
    """
    # Raises
    `ConfigurationError`: one of them is given.
    """
    defaults = {"stateful": False, "forget_sentences": False, "pool": "none", "format": "text"}
    for name, default in defaults.items():
        if getattr(arguments, name) != default:
            raise ConfigurationError(f"--{name.replace('_', '-')} is not for --engine ray")
