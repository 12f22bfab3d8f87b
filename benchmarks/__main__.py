"""
What the project measures of itself, beside its peers.

Each task has its arguments: `python -m benchmarks TASK --help`. What is measured is written as rows of one
CSV format (see `benchmarks/results.py`), and shown as tables.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from allennlp.common.checks import ConfigurationError

TASKS = {
    "paper": "all of docs/results.md, experiment by experiment, and the page",
    "ner": "NER beside crf_tagger: F1, time of an epoch",
    "srl": "semantic roles beside srl: F1, time of an epoch",
    "coref": "coreference beside coref: F1, time of an epoch, memory",
    "squad": "SQuAD beside bidaf: F1, time of an epoch, memory",
    "snli": "SNLI beside esim: accuracy, time of an epoch",
    "sst": "SST-5 beside bcn: accuracy, time of an epoch",
    "attention": "what words look at in SST-5, SNLI and SQuAD, before and after the training",
    "sst-linear": "what a linear classifier reads of SST-5 in the biLM's layers",
    "ensemble": "an ensemble of runs from several seeds beside its members",
    "classification": "ELMo of the training text, its mixes, Word2Vec and SVD on four data sets",
    "word-bilm": "word biLMs of depth 1 and 2: similarity, analogies, SST-2, MRPC, NER",
    "ag-news": "a biLM on AG News whose words begin as Word2Vec, and its sizes, one by one",
    "coref-limit": "coreference without a mistake but for clusters of one mention",
    "coref-memory": "memory and seconds of one long document",
    "elmo-speed": "the encoder beside AllenNLP's Elmo: speed, memory, largest difference",
    "manylangs-speed": "the biLM of ELMoForManyLangs beside its own package: speed, largest difference",
    "drop-in": "an old archive in AllenNLP and in our drop-in: time of the evaluation",
    "elmo-parity": "the encoder beside the original's reference outputs",
    "serve-load": "`allennlp elmo serve` under load: sentences/s, p50, p99",
    "bilm-speed": "training of a biLM beside AllenNLP's classes and torch.nn.LSTM",
    "bilm": "perplexity, fine-tuning and senses of a biLM",
    "bilm-log": "the log of the English biLM's training, and its curve",
    "bilm-sweep": "the English biLM with one thing changed at a time, at equal cost",
    "kneser-ney": "perplexity of a 5-gram model",
    "scale": "embed and predict on Ray: speed-up of workers, memory",
    "english-text": "makes the text of the English biLM",
}
"""What each does. It stands in the module of that name, with `add_arguments` and `run`."""


def main(words: Sequence[str]) -> None:
    """Runs `words`, a task and its arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    tasks = parser.add_subparsers(metavar="TASK", required=True)
    for name, help in TASKS.items():
        # Only the module that is asked for is imported: imports take memory, which some of them measure.
        module = import_module(f"benchmarks.{name.replace('-', '_')}") if name in words[:1] else None
        task = tasks.add_parser(
            name,
            help=help,
            description=module.__doc__ if module else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if module is not None:
            module.add_arguments(task)
            task.set_defaults(run=module.run)
    arguments = parser.parse_args(words)
    # Else the results drown in the log.
    os.environ.setdefault("ALLENNLP_LOG_LEVEL", "WARNING")
    logging.disable(logging.INFO)
    try:
        arguments.run(arguments)
    except ConfigurationError as error:
        sys.exit(f"error: {error.message}")


if __name__ == "__main__":
    main(sys.argv[1:])
