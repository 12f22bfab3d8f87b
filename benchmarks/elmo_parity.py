"""
The largest differences between our biLM and the original's published reference outputs, AllenNLP's own
class, and itself in other batches.

The folder is laid out as AllenNLP's ELMo test fixture: `options.json`, `lm_weights.hdf5`, `sentences.json`
(three streams, read side by side with carried state), `lm_embeddings_{0,1,2}.hdf5` (the top of each stream),
`vocab_test.txt` and `elmo_token_embeddings.hdf5` (the token layer of its words).
"""

import argparse
import json
import random
from itertools import chain
from pathlib import Path

import h5py
import numpy as np
import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

from benchmarks.results import OURS, Results, add_results_argument, show
from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.elmo.files import read_frozen_bilm, read_options, trained_copy
from elmo_tasks.elmo.model.characters import character_ids

Streams = list[list[list[str]]]


def token_layer(bilm: FrozenBiLm, folder: Path) -> float:
    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").split()
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][...]
    vectors = trained_copy(bilm).token_encoder(torch.tensor(character_ids(words))).detach().numpy()
    return float(np.abs(vectors - expected).max())


def with_carried_state(bilm: FrozenBiLm, folder: Path, streams: Streams) -> tuple[float, float, float]:
    """From the original's top layer, its largest value, and from all layers of AllenNLP's class."""
    theirs = _ElmoBiLm(str(folder / "options.json"), str(folder / "lm_weights.hdf5"))
    tops = []
    for stream in range(len(streams)):
        with h5py.File(folder / f"lm_embeddings_{stream}.hdf5") as file:
            tops.append({step: vectors[...] for step, vectors in file.items()})
    original, allennlp, largest, state = 0.0, 0.0, 0.0, None
    for step, sentences in enumerate(zip(*streams, strict=True)):
        layers, state = bilm(bilm.padded_ids(list(sentences)), state)
        outputs = theirs(batch_to_ids(list(sentences)))
        for layer, activation in zip(layers, outputs["activations"], strict=True):
            stock, _ = remove_sentence_boundaries(activation, outputs["mask"])
            allennlp = max(allennlp, (layer - stock).abs().max().item())
        for row, (sentence, top) in enumerate(zip(sentences, tops, strict=True)):
            expected = np.concatenate(top[str(step)], axis=1)
            difference = np.abs(layers[-1, row, : len(sentence)].numpy() - expected).max()
            original, largest = max(original, difference), max(largest, np.abs(expected).max())
    return original, largest, allennlp


def in_batches(bilm: FrozenBiLm, texts: list[list[str]]) -> float:
    """The largest difference of a sentence's layers alone and in a batch."""
    alone = [bilm.encode(bilm.padded_ids([words]))[:, 0] for words in texts]
    largest = 0.0
    for seed in range(20):
        order = random.Random(seed).sample(range(len(texts)), len(texts))
        for size in (2, 7, 30):
            for start in range(0, len(order), size):
                chosen = order[start : start + size]
                layers = bilm.encode(bilm.padded_ids([texts[i] for i in chosen]))
                for row, i in enumerate(chosen):
                    difference = (layers[:, row, : len(texts[i])] - alone[i]).abs().max().item()
                    largest = max(largest, difference)
    return largest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    add_results_argument(parser)


@torch.no_grad()
def run(arguments: argparse.Namespace) -> None:
    folder: Path = arguments.folder
    bilm = read_frozen_bilm(read_options(folder / "options.json"), folder / "lm_weights.hdf5")
    streams = [
        [text.split() for text in stream] for stream in json.loads((folder / "sentences.json").read_text())
    ]
    original, largest, allennlp = with_carried_state(bilm, folder, streams)
    results = Results("elmo-parity", arguments.csv)
    for metric, value in (
        ("token layer, original", token_layer(bilm, folder)),
        ("top layer, stateful, original", original),
        ("top layer, stateful, largest value", largest),
        ("all layers, stateful, AllenNLP", allennlp),
        (
            "all layers, alone or in a batch",
            in_batches(bilm, list(chain.from_iterable(streams))),
        ),
    ):
        results.add(OURS, 0, metric, float(value))
    show(results.means())
