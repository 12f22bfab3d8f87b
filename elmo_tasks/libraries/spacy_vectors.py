"""
The spaCy component `elmo`: a biLM's vectors for docs, spans and tokens.

    nlp.add_pipe("elmo", config={"layer": "average"})

This module needs no AllenNLP.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import srsly
from spacy.language import Language
from spacy.tokens import Doc, Span, Token

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.machine import Device
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, DEFAULT_WEIGHTS, local_file, read_options
from elmo_tasks.embedding.embedder import AVERAGE, BiLmFiles, ElmoEmbedder, check_layer, chosen_layer
from elmo_tasks.libraries.spacy_pipe import FilesPipe, sentences

_OPTIONS, _WEIGHTS, _VOCABULARY = "options.json", "weights.hdf5", "vocab.txt"
"""The names in a saved pipeline, where the weights have any format."""


class VectorsPipe(FilesPipe):
    """
    A component that sets `doc._.elmo_vectors`, one row per token, and hooks that compute `vector`,
    `has_vector` and `similarity` of docs, spans and tokens from it: docs and spans have the mean of their
    words. White space has zeros.

    `doc.tensor` is the same, unless another component of the pipeline sets it: those that listen to spaCy's
    `tok2vec` read it.

    The biLM reads each sentence of a doc separately; without sentence boundaries the doc is one sentence.

    # Parameters

    options_file, weight_file, vocabulary_file, precision, cuda_device : see `ElmoEmbedder`.
    layer : the layer of the vectors: `average`, or a number, 0 for the token layer, negative from the top.
        `ElmoError`: there is none; with a biLM at a URL, the first text raises it.
    batch_size : the most sentences to compute together.
    keep_layers : put all layers, `(layers, tokens, dim)`, into `doc._.elmo_layers`.
    """

    def __init__(
        self,
        nlp: Language,
        name: str,
        options_file: str | None = None,
        weight_file: str | None = None,
        vocabulary_file: str | None = None,
        precision: str = "float32",
        cuda_device: Device = -1,
        layer: int | str = AVERAGE,
        batch_size: int = 64,
        keep_layers: bool = False,
    ) -> None:
        if options_file is None and weight_file is None:
            options_file, weight_file = DEFAULT_OPTIONS, DEFAULT_WEIGHTS
        if options_file is not None and Path(options_file).is_file():
            check_layer(layer, read_options(options_file).n_layers + 1)
        sources = {_OPTIONS: options_file, _WEIGHTS: weight_file, _VOCABULARY: vocabulary_file}
        super().__init__(name=name, sources=sources)
        self._settings: dict[str, Any] = {"precision": precision, "cuda_device": cuda_device}
        self._nlp: Language | None = nlp
        self._left_tensor = False
        self._layer = layer
        self._batch_size = batch_size
        self._keep_layers = keep_layers

    def read(self, sources: Mapping[str, str | None]) -> ElmoEmbedder:
        embedder = BiLmFiles(
            sources[_OPTIONS], sources[_WEIGHTS], sources[_VOCABULARY], **self._settings
        ).embedder()
        check_layer(self._layer, embedder.num_layers)
        return embedder

    def local(self, source: str) -> AbstractContextManager[Path]:
        return local_file(source)

    @property
    def _leaves_tensor(self) -> bool:
        """Whether another component of the pipeline sets `doc.tensor`."""
        if self._nlp is not None:
            metas = map(self._nlp.get_pipe_meta, self._nlp.component_names)
            return any("doc.tensor" in meta.assigns for meta in metas if meta.factory != "elmo")
        return self._left_tensor

    def state(self) -> dict[str, Any]:
        return super().state() | {"_nlp": None, "_left_tensor": self._leaves_tensor}

    def annotate(self, docs: list[Doc]) -> None:
        embedder: ElmoEmbedder = self.content
        numbered = [
            (doc_index, token_indices)
            for doc_index, doc in enumerate(docs)
            for token_indices in sentences(doc)
        ]
        words = [[docs[doc_index][i].text for i in token_indices] for doc_index, token_indices in numbered]
        tensors: list[Any] = [np.zeros((len(doc), embedder.dim), dtype=np.float32) for doc in docs]
        all_layers = [
            np.zeros((embedder.num_layers, len(doc), embedder.dim), dtype=np.float32)
            for doc in (docs if self._keep_layers else ())
        ]
        encoded = embedder.embed_sentences(words, self._batch_size)
        for (doc_index, token_indices), layers in zip(numbered, encoded, strict=True):
            tensors[doc_index][token_indices] = chosen_layer(layers, self._layer)
            if self._keep_layers:
                all_layers[doc_index][:, token_indices] = layers
        for doc, tensor in zip(docs, tensors, strict=True):
            if self._leaves_tensor:
                doc.user_data[_VECTORS] = tensor
            else:
                doc.tensor = tensor
            set_hooks(doc)
        for doc, layers in zip(docs, all_layers, strict=False):
            doc._.elmo_layers = layers


def set_hooks(doc: Doc) -> None:
    """
    Makes `vector` and `similarity` of the doc, its spans and tokens use `doc._.elmo_vectors`. The component
    calls it; but docs from bytes, or from another process, as with `n_process`, have lost their hooks.
    """
    doc.user_hooks.update(_MEAN_HOOKS)
    doc.user_span_hooks.update(_MEAN_HOOKS)
    doc.user_token_hooks.update(_TOKEN_HOOKS)


def _vectors(doc: Doc) -> np.ndarray:
    vectors = doc.user_data.get(_VECTORS, doc.tensor)
    if len(vectors) != len(doc):
        raise ElmoError(
            f"the doc has {len(doc)} tokens, and vectors of {len(vectors)}",
            remedy="add the component elmo after those that merge or split tokens",
        )
    return vectors


def _token_vector(token: Token) -> np.ndarray:
    return _vectors(token.doc)[token.i]


def _token_has_vector(token: Token) -> bool:
    return not token.is_space


def _mean_vector(tokens: Doc | Span) -> np.ndarray:
    vectors = _vectors(tokens.doc)
    words = [token.i for token in tokens if not token.is_space]
    return vectors[words].mean(axis=0) if words else np.zeros(vectors.shape[1], dtype=vectors.dtype)


def _has_word(tokens: Doc | Span) -> bool:
    return any(not token.is_space for token in tokens)


def _similarity(one: Any, other: Any) -> float:
    """Returns the cosine. spaCy's own function returns 1 for equal words, whatever their contexts."""
    norm = float(np.linalg.norm(one.vector) * np.linalg.norm(other.vector))
    return float(np.dot(one.vector, other.vector)) / norm if norm else 0.0


# Hooks must be functions of a module, since docs are pickled with them.
_MEAN_HOOKS: dict[str, Callable[..., Any]] = {
    "vector": _mean_vector,
    "has_vector": _has_word,
    "similarity": _similarity,
}
_TOKEN_HOOKS: dict[str, Callable[..., Any]] = {
    "vector": _token_vector,
    "has_vector": _token_has_vector,
    "similarity": _similarity,
}


class Layers(np.ndarray):
    """An array that `doc.to_json` takes, and that spaCy's `srsly` writes as lists."""

    def __json__(self) -> str:
        return srsly.json_dumps(self.tolist())


_VECTORS = "elmo_vectors"
_LAYERS, _LAYERS_OF_JSON = "elmo_layers", ("._.", "elmo_layers", None, None)
"""The keys of `doc.user_data`. The last is used by `Doc.from_json`, and by docs of earlier versions."""


def _layers(doc: Doc) -> Layers | None:
    data: dict[Any, Any] = doc.user_data
    layers = data.get(_LAYERS, data.get(_LAYERS_OF_JSON))
    return None if layers is None else np.asarray(layers, dtype=np.float32).view(Layers)


def _set_layers(doc: Doc, layers: np.ndarray) -> None:
    doc.user_data[_LAYERS] = layers


if not Doc.has_extension("elmo_layers"):
    Doc.set_extension("elmo_layers", getter=_layers, setter=_set_layers)
    Doc.set_extension("elmo_vectors", getter=_vectors)


make_vectors = Language.factory(
    "elmo", assigns=["doc.tensor", "doc._.elmo_vectors", "doc._.elmo_layers"], func=VectorsPipe
)
