"""
How good a biLM is as a language model, and what its vectors tell apart.

    python benchmarks/bilm_quality.py perplexity TEXT ... [--passage 64] [--initial-state FILE]
    python benchmarks/bilm_quality.py finetune --train TEXT --dev TEXT
    python benchmarks/bilm_quality.py senses

`--model FOLDER` is a biLM with its softmax as `allennlp elmo export` writes it; by default the one that comes
with the project. Texts have one tokenised sentence a line, plain or gzip.

`perplexity` prints that of each text, forward and backward, over all its sentences and their ends;
`benchmarks/kneser_ney.py` with the folder's `vocab.txt` prints that of a 5-gram model. `--passage 1` starts
every sentence from zeros, or from the state in FILE, of `allennlp elmo calibrate`. `finetune` trains the biLM
on TRAIN for one epoch, as `bilm_finetune.jsonnet` says, and prints the perplexity of DEV before and after.
`senses` prints, for each of some sentences with "play" in sport or on a stage, the sentence whose "play" is
nearest, by the cosine of each layer.
"""

import argparse
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.data import Batch, DatasetReader, Vocabulary
from allennlp.models import Model

import elmo_tasks  # noqa: F401 (registers the parts)
from elmo_tasks.elmo import LstmState
from elmo_tasks.elmo.model.characters import padded_character_ids
from elmo_tasks.elmo.sources import read_frozen_bilm, read_initial_state, read_options
from elmo_tasks.paths import bundled

SPORT = """
they made a nice play at second base to end the inning .
the quarterback scored on the last play of the game .
he was injured on a play near the goal line .
the referee stopped play after the foul .
it was the best defensive play of the season .
the team won the match with a clever play in the final minute .
""".strip().splitlines()
STAGE = """
she had the leading part in a new play at the theatre .
the author wrote his first play when he was twenty .
the actors rehearsed the play for several weeks .
we went to London to see a play by Shakespeare .
the audience liked the second act of the play .
his play was performed on the stage in New York .
""".strip().splitlines()


def language_model(folder: Path) -> Model:
    vocabulary = Vocabulary.by_name("elmo_words")(words_file=str(folder / "vocab.txt"))
    files = {name: str(folder / file) for name, file in FILES.items()}
    params = {"type": "elmo_bilm", "softmax": {"type": "full"}, **files}
    return Model.from_params(Params(params), vocab=vocabulary).eval()


FILES = {"options_file": "options.json", "weight_file": "weights.hdf5"}


@torch.no_grad()
def perplexities(model: Model, text: str, passage: int) -> dict[str, float]:
    reader = DatasetReader.from_params(
        Params({"type": "elmo_bilm", "streams": 32, "shuffle_buffer": 0, "passage": passage})
    )
    model.get_metrics(reset=True)
    for instance in reader.read(text):
        batch = Batch([instance])
        batch.index_instances(model.vocab)
        model(**batch.as_tensor_dict())
    return model.get_metrics(reset=True)


def show(name: str, metrics: dict[str, float]) -> None:
    values = (f"{key.removeprefix('perplexity_')} {metrics[key]:.2f}" for key in DIRECTIONS)
    print(f"{name}: perplexity {', '.join(values)}", flush=True)


DIRECTIONS = ("perplexity_forward", "perplexity_backward")


def perplexity(arguments: argparse.Namespace) -> None:
    model = language_model(arguments.model)
    if arguments.initial_state:
        start = read_initial_state(arguments.initial_state, model.bilm.options)
        model.bilm.initial_state = lambda lanes: LstmState(
            *(part.unsqueeze(2).expand(-1, -1, lanes, -1) for part in start)
        )
    for text in arguments.texts:
        show(text, perplexities(model, text, arguments.passage))


def finetune(arguments: argparse.Namespace) -> None:
    before = perplexities(language_model(arguments.model), arguments.dev, arguments.passage)
    show(f"{arguments.dev}, before", before)
    config: dict[str, Any] = Params.from_file(
        str(bundled("training_configs/bilm_finetune.jsonnet")),
        {
            "train_data_path": arguments.train,
            "validation_data_path": arguments.dev,
            **{f"model.{name}": str(arguments.model / file) for name, file in FILES.items()},
            "vocabulary.words_file": str(arguments.model / "vocab.txt"),
            "dataset_reader.source": None,
            "validation_dataset_reader.source": None,
            "validation_dataset_reader.passage": arguments.passage,
        },
    ).as_dict(quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        train_model(Params(config), folder, force=True, file_friendly_logging=True)
        metrics = json.loads((Path(folder) / "metrics.json").read_text())
    after = {key: metrics[f"best_validation_{key}"] for key in DIRECTIONS}
    show(f"{arguments.dev}, after", after)
    for key in DIRECTIONS:
        print(f"{key}: {1 - after[key] / before[key]:.0%} lower")


def senses(arguments: argparse.Namespace) -> None:
    options_file, weight_file = (arguments.model / file for file in FILES.values())
    bilm = read_frozen_bilm(read_options(options_file), weight_file)
    sentences = [line.split() for line in (*SPORT, *STAGE)]
    # (layers, sentences, tokens, 2 projection_dim)
    layers = bilm.encode(padded_character_ids(sentences))
    places = torch.tensor([words.index("play") for words in sentences])
    vectors = torch.nn.functional.normalize(layers[:, torch.arange(len(sentences)), places], dim=-1)
    for layer, of_layer in enumerate(vectors):
        similar = of_layer @ of_layer.t()
        similar.fill_diagonal_(-2)
        best, nearest = similar.max(dim=1)
        same = sum((row < len(SPORT)) == (other < len(SPORT)) for row, other in enumerate(nearest.tolist()))
        print(f"\nlayer {layer}: the nearest has the same sense in {same} of {len(sentences)}")
        for row, other in enumerate(nearest.tolist()) if layer else ():
            print(f"  {best[row]:.3f}  {' '.join(sentences[row]):<62} {' '.join(sentences[other])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for command in (perplexity, finetune, senses):
        sub = commands.add_parser(command.__name__)
        sub.add_argument("--model", type=Path, default=bundled("pretrained/english"))
        sub.set_defaults(run=command)
        if command is not senses:
            sub.add_argument("--passage", type=int, default=64)
        if command is perplexity:
            sub.add_argument("texts", nargs="+")
            sub.add_argument("--initial-state", type=Path)
        if command is finetune:
            sub.add_argument("--train", required=True)
            sub.add_argument("--dev", required=True)
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    arguments.run(arguments)


if __name__ == "__main__":
    main()
