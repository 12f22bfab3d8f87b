"""
A slow, independent reference for our biLM: NumPy in double precision, one sentence, one character window,
one step at a time, straight from the official files and bilm-tf's definitions.
"""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


class NumpyBiLm:
    """
    A biLM that carries its state from sentence to sentence, as the original does, until `reset()`. It reads
    words if there is a vocabulary, and characters otherwise.
    """

    def __init__(self, options_file: Path, weight_file: Path, vocabulary_file: Path | None = None) -> None:
        self.options = json.loads(Path(options_file).read_text())
        self.vocabulary = (
            Path(vocabulary_file).read_text(encoding="utf-8").splitlines() if vocabulary_file else None
        )
        read = load_file if Path(weight_file).suffix == ".safetensors" else _read_hdf5
        self.weights = {name: array.astype(np.float64) for name, array in read(weight_file).items()}
        self.reset()

    def reset(self) -> None:
        lstm = self.options["lstm"]
        self.state = {
            (direction, layer): (np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"]))
            for direction in (0, 1)
            for layer in range(lstm["n_layers"])
        }

    def __call__(self, words: list[str]) -> np.ndarray:
        """Returns all layers of a sentence, `(layers, words, 2 projection_dim)`."""
        tokens = [self.word_vector(word) for word in ["<S>", *words, "</S>"]]
        layers = [[np.concatenate([token, token]) for token in tokens]]
        by_direction = [self._run(0, tokens), self._run(1, tokens[::-1])]
        for forward, backward in zip(*by_direction, strict=True):
            layers.append([np.concatenate(pair) for pair in zip(forward, backward[::-1], strict=True)])
        return np.array(layers)[:, 1:-1]

    def word_vector(self, word: str) -> np.ndarray:
        if self.vocabulary is not None:
            known = word if word in self.vocabulary else "<UNK>"
            return self.weights["embedding"][self.vocabulary.index(known)]
        cnn = self.options["char_cnn"]
        characters = [
            self.weights["char_embed"][i] for i in official_ids(word, cnn["max_characters_per_token"])
        ]
        features = []
        for i, (width, number) in enumerate(cnn["filters"]):
            kernel, bias = self.weights[f"CNN/W_cnn_{i}"][0], self.weights[f"CNN/b_cnn_{i}"]
            values = np.array(
                [
                    sum(characters[start + k] @ kernel[k] for k in range(width)) + bias
                    for start in range(len(characters) - width + 1)
                ]
            )
            assert values.shape[1] == number
            features.append(values.max(axis=0))
        vector = np.concatenate(features)
        vector = np.maximum(vector, 0) if cnn["activation"] == "relu" else np.tanh(vector)
        for i in range(cnn["n_highway"]):
            w = {k: self.weights[f"CNN_high_{i}/{k}"] for k in self._HIGHWAY}
            carry = sigmoid(vector @ w["W_carry"] + w["b_carry"])
            transformed = np.maximum(vector @ w["W_transform"] + w["b_transform"], 0)
            vector = carry * transformed + (1 - carry) * vector
        if "CNN_proj/W_proj" in self.weights:
            vector = vector @ self.weights["CNN_proj/W_proj"] + self.weights["CNN_proj/b_proj"]
        return vector

    _HIGHWAY = ("W_carry", "b_carry", "W_transform", "b_transform")

    def _run(self, direction: int, tokens: list[np.ndarray]) -> list[list[np.ndarray]]:
        lstm, inputs, layers = self.options["lstm"], tokens, []
        for layer in range(lstm["n_layers"]):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            hidden, memory = self.state[direction, layer]
            outputs = []
            for x in inputs:
                z = np.concatenate([x, hidden]) @ self.weights[f"{cell}/W_0"]
                i, j, f, o = np.split(z + self.weights[f"{cell}/B"], 4)
                memory = sigmoid(f + 1.0) * memory + sigmoid(i) * np.tanh(j)
                memory = clip(memory, lstm["cell_clip"])
                hidden = sigmoid(o) * np.tanh(memory)
                if f"{cell}/W_P_0" in self.weights:
                    hidden = clip(hidden @ self.weights[f"{cell}/W_P_0"], lstm["proj_clip"])
                outputs.append(hidden)
            self.state[direction, layer] = hidden, memory
            if layer > 0 and lstm["use_skip_connections"]:
                outputs = [output + x for output, x in zip(outputs, inputs, strict=True)]
            layers.append(outputs)
            inputs = outputs
        return layers


def official_ids(word: str, length: int = 50) -> list[int]:
    """Returns bilm-tf's ids, the rows of `char_embed`, without the shift by one."""
    if word == "<S>":
        inner = [256]
    elif word == "</S>":
        inner = [257]
    else:
        inner = list(word.encode("utf-8", "ignore")[: length - 2])
    return ([258, *inner, 259] + [260] * length)[:length]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def clip(x: np.ndarray, bound: float) -> np.ndarray:
    return np.clip(x, -bound, bound) if bound else x


def _read_hdf5(path: Path) -> dict[str, np.ndarray]:
    import h5py

    arrays: dict[str, np.ndarray] = {}
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda name, item: arrays.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None
        )
    return arrays
