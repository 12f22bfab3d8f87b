"""
A slim archive holds the digest of the biLM that comes with the project in place of its weights, which are
added when the state dict is read. The archives that come trained are slim.
"""

import json
import tarfile
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from allennlp.nn import util

from elmo_tasks.common.files import read_json_object
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, DEFAULT_WEIGHTS
from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.model import BiLmOptions
from elmo_tasks.elmo.token_embedder import ARCHIVED_WEIGHTS, archived_state

NOTE, MAX_NOTE = "bilm.json", 1 << 16
"""
The file of a slim archive that names its biLM: the digest, the version, the prefixes in the state dict. Its
size is enough for an ensemble of thousands.
"""
_read_state_dict = util.read_state_dict


def slim(folder: str | PathLike[str], output: Path, *, dtype: str, version: str) -> None:
    """
    Writes the content of an unpacked archive without its biLM, for this `version` of the project. A weight
    that the `dtype` float16 cannot hold keeps its type.

    # Raises
    `ConfigError`: the model has no biLM, or another one than comes with the project.
    """
    folder = Path(folder)
    weights_file = folder / ARCHIVED_WEIGHTS
    # Not mapped, since the file is written again
    state = torch.load(weights_file, map_location="cpu", weights_only=True) | missing_weights(weights_file)
    bilm = _bundled_bilm()
    ending = f"bilm.{next(iter(bilm.state_dict()))}"
    prefixes = [name.removesuffix(ending) for name in state if name.endswith(f".{ending}")]
    if not prefixes:
        raise ConfigError("the archive has no biLM")
    for name, weight in _named(bilm, prefixes).items():
        if name not in state or not torch.equal(state.pop(name), weight):
            raise ConfigError(f"{name} is not of the biLM that comes with the project, so it has to stay")
    if dtype == "float16":
        halves = {name: weight.half() for name, weight in state.items() if weight.dtype == torch.float32}
        state |= {name: half for name, half in halves.items() if half.isfinite().all()}
    torch.save(state, weights_file)
    note = {"digest": bilm.digest(), "version": version, "prefixes": prefixes}
    (folder / NOTE).write_text(json.dumps(note), encoding="utf-8")
    with tarfile.open(output, "w:gz") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name)


def whole_state(folder: str | PathLike[str], weights_file: str | PathLike[str]) -> dict[str, Any]:
    """Returns the state dict of an unpacked archive; see `archived_state` and `missing_weights`."""
    return archived_state(folder, weights_file) | missing_weights(weights_file)


def missing_weights(weights_file: str | PathLike[str]) -> dict[str, torch.Tensor]:
    """
    Returns the weights of the biLM that a slim archive leaves out; none for other archives. `ConfigError`:
    this version of the project has another biLM.
    """
    note_file = Path(weights_file).with_name(NOTE)
    if not note_file.exists():
        return {}
    note = read_json_object(note_file, max_bytes=MAX_NOTE)
    bilm = _bundled_bilm()
    if note["digest"] != bilm.digest():
        raise ConfigError(
            "the archive needs another biLM than this version of elmo_tasks has",
            remedy=f"open it with elmo_tasks {note['version']}",
        )
    return _named(bilm, note["prefixes"])


def read_whole_state(path: str | PathLike[str], *args: Any, **options: Any) -> dict[str, Any]:
    """Replaces AllenNLP's `read_state_dict`, and adds the `missing_weights`."""
    return _read_state_dict(path, *args, **options) | missing_weights(path)


def _bundled_bilm() -> FrozenBiLm:
    return FrozenBiLm.read(BiLmOptions.read(DEFAULT_OPTIONS), DEFAULT_WEIGHTS)


def _named(bilm: FrozenBiLm, prefixes: list[str]) -> dict[str, torch.Tensor]:
    return {
        f"{prefix}bilm.{name}": weight for prefix in prefixes for name, weight in bilm.state_dict().items()
    }
