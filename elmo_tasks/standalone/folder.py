"""
A whole model in a folder that needs NumPy and onnxruntime alone: the graph, the settings, and `predict.py`
with the modules that it imports.
"""

import json
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from allennlp.data import Tokenizer, Vocabulary
from allennlp.data.token_indexers import SingleIdTokenIndexer, TokenCharactersIndexer
from allennlp.models import Model
from allennlp.models.archival import Archive
from torch.export import Dim

from elmo_tasks.classification.linear import LinearModel
from elmo_tasks.classification.model import ClassificationModel, TextClassifier
from elmo_tasks.classification.ngrams import KINDS
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.data.tokenization import Matches, SpacyRules
from elmo_tasks.elmo.export import check_packages, save_onnx
from elmo_tasks.elmo.token_embedder import ElmoCharacterIndexer
from elmo_tasks.modules.fitted import from_bytes
from elmo_tasks.ner.model import NerModel
from elmo_tasks.pipeline.predictor import LabelPredictor, TaskPredictor, TextPredictor, is_stateful
from elmo_tasks.pipeline.trained import task_predictor
from elmo_tasks.snli.model import SnliModel
from elmo_tasks.squad.model import SquadModel
from elmo_tasks.squad.reader import PIECES
from elmo_tasks.sst.model import SstModel
from elmo_tasks.standalone import GRAPH, PAGE, SETTINGS, TYPES, graph
from elmo_tasks.standalone.pages.ids import padded_ids

Settings = dict[str, Any]
_IMPORT = re.compile(r"^from (elmo_tasks\.(?:\w+\.)*(\w+)) import ", re.MULTILINE)


class _Task(NamedTuple):
    page: str
    """The module that becomes `predict.py`."""
    graph: type[graph.Graph]
    settings: Callable[[Any, Any], Settings]
    """Returns the task's own settings of a model and its dataset reader."""


def _labels(model: Any, reader: Any) -> Settings:
    return {"labels": model.labels}


def _of_ner(model: NerModel, reader: Any) -> Settings:
    chain = model.crf(torch.zeros(1, 1, len(model.tags)), torch.ones(1, 1, dtype=torch.bool))
    crf = {name: getattr(chain, name).tolist() for name in ("start", "end", "transitions")}
    return {"labels": model.tags, "crf": crf, "ranks": reader.ranks}


def _of_classifier(model: TextClassifier, reader: Any) -> Settings:
    settings = {"labels": model.labels, "pairs": model.pairs}
    if model.several_labels:
        settings["thresholds"] = model.thresholds.tolist()
    if isinstance(model, LinearModel):
        idf, kinds = model.ngrams.idf.tolist(), []
        for kind, terms in zip(KINDS.values(), from_bytes(model.ngrams.terms) if idf else (), strict=False):
            rows = {term: row for row, term in enumerate(terms)}
            kinds.append({"analyzer": kind["analyzer"], "terms": rows, "idf": idf[: len(terms)]})
            idf = idf[len(terms) :]
        words = from_bytes(model.static_vectors.words)
        static = {word: row for row, word in enumerate(words, start=1)}
        settings |= {"ngrams": kinds, "static_words": static}
    return settings


def _of_squad(model: SquadModel, reader: Any) -> Settings:
    names = ("window", "overlap", "longest_answer")
    settings = {name: getattr(model, name) for name in names}
    if (weights := model.probabilities.weights) is not None:
        settings["odds"] = weights.T.tolist()
    by_spacy = isinstance(reader.text_tokenizer, SpacyRules)
    return settings | {"pieces": PIECES.pattern if by_spacy else None}


_TASKS: dict[type[Model], _Task] = {
    NerModel: _Task("ner", graph.NerGraph, _of_ner),
    SstModel: _Task("sst", graph.SstGraph, _labels),
    SnliModel: _Task("snli", graph.SnliGraph, _labels),
    ClassificationModel: _Task("classifier", graph.Graph, _of_classifier),
    LinearModel: _Task("classifier", graph.LinearGraph, _of_classifier),
    SquadModel: _Task("squad", graph.SquadGraph, _of_squad),
}


def write_model(archive: Archive, folder: Path) -> list[str]:
    """
    Writes the folder of a task's model, whose layers it changes, and returns the names of the files. A model
    that has no such form is an `ElmoError`.
    """
    check_packages()
    if not hasattr(torch.onnx, "ops"):
        raise ElmoError("--format onnx for the model of a task needs PyTorch 2.8 or later")
    model: Any = archive.model
    task = _TASKS.get(type(model))
    if task is None:
        raise ElmoError(
            f"--format onnx writes models of the types {', '.join(TYPES)}, and no {type(model).__name__}",
            remedy="for its biLM, export it without --format, and then that folder",
        )
    if is_stateful(model):
        raise ElmoError("--format onnx is not for `stateful: true`, where results depend on those before")
    predictor = task_predictor(archive)
    reader: Any = predictor._dataset_reader
    indexers = {name: _indexer(each, model.vocab) for name, each in reader.token_indexers.items()}
    settings = {"fields": predictor.readable(), "indexers": indexers, **_tokenizer(predictor)}
    settings |= task.settings(model, reader)
    graph.prepare(model)
    inputs, shapes = _example(model, settings)
    keys = {name: each["key"] for name, each in indexers.items()}
    module = task.graph(model, inputs, keys)
    save_onnx(module, inputs, (tuple(shapes),), module.outputs, folder / GRAPH)
    (folder / SETTINGS).write_text(json.dumps(settings, ensure_ascii=False) + "\n", encoding="utf-8")
    return [GRAPH, SETTINGS, *_write_pages(folder, task.page)]


def _indexer(indexer: Any, vocab: Vocabulary) -> Settings:
    if type(indexer) is ElmoCharacterIndexer:
        return {"kind": "bytes", "key": indexer.encoder.reads}
    settings: Settings = {}
    if type(indexer) is SingleIdTokenIndexer and indexer._feature_name == "text":
        settings = {"kind": "words", "key": "tokens", "lowercase": indexer.lowercase_tokens}
        added, namespace = [indexer._start_tokens, indexer._end_tokens], indexer.namespace
    elif type(indexer) is TokenCharactersIndexer:
        letters, namespace = indexer._character_tokenizer, indexer._namespace
        settings = {"kind": "characters", "key": "token_characters"}
        settings |= {"lowercase": letters._lowercase_characters, "shortest": indexer._min_padding_length}
        added = [indexer._start_tokens, indexer._end_tokens, letters._start_tokens, letters._end_tokens]
        added.append(letters._byte_encoding)
    entries = vocab.get_token_to_index_vocabulary(namespace) if settings and not any(added) else {}
    if vocab._oov_token not in entries:
        raise ElmoError(
            f"--format onnx has no form of the token indexer {type(indexer).__name__} of the model"
        )
    return settings | {"entries": entries, "unknown": entries[vocab._oov_token]}


def _tokenizer(predictor: TaskPredictor) -> Settings:
    """Returns the rules of the tokenizer, and whether it reads normalized text."""
    reader: Any = predictor._dataset_reader
    tokenizer = predictor.tokenizer if isinstance(predictor, TextPredictor) else reader.text_tokenizer
    normalized = not isinstance(predictor, LabelPredictor)
    return {"tokenizer": tokenizer_settings(tokenizer), "normalized": normalized}


def tokenizer_settings(tokenizer: Tokenizer) -> Settings | None:
    """Returns the rules of a tokenizer; `None` if they are not patterns."""
    if isinstance(tokenizer, Matches):
        return {"pattern": tokenizer.pattern.pattern}
    if isinstance(tokenizer, SpacyRules) and tokenizer.rules is not None:
        return _spacy_rules(tokenizer.rules)
    return None


def _spacy_rules(tokenizer: Any) -> Settings | None:
    """Returns the patterns and cases of a tokenizer of spaCy; `None` if one is not a pattern."""
    functions = {
        "prefix": tokenizer.prefix_search,
        "suffix": tokenizer.suffix_search,
        "infix": tokenizer.infix_finditer,
        "token": tokenizer.token_match,
        "url": tokenizer.url_match,
    }
    patterns: dict[str, str | None] = {}
    for name, function in functions.items():
        pattern = getattr(function, "__self__", None)
        if function is not None and not isinstance(pattern, re.Pattern):
            return None
        patterns[name] = pattern and pattern.pattern
    from spacy.attrs import ORTH

    strings = tokenizer.vocab.strings
    cases = {}
    for case, tokens in tokenizer.rules.items():
        orths = (token.get(ORTH, token.get("ORTH")) for token in tokens)
        cases[case] = [orth if isinstance(orth, str) else strings[orth] for orth in orths]
    finds = (tokenizer.find_prefix, tokenizer.find_suffix, tokenizer.find_infix)
    split = [case for case in cases if " " in case or any(find(case) for find in finds)]
    return {**patterns, "cases": cases, "cases_with_affixes": split}


def _example(model: Any, settings: Settings) -> tuple[dict[str, torch.Tensor], list[dict[int, Any]]]:
    """Returns inputs to trace the graph with, and the dimensions of each that may vary: not the texts."""
    prefixes = ["passage_", "question_"] if isinstance(model, SquadModel) else [""]
    texts = [["An", "example"]] * (2 if graph.has_pairs(model) else 1)
    inputs: dict[str, np.ndarray] = {}
    shapes: list[dict[int, Any]] = []
    for prefix in prefixes:
        for name, ids in padded_ids(texts, settings["indexers"]).items():
            inputs[prefix + name] = ids
            shapes.append({1: Dim.DYNAMIC})
            if settings["indexers"][name]["kind"] == "characters":
                shapes[-1][2] = Dim.DYNAMIC
    if isinstance(model, SquadModel):
        inputs |= {"windows": np.array([[0, 1], [1, -1]]), "places": np.array([0, 2])}
        shapes += [{0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC}]
    if settings.get("static_words"):
        inputs["static"] = np.zeros((len(texts), 2), np.int64)
        shapes.append({1: Dim.DYNAMIC})
    if settings.get("ngrams"):
        inputs |= {"ngrams": np.array([0, 1]), "ngram_values": np.ones(2, np.float32)}
        shapes += [{0: Dim.DYNAMIC}] * 2
    return {name: torch.from_numpy(array) for name, array in inputs.items()}, shapes


def _write_pages(folder: Path, page: str) -> list[str]:
    """Writes the module as `predict.py`, and those that it imports, without their packages."""
    files = {f"elmo_tasks.standalone.pages.{page}": PAGE}
    for module in (waiting := list(files)):
        spec = find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        text = Path(spec.origin).read_text(encoding="utf-8")
        for imported, name in _IMPORT.findall(text):
            if imported not in files:
                files[imported] = f"{name}.py"
                waiting.append(imported)
        (folder / files[module]).write_text(_IMPORT.sub(r"from \2 import ", text), encoding="utf-8")
    return list(files.values())
