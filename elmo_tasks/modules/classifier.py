"""What the models share that give an instance one of a few classes."""

from typing import Any, Optional

import torch
from torch.nn import functional as F

from elmo_tasks.metrics.classification import ClassificationMetric
from elmo_tasks.modules.elmo_model import ElmoModel, Outputs, Scores, average_with_logits


class Classifier(ElmoModel):
    """
    Base class of a task model whose `scores` have `logits` `(batch, classes)`. The classes are the `labels`
    of the vocabulary. Instances have the gold one as `label` (a `ClosedLabelField`), and what is no tensor as
    `metadata`.

    # Parameters

    See `ElmoModel`.

    # Raises
    `ConfigurationError`: the vocabulary has no labels.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.labels = self.label_names()
        self.metric = ClassificationMetric(self.labels)

    def decode(self, scores: Scores, metadata: list[Any], label: Optional[torch.Tensor] = None) -> Outputs:
        """
        *Shape:* `label` `(batch,)`. Returns the scores, `probabilities` `(batch, classes)`, `metadata`, and
        with gold labels the `loss`: the mean over the instances of the negative log-likelihood.
        """
        logits = scores["logits"]
        outputs = {**scores, "probabilities": logits.softmax(dim=1), "metadata": metadata}
        if label is not None:
            outputs["loss"] = F.cross_entropy(logits, label)
            self.metric(logits.argmax(dim=1), label)
        return outputs

    average = staticmethod(average_with_logits)

    def make_output_human_readable(self, output_dict: Outputs) -> Outputs:
        """The most probable `label`, and the `probabilities` by label."""
        rows: list[list[float]] = output_dict["probabilities"].tolist()
        return {
            "label": [self.labels[row.index(max(row))] for row in rows],
            "probabilities": [dict(zip(self.labels, row, strict=True)) for row in rows],
        }

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        """See `ClassificationMetric`."""
        return self.metric.get_metric(reset)
