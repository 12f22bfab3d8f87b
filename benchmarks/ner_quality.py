"""
NER without ELMo, side by side with allennlp-models' `crf_tagger` at the same sizes and settings: dev F1 and
the time of an epoch, over several seeds, the two systems in turn.

    python benchmarks/ner_quality.py DATA_FOLDER [--seeds 13 14 15] [--epochs 25] [--ours-only]

The folder holds `train.*` and `dev.*` in CoNLL columns; two-column files are read with `--columns word tag`.
"""

import argparse
from functools import partial
from pathlib import Path

import allennlp_models.tagging  # noqa: F401 (registers the peer)
from elmo_speed import machine
from side_by_side import Settings, epoch_times, mean_scores, parts, read_config

import elmo_tasks.ner  # noqa: F401 (registers ours)

TIMED_EPOCHS = 4


def ours(config: str, data: Path, columns: list[str], epochs: int, seed: int) -> Settings:
    """Both systems train for all epochs, and are scored at their best one."""
    settings = read_config(config, *parts(data), seed=seed, epochs=epochs)
    settings["dataset_reader"]["columns"] = columns
    return settings


def peer(data: Path, epochs: int, seed: int) -> Settings:
    """The same sizes, optimizer and batches, of stock parts."""
    settings = ours("ner", data, ["word", "pos", "chunk", "tag"], epochs, seed)
    model = settings["model"]
    settings["dataset_reader"] = {
        "type": "conll2003",
        "coding_scheme": "BIOUL",
        "token_indexers": settings["dataset_reader"]["token_indexers"],
    }
    embedders = model["text_field_embedder"]["token_embedders"]
    cnn = embedders["token_characters"]
    embedders["token_characters"] = {
        "type": "character_encoding",
        "embedding": {"embedding_dim": cnn["embedding_dim"], "vocab_namespace": "token_characters"},
        "encoder": {
            "type": "cnn",
            "embedding_dim": cnn["embedding_dim"],
            "num_filters": cnn["num_filters"],
            "ngram_filter_sizes": [cnn["width"]],
            "conv_layer_activation": "relu",
        },
    }
    settings["dataset_reader"]["token_indexers"]["token_characters"]["min_padding_length"] = cnn["width"]
    first, second = model["hidden_sizes"]
    embedded = embedders["tokens"]["embedding_dim"] + cnn["num_filters"]
    settings["model"] = {
        "type": "crf_tagger",
        "label_encoding": "BIOUL",
        "constrain_crf_decoding": True,
        "calculate_span_f1": True,
        "dropout": model["dropout"],
        "text_field_embedder": model["text_field_embedder"],
        "encoder": {
            "type": "compose",
            "encoders": [
                {"type": "lstm", "input_size": size, "hidden_size": hidden, "bidirectional": True}
                for size, hidden in ((embedded, first), (2 * first, second))
            ],
        },
    }
    for loader in ("data_loader", "validation_data_loader"):
        settings[loader]["batch_sampler"]["type"] = "bucket"
    settings["trainer"] |= {"validation_metric": "+f1-measure-overall", "checkpointer": {}}
    settings["trainer"]["optimizer"]["type"] = "adam"
    return settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[13, 14, 15])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=6, help="short runs for the time of an epoch")
    parser.add_argument("--columns", nargs="+", default=["word", "pos", "chunk", "tag"])
    parser.add_argument("--config", default="ner", help="of ours: ner or ner_elmo")
    parser.add_argument("--ours-only", action="store_true")
    arguments = parser.parse_args()

    def systems(epochs: int, seed: int) -> dict[str, Settings]:
        both = {"elmo_ner": ours(arguments.config, arguments.data, arguments.columns, epochs, seed)}
        if not arguments.ours_only:
            both["crf_tagger"] = peer(arguments.data, epochs, seed)
        return both

    print(f"Machine: {machine()}.", flush=True)
    mean_scores(partial(systems, arguments.epochs), arguments.seeds)
    if not arguments.ours_only:
        epoch_times(partial(systems, TIMED_EPOCHS), arguments.rounds)


if __name__ == "__main__":
    main()
