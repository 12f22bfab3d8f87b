"""
The attention of our models on SST-5, SNLI and SQuAD, before and after training.

RUN is the folder of a finished training, such as OUT/elmo/seed-13 of `python -m benchmarks sst DATA OUT`. The
first of its validation instances are read. For each model it shows the length of the encoder's vector of a
word, the length of its ELMo vector, and

- SST-5: the weight of a word's attention that is on the word itself, and how long the difference to what it
  attends to is, as a part of the word's own length;
- SNLI: the largest weight of the attention of a word of the premise to the hypothesis;
- SQuAD: the standard deviation of the weight of a word of the question over the words of the passage: 0 where
  all of them look at the same words.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.params import with_overrides
from allennlp.common.util import prepare_environment
from allennlp.data import Instance
from allennlp.models import Model
from torch import nn

from benchmarks.comparison import finished_run
from benchmarks.results import Results, add_results_argument, show
from elmo_tasks.archives import open_archive
from elmo_tasks.modules.layers import attention, dot_products
from elmo_tasks.snli.model import SnliModel
from elmo_tasks.squad.model import SquadModel
from elmo_tasks.sst.model import SstModel

STATES, ELMO = "length of the encoder's states", "length of ELMo at the output"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--instances", type=int, default=64, help="of the validation data")
    parser.add_argument(
        "--overrides", type=json.loads, help="of the config; then only the model before the training is shown"
    )
    add_results_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    results = Results("attention", arguments.csv)
    for folder in arguments.runs:
        trained = finished_run(folder)
        name = "/".join(folder.parts[-3:-1])
        archive = open_archive(folder / "model.tar.gz")
        config = with_overrides(archive.config.as_dict(quiet=True), arguments.overrides or {})
        read = archive.validation_dataset_reader.read(config["validation_data_path"])
        instances = list(islice(read, arguments.instances))
        models = {f"{name}, at the start": at_start(config, archive.model)}
        if arguments.overrides is None:
            models[f"{name}, trained"] = archive.model
        for system, model in models.items():
            for metric, value in means(model, instances).items():
                results.add(system, trained.seed, metric, value)
    show(results.grid(results.metrics()))


def at_start(config: dict[str, Any], trained: Model) -> Model:
    """The model of a config, with the vocabulary of a trained one, as the training found it."""
    prepare_environment(Params(config))
    return Model.from_params(Params(config["model"]), vocab=trained.vocab)


def means(model: Model, instances: Iterable[Instance]) -> dict[str, float]:
    """
    The mean of each measure over all words.

    # Raises
    `ConfigurationError`: a model of another task.
    """
    model.eval()
    measures: dict[str, list[torch.Tensor]] = {}
    for instance in instances:
        with watched(model.encoder) as states, watched(model.elmo) as elmo:
            of_instance = attention_of(model, instance)
        of_instance[STATES] = torch.cat([lengths(output) for _, output in states])
        if elmo and elmo[0][1].output is not None:
            of_instance[ELMO] = torch.cat([lengths(output.output) for _, output in elmo])
        for name, values in of_instance.items():
            measures.setdefault(name, []).append(values.flatten())
    return {name: float(torch.cat(values).mean()) for name, values in measures.items()}


def attention_of(model: Model, instance: Instance) -> dict[str, torch.Tensor]:
    """The measures of the attention in one instance, a value a word or a pair of words."""
    if isinstance(model, SstModel):
        return biattention_of(model, instance)
    outputs = model.forward_on_instance(instance)
    if isinstance(model, SnliModel):
        # (premise, hypothesis)
        weights = torch.tensor(outputs["premise_to_hypothesis"])
        return {"largest weight of the attention": weights.amax(dim=1)}
    if isinstance(model, SquadModel):
        # (passage, question)
        weights = torch.as_tensor(outputs["question_attention"])
        return {"deviation of the attention over the passage": weights.std(dim=0)}
    raise ConfigurationError(f"{type(model).__name__} is not a model of SST-5, SNLI or SQuAD")


def biattention_of(model: SstModel, instance: Instance) -> dict[str, torch.Tensor]:
    """As `attention_of`: the biattention is between a sentence and itself, and no part of the outputs."""
    with watched(model.integrator) as integrated:
        model.forward_on_instance(instance)
    # (1, words, 3 dim), (1, words)
    inputs, mask = integrated[0][0]
    # The words, and their difference to what they attend to; the third part is their product with it
    words, differences, _ = inputs.chunk(3, dim=2)
    # (1, words, words)
    weights = attention(dot_products(words, words, scaled=model.scaled_attention), mask.unsqueeze(1))
    return {
        "weight on the word itself": weights.diagonal(dim1=1, dim2=2),
        "length of the difference": differences.norm(dim=2) / words.norm(dim=2),
    }


@contextmanager
def watched(module: nn.Module | None) -> Iterator[list[tuple[Any, Any]]]:
    """The inputs and the output of each call of a module, in a list that grows; of none, an empty one."""
    calls: list[tuple[Any, Any]] = []
    if module is None:
        yield calls
        return
    handle = module.register_forward_hook(lambda _, inputs, output: calls.append((inputs, output)))
    try:
        yield calls
    finally:
        handle.remove()


def lengths(vectors: torch.Tensor) -> torch.Tensor:
    """*Shape:* `(..., dim)` to the norms of those that are not padding, `(vectors,)`."""
    norms = vectors.norm(dim=-1)
    return norms[norms > 0]
