"""Configs of AllenNLP before 1.0."""

import json

import pytest
from allennlp.commands import train
from allennlp.common import Params
from allennlp.common.params import with_overrides
from allennlp.common.util import import_module_and_submodules
from allennlp.models import load_archive

from elmo_tasks.common.files import bundled
from elmo_tasks.common.old_keys import OLD_KEYS
from tests.errors import error_of, mentions

EMBEDDER = {"tokens": {"type": "embedding", "embedding_dim": 4}}
OLD = {
    "iterator": {"type": "basic", "batch_size": 4},
    "validation_iterator": {"type": "basic", "batch_size": 4},
    "dataset_reader.lazy": False,
    "data_loader.batch_sampler.sorting_keys": [["tokens", "num_tokens"]],
    "model.initializer": [["scalar", {"type": "zero"}]],
    "model.encoder.regularizer": [["scalar", {"type": "l2", "alpha": 0.1}]],
    "model.text_field_embedder": EMBEDDER,
    "model.text_field_embedder.allow_unmatched_keys": True,
    "model.similarity_function": {"type": "dot_product"},
    "dataset_reader.tokenizer": {"type": "word"},
    "vocabulary": {"directory_path": "vocabulary"},
    "trainer.cuda_device": [0, 1],
}
"""Values of the old form, by path."""


def config(**old):
    """Returns the config of a tagger of AllenNLP, with these values."""
    import_module_and_submodules("allennlp_models.tagging")
    block = {
        "dataset_reader": {"type": "conll2003"},
        "train_data_path": str(bundled("fixtures/ner/train.conll").resolve()),
        "model": {
            "type": "crf_tagger",
            "text_field_embedder": {"token_embedders": EMBEDDER},
            "encoder": {"type": "lstm", "input_size": 4, "hidden_size": 4},
        },
        "data_loader": {"batch_sampler": {"type": "bucket", "batch_size": 4}},
        "trainer": {"optimizer": "adam", "num_epochs": 1},
    }
    return Params(with_overrides(block, old))


@pytest.mark.parametrize("path", OLD)
def test_the_error_names_the_key_and_the_new_form(path, tmp_path):
    (row,) = (row for row in OLD_KEYS if row.is_of(path, OLD[path]))
    shown = error_of(Exception, train.train_model, config(**{path: OLD[path]}), tmp_path / "run")
    assert mentions(shown, path, row.now.replace("`", ""))


def test_every_row_is_tested_and_in_the_page():
    page = bundled("docs/migration.md").read_text("utf-8")
    for row in OLD_KEYS:
        assert f"| {row.before} | {row.now} |\n" in page
    assert len(OLD_KEYS) == len(OLD) - 1  # two of a row


def test_all_keys_are_named_at_once(tmp_path, allennlp):
    old = config(**{path: OLD[path] for path in ("iterator", "dataset_reader.lazy", "model.initializer")})
    path = tmp_path / "old.json"
    path.write_text(json.dumps(old.params))
    shown = error_of(Exception, train.train_model, old, tmp_path / "run")
    of_vocabulary = allennlp("build-vocab", path, tmp_path / "vocabulary.tar.gz", status=1)
    for key in ("dataset_reader.lazy", "model.initializer", "iterator"):
        assert f"{key}, now " in shown
        assert f"{key}, now " in of_vocabulary


def test_those_of_an_archive(tmp_path):
    train.train_model(config(), tmp_path / "run")
    saved = tmp_path / "run/config.json"
    saved.write_text(
        json.dumps(
            with_overrides(json.loads(saved.read_text()), {"iterator": {}, "dataset_reader.lazy": True})
        )
    )
    shown = error_of(RuntimeError, load_archive, tmp_path / "run")
    assert mentions(shown, str(tmp_path / "run"), "dataset_reader.lazy")
    assert "iterator" not in shown


def test_a_key_of_that_name_in_a_config_that_works(tmp_path):
    """AllenNLP's trainer drops unknown keys."""
    train.train_model(config(**{"trainer.iterator": [["tokens", "num_tokens"]]}), tmp_path / "run")


def test_errors_of_data_stay(tmp_path):
    shown = error_of(
        FileNotFoundError,
        train.train_model,
        config(train_data_path="nosuch.conll", **{"model.initializer": []}),
        tmp_path / "run",
    )
    assert "model.initializer" not in shown
