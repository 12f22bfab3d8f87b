"""Part-of-speech tagging by a linear classifier on frozen vectors (Peters et al. 2018, section 5.3)."""

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch

from elmo_tasks.evaluation.conllu import TaggedSentence
from elmo_tasks.evaluation.linear_classifier import LinearClassifier, VectorsOnDisk, fit
from elmo_tasks.progress import progress
from elmo_tasks.vectors.encoder import Encoder

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
