"""Systems trained in turn on one machine: their dev scores over several seeds, the times of their epochs."""

import logging
import os
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from ner_quality import run

Settings = dict[str, Any]
"""A config, with the callback `epoch_times` of `ner_quality`."""
Systems = Callable[[int], dict[str, Settings]]
"""The settings of each system by its name, for a seed."""


def quiet() -> None:
    """Else the results drown in the log."""
    os.environ.setdefault("ALLENNLP_LOG_LEVEL", "WARNING")
    logging.disable(logging.INFO)


def mean_scores(systems: Systems, seeds: Iterable[int]) -> dict[str, float]:
    """Trains and prints; the means, in percent."""
    scores: dict[str, list[float]] = {}
    for seed in seeds:
        for name, settings in systems(seed).items():
            score, seconds = run(settings)
            scores.setdefault(name, []).append(score)
            print(f"seed {seed}  {name:<32} {score:5.2f}  {seconds:6.2f} s an epoch", flush=True)
    for name, values in scores.items():
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        print(f"{name:<32} {statistics.mean(values):.2f} (standard deviation {spread:.2f})")
    return {name: statistics.mean(values) for name, values in scores.items()}


def epoch_times(systems: Systems, rounds: int) -> None:
    """
    Prints the time of an epoch of the first of two systems as a part of that of the second: the speed of a
    shared machine drifts, so short runs are made in turn, and compared pair by pair.
    """
    ratios = []
    for seed in range(rounds):
        times = {name: run(settings)[1] for name, settings in systems(seed).items()}
        ours, theirs = times.values()
        ratios.append(ours / theirs)
        print(
            f"round {seed}  " + ", ".join(f"{name} {time:.2f} s" for name, time in times.items()), flush=True
        )
    if ratios:
        middle, least, most = statistics.median(ratios), min(ratios), max(ratios)
        print(f"time of an epoch, {' / '.join(times)}: median {middle:.2f} ({least:.2f} to {most:.2f})")
