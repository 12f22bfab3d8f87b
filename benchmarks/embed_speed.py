"""
`allennlp elmo embed` compared with a loop over AllenNLP's `Elmo`, or with itself in one process of all
threads: all layers of a text to HDF5, start to end.

Both are processes of their own, run alternately, imports and weights included; the layers of both are
compared.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from benchmarks.bilms import SIZES, bilm_files, count_tokens, read_text
from benchmarks.results import OURS, PEER, Results, add_results_argument, show

LOOP = """
import sys
import h5py, torch
from allennlp.modules.elmo import Elmo, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

options_file, weight_file, text, output, size = sys.argv[1:]
encoder = Elmo(options_file, weight_file, num_output_representations=1, dropout=0.0).eval()._elmo_lstm
sentences = [line.split() for line in open(text)]
with torch.no_grad(), h5py.File(output, "w") as file:
    for start in range(0, len(sentences), int(size)):
        batch = sentences[start : start + int(size)]
        encoder._elmo_lstm.reset_states()
        outputs = encoder(batch_to_ids(batch))
        layers = [remove_sentence_boundaries(layer, outputs["mask"])[0] for layer in outputs["activations"]]
        for row, (words, vectors) in enumerate(zip(batch, torch.stack(layers, dim=1))):
            file.create_dataset(str(start + row), data=vectors[:, : len(words)].numpy())
"""

ONE_PROCESS = """
from elmo_tasks.commands import embed
embed.CAN_FORK = False
from allennlp.__main__ import run
run()
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", type=Path, help="a sentence a line, words apart by blanks")
    parser.add_argument("out", type=Path, help="folder of the weights and vectors")
    parser.add_argument("-n", type=int, default=842, help="sentences")
    parser.add_argument("--size", default="original", choices=SIZES)
    parser.add_argument("--peer", default="allennlp", choices=("allennlp", "one-process"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64, help="sentences of a batch of AllenNLP's")
    add_results_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    arguments.out.mkdir(parents=True, exist_ok=True)
    sentences, text = read_text(arguments.text, arguments.n), arguments.out / "text.txt"
    text.write_text("".join(" ".join(words) + "\n" for words in sentences))
    options_file, weight_file = bilm_files(arguments.out, arguments.size)
    vectors = {system: arguments.out / f"{system}.hdf5" for system in (OURS, PEER)}
    # The loop has nothing of ours, and imports what AllenNLP imports.
    loop = ["env", "ELMO_TASKS_PLUGIN=0", sys.executable, "-c", LOOP]
    commands = {
        OURS: [sys.executable, "-m", "allennlp", *_embed(text, vectors[OURS], options_file, weight_file)],
        PEER: [*loop, options_file, weight_file, text, vectors[PEER], arguments.batch_size],
    }
    if arguments.peer == "one-process":
        in_one = _embed(text, vectors[PEER], options_file, weight_file)
        commands[PEER] = [sys.executable, "-c", ONE_PROCESS, *in_one]
    results = Results("embed-speed", arguments.csv)
    case = f"{count_tokens([sentences]):,} tokens, {arguments.size} size: text to HDF5, s"
    results.time_in_turn(case, commands, arguments.rounds)
    difference = largest_difference(vectors[OURS], vectors[PEER], len(sentences))
    results.add(OURS, 0, "largest difference of layers", difference)
    show(results.ratios(), results.means(of="difference"))


def _embed(text: Path, output: Path, options_file: str, weight_file: str) -> list[Any]:
    files = ["--options-file", options_file, "--weight-file", weight_file]
    return ["elmo", "embed", text, output, "--force", *files]


def largest_difference(ours: Path, theirs: Path, number: int) -> float:
    """The largest difference between the layers of two files."""
    with h5py.File(ours) as first, h5py.File(theirs) as second:
        pairs = ((first[str(line)][...], second[str(line)][...]) for line in range(number))
        return torch.tensor([float(np.abs(one - other).max()) for one, other in pairs]).max().item()
