"""
The evaluation of the CoNLL-2011 and 2012 shared tasks: MUC, B-cubed, CEAF-e and their average.

It counts like the reference scorer, version 8.01 (Pradhan et al. 2014, https://aclanthology.org/P14-2006):
mentions match if both ends are equal, and nothing is removed from key or response. So mentions that only one
of them has are wrong, and singletons count like all others.
"""

from collections.abc import Collection, Hashable, Sequence

import numpy as np
from allennlp.training.metrics import Metric

from elmo_tasks.modules.metrics import CountingMetric

Clusters = Sequence[Collection[Hashable]]
"""The mentions of each entity, such as (first token, last token)."""

_AVERAGED = ("muc", "b_cubed", "ceaf_e")
_MEASURES = (*_AVERAGED, "mention", "span")


@Metric.register("elmo_coref_scores")
class CorefScores(CountingMetric[np.ndarray]):
    """The scores of all documents, whose counts are summed; a division by 0 gives 0."""

    def no_counts(self) -> np.ndarray:
        """*Shape:* `(measures, precision and recall, numerator and denominator)`."""
        return np.zeros((len(_MEASURES), 2, 2))

    def __call__(self, predicted: Clusters, gold: Clusters, spans: Collection[Hashable] = ()) -> None:
        """
        Counts a document: its predicted and its gold clusters, none of them empty and each mention in one,
        and the spans that a model considers as mentions.
        """
        entity_of = {mention: entity for entity, cluster in enumerate(gold) for mention in cluster}
        # (predicted, gold): mentions in common
        common = np.zeros((len(predicted), len(gold)))
        for row, cluster in zip(common, predicted, strict=True):
            for mention in cluster:
                if mention in entity_of:
                    row[entity_of[mention]] += 1
        # (predicted, 1) and (gold,): mentions of each entity
        sizes = np.array([len(cluster) for cluster in predicted]).reshape(-1, 1)
        gold_sizes = np.array([len(cluster) for cluster in gold])
        # Vilain et al. 1995: the size of a cluster minus the parts that the other side divides it into; a
        # mention that the other side does not have is a part by itself
        links = (common - 1).clip(min=0).sum()
        # Luo 2005, section 4, phi 4
        similarity = 2 * common / (sizes + gold_sizes)
        from scipy.optimize import linear_sum_assignment  # takes a third of a second

        aligned = similarity[linear_sum_assignment(similarity, maximize=True)].sum()
        self._counts = self._counts + np.array(
            [
                [[links, (sizes - 1).sum()], [links, (gold_sizes - 1).sum()]],
                # Bagga and Baldwin 1998, section 3
                [
                    [(common**2 / sizes).sum(), sizes.sum()],
                    [(common**2 / gold_sizes).sum(), gold_sizes.sum()],
                ],
                [[aligned, len(sizes)], [aligned, len(gold_sizes)]],
                [[common.sum(), sizes.sum()], [common.sum(), gold_sizes.sum()]],
                [[0, 0], [len(entity_of.keys() & set(spans)), gold_sizes.sum()]],
            ]
        )

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """
        Returns `muc_precision`, `muc_recall`, `muc_f1`, the same of `b_cubed`, `ceaf_e` and `mention` (the
        mentions in clusters, whatever their entity), `average_f1` of the first three, and `span_recall`, the
        share of gold mentions among the considered spans; all from 0 to 1.
        """
        counts = self.total_counts(reset=reset)
        metrics: dict[str, float] = {}
        for measure, (precision, recall) in zip(_MEASURES, counts, strict=True):
            scores = {"precision": _share(*precision), "recall": _share(*recall)}
            scores["f1"] = _share(2 * scores["precision"] * scores["recall"], sum(scores.values()))
            metrics |= {f"{measure}_{name}": score for name, score in scores.items()}
        del metrics["span_precision"], metrics["span_f1"]
        metrics["average_f1"] = sum(metrics[f"{measure}_f1"] for measure in _AVERAGED) / len(_AVERAGED)
        return metrics


def _share(numerator: float, denominator: float) -> float:
    return float(numerator / denominator) if denominator else 0.0
