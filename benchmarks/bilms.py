"""The sizes of biLMs that are measured, and files of them."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from elmo_tasks.common.files import bundled
from elmo_tasks.elmo import BiLm, BiLmOptions, CharacterOptions
from elmo_tasks.elmo.model.weight_file import write_weights

Files = tuple[str, str]
"""Paths of options and weights."""

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


def of_characters(
    dim: int, projection_dim: int, *, n_highway: int, filters: tuple[tuple[int, int], ...] = FILTERS
) -> BiLmOptions:
    """What all published sizes have in common, and these sizes."""
    return BiLmOptions(
        tokens=CharacterOptions(filters=filters, dim=16, activation="relu", n_highway=n_highway),
        dim=dim,
        projection_dim=projection_dim,
        n_layers=2,
        cell_clip=3.0,
        proj_clip=3.0,
        use_skip_connections=True,
    )


PUBLISHED = {
    "small": of_characters(1024, 128, n_highway=1),
    "original": of_characters(4096, 512, n_highway=2),
}
BUNDLED = {"shipped": "pretrained/english", "tiny": "fixtures/elmo"}
SIZES = (*BUNDLED, *PUBLISHED)
"""The biLM that comes with the project, that of the fixtures, and random weights of published sizes."""


PERPLEXITIES = ("perplexity_forward", "perplexity_backward")
"""The names of the perplexities of a biLM."""


def bilm_files(folder: Path, size: str) -> Files:
    """The files of one of `SIZES`; random weights are written to the folder, unless they are there."""
    if size in BUNDLED:
        bilm = bundled(BUNDLED[size])
        return str(bilm / "options.json"), str(bilm / "weights.hdf5")
    options_file, weight_file = folder / f"{size}.json", folder / f"{size}.hdf5"
    if not weight_file.exists():
        options = PUBLISHED[size]
        torch.manual_seed(13)
        folder.mkdir(parents=True, exist_ok=True)
        options_file.write_text(json.dumps(options.to_json()))
        write_weights(weight_file, options, BiLm(options=options).state_dict())
    return str(options_file), str(weight_file)


def seconds(work: Callable[[Any], Any], batches: Iterable[Any]) -> float:
    """The seconds that `work` takes for all batches together."""
    start = time.perf_counter()
    for batch in batches:
        work(batch)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start
