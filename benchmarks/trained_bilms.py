"""BiLMs that an experiment trains before its task."""

from pathlib import Path
from typing import Any

from benchmarks.bilms import Files
from benchmarks.configs import Settings, read_config
from elmo_tasks.commands.arguments import train_and_report
from elmo_tasks.commands.export import OPTIONS, VOCABULARY, WEIGHTS, read_trained, write_bilm
from elmo_tasks.training.experiments import Run

Overrides = dict[str, Any]
"""Of a config, by the paths of its keys."""


def trained_bilm(run: Run, folder: Path) -> Overrides:
    """Trains a biLM, unless that is done, and writes it to the folder; what plugs it into a config."""
    train_and_report([run], jobs=1, packages=[])
    folder.mkdir(exist_ok=True)
    trained = read_trained(str(run.folder / "model.tar.gz"))
    write_bilm(folder, trained.bilm, None, trained.words, dtype="float32")
    files = {"options_file": OPTIONS, "weight_file": WEIGHTS, "vocabulary_file": VOCABULARY}
    present = {key: folder / name for key, name in files.items() if (folder / name).exists()}
    return {f"model.elmo.{key}": str(path) for key, path in present.items()}


def finetuning(files: Files, overrides: Overrides, folder: Path) -> Run:
    """
    One epoch of a biLM on another text (`bilm_finetune.jsonnet`).

    # Parameters

    files : of a biLM with its softmax, whose words stand beside them.
    """
    words_file = str(Path(files[0]).with_name(VOCABULARY))
    of_bilm = {"model.options_file": files[0], "model.weight_file": files[1]}
    config = read_config("bilm_finetune", {**of_bilm, "vocabulary.words_file": words_file, **overrides})
    return Run("finetuned", config["pytorch_seed"], config, folder)


def finetuned(files: Files, settings: Settings, folder: Path) -> Files:
    """
    A biLM that has read the training text of a task for one epoch, as most tasks of the ELMo paper had it; it
    is trained unless that is done.

    # Parameters

    files : as of `finetuning`.
    settings : the config of the task.
    """
    # Where the two differ, the reader of the validation data has the texts as they are.
    source = settings.get("validation_dataset_reader", settings["dataset_reader"])
    overrides = {name: settings[name] for name in ("train_data_path", "validation_data_path")}
    overrides |= dict.fromkeys(("dataset_reader.source", "validation_dataset_reader.source"), source)
    plugged = trained_bilm(finetuning(files, overrides, folder / "run"), folder / "elmo")
    return plugged["model.elmo.options_file"], plugged["model.elmo.weight_file"]
