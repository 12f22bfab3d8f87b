"""
Words and their parts of speech from CoNLL-U (https://universaldependencies.org/format.html).

Multinomial logistic regression on vectors that are kept on disk, by scikit-learn.

Part-of-speech tagging by a linear classifier on frozen vectors (Peters et al. 2018, section 5.3).
"""

import logging
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from elmo_tasks.common.progress import progress
from elmo_tasks.data.columns import line_groups
from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.vectors.encoder import Encoder

# ==== evaluation.conllu
TAG_COLUMNS = {"upos": 3, "xpos": 4}
"""The universal tags, and those of the language."""

_COLUMNS = 10


class TaggedSentence(NamedTuple):
    words: list[str]
    tags: list[str]
    begins_document: bool = False


def read_conllu(path: str, *, column: str) -> list[TaggedSentence]:
    """
    The syntactic words of each sentence: neither multi-word tokens (`1-2`) nor empty nodes (`1.1`).

    # Parameters

    column : where the tags are, one of `TAG_COLUMNS`.

    # Raises
    `InputError`, with the file and, where it is one, the line: no sentence in a file, another number of
    columns, a word without a tag, and whatever reading raises.
    """
    return [sentence for file in input_files(path) for sentence in _read(file, column)]


def _read(file: Path, column: str) -> Iterator[TaggedSentence]:
    empty = True
    for lines in line_groups(read_lines(file)):
        begins = any(line.startswith("# newdoc") for _, line in lines)
        sentence = TaggedSentence([], [], begins)
        for number, line in lines:
            if not line.startswith("#"):
                _add_word(sentence, file, number, line.split("\t"), column)
        if sentence.words:
            empty = False
            yield sentence
    if empty:
        raise InputError.at(file, found="no sentence", expected="at least one")


def _add_word(sentence: TaggedSentence, file: Path, line: int, cells: list[str], column: str) -> None:
    if len(cells) != _COLUMNS:
        expected = f"{_COLUMNS}, separated by tabs"
        raise InputError.at(file, line, found=f"{len(cells)} columns", expected=expected)
    if cells[0].isdecimal():
        tag = cells[TAG_COLUMNS[column]]
        if tag in ("", "_"):
            raise InputError.at(file, line, found="a word without a tag", expected=f"a tag, {column}")
        sentence.words.append(cells[1])
        sentence.tags.append(tag)


# ==== evaluation.linear_classifier
L2 = 1e-5
"""The penalty is L2/2 ||W||^2, beside the mean negative log-likelihood, on standardised features."""
MAX_ITERATIONS = 200
TOLERANCE = 1e-4
"""The largest partial derivative at which the search ends."""


class VectorsOnDisk:
    """Vectors of one size, written one behind the other and then read. A context manager."""

    def __init__(self, path: Path, dim: int) -> None:
        self.dim = dim
        self._file = open(path, "w+b")  # noqa: SIM115  closed by __exit__

    def append(self, vectors: torch.Tensor) -> None:
        """*Shape:* `(vectors, dim)`."""
        self._file.write(np.ascontiguousarray(vectors.numpy()).data)

    def read(self) -> np.ndarray:
        """All vectors, in the order in which they were written. *Shape:* `(vectors, dim)`, float32."""
        self._file.seek(0)
        return np.fromfile(self._file, np.float32).reshape(-1, self.dim)

    def __enter__(self) -> "VectorsOnDisk":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class LinearClassifier:
    """
    Vectors to the class of the highest score.

    *Shape:* `weight` `(classes, dim)`, `bias` `(classes,)`.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(vectors, dim)` to `(vectors,)`."""
        return F.linear(vectors, self.weight, self.bias).argmax(dim=1)


def fit(vectors: VectorsOnDisk, classes: torch.Tensor, num_classes: int) -> LinearClassifier:
    """
    The minimum of the penalised negative log-likelihood, by L-BFGS from zero: no randomness, and nothing to
    tune. Each feature is first brought to mean 0 and deviation 1, so that all layers are treated alike.

    *Shape:* `classes` `(vectors,)`, from 0 to `num_classes - 1`, each of them at least once.
    """
    if num_classes == 1:
        return LinearClassifier(torch.zeros(1, vectors.dim), torch.zeros(1))
    # These imports take half a second.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    # In place: there is one copy of the vectors in memory.
    scaler = StandardScaler(copy=False)
    features = scaler.fit_transform(vectors.read())
    # scikit-learn has one row of weights for two classes, the difference of ours.
    penalty = L2 / 2 if num_classes == 2 else L2
    regression = LogisticRegression(C=1 / (penalty * len(classes)), tol=TOLERANCE, max_iter=MAX_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # MAX_ITERATIONS is an end like any other
        regression.fit(features, classes.numpy())
    weight, bias = regression.coef_, regression.intercept_
    if num_classes == 2:
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    weight = weight / scaler.scale_
    bias = bias - weight @ scaler.mean_
    return LinearClassifier(torch.from_numpy(weight).float(), torch.from_numpy(bias).float())


# ==== evaluation.tagging
logger = logging.getLogger(__name__)


def tagging_probe(
    encoder: Encoder, train: Sequence[TaggedSentence], dev: Sequence[TaggedSentence], folder: Path
) -> dict[str, int]:
    """
    How many tags of `dev` are right with each row: its classifier is trained on `train`, whose vectors are
    kept in `folder` for so long. A tag that `train` has not is never predicted; how many these are is logged.
    """
    tags = list(dict.fromkeys(tag for sentence in train for tag in sentence.tags))
    classes = {tag: number for number, tag in enumerate(tags)}
    unseen = sum(tag not in classes for sentence in dev for tag in sentence.tags)
    if unseen:
        logger.warning("%d words have a tag that is not in the training data: all count as wrong", unseen)
    classifiers = _train(encoder, train, classes, folder)
    correct = dict.fromkeys(encoder.names, 0)
    for sentence, vectors in encoder.encode_items(_bar(dev, "dev"), lambda sentence: sentence.words):
        # (tokens,)
        gold = torch.tensor([classes.get(tag, -1) for tag in sentence.tags])
        for name, row in zip(encoder.names, vectors, strict=True):
            correct[name] += int((classifiers[name](row) == gold).sum())
    return correct


def most_frequent_tag(train: Sequence[TaggedSentence], dev: Sequence[TaggedSentence]) -> int:
    """
    How many tags of `dev` are right if each word has its most frequent tag in `train`, and an unknown word
    the most frequent of all. Of equally frequent tags the one seen first is taken.
    """
    by_word: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            by_word[word][tag] += 1
    of_all = Counter(tag for sentence in train for tag in sentence.tags).most_common(1)[0][0]
    best = {word: tags.most_common(1)[0][0] for word, tags in by_word.items()}
    return sum(
        best.get(word, of_all) == tag
        for sentence in dev
        for word, tag in zip(sentence.words, sentence.tags, strict=True)
    )


def _train(
    encoder: Encoder, train: Sequence[TaggedSentence], classes: dict[str, int], folder: Path
) -> dict[str, LinearClassifier]:
    gold = torch.tensor([classes[tag] for sentence in train for tag in sentence.tags])
    with ExitStack() as stack:
        files = [
            stack.enter_context(VectorsOnDisk(folder / f"row {number}", encoder.dim))
            for number in range(len(encoder.names))
        ]
        for vectors in encoder.encode(sentence.words for sentence in _bar(train, "train")):
            for file, row in zip(files, vectors, strict=True):
                file.append(row)
        rows = progress(list(zip(encoder.names, files, strict=True)), work="training", unit="classifiers")
        return {name: fit(file, gold, len(classes)) for name, file in rows}


def _bar(sentences: Sequence[TaggedSentence], name: str) -> Sequence[TaggedSentence]:
    return progress(sentences, work=name, unit="sentences")
