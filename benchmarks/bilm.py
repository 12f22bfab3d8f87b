"""
How good a biLM is as a language model, and what its vectors tell apart.

`--model FOLDER` is a biLM with its softmax as `allennlp elmo export` writes it; by default the project's own
biLM. Texts have one tokenised sentence a line, plain or gzip.

`texts` writes the dev sets of DATA whose perplexities are reported, and the training text of some tasks.
`perplexity` prints the perplexity of each text, forward and backward, over all its sentences and their ends;
with `--words FILE` all classes that are not among these words are one, so that biLMs with vocabularies of
other sizes compare. The task kneser-ney with the folder's `vocab.txt` prints the perplexity of a 5-gram
model.

`--passage 1` starts every sentence from zeros, or from the state in FILE, of `allennlp elmo calibrate`.
`finetune` trains the biLM on TRAIN for one epoch, as `bilm_finetune.jsonnet` says, and prints the perplexity
of DEV before and after; a killed run resumes in the folder OUT. `senses` prints, for each of some sentences
with "play" in sport or on a stage, the sentence whose "play" is nearest, by the cosine of each layer.
"""

import argparse
import csv
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model

from benchmarks.bilms import PERPLEXITIES, finetuning
from benchmarks.comparison import best_metrics
from benchmarks.english import DEV_TEXTS, columns
from benchmarks.results import OURS, Results, add_results_argument, show
from elmo_tasks.commands.experiments import train_and_report
from elmo_tasks.common.files import bundled
from elmo_tasks.common.table import Table
from elmo_tasks.data.tokenization import tokenizer
from elmo_tasks.elmo import LstmState
from elmo_tasks.elmo.files import (
    OPTIONS,
    WEIGHTS,
    read_frozen_bilm,
    read_initial_state,
    read_options,
    read_words,
)
from elmo_tasks.elmo.model.characters import UNKNOWN
from elmo_tasks.elmo.model.folders import BiLmFolder
from elmo_tasks.language_model.callbacks import text_metrics
from elmo_tasks.language_model.model import words_by_class
from elmo_tasks.language_model.reader import BiLmReader

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


def bilm_files(folder: Path) -> dict[str, str]:
    """Returns the files of a biLM by their keys in a config."""
    files = BiLmFolder(folder)
    return {"options_file": str(files.file(OPTIONS)), "weight_file": str(files.file(*WEIGHTS))}


def language_model(folder: Path) -> Model:
    vocabulary = Vocabulary.by_name("elmo_words")(words_file=str(folder / "vocab.txt"))
    params = {"type": "elmo_bilm", "softmax": {"type": "full"}, **bilm_files(folder)}
    return Model.from_params(Params(params), vocab=vocabulary).eval()


def perplexities(model: Model, text: str, passage: int) -> dict[str, float]:
    reader = BiLmReader(streams=32, shuffle_buffer=0, passage=passage)
    return text_metrics(model, reader, text, torch.device("cpu"))


def add_perplexities(results: Results, case: str, metrics: dict[str, float]) -> None:
    for name in PERPLEXITIES:
        results.add(OURS, 0, f"{case}: {name}", metrics[name])


def over_words(model: Model, words: set[str]) -> None:
    """All classes that are not among the words become one, whose probability is the sum of theirs."""
    softmax, names = model.softmax, words_by_class(model.vocab)
    outside = torch.tensor([name == UNKNOWN or name not in words for name in names])
    exact_of_all = softmax.exact

    def exact(vectors: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores, best = exact_of_all(vectors, targets)
        for rows in outside[targets].nonzero().flatten().split(1024):
            logits = torch.addmm(softmax.bias, vectors[rows], softmax.weight.t())
            scores[rows] = logits[:, outside].logsumexp(1) - logits.logsumexp(1)
        return scores, best

    softmax.exact = exact


@torch.no_grad()
def perplexity(arguments: argparse.Namespace) -> None:
    results = Results("bilm perplexity", arguments.csv)
    model = language_model(arguments.model)
    if arguments.words:
        over_words(model, set(read_words(arguments.words)))
    if arguments.initial_state:
        start = read_initial_state(arguments.initial_state, model.bilm.options)
        model.bilm.initial_state = lambda batch: LstmState(
            *(part.unsqueeze(2).expand(-1, -1, batch, -1) for part in start)
        )
    for text in arguments.texts:
        add_perplexities(results, text, perplexities(model, text, arguments.passage))
    show(results.means())


def texts(arguments: argparse.Namespace) -> None:
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, (pattern, read) in TEXTS.items():
        (path,) = arguments.data.glob(pattern)
        lines = [" ".join(words) for words in read(path)]
        (arguments.output / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def novels(path: Path) -> Iterable[Iterable[str]]:
    """Their first 5,000 sentences."""
    return islice(DEV_TEXTS["lm_litbank/heldout*"](path), 5000)


def descriptions(path: Path) -> Iterator[list[str]]:
    """Yields the descriptions of the news, tokenised by spaCy's blank English, one a line."""
    split = tokenizer()
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            yield split(row[2]).words


TEXTS: dict[str, tuple[str, Callable[[Path], Iterable[Iterable[str]]]]] = {
    "ewt": ("ud_ewt/*dev.conllu", DEV_TEXTS["ud_ewt/*dev.conllu"]),
    "novels": ("lm_litbank/heldout*", novels),
    "agnews": ("ag_news/dev*", descriptions),
    "squad": ("squad/dev*", DEV_TEXTS["squad/dev*"]),
    "sst": ("sst5/dev*", DEV_TEXTS["sst5/dev*"]),
    "sst-train": ("sst5/train*", DEV_TEXTS["sst5/dev*"]),
    "wnut": ("ner/wnut17/dev*", columns),
    "wnut-train": ("ner/wnut17/train*", columns),
}


def finetune(arguments: argparse.Namespace) -> None:
    results = Results("bilm finetune", arguments.csv)
    before = perplexities(language_model(arguments.model), arguments.dev, arguments.passage)
    options_file, weight_file = bilm_files(arguments.model).values()
    overrides = {
        "train_data_path": arguments.train,
        "validation_data_path": arguments.dev,
        "dataset_reader.source": None,
        "validation_dataset_reader.source": None,
        "validation_dataset_reader.passage": arguments.passage,
    }
    tuned = finetuning((options_file, weight_file), overrides, arguments.output / "finetuned")
    train_and_report([tuned], jobs=1, packages=[])
    after = best_metrics(tuned)
    for name, values in (("before", before), ("after", after)):
        add_perplexities(results, name, values)
    for key in PERPLEXITIES:
        results.add(OURS, 0, f"part that is gone: {key}", 1 - after[key] / before[key])
    show(results.means())


def senses(arguments: argparse.Namespace) -> None:
    results = Results("bilm senses", arguments.csv)
    options_file, weight_file = bilm_files(arguments.model).values()
    bilm = read_frozen_bilm(read_options(options_file), weight_file)
    sentences = [line.split() for line in (*SPORT, *STAGE)]
    # (layers, sentences, tokens, 2 projection_dim)
    layers = bilm.encode(bilm.padded_ids(sentences))
    indices = torch.tensor([words.index("play") for words in sentences])
    vectors = torch.nn.functional.normalize(layers[:, torch.arange(len(sentences)), indices], dim=-1)
    pairs = Table(("layer", "cosine", "sentence", "nearest"))
    for layer, of_layer in enumerate(vectors):
        similar = of_layer @ of_layer.t()
        similar.fill_diagonal_(-2)
        best, nearest = similar.max(dim=1)
        same = sum((row < len(SPORT)) == (other < len(SPORT)) for row, other in enumerate(nearest.tolist()))
        results.add(OURS, 0, f"layer {layer}: nearest of the same sense, of {len(sentences)}", same)
        for row, other in enumerate(nearest.tolist()) if layer else ():
            pairs.add(layer, round(best[row].item(), 3), " ".join(sentences[row]), " ".join(sentences[other]))
    show(pairs, results.means())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(required=True)
    sub = verbs.add_parser("texts")
    sub.add_argument("data", type=Path)
    sub.add_argument("output", type=Path)
    sub.set_defaults(verb=texts)
    for verb in (perplexity, finetune, senses):
        sub = verbs.add_parser(verb.__name__)
        sub.add_argument("--model", type=Path, default=bundled("pretrained/english"))
        sub.set_defaults(verb=verb)
        add_results_argument(sub)
        if verb is not senses:
            sub.add_argument("--passage", type=int, default=64)
        if verb is perplexity:
            sub.add_argument("texts", nargs="+")
            sub.add_argument("--initial-state", type=Path)
            sub.add_argument("--words", type=Path)
        if verb is finetune:
            sub.add_argument("output", type=Path)
            sub.add_argument("--train", required=True)
            sub.add_argument("--dev", required=True)


def run(arguments: argparse.Namespace) -> None:
    arguments.verb(arguments)
