"""
Part-of-speech tagging by a linear classifier on frozen vectors (Peters et al. 2018, section 5.3).

Data are CoNLL-U (https://universaldependencies.org/format.html), or a word and its tag a line.
"""

import logging
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from elmo_tasks.common.progress import progress
from elmo_tasks.data.formats.columns import FORM, UPOS, XPOS, ColumnLayout, is_conllu, read_conllu
from elmo_tasks.data.input_files import InputError, check_found, input_files, read_lines
from elmo_tasks.vectors.encoder import VectorEncoder

logger = logging.getLogger(__name__)

TAG_COLUMNS = {"upos": UPOS, "xpos": XPOS}
L2 = 1e-5
"""The penalty L2/2 ||W||^2 is added to the mean negative log-likelihood, on standardised features."""
MAX_ITERATIONS = 200
TOLERANCE = 1e-4
"""The search ends when no partial derivative is larger."""


class TaggedSentence(NamedTuple):
    """Words and their tags."""

    words: list[str]
    tags: list[str]


def read_tagged(path: str, *, column: str) -> list[TaggedSentence]:
    """
    Reads tagged sentences, with an empty line between them: CoNLL-U, of which it reads the syntactic words,
    without multi-word tokens (`1-2`) and empty nodes (`1.1`), and the tags in a `column`, one of
    `TAG_COLUMNS`; or two columns, a word and its tag. For all else there is an `InputError`, with the file
    and the line.
    """
    return [sentence for file in input_files(path) for sentence in _read_tagged_file(file, column)]


def _read_tagged_file(file: Path, column: str) -> Iterator[TaggedSentence]:
    if is_conllu(line for _, line in read_lines(file)):
        for words, _ in read_conllu(file):
            rows = [(line, cells[FORM], cells[TAG_COLUMNS[column]]) for line, cells in words]
            yield _tagged_sentence(file, rows, column)
        return
    layout = ColumnLayout(["word", "tag"], None, needed=["word", "tag"])
    has_sentences = False
    for lines in layout.sentences(file):
        has_sentences = True
        cells = ((line_number, layout.row(file, line_number, line)) for line_number, line in lines)
        yield _tagged_sentence(file, [(line_number, word, tag) for line_number, (word, tag) in cells], column)
    check_found(has_sentences, "sentences", file)


def _tagged_sentence(file: Path, rows: list[tuple[int, str, str]], column: str) -> TaggedSentence:
    for line, word, tag in rows:
        if tag in ("", "_") or not word:
            raise InputError(f"the word {word!r} has no tag ({column})", where=file, line=line)
    return TaggedSentence([word for _, word, _ in rows], [tag for *_, tag in rows])


def most_frequent_tag(train: Sequence[TaggedSentence], dev: Sequence[TaggedSentence]) -> int:
    """
    Counts the correct tags in `dev` if each word has its most frequent tag in `train`, and an unknown word
    the most frequent of all tags; if two are equally frequent, the one seen first.
    """
    by_word: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            by_word[word][tag] += 1
    most_frequent = Counter(tag for sentence in train for tag in sentence.tags).most_common(1)[0][0]
    best = {word: tags.most_common(1)[0][0] for word, tags in by_word.items()}
    return sum(
        best.get(word, most_frequent) == tag
        for sentence in dev
        for word, tag in zip(sentence.words, sentence.tags, strict=True)
    )


def tagging_probe(
    encoder: VectorEncoder, train: Sequence[TaggedSentence], dev: Sequence[TaggedSentence], folder: Path
) -> dict[str, int]:
    """
    Trains a classifier for each row, and counts the tags of `dev` that it predicts correctly. Tags that are
    not in `train` are never predicted; the log counts them. The vectors of `train` are stored in `folder`,
    which the caller removes.
    """
    tags = list(dict.fromkeys(tag for sentence in train for tag in sentence.tags))
    classes = {tag: index for index, tag in enumerate(tags)}
    unseen = sum(tag not in classes for sentence in dev for tag in sentence.tags)
    if unseen:
        logger.warning("%d words have a tag that is not in the training data: all count as wrong", unseen)
    classifiers = _train_classifiers(encoder, train, classes, folder)
    correct = dict.fromkeys(encoder.names, 0)
    for sentence, vectors in encoder.encode_items(_sentence_bar(dev, "dev"), lambda sentence: sentence.words):
        # (tokens,)
        gold = torch.tensor([classes.get(tag, -1) for tag in sentence.tags])
        for name, row in zip(encoder.names, vectors, strict=True):
            correct[name] += int((classifiers[name](row) == gold).sum())
    return correct


def _train_classifiers(
    encoder: VectorEncoder, train: Sequence[TaggedSentence], classes: Mapping[str, int], folder: Path
) -> dict[str, "LinearClassifier"]:
    gold = np.array([classes[tag] for sentence in train for tag in sentence.tags])
    with ExitStack() as stack:
        # The vectors of each row go to a file: together they may not fit into memory.
        files = [stack.enter_context(open(folder / f"row {row}", "w+b")) for row in range(len(encoder.names))]
        for vectors in encoder.encode(sentence.words for sentence in _sentence_bar(train, "train")):
            for file, row in zip(files, vectors, strict=True):
                file.write(np.ascontiguousarray(row.numpy()).data)
        classifiers = {}
        rows = progress(list(zip(encoder.names, files, strict=True)), work="training", unit="classifiers")
        for name, file in rows:
            file.seek(0)
            features = np.fromfile(file, np.float32).reshape(-1, encoder.dim)
            classifiers[name] = fit(features, gold, len(classes))
        return classifiers


def _sentence_bar(sentences: Sequence[TaggedSentence], work: str) -> Sequence[TaggedSentence]:
    return progress(sentences, work=work, unit="sentences")


class LinearClassifier(NamedTuple):
    """A linear classifier. *Shape:* `weight` `(classes, dim)`, `bias` `(classes,)`."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(vectors, dim)` to `(vectors,)`."""
        return F.linear(vectors, self.weight, self.bias).argmax(dim=1)


def fit(features: np.ndarray, classes: np.ndarray, num_classes: int) -> LinearClassifier:
    """
    Finds the minimum of the penalised negative log-likelihood by L-BFGS, starting from zero: there is neither
    randomness nor anything to tune. Each feature is first scaled to mean 0 and deviation 1, so that all
    layers are treated the same way; to save memory, this overwrites `features`.

    *Shape:* `features` `(vectors, dim)`, float32; `classes` `(vectors,)`, from 0 to `num_classes - 1`, each
    at least once.
    """
    if num_classes == 1:
        return LinearClassifier(torch.zeros(1, features.shape[1]), torch.zeros(1))
    # These imports take half a second.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(copy=False)
    features = scaler.fit_transform(features)
    # For two classes scikit-learn has one row of weights, the difference of ours.
    penalty = L2 / 2 if num_classes == 2 else L2
    regression = LogisticRegression(C=1 / (penalty * len(classes)), tol=TOLERANCE, max_iter=MAX_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # MAX_ITERATIONS may be reached
        regression.fit(features, classes)
    weight, bias = regression.coef_, regression.intercept_
    if num_classes == 2:
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    weight = weight / scaler.scale_
    bias = bias - weight @ scaler.mean_
    return LinearClassifier(torch.from_numpy(weight).float(), torch.from_numpy(bias).float())
