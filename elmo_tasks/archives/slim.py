"""
Slim archives: they hold the digest of the biLM that comes with the project in place of its weights, which are
added when the state dict is read. The archives that come trained with the project are slim, and have names.
"""

import json
import tarfile
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch
from allennlp.nn import util

from elmo_tasks.common.errors import did_you_mean
from elmo_tasks.common.files import bundled
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, DEFAULT_WEIGHTS
from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.model import BiLmOptions
from elmo_tasks.elmo.token_embedder import ARCHIVED_WEIGHTS, archived_state

NOTE = "bilm.json"
"""The file of a slim archive that names its biLM: the digest, the version, the prefixes in the state dict."""
TRAINED = "elmo:"
"""Names of archives that come with the project begin so: `elmo:ner`."""
_read_state_dict = util.read_state_dict
CARDS = "models.json"
"""The file with the task, the data, the score and examples of each archive, in the same folder."""


def slim(folder: str | PathLike[str], output: Path, *, dtype: str, version: str) -> None:
    """
    Writes the content of an archive without its biLM.

    # Parameters

    folder : the unpacked archive.
    dtype : of the stored weights, `float32` or `float16`. A weight that float16 cannot hold keeps its type.
    version : noted, so that an error can name it.

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
        state = {name: _rounded(weight) for name, weight in state.items()}
    torch.save(state, weights_file)
    note = {"digest": bilm.digest(), "version": version, "prefixes": prefixes}
    (folder / NOTE).write_text(json.dumps(note), encoding="utf-8")
    with tarfile.open(output, "w:gz") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name)


def whole_state(folder: str | PathLike[str], weights_file: str | PathLike[str]) -> dict[str, Any]:
    """
    Returns the state dict of an unpacked archive, slim or not; see `archived_state`.

    # Raises
    `ConfigError`: this version of the project has another biLM than a slim archive needs.
    """
    return archived_state(folder, weights_file) | missing_weights(weights_file)


def missing_weights(weights_file: str | PathLike[str]) -> dict[str, torch.Tensor]:
    """Returns the weights of the biLM that a slim archive leaves out; none for other archives."""
    note_file = Path(weights_file).with_name(NOTE)
    if not note_file.exists():
        return {}
    note = json.loads(note_file.read_text(encoding="utf-8"))
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


def _rounded(weight: torch.Tensor) -> torch.Tensor:
    half = weight.half()
    return half if weight.dtype == torch.float32 and half.isfinite().all() else weight


def trained_archives() -> dict[str, Path]:
    """Returns the archives that come with the project, by name, from the checkout or `elmo_tasks_models`."""
    folders = [bundled("models/elmo_tasks_models")]
    if (spec := find_spec("elmo_tasks_models")) is not None:
        folders += map(Path, spec.submodule_search_locations or ())
    paths = (path for folder in folders for path in sorted(folder.glob("*.tar.gz")))
    return {path.name.removesuffix(".tar.gz"): path for path in paths}


def trained_card(name: str) -> dict[str, Any]:
    """Returns `task`, `data`, `score` and perhaps `examples` of an archive of the project."""
    path = trained_archives()[name].with_name(CARDS)
    return json.loads(path.read_text(encoding="utf-8"))[name]


def archive_path(archive: str | PathLike[str]) -> str | PathLike[str]:
    """
    Returns the path of an archive that comes with the project for its name; other paths and URLs stay.

    # Raises
    `ConfigError`: there is none of this name.
    """
    text = fspath(archive)
    if not text.startswith(TRAINED):
        return archive
    archives, name = trained_archives(), text.removeprefix(TRAINED)
    if name not in archives:
        known = [TRAINED + each for each in archives]
        remedy = did_you_mean(text, known).removeprefix("; ") or f"there are {', '.join(known)}"
        raise ConfigError(
            f"no trained model is named {text}",
            remedy=remedy if known else "install them: pip install elmo_tasks[models]",
        )
    return archives[name]
