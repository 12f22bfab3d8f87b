"""
The time of an epoch of NER with a frozen biLM of the original size (random weights): ours with its
activations kept on disk, allennlp-models' `crf_tagger` with AllenNLP's own ELMo at the same sizes, and ours
without activations.

    python benchmarks/ner_epochs.py DATA_FOLDER [--sentences 400] [--size original]

The folder is as for `ner_quality.py`, in four columns. An epoch is training and validation together; ours
computes the activations of both files in the first. The target is for the epochs after it. AllenNLP takes
minutes an epoch: `--sentences` keeps only the first of each file, for all sides.
"""

import argparse
import gc
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import ner_quality
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from elmo_speed import SIZES, Files, machine, weights
from side_by_side import EpochTimes

from elmo_tasks.elmo import BiLmOptions

COLUMNS = ["word", "pos", "chunk", "tag"]
SEED = 13
TARGET = 10.0


def ours(data: Path, files: Files, epochs: int, activations: Path | None) -> dict[str, Any]:
    settings = ner_quality.ours("ner_elmo", data, COLUMNS, epochs, SEED)
    settings["model"]["elmo"] |= dict(zip(("options_file", "weight_file"), files, strict=True))
    if activations is not None:
        settings["model"]["elmo"]["activations"] = str(activations)
    return settings


def peer(data: Path, files: Files, epochs: int) -> dict[str, Any]:
    """`ner_quality`'s peer, with stock ELMo beside its token vectors."""
    settings = ner_quality.peer(data, epochs, SEED)
    options_file, weight_file = files
    settings["dataset_reader"]["token_indexers"]["elmo"] = {"type": "elmo_characters"}
    settings["model"]["text_field_embedder"]["token_embedders"]["elmo"] = {
        "type": "elmo_token_embedder",
        "options_file": options_file,
        "weight_file": weight_file,
        "dropout": ours(data, files, epochs, None)["model"]["elmo"]["dropout"],
    }
    # It stops at a tag of the validation data that the first training sentences may not have.
    del settings["datasets_for_vocab_creation"]
    first_encoder = settings["model"]["encoder"]["encoders"][0]
    first_encoder["input_size"] += BiLmOptions.read(options_file).output_dim
    return settings


def epoch_times(settings: dict[str, Any]) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        train_model(Params(settings), folder, force=True, file_friendly_logging=True)
    # With the model goes its open database of activations.
    gc.collect()
    return list(EpochTimes.times)


def first_sentences(data: Path, folder: Path, number: int) -> Path:
    """Copies of both files that hold their first sentences only."""
    folder.mkdir()
    for part in ("train", "dev"):
        blocks = next(data.glob(f"{part}.*")).read_text(encoding="utf-8").strip().split("\n\n")
        sentences = [block.strip("\n") for block in blocks if not block.startswith("-DOCSTART-")]
        (folder / f"{part}.conll").write_text("\n\n".join(sentences[:number]) + "\n", encoding="utf-8")
    return folder


def size_of(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return f"{sum(path.stat().st_size for path in files) / 1e6:,.1f} MB in {len(files)} files"


def row(name: str, times: list[float], theirs: list[float] | None = None) -> str:
    """A line of the table; the ratio is AllenNLP's mean over ours from the second epoch on."""
    ratio = ""
    if theirs:
        all_ratios = [statistics.mean(theirs) / time for time in times[1:]]
        ratio = f"{statistics.median(all_ratios):.1f} ({min(all_ratios):.1f} to {max(all_ratios):.1f})"
    later = ", ".join(f"{time:.1f} s" for time in times[1:])
    return f"| {name} | {times[0]:.1f} s | {later} | {ratio} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--sentences", type=int, help="of each file; default all")
    parser.add_argument("--size", default="original", choices=[*SIZES, "shipped"])
    parser.add_argument("--epochs", type=int, default=3, help="of ours, at least 2")
    parser.add_argument("--peer-epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    # Else the table drowns in the log.
    os.environ.setdefault("ALLENNLP_LOG_LEVEL", "WARNING")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        activations = folder / "activations"
        data, size = arguments.data, arguments.size
        if arguments.sentences:
            data = first_sentences(data, folder / "data", arguments.sentences)
        files = weights(folder, size)
        kept = epoch_times(ours(data, files, arguments.epochs, activations))
        theirs = epoch_times(peer(data, files, arguments.peer_epochs))
        computed = epoch_times(ours(data, files, arguments.epochs, None))
        on_disk = size_of(activations)

    print("| | epoch 1 | later epochs | AllenNLP / ours, later epochs |\n| --- | --- | --- | --- |")
    print(row("`elmo_ner`, activations on disk", kept, theirs))
    print(row("`elmo_ner`, without", computed, theirs))
    print(row("`crf_tagger`, AllenNLP's ELMo", theirs))
    ratio = statistics.mean(theirs) / statistics.median(kept[1:])
    verdict = "reached" if ratio >= TARGET else "not reached"
    print(f"\nTarget with activations, at least {TARGET:g}: {verdict}. Activations: {on_disk}.")
    print(f"Machine: {machine()}.")


if __name__ == "__main__":
    main()
