"""
Coreference side by side with allennlp-models' `coref` of the same sizes, optimizer, words and vocabulary: dev
F1, the time of an epoch, and peak memory.

    python benchmarks/coref_quality.py DATA_FOLDER [--systems ours peer ours_elmo peer_elmo]
        [--seeds 13 14 15] [--epochs 20] [--limit 80] [--sentences 50] [--no-singletons] [--overrides JSON]

The folder holds `train/` and `dev/` in CoNLL-2012 columns. Each run has a process of its own, and the systems
take turns. Both train on whole documents, or on `--sentences` of each: ours on a window that is drawn each
time, the peer on the first ones. With ELMo both have the one that comes with the project: ours without
activations kept on disk, the peer as AllenNLP's `elmo_token_embedder`, for which a document is one sentence.

F1 is the average of MUC, B-cubed and CEAF-e by our metric, for both, in the epoch that is best by its own.
Gold clusters of one mention, which neither proposes, count as missed, but not with `--no-singletons`.
The time of an epoch is the median of all but the first, training and validation together.
"""

import argparse
import copy
import tempfile
from functools import partial
from pathlib import Path

import allennlp_models.coref  # noqa: F401 (registers the peer)
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.data import DatasetReader
from elmo_speed import machine, shipped_weights
from side_by_side import (
    EpochTimes,
    Result,
    Settings,
    argument_parser,
    parts,
    peak_memory,
    print_results,
    quiet,
    read_config,
    results_in_processes,
)

import elmo_tasks.coref  # noqa: F401 (registers ours)
from elmo_tasks.coref.metric import CorefScores
from elmo_tasks.coref.reader import CorefReader
from elmo_tasks.elmo import BiLmOptions

SYSTEMS = ("ours", "peer", "ours_elmo", "peer_elmo")
ALL = 1_000_000
"""Sentences that no document has."""


def ours(config: str, data: Path, arguments: argparse.Namespace, seed: int) -> Settings:
    settings = read_config(
        config, *parts(data), seed=seed, epochs=arguments.epochs, overrides=arguments.overrides
    )
    settings["model"]["max_training_sentences"] = arguments.sentences or ALL
    return settings


def peer(baseline: Settings, sentences: int | None, *, elmo: bool) -> Settings:
    """The same of stock parts."""
    settings = dict(baseline)
    model = settings["model"]
    hidden_sizes, hidden, dropout = model["feedforward_sizes"], model["hidden_sizes"][0], model["dropout"]
    indexers = settings["dataset_reader"]["token_indexers"]
    embedders = model["text_field_embedder"]["token_embedders"]
    encoder = embedders["token_characters"]["encoder"]
    words = embedders["tokens"]["embedding_dim"] + encoder["num_filters"] * len(encoder["ngram_filter_sizes"])
    if elmo:
        options_file, weight_file = shipped_weights()
        indexers["elmo"] = {"type": "elmo_characters"}
        embedders["elmo"] = {
            "type": "elmo_token_embedder",
            "options_file": options_file,
            "weight_file": weight_file,
            "dropout": 0.0,
        }
        words += BiLmOptions.read(options_file).output_dim
    span = words + 4 * hidden + model["feature_dim"]

    def feedforward(size: int) -> Settings:
        sizes = {"input_dim": size, "num_layers": len(hidden_sizes), "hidden_dims": hidden_sizes}
        return {**sizes, "activations": "relu", "dropout": dropout}

    reader = {"type": "coref", "token_indexers": indexers, "max_span_width": model["max_span_width"]}
    settings["dataset_reader"] = {**reader, "max_sentences": sentences}
    settings["validation_dataset_reader"] = copy.deepcopy(reader)
    settings["model"] = {
        "type": "coref",
        "text_field_embedder": model["text_field_embedder"],
        "context_layer": {
            "type": "lstm",
            "input_size": words,
            "hidden_size": hidden,
            "bidirectional": True,
        },
        "mention_feedforward": feedforward(span),
        "antecedent_feedforward": feedforward(3 * span + model["feature_dim"]),
        "feature_size": model["feature_dim"],
        **{
            key: model[key]
            for key in ("max_span_width", "spans_per_word", "max_antecedents", "lexical_dropout")
        },
    }
    settings["data_loader"] = {"batch_size": 1, "shuffle": True}
    settings["validation_data_loader"] = {"batch_size": 1}
    settings["trainer"] |= {"validation_metric": "+coref_f1", "checkpointer": {}}
    settings["trainer"]["optimizer"]["type"] = "adam"
    return settings


def systems(data: Path, arguments: argparse.Namespace, seed: int) -> dict[str, Settings]:
    return {system: settings_of(system, data, arguments, seed) for system in arguments.systems}


def settings_of(system: str, data: Path, arguments: argparse.Namespace, seed: int) -> Settings:
    baseline = ours("coref_elmo" if system == "ours_elmo" else "coref", data, arguments, seed)
    if system.startswith("ours"):
        return baseline
    return peer(baseline, arguments.sentences, elmo=system == "peer_elmo")


def run(settings: Settings, *, singletons: bool) -> Result:
    """Trains in this process, and scores the best epoch on the dev documents."""
    quiet()
    reader = DatasetReader.from_params(
        Params(copy.deepcopy(settings.get("validation_dataset_reader") or settings["dataset_reader"]))
    )
    dev = settings["validation_data_path"]
    with tempfile.TemporaryDirectory() as folder:
        model = train_model(Params(settings), folder, force=True, file_friendly_logging=True)
    # Before the scores, which are the same work for both
    memory = peak_memory()
    metric = CorefScores()
    model.eval()
    documents = CorefReader(singletons=singletons).read(dev)
    for instance, document in zip(reader.read(dev), documents, strict=True):
        reader.apply_token_indexers(instance)
        metric(model.forward_on_instance(instance)["clusters"], document["metadata"].metadata.clusters)
    return Result(100 * metric.get_metric()["average_f1"], EpochTimes.median(), memory)


def first_documents(folder: Path, file: Path, limit: int | None) -> None:
    """One file of all documents, as the peer reads it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())[:limit]
    file.write_text("".join(path.read_text(encoding="utf-8") for path in paths), encoding="utf-8")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=["ours", "peer"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[13, 14, 15])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--limit", type=int, help="files of train and of dev; default all")
    parser.add_argument("--sentences", type=int, help="of a training document; default all")
    parser.add_argument(
        "--no-singletons", action="store_true", help="gold clusters of one mention do not count"
    )
    arguments = parser.parse_args()
    print(f"Machine: {machine()}.")
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        for part in ("train", "dev"):
            first_documents(arguments.data / part, data / f"{part}.conll", arguments.limit)
        results = results_in_processes(
            partial(systems, data, arguments),
            arguments.seeds,
            partial(run, singletons=not arguments.no_singletons),
        )
    print_results(
        results, beside=[("ours", "peer"), ("ours_elmo", "peer_elmo")], gains=[("ours", "ours_elmo")]
    )


if __name__ == "__main__":
    main()
