"""
What the layers of the biLM know of SST-5 by themselves: the accuracy of a linear classifier on the mean
vector of each dev sentence.

The folder holds the trees `train.*` and `dev.*`. The classifier is a logistic regression, its L2 penalty the
best of five on five parts of the training sentences. `--limit` trees at like distances are for training, 0
for all.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.quality import equally_spaced
from benchmarks.results import OURS, Results, add_results_argument, show
from elmo_tasks.elmo.sources import DEFAULT_OPTIONS, DEFAULT_WEIGHTS
from elmo_tasks.libraries.shared import AVERAGE
from elmo_tasks.libraries.vectorizer import ElmoVectorizer
from elmo_tasks.sst import SstReader

LAYERS = (0, 1, 2, AVERAGE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path)
    parser.add_argument("--limit", type=int, nargs="+", default=[2000, 0], help="training trees")
    parser.add_argument("--options-file", default=DEFAULT_OPTIONS)
    parser.add_argument("--weight-file", default=DEFAULT_WEIGHTS)
    add_results_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    results = Results("sst linear", arguments.csv)
    (train, labels), (dev, gold) = (sentences(arguments.data, name) for name in ("train", "dev"))
    for layer in LAYERS:
        vectorizer = ElmoVectorizer(
            options_file=arguments.options_file, weight_file=arguments.weight_file, layer=layer
        )
        of_train, of_dev = vectorizer.transform(train), vectorizer.transform(dev)
        for limit in arguments.limit:
            chosen = equally_spaced(list(range(len(train))), limit)
            regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
            classifier = GridSearchCV(regression, {"logisticregression__C": np.logspace(-5, -1, 5)}, cv=5)
            classifier.fit(of_train[chosen], labels[chosen])
            metric = f"accuracy with {len(chosen):,} trees"
            results.add(f"{OURS}, layer {layer}", 0, metric, 100 * classifier.score(of_dev, gold))
    show(results.grid(results.metrics()))


def sentences(folder: Path, name: str) -> tuple[list[list[str]], np.ndarray]:
    """The words of each, and its class."""
    (path,) = folder.glob(f"{name}*")
    instances = list(SstReader(token_indexers={}).read(path))
    words = [instance["metadata"].metadata.words for instance in instances]
    return words, np.array([instance["label"].label for instance in instances])
