"""
Classifiers of some hundred or thousand texts: `allennlp elmo classify`, its linear model and its network,
beside what people take instead, logistic regression on `ElmoVectorizer` and on TF-IDF of words and pairs of
words. Accuracy on the dev data, which no system sees before, and seconds of the processor.

DATA holds `sst2/` and `ag_news/`, each with `train` and `dev`. Each seed draws its own sample of the training
texts. `classify` is a process of its own, whose seconds include its start. The regressions choose the
strength of their penalty by five folds.
"""

import argparse
import csv
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.results import Results, show
from elmo_tasks.libraries.vectorizer import ElmoVectorizer

Rows = list[tuple[str, str]]
"""Texts and their classes."""
NETWORK = "the network of classify --network"
CLASSIFY: dict[str, list[str]] = {
    "classify": [],
    "classify without the sentence encoder": ["--overrides", '{"trainer.sentence_encoder": null}'],
    NETWORK: ["--network"],
}


def sst2(data: Path, part: str) -> Rows:
    with open(data / "sst2" / f"{part}.tsv", encoding="utf-8", newline="") as file:
        table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row["sentence"], row["label"]) for row in table]


def ag_news(data: Path, part: str) -> Rows:
    with open(data / "ag_news" / f"{part}.csv", encoding="utf-8", newline="") as file:
        return [(row[-1], row[0]) for row in csv.reader(file)]


SETS = {function.__name__: function for function in (sst2, ag_news)}


def regression() -> GridSearchCV:
    return GridSearchCV(
        LogisticRegression(max_iter=1000), {"C": np.logspace(-4, 3, 8)}, cv=5, scoring="neg_log_loss"
    )


REGRESSIONS: dict[str, Callable[[], Pipeline]] = {
    "ElmoVectorizer and regression": lambda: make_pipeline(ElmoVectorizer(), StandardScaler(), regression()),
    "TF-IDF and regression": lambda: make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), regression()
    ),
}


def write(path: Path, rows: Rows) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return path


def classified(folder: Path, train: Rows, test: Rows, system: str) -> tuple[float, float]:
    """Returns the accuracy of a model of `classify`, and the command's seconds of the processor."""
    folder.mkdir(parents=True, exist_ok=True)
    files = write(folder / "train.csv", train), write(folder / "test.csv", test)
    run, scores = folder / "run", folder / "scores.json"
    program = [sys.executable, "-m", "allennlp"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [*program, "elmo", "classify", files[0], "-o", run, "--force", *CLASSIFY[system]]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    archive = (run / "network" if system == NETWORK else run) / "model.tar.gz"
    command = [*program, "evaluate", archive, files[1], "--output-file", scores]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(scores.read_text())["accuracy"], seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, help="folder of the data")
    parser.add_argument("output", type=Path, help="folder of the runs and results; a killed command resumes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[13, 14, 15, 16, 17])
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 2000], help="training texts")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    systems = [*CLASSIFY, *REGRESSIONS]
    parser.add_argument("--systems", nargs="+", choices=systems, default=systems)


def run(arguments: argparse.Namespace) -> None:
    arguments.output.mkdir(parents=True, exist_ok=True)
    results = Results("small sets", arguments.output / "results.csv", keep=True)
    for name in arguments.sets:
        train, test = (SETS[name](arguments.data, part) for part in ("train", "dev"))
        for size in arguments.sizes:
            metric = f"{name}, {size:,} texts"
            for seed in arguments.seeds:
                sample = random.Random(seed).sample(train, size)
                for system in arguments.systems:
                    if seed in results.values(system, metric):
                        continue
                    if system in CLASSIFY:
                        folder = arguments.output / name / f"{size}-{seed}"
                        accuracy, seconds = classified(folder, sample, test, system)
                    else:
                        start = time.process_time()
                        pipeline = REGRESSIONS[system]().fit(*zip(*sample, strict=True))
                        seconds = time.process_time() - start
                        texts, gold = zip(*test, strict=True)
                        accuracy = float(np.mean(pipeline.predict(texts) == np.array(gold)))
                    results.add(system, seed, metric, 100 * accuracy, seconds)
                    results.add(system, seed, f"{metric}, seconds", seconds)
    names = results.metrics()
    show(results.grid([each for each in names if not each.endswith("seconds")]))
    show(results.grid([each for each in names if each.endswith("seconds")]))
