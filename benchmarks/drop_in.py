"""
An archive that AllenNLP's own code wrote, evaluated by `allennlp evaluate` with and without our drop-in.

The model is `crf_tagger` with `elmo_token_embedder`, of random weights: how it got them makes no difference
to the time. Both commands run alternately, from start to end; the logits of both are compared.
"""

import argparse
import json
import sys
from pathlib import Path

from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.util import import_module_and_submodules

from benchmarks.bilms import SIZES, bilm_files, count_tokens, read_text
from benchmarks.configs import bilstm
from benchmarks.results import OURS, PEER, Results, add_results_argument, show
from elmo_tasks.elmo.files import read_options

DROP_IN = "elmo_tasks.drop_in"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", type=Path, help="a sentence a line, words apart by blanks")
    parser.add_argument("out", type=Path, help="folder of the archive and the predictions")
    parser.add_argument("-n", type=int, default=2000, help="sentences")
    parser.add_argument("--size", default="original", choices=SIZES)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    add_results_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    arguments.out.mkdir(parents=True, exist_ok=True)
    sentences, data = read_text(arguments.text, arguments.n), arguments.out / "text.conll"
    # The columns of CoNLL-2003, without names
    data.write_text("\n".join("".join(f"{word} X X O\n" for word in words) for words in sentences))
    archive = stock_archive(arguments.out, arguments.size, data, arguments.batch_size)
    predictions = {system: arguments.out / f"{system}.jsonl" for system in (PEER, OURS)}
    evaluate = [sys.executable, "-m", "allennlp", "evaluate", archive, data]
    evaluate += ["--include-package", "allennlp_models.tagging", "--predictions-output-file"]
    commands = {
        PEER: [*evaluate, predictions[PEER]],
        OURS: [*evaluate, predictions[OURS], "--include-package", DROP_IN],
    }
    results = Results("drop-in", arguments.csv)
    case = f"{count_tokens([sentences]):,} words, {arguments.size} size: evaluation, s"
    results.time_in_turn(case, commands, arguments.rounds)
    difference = largest_difference(*predictions.values())
    results.add(OURS, 0, "largest difference of logits", difference)
    show(results.ratios(), results.means(of="difference"))


def stock_archive(folder: Path, size: str, data: Path, batch_size: int) -> Path:
    """The archive of a model after one step of training, all of it AllenNLP's own code."""
    run = folder / f"{size}-{batch_size}"
    archive = run / "model.tar.gz"
    if archive.exists():
        return archive
    options_file, weight_file = bilm_files(folder, size)
    import_module_and_submodules("allennlp_models.tagging")
    dim = read_options(options_file).output_dim
    files = {"options_file": options_file, "weight_file": weight_file}
    config = {
        "dataset_reader": {"type": "conll2003", "token_indexers": {"elmo": {"type": "elmo_characters"}}},
        "train_data_path": str(data),
        "model": {
            "type": "crf_tagger",
            "text_field_embedder": {"token_embedders": {"elmo": {"type": "elmo_token_embedder", **files}}},
            "encoder": bilstm(dim, 100),
            "label_encoding": "BIO",
        },
        "data_loader": {"batch_size": 1, "batches_per_epoch": 1},
        "validation_data_loader": {"batch_size": batch_size},
        "trainer": {"optimizer": "adam", "num_epochs": 1},
    }
    train_model(Params(config), str(run), force=True)
    return archive


def largest_difference(first: Path, second: Path) -> float:
    """The largest difference between the logits of two files of predictions."""
    largest = 0.0
    with first.open() as ours, second.open() as theirs:
        for lines in zip(ours, theirs, strict=True):
            sides = [json.loads(line)["logits"] for line in lines]
            largest = max(
                largest,
                *(
                    abs(one - other)
                    for rows in zip(*sides, strict=True)
                    for tokens in zip(*rows, strict=True)
                    for one, other in zip(*tokens, strict=True)
                ),
            )
    return largest
