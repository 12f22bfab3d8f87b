"""The accuracy of several tasks."""

from collections import Counter

import torch

from elmo_tasks.modules.metrics import CountingMetric


class TasksMetric(CountingMetric[Counter[tuple[str, bool]]]):
    """
    The accuracy of each task, and their mean. Of pairs without a label it is the part of the first sentences
    whose second one is more similar than those of the other pairs in their batch. See `CountingMetric`.
    """

    def no_counts(self) -> Counter[tuple[str, bool]]:
        return Counter()

    def __call__(self, task: str, predictions: torch.Tensor, gold: torch.Tensor) -> None:
        """*Shape:* ids, both `(rows,)`."""
        right = int((predictions == gold).sum())
        self._counts += Counter({(task, True): right, (task, False): len(gold) - right})

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """Returns `accuracy`; with `reset`, at the end of an epoch, also `accuracy-TASK` for each task."""
        counts = self.total_counts(reset=reset)
        by_task = {
            task: counts[task, True] / (counts[task, True] + counts[task, False])
            for task in sorted({task for task, _ in counts})
        }
        accuracy = {"accuracy": sum(by_task.values()) / max(1, len(by_task))}
        return accuracy | {f"accuracy-{task}": value for task, value in by_task.items() if reset}
