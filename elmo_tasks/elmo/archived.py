"""The biLM of an archived model, which is built from the archive alone: its original files may be gone."""

from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import _WEIGHTS_NAME, CONFIG_NAME
from allennlp.models.model import _DEFAULT_WEIGHTS

from elmo_tasks.common.errors import FilePath
from elmo_tasks.elmo.embedder import Elmo

ARCHIVED_WEIGHTS = _WEIGHTS_NAME
"""The name of the state dict in an archive; the folder of a run has another name for it."""


def archived_state(folder: FilePath, weights_file: FilePath | None = None) -> dict[str, Any]:
    """Maps the state dict that `Model._load` will read, without reading it."""
    return torch.load(
        weights_file or Path(folder) / _DEFAULT_WEIGHTS, map_location="cpu", mmap=True, weights_only=True
    )


def archived_block(folder: FilePath, path: str) -> dict[str, Any] | None:
    """
    Returns a block of the config in an archive, before any overrides; `None` if there is no such block.

    # Parameters

    folder : the unpacked archive.
    path : of the block, such as `model.elmo`.
    """
    config = Path(folder) / CONFIG_NAME
    if not config.exists():
        return None
    block: Any = Params.from_file(str(config)).as_dict(quiet=True)
    for key in path.split("."):
        block = block.get(key) if isinstance(block, dict) else None
    return block


def elmo_from_state(
    block: Params,
    state: dict[str, torch.Tensor],
    prefix: str,
    *,
    path: str = "model.elmo",
    archived: dict[str, Any] | None = None,
) -> None:
    """
    Changes the config block of an archived `Elmo`, so that it needs its state dict alone.

    # Parameters

    prefix : of its weights in the state dict.
    path : of the block in the config.
    archived : the block as it was archived, which shows what was overridden.

    # Raises
    `ConfigurationError`: an override of a key whose content the archive holds itself.
    """
    for key, value in Elmo.block_for_archive(state, prefix).items():
        overridden = archived is not None and block.get(key) != archived.get(key)
        if not overridden:
            block[key] = value
        elif key != "activations":
            raise ConfigurationError(
                f"{path}.{key}: found an override, {block.get(key)!r}, expected none: the archive holds its "
                "own biLM; train again with another one"
            )
