"""
Slim archives, which have no biLM. They hold the digest of the biLM that comes with the project, which is put
into them when they are opened. The archives that come trained with the project are of this kind, and have
names.
"""

import json
import tarfile
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.errors import did_you_mean
from elmo_tasks.common.files import bundled
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, DEFAULT_WEIGHTS, read_frozen_bilm, read_options
from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.token_embedder import ARCHIVED_WEIGHTS

NOTE = "bilm.json"
"""The file of a slim archive that names its biLM: the digest, the version, the prefixes in the state dict."""
TRAINED = "elmo:"
"""Names of archives that come with the project begin so: `elmo:ner`."""
CARDS = "models.json"
"""The file beside the archives with the task, the data, the score and examples of each."""


def slim(folder: str | PathLike[str], output: Path, *, dtype: str, version: str) -> None:
    """
    Writes the content of an archive without its biLM.

    # Parameters

    folder : the unpacked archive.
    dtype : of the stored weights, `float32` or `float16`. A weight that float16 cannot hold stays as it is.
    version : noted, so that an error can name it.

    # Raises
    `ConfigurationError`: the model has no biLM, or another one than comes with the project.
    """
    folder = Path(folder)
    state = torch.load(folder / ARCHIVED_WEIGHTS, map_location="cpu", weights_only=True)
    bilm = _bundled_bilm()
    ending = f"bilm.{next(iter(bilm.state_dict()))}"
    prefixes = [name.removesuffix(ending) for name in state if name.endswith(f".{ending}")]
    if not prefixes:
        raise ConfigurationError("found no biLM in the archive, expected the one that comes with the project")
    for name, weight in _named(bilm, prefixes).items():
        if name not in state or not torch.equal(state.pop(name), weight):
            raise ConfigurationError(
                f"found another weight {name} than the biLM of the project has, expected this biLM"
            )
    if dtype == "float16":
        state = {name: _rounded(weight) for name, weight in state.items()}
    torch.save(state, folder / ARCHIVED_WEIGHTS)
    note = {"digest": bilm.digest(), "version": version, "prefixes": prefixes}
    (folder / NOTE).write_text(json.dumps(note), encoding="utf-8")
    with tarfile.open(output, "w:gz") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name)


def complete(folder: Path) -> None:
    """
    Puts the biLM that comes with the project into an unpacked slim archive; other archives stay as they are.

    # Raises
    `ConfigurationError`: this version of the project has another biLM.
    """
    if not (folder / NOTE).exists():
        return
    note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    bilm = _bundled_bilm()
    if note["digest"] != bilm.digest():
        raise ConfigurationError(
            f"found the digest {bilm.digest()} of the biLM of this version, expected {note['digest']}: the "
            f"archive needs the biLM of elmo_tasks {note['version']}"
        )
    state = torch.load(folder / ARCHIVED_WEIGHTS, map_location="cpu", weights_only=True)
    torch.save(state | _named(bilm, note["prefixes"]), folder / ARCHIVED_WEIGHTS)
    (folder / NOTE).unlink()


def _bundled_bilm() -> FrozenBiLm:
    return read_frozen_bilm(read_options(DEFAULT_OPTIONS), DEFAULT_WEIGHTS)


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
    `ConfigurationError`: there is none of this name.
    """
    text = fspath(archive)
    if not text.startswith(TRAINED):
        return archive
    archives, name = trained_archives(), text.removeprefix(TRAINED)
    if name not in archives:
        expected = ", ".join(TRAINED + each for each in archives) or "the package elmo_tasks[models]"
        hint = did_you_mean(text, (TRAINED + each for each in archives))
        raise ConfigurationError(f"found no archive {text}, expected {expected}{hint}")
    return archives[name]
