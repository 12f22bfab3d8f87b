"""Every value of a config block is checked, and the error has its path, the value and what is expected."""

import importlib
import math
import pkgutil
from copy import deepcopy
from inspect import Parameter
from typing import Any

import pytest
from allennlp.common import FromParams, Lazy, Params, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, TokenIndexer, Tokenizer, Vocabulary
from allennlp.data.samplers import BatchSampler
from allennlp.models import Model
from allennlp.modules import TokenEmbedder
from allennlp.modules.text_field_embedders import BasicTextFieldEmbedder
from allennlp.modules.token_embedders import Embedding
from allennlp.nn.initializers import Initializer
from allennlp.nn.regularizers import Regularizer
from allennlp.predictors import Predictor
from allennlp.training import Checkpointer, Trainer, TrainerCallback
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
from allennlp.training.metrics import Metric
from allennlp.training.optimizers import Optimizer
from torch import nn
from torch.optim import Adam

import elmo_tasks
from elmo_tasks import drop_in
from elmo_tasks.classification.linear import LinearModel
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import bundled
from elmo_tasks.common.strict_params import ConfigError, StrictParams, parameters_of
from elmo_tasks.elmo import Elmo
from elmo_tasks.language_model.softmax import Softmax

drop_in.uninstall()
OPTIONS = str(bundled("fixtures/elmo/options.json"))
WORDS = Vocabulary()
for namespace in ("tokens", "token_characters", "genres"):
    WORDS.add_tokens_to_namespace(["a", "b", "<S>", "</S>"], namespace)
WORDS.add_tokens_to_namespace(["O", "B-PER", "I-PER"], "labels")
"""The vocabulary of all models; its labels are tags, and classes too."""

EMBEDDER = {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 4}}}
TASK = {"text_field_embedder": EMBEDDER, "dropout": 0.1}
SIZES: dict[str, Any] = TASK | {"hidden_sizes": [3]}
SIZE: dict[str, Any] = TASK | {"hidden_size": 3}
RANDOM = {"options_file": OPTIONS, "weight_file": None}
WORD_BILM = {"lstm": {"dim": 4, "projection_dim": 2, "n_layers": 1}}
MODELS: dict[str, dict[str, Any]] = {
    "elmo_ner": SIZES,
    "elmo_srl": SIZE | {"predicate_dim": 2, "num_layers": 1},
    "elmo_coref": SIZES
    | {"feedforward_sizes": [3], "feature_dim": 2, "max_span_width": 3, "spans_per_word": 0.5}
    | {"max_antecedents": 3, "max_training_sentences": 3, "lexical_dropout": 0.1},
    "elmo_squad": SIZE | {"linear_size": 3, "longest_answer": 3, "window": 9, "overlap": 3},
    "elmo_snli": SIZE | {"attention_dropout": 0.1},
    "elmo_sst": SIZE | {"projection_size": 3, "classifier_sizes": [3], "classifier_dropout": 0.1},
    "elmo_classifier": SIZES | {"pairs": True, "pooling": "max"},
    "elmo_linear": {"text_field_embedder": EMBEDDER, "pairs": False},
    "elmo_sentence": TASK | {"size": 3, "head_size": 3},
    "elmo_bilm": {"options": WORD_BILM, "softmax": {"type": "full"}},
    "elmo_ensemble": {"members": []},
}
BLOCKS: dict[Any, dict[str, dict[str, Any]]] = {
    Model: MODELS,
    DatasetReader: {
        **{
            f"elmo_{name}": {} for name in ("ner", "srl", "coref", "squad", "snli", "sst", "sentence", "bilm")
        },
        "elmo_classifier": {"format": "text", "sentence1": "text", "label": None, "classes": ["a", "b"]}
        | {"tokenizer": {"type": "elmo_syllables"}},
        "elmo_sample": {"reader": {"type": "elmo_ner"}, "fraction": 0.5, "seed": 1},
    },
    TokenIndexer: {"elmo_character_ids": {}, "elmo_unicode_ids": {}, "elmo_word_ids": {}},
    Tokenizer: {"elmo_spacy": {}, "elmo_syllables": {}},
    TokenEmbedder: {"elmo_character_cnn": {"embedding_dim": 2, "num_filters": 2}, "elmo": RANDOM},
    Regularizer: {"elmo_mix": {}},
    Softmax: {"full": {}, "sampled": {"num_samples": 2}, "adaptive": {"cutoffs": [2], "div_value": 2.0}},
    BatchSampler: {
        "elmo_bucket": {"batch_size": 2},
        "elmo_grouped_bucket": {"batch_size": 2, "group": "sentence"},
    },
    Checkpointer: {"elmo_safe": {}},
    Initializer: {"elmo_orthogonal_gates": {}},
    Trainer: {"elmo_linear": {}},
    LearningRateScheduler: {"elmo_linear_with_warmup": {"warmup": 0.1}},
    Optimizer: {"elmo_adam": {}},
    TrainerCallback: {
        **{
            f"elmo_{name}": {}
            for name in ("mlflow", "progress", "repeatable", "share_cores", "softmax_first")
        },
        "elmo_text_perplexities": {"texts": {"a": "a.txt"}, "reader": {"type": "elmo_bilm"}},
    },
    Vocabulary: {"elmo_words": {"words_file": str(bundled("fixtures/classification/elmo_words/vocab.txt"))}},
    Elmo: {"": RANDOM},
}
"""A whole block for each class of ours, by its base and its name: not to be changed."""
EXTRAS: dict[Any, dict[str, Any]] = {
    Model: {"vocab": WORDS},
    TokenEmbedder: {"vocab": WORDS},
    Softmax: {"num_classes": 4, "dim": 4},
    Checkpointer: {"serialization_dir": "run"},
    Trainer: {
        "serialization_dir": "run",
        "model": LinearModel(
            vocab=WORDS,
            text_field_embedder=BasicTextFieldEmbedder({"tokens": Embedding(4, num_embeddings=5)}),
            pairs=False,
        ),
        "data_loader": None,
    },
    TrainerCallback: {"serialization_dir": "run"},
    LearningRateScheduler: {"optimizer": Adam([nn.Parameter()]), "num_epochs": 2, "num_steps_per_epoch": 3},
    Optimizer: {"model_parameters": [("weight", nn.Parameter())]},
}
"""The arguments that a class of that base gets from elsewhere than its block."""
CASES = [(base, name) for base, blocks in BLOCKS.items() for name in blocks]
NAMES = [name or base.__name__ for base, name in CASES]


def constructor(base: Any, name: str) -> tuple[type, Any]:
    if not name:
        return base, base.__init__
    cls, method = Registrable._registry[base][name]
    return cls, getattr(cls, method) if method else cls.__init__


def parameters(base: Any, name: str) -> dict[str, Parameter]:
    """Returns the parameters that a block may have."""
    known = parameters_of(*constructor(base, name))
    return {key: each for key, each in known.items() if key not in {*EXTRAS.get(base, {}), "vocab"}}


def build(base: Any, name: str, **changes: Any) -> Any:
    # AllenNLP empties blocks while it reads them.
    block = deepcopy(BLOCKS[base][name] | changes) | ({"type": name} if name else {})
    params = Params({"above": {"block": block}}).pop("above").pop("block")
    return base.from_params(params, **EXTRAS.get(base, {}))


OF_EXTRAS = {
    *("fastapi", "gensim", "h5py", "lmdb", "onnxruntime", "prometheus_client", "pyarrow", "ray"),
    *("starlette", "uvicorn"),
}
"""Packages that may be missing; no config names a class that needs them."""


def test_every_class_is_here():
    for module in pkgutil.walk_packages(elmo_tasks.__path__, "elmo_tasks."):
        if "placeholders" not in module.name:
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:
                if error.name not in OF_EXTRAS:
                    raise
    # Importing the drop-in changes what AllenNLP's own ELMo is.
    drop_in.uninstall()
    ours = {
        (base, name)
        for base, registered in Registrable._registry.items()
        for name, (cls, _) in registered.items()
        if cls.__module__.startswith("elmo_tasks.") and "compat" not in cls.__module__
        # They stand in no config.
        if base.__name__ != "Subcommand" and not issubclass(base, Predictor | Metric)
    }
    assert ours == set(CASES) - {(Elmo, "")}
    assert all(issubclass(constructor(*case)[0], StrictParams) for case in ours)


ANYTHING = [None, True, 0, 3, -1, 0.5, 1e30, math.nan, "", "x"]
ANYTHING += [[], ["x"], [1], {}, {"type": "x"}, {"path": "x"}]
"""Values that may stand in a block."""


@pytest.mark.parametrize(("base", "name"), CASES, ids=NAMES)
def test_a_block_is_built_or_its_path_is_named(base, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name not in ("elmo_ensemble", "elmo_mlflow"):  # archives make the one, an extra the other
        assert build(base, name) is not None
    for key in parameters(base, name):
        for value in ANYTHING:
            if key == "tokenizer" and isinstance(value, dict) and "type" not in value:
                continue  # AllenNLP's own, which looks for a model to download
            error = error_of(base, name, key, value)
            assert error is None or error.key.startswith("above.block"), (key, value)


@pytest.mark.parametrize("key", ["tag_schema", "xyzzy"])
def test_an_unknown_key_and_the_nearest(key):
    """Keys of the base class are known, too."""
    assert build(DatasetReader, "elmo_ner", tag_scheme="IOB2", max_instances=3).max_instances == 3
    error = error_of(DatasetReader, "elmo_ner", key, 1)
    assert error is not None
    assert error.key == f"above.block.{key}"
    assert "tag_scheme" in error.remedy


@pytest.mark.parametrize(
    ("block", "key"),
    [
        ({"activations": {"path": "x", "dtype": 3}}, ".activations.dtype"),
        ({"activations": {"pth": "x"}}, ".activations.pth"),
        ({"activations": {"dtype": "float16"}}, ".activations.path"),
        ({"weight_file": "nowhere.hdf5"}, ""),
    ],
)
def test_the_path_of_a_block_within_a_block(block, key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = error_of(Model, "elmo_ner", "elmo", BLOCKS[Elmo][""] | block)
    assert error is not None
    assert error.key == f"above.block.elmo{key}"


class Training(FromParams):
    """Takes callbacks as AllenNLP's own training does: made later, from a list."""

    def __init__(self, callbacks: list[Lazy[TrainerCallback]]) -> None:
        self.callbacks = [each.construct(serialization_dir="run") for each in callbacks]


def test_the_path_in_a_list():
    callbacks = [{"type": "elmo_progress"}, {"type": "elmo_progress", "every_seconds": math.nan}]
    params = Params({"trainer": {"callbacks": callbacks}})
    with pytest.raises(ConfigurationError, match=r"^trainer\.callbacks\.1\.every_seconds: nan"):
        Training.from_params(params.pop("trainer"))


def test_calls_from_python_are_checked():
    with pytest.raises(ElmoError, match=r"^dropout: 1\.0"):
        Elmo(dropout=1.0)
    with pytest.raises(ElmoError, match=r"^activations\.limit_gb: nan"):
        Elmo(activations={"path": "x", "limit_gb": math.nan})
    with pytest.raises(TypeError, match="dropuot"):
        Elmo(dropuot=0.5)


def error_of(base: Any, name: str, key: str, value: Any) -> ConfigError | None:
    try:
        build(base, name, **{key: value})
    except ConfigError as error:
        return error
    return None
