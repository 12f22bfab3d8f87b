"""
Measurements of the project and its peers.

Each task has its arguments: `python -m benchmarks TASK --help`. It writes rows of one CSV format (see
`benchmarks/results.py`), and prints them as tables.
"""

import argparse
import inspect
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.errors import ElmoError

TASKS = {
    "paper": ("paper", "all of docs/results, experiment by experiment, and the pages"),
    "ner": ("peers:Ner", "NER compared with crf_tagger: F1, time of an epoch"),
    "srl": ("peers:Srl", "semantic roles compared with srl: F1, time of an epoch"),
    "coref": ("peers:Coref", "coreference compared with coref: F1, time of an epoch, memory"),
    "squad": ("peers:Squad", "SQuAD compared with bidaf: F1, time of an epoch, memory"),
    "snli": ("peers:Snli", "SNLI compared with esim: accuracy, time of an epoch"),
    "sst": ("peers:Sst", "SST-5 compared with bcn: accuracy, time of an epoch"),
    "attention": ("attention", "what words look at in SST-5, SNLI and SQuAD, before and after the training"),
    "sst-linear": ("sst_linear", "what a linear classifier reads of SST-5 in the biLM's layers"),
    "ensemble": (
        "comparison:EnsembleOfRuns",
        "an ensemble of runs from several seeds compared with its members",
    ),
    "classification": (
        "classification",
        "ELMo of the training text, its mixes, Word2Vec and SVD on four data sets",
    ),
    "small-sets": ("small_sets", "`classify` and logistic regressions with 500 and 2,000 training texts"),
    "word-bilm": ("word_bilm", "word biLMs of depth 1 and 2: similarity, analogies, SST-2, MRPC, NER"),
    "ag-news": ("ag_news", "a biLM on AG News whose words begin as Word2Vec, and its sizes, one by one"),
    "gap": ("gap", "the pronouns of GAP: F1 of masculine and of feminine ones"),
    "coref-limit": ("coref:CorefLimit", "coreference without mistakes, except clusters of one mention"),
    "coref-memory": ("coref:CorefMemory", "memory and seconds of one long document"),
    "elmo-speed": (
        "elmo_speed:ElmoSpeed",
        "the encoder compared with AllenNLP's Elmo: speed, memory, largest difference",
    ),
    "embed-speed": (
        "embed_speed",
        "`allennlp elmo embed` compared with a loop over AllenNLP's Elmo, start to end",
    ),
    "manylangs-speed": (
        "manylangs_speed",
        "the biLM of ELMoForManyLangs compared with its own package: speed, largest difference",
    ),
    "drop-in": ("drop_in", "an old archive in AllenNLP and in our drop-in: time of the evaluation"),
    "elmo-parity": ("elmo_parity", "the encoder compared with the original's reference outputs"),
    "serve-load": ("serve_load", "`allennlp elmo serve` under load: sentences/s, p50, p99"),
    "bilm-speed": (
        "bilm_speed:BiLmSpeed",
        "training of a biLM compared with AllenNLP's classes and torch.nn.LSTM",
    ),
    "bilm": ("bilm", "perplexity, fine-tuning and senses of a biLM"),
    "bilm-log": ("english_training:TrainingLog", "the log of the English biLM's training, and its curve"),
    "bilm-sweep": (
        "english_training:Sweep",
        "the English biLM with one thing changed at a time, at equal cost",
    ),
    "kneser-ney": ("kneser_ney", "perplexity of a 5-gram model"),
    "scale": ("scale", "embed and predict on Ray: speed-up of workers, memory"),
    "onnx-speed": ("onnx_speed", "exported models and their archives: speed, start, memory, size"),
    "zoo": ("zoo:Zoo", "trains the archives that come with the project"),
    "zoo-speed": ("zoo:ZooSpeed", "predict and evaluate of the archives that come: where the time goes"),
    "english-text": ("english:EnglishText", "makes the text of the English biLM"),
    "english-mix": ("english:MixedText", "that text in one file, its passages in random order"),
}
"""Each task: its module below `benchmarks`, its class if the module holds several, and a line of help."""


class Task(Protocol):
    """A module, or an object of a class, that measures something. Its docstring is the task's description."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> None: ...


def load_task(name: str) -> Task:
    """Imports the module of a task and returns what runs it."""
    module_name, _, class_name = TASKS[name][0].partition(":")
    module = import_module(f"benchmarks.{module_name}")
    task: Task = getattr(module, class_name)() if class_name else module
    return task


def main(words: Sequence[str]) -> None:
    """Runs `words`, a task and its arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    tasks = parser.add_subparsers(metavar="TASK", required=True)
    for name, (_, help) in TASKS.items():
        # Only the module that is asked for is imported: imports take memory, which some of them measure.
        task = load_task(name) if name in words[:1] else None
        subparser = tasks.add_parser(
            name,
            help=help,
            description=inspect.getdoc(task) if task else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if task is not None:
            task.add_arguments(subparser)
            subparser.set_defaults(run=task.run)
    arguments = parser.parse_args(words)
    # Else the log would hide the results.
    os.environ.setdefault("ALLENNLP_LOG_LEVEL", "WARNING")
    logging.disable(logging.INFO)
    try:
        arguments.run(arguments)
    except (ConfigurationError, ElmoError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
