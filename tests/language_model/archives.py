"""Runs of tiny language models, as `allennlp train` would leave them, and their perplexity step by step."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model

from elmo_tasks.language_model.model import BiLmModel
from tests.elmo.files import OPTIONS, VOCABULARY, WEIGHTS
from tests.elmo.numpy_reference import NumpyBiLm

READER = {"type": "elmo_bilm", "streams": 2, "bptt_steps": 3, "passage": 2, "shuffle_buffer": 0}

TEXT = """The cat and the mat .
on the mat until Łódź

until until the dog sat on
😀
and and the cat
the cat . the mat .
The
"""


def write_words(file: Path, words: list[str] = VOCABULARY) -> str:
    file.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return str(file)


def write_run(
    folder: Path, *, input: str = "characters", softmax: dict[str, Any] | None = None, **model_keys: Any
) -> BiLmModel:
    """The folder of a run, with all weights random, and its model."""
    folder.mkdir()
    options = OPTIONS if input == "characters" else {"lstm": OPTIONS["lstm"]}
    config = {
        "dataset_reader": READER | {"input": input},
        "data_loader": {"batch_size": 1, "max_instances_in_memory": 1, "quiet": True},
        "vocabulary": {"type": "elmo_words", "words_file": write_words(folder / "words.txt")},
        "model": {"type": "elmo_bilm", "options": options, "softmax": softmax or {"type": "full"}}
        | model_keys,
    }
    (folder / "config.json").write_text(json.dumps(config))
    vocab = Vocabulary.from_params(Params(dict(config["vocabulary"])))
    vocab.save_to_files(str(folder / "vocabulary"))
    torch.manual_seed(3)
    model = Model.from_params(Params(config["model"]), vocab=vocab)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    torch.save(model.state_dict(), folder / "best.th")
    return model.eval()


def perplexity_of_files(folder: Path, text: str, *, passage: int) -> float:
    found = log_probabilities_of_files(folder, text, passage=passage)
    return float(np.exp(-np.concatenate(found, axis=1).mean()))


def log_probabilities_of_files(folder: Path, text: str, *, passage: int) -> list[np.ndarray]:
    """
    Computes an export's log probabilities of the words, `(2, steps)` for each passage, by NumPy in double
    precision: one sentence, one direction and one step at a time.
    """
    words = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    reads_words = "char_cnn" not in json.loads((folder / "options.json").read_text())
    bilm = NumpyBiLm(folder / "options.json", folder / WEIGHTS, folder / "vocab.txt" if reads_words else None)
    word_vector, weight, bias = cache(bilm.word_vector), bilm.weights["softmax/W"], bilm.weights["softmax/b"]
    rows: list[tuple[list[float], list[float]]] = []
    for document in text.split("\n\n"):
        sentences = [line.split() for line in document.splitlines()]
        for i, sentence in enumerate(sentences):
            if i % passage == 0:
                bilm.reset()
                rows.append(([], []))
            forward, backward = ["<S>", *sentence, "</S>"], ["</S>", *reversed(sentence), "<S>"]
            for direction, row in enumerate((forward, backward)):
                outputs = bilm._run(direction, [word_vector(word) for word in row[:-1]])[-1]
                for output, target in zip(outputs, row[1:], strict=True):
                    logits = weight @ output + bias
                    known = words.index(target if target in words else "<UNK>")
                    rows[-1][direction].append(logits[known] - np.log(np.exp(logits).sum()))
    return [np.array(each) for each in rows]
