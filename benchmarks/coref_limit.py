"""
The average F1 of a coreference system that proposes no cluster of one mention, like `coref` and its peer, and
makes no mistake: it has every gold cluster of two mentions or more, and nothing else.
"""

import argparse
from pathlib import Path

from benchmarks.coref import Coref, average_f1
from benchmarks.results import Results, add_results_argument, show
from elmo_tasks.coref.reader import CorefReader

LIMIT = "limit"
"""The name of that system in the rows."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, help="folder or file of the documents")
    add_results_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    documents = list(CorefReader().read(arguments.data))
    gold = [document["metadata"].metadata.clusters for document in documents]
    proposed = [[cluster for cluster in clusters if len(cluster) > 1] for clusters in gold]
    results = Results("coref limit", arguments.csv)
    results.add(LIMIT, 0, Coref.metric, 100 * average_f1(proposed, documents))
    results.add(LIMIT, 0, "gold clusters", sum(map(len, gold)))
    results.add(LIMIT, 0, "gold clusters of two mentions or more", sum(map(len, proposed)))
    show(results.means())
