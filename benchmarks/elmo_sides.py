"""
Both frozen ELMos, and the memory of a process with one of them.

    python -m benchmarks.elmo_sides ours|theirs TEXT SENTENCES THREADS OPTIONS WEIGHTS
"""

import itertools
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from allennlp.modules.elmo import Elmo as AllenNLPElmo
from allennlp.modules.elmo import batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

from benchmarks.bilms import Files
from benchmarks.memory import peak_memory
from elmo_tasks.data.input_files import read_lines
from elmo_tasks.elmo import Elmo
from elmo_tasks.elmo.model.encoders import CharacterEncoder

Sentences = list[list[str]]

BATCH = 64


class Ours:
    """`Elmo` of this project, frozen."""

    def __init__(self, files: Files, precision: str = "float32", device: str = "cpu") -> None:
        options_file, weight_file = files
        self.elmo = Elmo(options_file=options_file, weight_file=weight_file, precision=precision)
        self.elmo.to(device).eval()

    def ids(self, sentences: Sentences) -> torch.Tensor:
        return CharacterEncoder.padded_ids(sentences)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.elmo(ids).input

    def layers(self, ids: torch.Tensor) -> torch.Tensor:
        return self.bilm.encode(ids)

    def forget_words(self) -> None:
        self.bilm.forget_words()

    @property
    def bilm(self) -> Any:
        return self.elmo.bilm


class Theirs:
    """AllenNLP's `Elmo`. It carries its state from batch to batch, which costs it next to nothing."""

    def __init__(self, files: Files, device: str = "cpu") -> None:
        self.elmo = AllenNLPElmo(*files, num_output_representations=1, dropout=0.0).to(device).eval()

    def ids(self, sentences: Sentences) -> torch.Tensor:
        return batch_to_ids(sentences)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.elmo(ids)["elmo_representations"][0]

    def layers(self, ids: torch.Tensor) -> torch.Tensor:
        """From a fresh state, as ours."""
        self.elmo._elmo_lstm._elmo_lstm.reset_states()
        outputs = self.elmo._elmo_lstm(ids)
        mask = outputs["mask"]
        return torch.stack([remove_sentence_boundaries(layer, mask)[0] for layer in outputs["activations"]])


def read_text(path: Path, number: int) -> Sentences:
    """The first sentences of a text."""
    words = (line.split() for _, line in read_lines(path))
    return list(itertools.islice(filter(None, words), number))


def in_batches(sentences: Sentences, size: int) -> list[Sentences]:
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


def size_of_text(sentences: Sentences) -> str:
    words = [word for sentence in sentences for word in sentence]
    return f"Text: {len(sentences):,} sentences, {len(words):,} tokens, {len(set(words)):,} distinct."


def count_tokens(batches: Iterable[Sentences]) -> int:
    return sum(len(words) for batch in batches for words in batch)


@torch.no_grad()
def memory_and_start(side: str, files: Files, sentences: Sentences) -> tuple[float, float]:
    """Peak memory in GB, all imports included; and the seconds from them to a first encoded sentence."""
    began = time.perf_counter()
    encoder = Ours(files) if side == "ours" else Theirs(files)
    encoder.embed(encoder.ids(sentences[:1]))
    start = time.perf_counter() - began
    for batch in in_batches(sentences, BATCH):
        encoder.embed(encoder.ids(batch))
    return peak_memory() / 1e9, start


if __name__ == "__main__":
    side, text, number, threads, *files = sys.argv[1:]
    torch.set_num_threads(int(threads))
    print(*memory_and_start(side, (files[0], files[1]), read_text(Path(text), int(number))))
