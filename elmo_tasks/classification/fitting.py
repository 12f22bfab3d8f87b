"""
Logistic regression on the vectors and the n-grams of texts, by scikit-learn.

The n-grams of a kind have the norm 1 in each text. The parts of a vector are standardized, and scaled so that
theirs is some `NORMS`: features with a smaller norm need larger weights, which the L2 penalty keeps down.
"""

import logging
import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
from allennlp.common.checks import ConfigurationError
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, precision_recall_curve
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from elmo_tasks.classification.ngrams import KINDS, SUBLINEAR, joined

logger = logging.getLogger(__name__)

ClassWeight = Literal["balanced"] | dict[str, float] | None
STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""The values of C, the inverse of the strength of the L2 penalty, from the strongest penalty on."""
CURVE = (25, 50)
"""The shares of the texts, in percent, whose models show what more texts bring."""
NORMS = {"words": 0.5, "label_scores": 0.7, "static": 0.7}
"""Of the mean of ELMo's vectors, of the scores of an encoder's labels, and of the mean of static vectors."""
FEWEST = 10
"""Of fewer texts, the best threshold may be near 0, and give the class to nearly all texts."""
_TEXTS_A_TERM = 5000
"""A term has to occur in one text of as many."""
_NEVER = -100.0
"""The bias of a class without texts."""


@dataclass(frozen=True)
class Texts:
    """The features of texts or pairs, before they are scaled."""

    vectors: np.ndarray
    """*Shape:* `(texts, dim)`."""
    factors: np.ndarray
    """Of the standardized features, for the norms. *Shape:* `(dim,)`."""
    terms: list[list[str]]
    """For each kind of n-grams."""
    counts: list[list[sparse.csr_array]]
    """
    For each kind, the counts in the texts; of pairs, in the first and in the second texts. *Shape:* `(texts,
    terms)`.
    """

    @classmethod
    def count(
        cls, vectors: np.ndarray, blocks: Sequence[tuple[str, int]], sides: Sequence[list[str]]
    ) -> "Texts":
        """
        Counts the n-grams of texts, or of pairs. `blocks` are the parts of a vector, each one of the `NORMS`,
        and their sizes; a name may come several times.
        """
        terms, counts = [], []
        # Of some thousand texts, even terms that occur once help.
        fewest = max(1, len(vectors) // _TEXTS_A_TERM)
        for settings in KINDS.values():
            counter = CountVectorizer(**settings, min_df=fewest).fit(chain(*sides))
            terms.append(list(counter.get_feature_names_out()))
            counts.append([sparse.csr_array(counter.transform(side)) for side in sides])
        copies = Counter(name for name, _ in blocks)
        norms = [np.full(size, NORMS[name] / (copies[name] * size) ** 0.5) for name, size in blocks if size]
        # Standardized in double precision
        return cls(vectors.astype(np.float64), np.concatenate(norms), terms, counts)

    def __getitem__(self, rows: np.ndarray) -> "Texts":
        counts = [[side[rows] for side in kind] for kind in self.counts]
        return replace(self, vectors=self.vectors[rows], counts=counts)


class Scaling:
    """Scales features by the means, deviations and document frequencies of the texts that it is given."""

    def __init__(self, texts: Texts) -> None:
        self.standard = StandardScaler().fit(texts.vectors)
        stacked = [sparse.vstack(sides, format="csr") for sides in texts.counts]
        # Terms that these texts lack are unknown.
        self.known = [np.flatnonzero(counts.sum(axis=0)) for counts in stacked]
        self.tfidf = [
            TfidfTransformer(**SUBLINEAR).fit(counts[:, known])
            for counts, known in zip(stacked, self.known, strict=True)
        ]

    def __call__(self, texts: Texts) -> sparse.csr_array:
        """*Shape:* `(texts, features)`, the vectors first."""
        parts = [sparse.csr_array(self.standard.transform(texts.vectors) * texts.factors)]
        for sides, known, tfidf in zip(texts.counts, self.known, self.tfidf, strict=True):
            parts.append(joined(*(sparse.csr_array(tfidf.transform(side[:, known])) for side in sides)))
        return sparse.hstack(parts, format="csr")


class CrossValidation(NamedTuple):
    """The best strength of the penalty, and the predictions for each text by the model of the other folds."""

    C: float
    loss: float
    probabilities: np.ndarray
    """*Shape:* `(texts, classes)`."""
    folds: list[np.ndarray]
    """The texts of each fold."""
    curve: dict[int, np.ndarray]
    """The same probabilities by models of a share of the other texts, in percent."""


def cross_validate(
    texts: Texts,
    labels: np.ndarray,
    classes: list[str],
    copies: Sequence[Hashable],
    *,
    folds: int,
    seed: int,
    weight: ClassWeight,
) -> CrossValidation:
    """
    Tries weaker penalties until the log loss on the folds no longer falls. Texts whose `copies` are equal
    are in one fold. Data that cannot be divided into folds are a `ConfigurationError`. *Shape:* `labels`
    `(texts,)`, some of the `classes`; or, for texts with several labels, `(texts, classes)`, of 0 and 1, with
    a regression for each class.
    """
    numbers = {copy: number for number, copy in enumerate(dict.fromkeys(copies))}
    of_texts = np.array([numbers[copy] for copy in copies])
    # Folds are drawn of the first copies.
    different = labels[np.unique(of_texts, return_index=True)[1]]
    if labels.ndim == 1:
        divisions = _divisions(different, of_texts, folds, seed)
        counts = Counter(different.tolist())
        if any(len(np.unique(labels[trained])) < 2 for trained, _ in divisions):
            problem = f"the class {min(counts, key=counts.__getitem__)!r} has too few different texts"
            raise ConfigurationError(f"{problem}, from which nothing can be learned")
    else:
        divisions = _divisions(_rarest(different), of_texts, folds, seed)
        counts = Counter(dict(zip(classes, different.sum(axis=0).tolist(), strict=True)))
    if rare := [repr(name) for name in classes if 0 < counts[name] < len(divisions)]:
        few = "fewer than %d texts, so that some folds lack the class: %s"
        logger.warning(few, len(divisions), ", ".join(rare))
    fits = [_Fit(texts, labels, *division, weight) for division in divisions]
    best = CrossValidation(0.0, np.inf, np.empty(0), [held_out for _, held_out in divisions], {})
    for strength in STRENGTHS:
        probabilities = _out_of_fold(fits, strength, classes)
        loss = _loss(labels, probabilities, classes, weight)
        if loss >= best.loss:
            break
        best = best._replace(C=strength, loss=loss, probabilities=probabilities)
    for share in CURVE:
        fits = [_Fit(texts, labels, *division, weight, share=share) for division in divisions]
        if all(len(np.unique(fit.labels)) > 1 for fit in fits):
            best.curve[share] = _out_of_fold(fits, best.C, classes)
    return best


def _loss(labels: np.ndarray, probabilities: np.ndarray, classes: list[str], weight: ClassWeight) -> float:
    if labels.ndim == 2:
        return float(log_loss(labels.ravel(), probabilities.ravel(), labels=[0, 1]))
    names = np.unique(labels)
    found = probabilities[:, list(map(classes.index, names))]
    return float(log_loss(labels, found, labels=names, sample_weight=compute_sample_weight(weight, labels)))


def best_thresholds(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """
    Returns the threshold of each class with the best F1, in the middle between two probabilities; .5 for a
    class with fewer than `FEWEST` texts. *Shape:* both `(texts, classes)`, to `(classes,)`.
    """
    thresholds = np.full(labels.shape[1], 0.5)
    for index, (true, scores) in enumerate(zip(labels.T, probabilities.T, strict=True)):
        if true.sum() >= FEWEST:
            precision, recall, bounds = precision_recall_curve(true, scores)
            f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
            best = f1[:-1].argmax()
            thresholds[index] = np.append(0.0, bounds)[best : best + 2].mean()
    return thresholds


def labels_of_folds(labels: np.ndarray, probabilities: np.ndarray, folds: list[np.ndarray]) -> np.ndarray:
    """Returns the labels by thresholds that the other folds have chosen. *Shape:* all `(texts, classes)`."""
    predicted = np.zeros_like(labels)
    for fold in folds:
        others = np.setdiff1d(np.arange(len(labels)), fold)
        predicted[fold] = probabilities[fold] >= best_thresholds(labels[others], probabilities[others])
    return predicted


def _rarest(labels: np.ndarray) -> np.ndarray:
    """Returns the rarest class of each text, -1 for none. *Shape:* `(texts, classes)` to `(texts,)`."""
    counts = np.where(labels, labels.sum(axis=0), len(labels) + 1)
    return np.where(labels.any(axis=1), counts.argmin(axis=1), -1)


def _divisions(
    strata: np.ndarray, of_texts: np.ndarray, folds: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """
    Returns the texts to train on and those that are held out, for each fold. *Shape:* the strata of different
    texts, and for all texts their numbers among these.
    """
    counts = Counter(strata.tolist())
    folds = min(folds, max(counts.values()))
    if len(counts) < 2 or folds < 2:
        few = "one class" if len(counts) < 2 else "one text of each class"
        raise ConfigurationError(f"the training data have {few}, from which nothing can be learned")
    divided = StratifiedKFold(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about rare classes, too
        held_out = [np.isin(of_texts, fold) for _, fold in divided.split(strata, strata)]
    return [(np.flatnonzero(~fold), np.flatnonzero(fold)) for fold in held_out]


class _Fit:
    """The regression of a fold, on a `share` in percent of the texts of each class of the other folds."""

    def __init__(
        self,
        texts: Texts,
        labels: np.ndarray,
        trained: np.ndarray,
        held_out: np.ndarray,
        weight: ClassWeight,
        *,
        share: int = 100,
    ) -> None:
        if labels.ndim == 1:
            trained = trained[np.argsort(labels[trained], kind="stable")]
        trained = trained[:: 100 // share]
        scaling = Scaling(texts[trained])
        self.labels, self.held_out = labels[trained], held_out
        self.features, self.unseen = scaling(texts[trained]), scaling(texts[held_out])
        if isinstance(weight, dict):  # scikit-learn refuses the weight of a class that these texts lack.
            weight = {name: value for name, value in weight.items() if name in self.labels}
        self.regression = _regression(weight, several=labels.ndim == 2)


def _out_of_fold(fits: list[_Fit], strength: float, classes: list[str]) -> np.ndarray:
    """*Shape:* `(texts, classes)`."""
    probabilities = np.zeros((sum(len(fit.held_out) for fit in fits), len(classes)))
    for fit in fits:
        regression = _fitted(fit.regression, strength, fit.features, fit.labels)
        several = fit.labels.ndim == 2
        columns = np.array([each if several else classes.index(each) for each in regression.classes_])
        probabilities[fit.held_out[:, None], columns] = regression.predict_proba(fit.unseen)
    return probabilities


class Weights(NamedTuple):
    """The weights of a `LinearModel` by class, in the order of its labels."""

    of_vectors: np.ndarray
    """*Shape:* `(classes, dim)`."""
    bias: np.ndarray
    """*Shape:* `(classes,)`."""
    terms: list[list[str]]
    idf: np.ndarray
    """Of the terms of all kinds. *Shape:* `(terms,)`."""
    of_ngrams: np.ndarray
    """*Shape:* `(features, classes)`."""


def fit(
    texts: Texts,
    labels: np.ndarray,
    classes: list[str],
    *,
    C: float,  # noqa: N803
    weight: ClassWeight,
) -> Weights:
    """Fits the regression on all texts. The model never predicts one of the `classes` that has no text."""
    scaling = Scaling(texts)
    several = labels.ndim == 2
    features = scaling(texts)
    regression = _fitted(_regression(weight, several=several), C, features, labels)
    rows = list(range(len(classes)))
    if several:
        parts = [
            (each.coef_[0], each.intercept_[0])
            if isinstance(each, LogisticRegression)
            # No text has the class, or all have it.
            else (np.zeros(features.shape[1]), _NEVER if label == 0 else -_NEVER)
            for each, label in zip(regression.estimators_, labels[0], strict=True)
        ]
        coefficients, intercepts = map(np.array, zip(*parts, strict=True))
    else:
        coefficients, intercepts = regression.coef_, regression.intercept_
        rows = [classes.index(label) for label in regression.classes_]
        if len(coefficients) == 1:  # two classes: half of the logit is for the second, half against the first
            coefficients, intercepts = (
                np.stack([-each[0], each[0]]) / 2 for each in (coefficients, intercepts)
            )
    # (classes, features)
    weights = np.zeros((len(classes), coefficients.shape[1]))
    weights[rows] = coefficients
    of_vectors, of_ngrams = np.split(weights, [texts.vectors.shape[1]], axis=1)
    of_vectors *= texts.factors / scaling.standard.scale_
    bias = np.full(len(classes), _NEVER)
    bias[rows] = intercepts - of_vectors[rows] @ scaling.standard.mean_
    idf = np.concatenate([tfidf.idf_ for tfidf in scaling.tfidf])
    return Weights(of_vectors, bias, texts.terms, idf, of_ngrams.T)


def _regression(weight: ClassWeight, *, several: bool) -> Any:
    # With 120,000 features, newton-cg is five times as fast as the default solver.
    regression = LogisticRegression(
        class_weight=weight, solver="newton-cg", max_iter=1000, warm_start=not several
    )
    return OneVsRestClassifier(regression) if several else regression


def _fitted(regression: Any, strength: float, features: sparse.csr_array, labels: np.ndarray) -> Any:
    """Fits a regression with a strength of the penalty."""
    regression.set_params(**{"C" if labels.ndim == 1 else "estimator__C": strength})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about a class that no text has, or every one
        return regression.fit(features, labels)
