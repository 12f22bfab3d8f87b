"""Runs as if they were done."""

import json
from collections.abc import Sequence

from elmo_tasks.training.experiments import Run, validation_metric


def finish(run: Run, scores: Sequence[float]) -> None:
    """With these scores on the validation data, one an epoch; the metric says which is the best."""
    metric = validation_metric(run.config)
    best = min if run.config["trainer"]["validation_metric"].startswith("-") else max
    run.folder.mkdir(parents=True)
    (run.folder / "config.json").write_text(json.dumps(run.config))
    for epoch, score in enumerate(scores):
        metrics = {f"validation_{metric}": score}
        (run.folder / f"metrics_epoch_{epoch}.json").write_text(json.dumps(metrics))
    (run.folder / "metrics.json").write_text(json.dumps({f"best_validation_{metric}": best(scores)}))
