"""
How much of SST-5 the layers of the biLM encode: the accuracy of a linear classifier on the mean
vector of each dev sentence.

The folder holds the trees `train.*` and `dev.*`. The classifier is a logistic regression, its L2 penalty the
best of five on five parts of the training sentences. `--limit` evenly spaced trees are for training, 0
for all.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.comparison import equally_spaced
from benchmarks.results import OURS, Results, add_results_argument, show
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, DEFAULT_WEIGHTS
from elmo_tasks.embedding.embedder import AVERAGE, ElmoEmbedder, chosen_layer
from elmo_tasks.sst.reader import SstReader


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path)
    parser.add_argument("--limit", type=int, nargs="+", default=[2000, 0], help="training trees")
    parser.add_argument("--options-file", default=DEFAULT_OPTIONS)
    parser.add_argument("--weight-file", default=DEFAULT_WEIGHTS)
    add_results_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    results = Results("sst linear", arguments.csv)
    (train, labels), (dev, gold) = (sentences(arguments.data, name) for name in ("train", "dev"))
    embedder = ElmoEmbedder(arguments.options_file, arguments.weight_file)
    of_train, of_dev = mean_vectors(embedder, train), mean_vectors(embedder, dev)
    for layer in of_train:
        for limit in arguments.limit:
            chosen = equally_spaced(list(range(len(train))), limit)
            regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
            classifier = GridSearchCV(regression, {"logisticregression__C": np.logspace(-5, -1, 5)}, cv=5)
            classifier.fit(of_train[layer][chosen], labels[chosen])
            metric = f"accuracy with {len(chosen):,} trees"
            results.add(f"{OURS}, layer {layer}", 0, metric, 100 * classifier.score(of_dev[layer], gold))
    show(results.grid(results.metrics()))


def mean_vectors(embedder: ElmoEmbedder, sentences: list[list[str]]) -> dict[int | str, np.ndarray]:
    """*Shape:* of each layer and of their average, `(sentences, dim)`."""
    layers: list[int | str] = [*range(embedder.num_layers), AVERAGE]
    # (layers + 1, dim) of each sentence
    means = [
        [chosen_layer(vectors, layer).mean(axis=0) for layer in layers]
        for vectors in embedder.embed_sentences(sentences)
    ]
    return dict(zip(layers, np.stack(means, axis=1), strict=True))


def sentences(folder: Path, name: str) -> tuple[list[list[str]], np.ndarray]:
    """The words of each, and its class."""
    (path,) = folder.glob(f"{name}*")
    instances = list(SstReader(token_indexers={}).read(path))
    words = [instance["metadata"].metadata.words for instance in instances]
    return words, np.array([instance["label"].label for instance in instances])
