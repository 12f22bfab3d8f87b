"""The biLMs that are measured: sizes, files, and those that an experiment trains before its task."""

import json
import shutil
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from benchmarks.configs import Settings, read_config
from elmo_tasks.commands.bilm import OFFICIAL, OPTIONS, VOCABULARY, read_trained, write_bilm
from elmo_tasks.commands.experiments import train_and_report
from elmo_tasks.common.files import bundled
from elmo_tasks.data.input_files import read_lines
from elmo_tasks.elmo import BiLm, BiLmOptions, CharacterOptions
from elmo_tasks.elmo.model.array_file import opened, write_arrays
from elmo_tasks.elmo.model.weight_file import write_weights
from elmo_tasks.training.experiments import TrainingRun


def peak_memory() -> int:
    """
    Returns the peak memory of this process in bytes, on Linux. `getrusage` would not do: its figure outlives
    `exec`, and so can belong to the process which started this one.
    """
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].removesuffix("kB")) * 1024


Files = tuple[str, str]
"""Paths of options and weights."""

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


def of_characters(
    dim: int, projection_dim: int, *, n_highway: int, filters: tuple[tuple[int, int], ...] = FILTERS
) -> BiLmOptions:
    """Returns options with these sizes and the settings that all published models share."""
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
"""The biLM that comes with the project, the fixtures' biLM, and random weights of published sizes."""


PERPLEXITIES = ("perplexity_forward", "perplexity_backward")
"""The names of the perplexities of a biLM."""


def bilm_files(folder: Path, size: str) -> Files:
    """The files of one of `SIZES`, in HDF5 for the peer, written to the folder unless they are there."""
    options_file, weight_file = folder / f"{size}.json", folder / f"{size}.hdf5"
    if not weight_file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if size in BUNDLED:
            bilm = bundled(BUNDLED[size])
            shutil.copy(bilm / "options.json", options_file)
            with opened(bilm / "weights.safetensors", "biLM weights") as file:
                arrays = ((name, file.read(name, file.shape(name) or ())) for name in file.names())
                write_arrays(weight_file, arrays)
        else:
            options = PUBLISHED[size]
            torch.manual_seed(13)
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


Sentences = list[list[str]]


def read_text(path: Path, number: int) -> Sentences:
    """The first sentences of a text, which has one tokenised sentence a line."""
    words = (line.split() for _, line in read_lines(path))
    return list(islice(filter(None, words), number))


def in_batches(sentences: Sentences, size: int) -> list[Sentences]:
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


def size_of_text(sentences: Sentences) -> str:
    words = [word for sentence in sentences for word in sentence]
    return f"Text: {len(sentences):,} sentences, {len(words):,} tokens, {len(set(words)):,} distinct."


def count_tokens(batches: Iterable[Sentences]) -> int:
    return sum(len(words) for batch in batches for words in batch)


Overrides = dict[str, Any]
"""Overrides of a config: values by the path of their key."""


def trained_bilm(run: TrainingRun, folder: Path) -> Overrides:
    """Trains a biLM, unless that is done, and writes it to the folder; what plugs it into a config."""
    train_and_report([run], jobs=1, packages=[])
    folder.mkdir(exist_ok=True)
    trained = read_trained(str(run.folder / "model.tar.gz"))
    write_bilm(folder, trained.bilm, None, trained.words, dtype="float32")
    files = {"options_file": OPTIONS, "weight_file": OFFICIAL["official"], "vocabulary_file": VOCABULARY}
    present = {key: folder / name for key, name in files.items() if (folder / name).exists()}
    return {f"model.elmo.{key}": str(path) for key, path in present.items()}


def finetuning(files: Files, overrides: Overrides, folder: Path) -> TrainingRun:
    """
    One epoch of a biLM on another text (`bilm_finetune.jsonnet`).

    # Parameters

    files : of a biLM with its softmax, whose words are in the same folder.
    """
    words_file = str(Path(files[0]).with_name(VOCABULARY))
    of_bilm = {"model.options_file": files[0], "model.weight_file": files[1]}
    config = read_config("bilm_finetune", {**of_bilm, "vocabulary.words_file": words_file, **overrides})
    return TrainingRun("finetuned", config["pytorch_seed"], config, folder)


def finetuned(files: Files, settings: Settings, folder: Path) -> Files:
    """
    A biLM that has read the training text of a task for one epoch, as most tasks of the ELMo paper had it; it
    is trained unless that is done.

    # Parameters

    files : as of `finetuning`.
    settings : the config of the task.
    """
    # Where the two differ, the reader of the validation data does not change the texts.
    source = settings.get("validation_dataset_reader", settings["dataset_reader"])
    overrides = {name: settings[name] for name in ("train_data_path", "validation_data_path")}
    overrides |= dict.fromkeys(("dataset_reader.source", "validation_dataset_reader.source"), source)
    plugged = trained_bilm(finetuning(files, overrides, folder / "run"), folder / "elmo")
    return plugged["model.elmo.options_file"], plugged["model.elmo.weight_file"]
