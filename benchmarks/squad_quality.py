"""
SQuAD side by side with allennlp-models' `bidaf` with its own settings: dev F1, the time of an epoch, peak
memory.

    python benchmarks/squad_quality.py DATA_FOLDER [--systems ours peer] [--seeds 13] [--epochs 20]
        [--limit 8839 1731] [--batch-size 15] [--vectors FILE] [--overrides JSON]
    python benchmarks/squad_quality.py DATA_FOLDER --elmo [shipped | small | original]
    python benchmarks/squad_quality.py DATA_FOLDER --systems ours input input+output output

The folder holds `train.json` and `dev.json` of SQuAD 1.1; `--limit` takes so many questions of each, of
paragraphs at like distances. Each run has a process of its own, and the systems take turns. Words, the
vocabulary of the training data and `--vectors` are the same for all; without vectors, each learns its own.
`--overrides` is for ours; the peer takes the vocabulary from there, and nothing else.

- `ours`: without ELMo; `peer`: `bidaf`, likewise.
- `input`, `input+output`, `output`: ours with the ELMo that comes with the project, placed there (Table 3 of
  Peters et al. 2018; its activations are kept for all runs), and how much of the error of `ours` it takes.
- `--elmo`: `input+output` beside the peer with the same biLM at its input, AllenNLP's own; no activations are
  kept; `small` and `original` have random weights of the published sizes.

F1 is that of the best epoch. The time of an epoch is the median of all but the first, training and validation
together. For ratios of times, short runs over several seeds: `--epochs 3 --limit 1000 200 --seeds 1 2 3`.
"""

import argparse
import gzip
import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import allennlp_models.rc  # noqa: F401 (registers the peer)
from allennlp.data import Token, Tokenizer
from elmo_speed import SIZES, Files, machine, weights
from side_by_side import (
    Result,
    Settings,
    argument_parser,
    parts,
    peak_memory,
    print_results,
    quiet,
    read_config,
    results_in_processes,
    run,
)

import elmo_tasks.squad  # noqa: F401 (registers ours)
from elmo_tasks.data.tokenization import tokenizer
from elmo_tasks.elmo import BiLmOptions

PLACEMENTS = ("input", "input+output", "output")
SYSTEMS = ("ours", "peer", *PLACEMENTS)
PARTS = ("train", "dev")


@Tokenizer.register("spacy_with_places")
class WordsWithPlaces(Tokenizer):
    """The words of our reader before it splits them, which the peer's reader does by itself."""

    def __init__(self) -> None:
        self._words = tokenizer()

    def tokenize(self, text: str) -> list[Token]:
        _, words, offsets = self._words(text)
        return [Token(word, idx=start) for word, (start, _) in zip(words, offsets, strict=True)]


def ours(arguments: argparse.Namespace, data: Path, seed: int, placement: str | None) -> Settings:
    config = "squad" if placement is None else "squad_elmo"
    settings = read_config(
        config, *parts(data), seed=seed, epochs=arguments.epochs, overrides=arguments.overrides
    )
    if placement is not None:
        settings["model"]["elmo"]["placement"] = placement
    tokens = settings["model"]["text_field_embedder"]["token_embedders"]["tokens"]
    tokens |= word_vectors(arguments.vectors)
    return settings


def peer(baseline: Settings, vectors: Path | None, elmo: Files | None) -> Settings:
    """The config bidaf.jsonnet of allennlp-models; data, vocabulary, vectors and epochs are those of ours."""
    words: Settings = {"type": "embedding", "embedding_dim": 100} | word_vectors(vectors)
    indexers: Settings = {
        "tokens": {"type": "single_id", "lowercase_tokens": True},
        "token_characters": {
            "type": "characters",
            "character_tokenizer": {"byte_encoding": "utf-8", "start_tokens": [259], "end_tokens": [260]},
            "min_padding_length": 5,
        },
    }
    embedders: Settings = {
        "tokens": words,
        "token_characters": {
            "type": "character_encoding",
            "embedding": {"num_embeddings": 262, "embedding_dim": 16},
            "encoder": {"type": "cnn", "embedding_dim": 16, "num_filters": 100, "ngram_filter_sizes": [5]},
            "dropout": 0.2,
        },
    }
    size = words["embedding_dim"] + 100
    if elmo is not None:
        options_file, weight_file = elmo
        indexers["elmo"] = {"type": "elmo_characters"}
        block = {"options_file": options_file, "weight_file": weight_file, "dropout": 0.0}
        embedders["elmo"] = {"type": "elmo_token_embedder", **block}
        size += BiLmOptions.read(options_file).output_dim

    def lstm(size: int, layers: int = 1) -> Settings:
        sizes = {"input_size": size, "hidden_size": 100, "num_layers": layers}
        return {"type": "lstm", "bidirectional": True, **sizes} | ({"dropout": 0.2} if layers > 1 else {})

    settings = dict(baseline)
    settings["dataset_reader"] = {
        "type": "squad1",
        "tokenizer": {"type": "spacy_with_places"},
        "token_indexers": indexers,
    }
    settings["model"] = {
        "type": "bidaf",
        "text_field_embedder": {"token_embedders": embedders},
        "num_highway_layers": 2,
        "phrase_layer": lstm(size),
        "matrix_attention": {
            "type": "linear",
            "combination": "x,y,x*y",
            "tensor_1_dim": 200,
            "tensor_2_dim": 200,
        },
        "modeling_layer": lstm(800, layers=2),
        "span_end_encoder": lstm(1400),
        "dropout": 0.2,
    }
    for loader in ("data_loader", "validation_data_loader"):
        settings[loader] = {"batch_sampler": {"type": "bucket", "batch_size": 40}}
    settings["trainer"] = {
        **{key: baseline["trainer"][key] for key in ("num_epochs", "patience", "callbacks")},
        "validation_metric": "+f1",
        "grad_norm": 5.0,
        "learning_rate_scheduler": {"type": "reduce_on_plateau", "factor": 0.5, "mode": "max", "patience": 2},
        "optimizer": {"type": "adam", "betas": [0.9, 0.9]},
    }
    return settings


def word_vectors(file: Path | None) -> Settings:
    """Fixed ones from a text file, if there is one."""
    if file is None:
        return {}
    with (
        gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as f
    ):
        # A header of two numbers may come first.
        lines = [f.readline().split(" ") for _ in range(2)]
    return {"pretrained_file": str(file), "embedding_dim": len(lines[1]) - 1, "trainable": False}


def systems(names: list[str], arguments: argparse.Namespace, folder: Path, seed: int) -> dict[str, Settings]:
    chosen = {name: settings_of(name, arguments, folder, seed) for name in names}
    if arguments.batch_size:
        for settings in chosen.values():
            settings["data_loader"]["batch_sampler"]["batch_size"] = arguments.batch_size
    return chosen


def settings_of(system: str, arguments: argparse.Namespace, folder: Path, seed: int) -> Settings:
    baseline = ours(arguments, folder, seed, system if system in PLACEMENTS else None)
    if system == "peer":
        return peer(baseline, arguments.vectors, arguments.files)
    if system in PLACEMENTS:
        block = baseline["model"]["elmo"]
        if arguments.files is None:
            block["activations"] = str(folder / "activations")
        else:
            block["options_file"], block["weight_file"] = arguments.files
    return baseline


def run_alone(settings: Settings) -> Result:
    """Trains in this process."""
    quiet()
    return Result(*run(settings), peak_memory())


def some_paragraphs(source: Path, target: Path, wanted: int | None) -> None:
    """A file of so many questions, of paragraphs at like distances."""
    content = json.loads(source.read_text(encoding="utf-8"))
    paragraphs: list[dict[str, Any]] = [p for article in content["data"] for p in article["paragraphs"]]
    total = sum(len(paragraph["qas"]) for paragraph in paragraphs)
    chosen, questions, passed = [], 0, 0
    for paragraph in paragraphs:
        passed += len(paragraph["qas"])
        if questions < passed * min(1, (wanted or total) / total):
            chosen.append(paragraph)
            questions += len(paragraph["qas"])
    target.write_text(
        json.dumps({**content, "data": [{"title": "", "paragraphs": chosen}]}), encoding="utf-8"
    )
    print(f"{source}: {questions} questions of {len(chosen)} paragraphs")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[13])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--limit", type=int, nargs=2, metavar=("TRAIN", "DEV"), default=(None, None))
    parser.add_argument(
        "--batch-size", type=int, help="questions of a training batch, for all systems; default their own"
    )
    parser.add_argument("--vectors", type=Path, help="text vectors, gzip or not")
    parser.add_argument("--elmo", nargs="?", const="shipped", choices=("shipped", *SIZES))
    arguments = parser.parse_args()
    names = arguments.systems or (["input+output", "peer"] if arguments.elmo else ["ours", "peer"])
    print(f"Machine: {machine()}.", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments.files = weights(folder, arguments.elmo) if arguments.elmo else None
        for part, wanted in zip(PARTS, arguments.limit, strict=True):
            some_paragraphs(arguments.data / f"{part}.json", folder / f"{part}.json", wanted)
        results = results_in_processes(partial(systems, names, arguments, folder), arguments.seeds, run_alone)
    print_results(
        results,
        beside=[(system, "peer") for system in SYSTEMS if system != "peer"],
        gains=[("ours", placement) for placement in PLACEMENTS],
    )


if __name__ == "__main__":
    main()
