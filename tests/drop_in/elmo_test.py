"""Our `Elmo` in the place of AllenNLP's: the same results, state dicts and config blocks."""

import copy
import importlib
import sys
from typing import Any

import allennlp.modules.elmo
import pytest
import torch
from allennlp.common import FromParams, Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import batch_to_ids

import elmo_tasks
from elmo_tasks import drop_in
from elmo_tasks.drop_in import AllenNlpElmo, Elmo
from tests.elmo.files import SENTENCES, make_files, make_word_files, needs_h5py

drop_in.uninstall()

FILLED = [words for words in SENTENCES if words]
BATCHES = [FILLED, [["One", "more"]], FILLED[-3:], FILLED[:2] * 3]
"""Batches of several sizes, since a row that a batch lacks keeps its state."""
BLOCKS: list[dict[str, Any]] = [
    {},
    {"num_output_representations": 2, "requires_grad": True},
    {"scalar_mix_parameters": [0.5, -1.0, 2.0]},
]


def both(files: dict[str, str], **block: Any) -> tuple[AllenNlpElmo, Elmo]:
    """AllenNLP's with mixes that differ, and ours with the state dict of AllenNLP's."""
    pytest.importorskip("h5py")
    block = {"num_output_representations": 1, "dropout": 0.0} | block
    theirs, ours = AllenNlpElmo(**files, **block), Elmo(**files, **block)
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in theirs.state_dict().values():
            weight += 0.1 * torch.randn(weight.shape)
    assert not ours.load_state_dict(theirs.state_dict()).unexpected_keys
    return theirs, ours


def assert_same(theirs: AllenNlpElmo, ours: Elmo, ids: torch.Tensor) -> None:
    expected, outputs = theirs(ids), ours(ids)
    assert torch.equal(outputs["mask"], expected["mask"])
    vectors = (each["elmo_representations"] for each in (outputs, expected))
    torch.testing.assert_close(*vectors, atol=1e-5, rtol=0)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("training", [False, True])
def test_equals_allennlps_over_a_text(files, block, training):
    theirs, ours = (elmo.train(training) for elmo in both(files, **block))
    for sentences in BATCHES:
        assert_same(theirs, ours, batch_to_ids(sentences))


@pytest.mark.parametrize("changed", [(0, slice(0, 2), 0), (slice(None), 1), (0, 0), (slice(None),)])
def test_ids_that_no_indexer_makes(files, changed):
    theirs, ours = (elmo.eval() for elmo in both(files))
    ids = batch_to_ids(FILLED[-3:])
    ids[changed] = 0
    for _ in range(2):
        assert_same(theirs, ours, ids)


@pytest.mark.parametrize("kind", ["drop-in", "ours"])
def test_allennlp_resets_the_state(files, kind):
    elmo = both(files)[1] if kind == "drop-in" else elmo_tasks.Elmo(**files, stateful=True, placement="input")
    ids = batch_to_ids(BATCHES[0])
    first, second = (_first_vectors(elmo.eval()(ids)) for _ in range(2))
    for module in elmo.modules():  # as `ModelTestCase.ensure_model_can_train_save_and_load`
        if getattr(module, "stateful", False):
            module.reset_states()
    assert not torch.equal(first, second)
    assert torch.equal(_first_vectors(elmo(ids)), first)


def _first_vectors(outputs: Any) -> torch.Tensor:
    return outputs["elmo_representations"][0] if isinstance(outputs, dict) else outputs.input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 6}, r"options\.json: .*projection_dim .6."),
        ({"projection_dim": 18}, r"options\.json: .*projection_dim .18."),
        ({"use_skip_connections": False}, r"options\.json: .*use_skip_connections"),
    ],
)
def test_bilms_that_allennlp_cannot_hold(tmp_path, changes, message):
    options, weights = make_files(tmp_path, **changes)
    with pytest.raises(ConfigurationError, match=message):
        Elmo(options, weights, 1)


def test_a_bilm_that_reads_words(tmp_path):
    files = make_word_files(tmp_path)
    with pytest.raises(ConfigurationError, match=files["options_file"]):
        Elmo(files["options_file"], files["weight_file"], 1)


class Peer(torch.nn.Module, FromParams):
    """Names AllenNLP's class for a parameter, as allennlp-models' `bcn` does."""

    def __init__(self, elmo: AllenNlpElmo):
        super().__init__()
        self.elmo = elmo


@needs_h5py
def test_a_model_that_was_imported_before(files):
    config = {"elmo": {**files, "num_output_representations": 2}}
    drop_in.install()
    try:
        ours = Peer.from_params(Params(copy.deepcopy(config)))
    finally:
        drop_in.uninstall()
    theirs = Peer.from_params(Params(config))
    assert type(ours.elmo) is Elmo
    assert type(theirs.elmo) is AllenNlpElmo
    ours.load_state_dict(theirs.state_dict())


def test_importing_drop_in_stateless_is_a_switch(monkeypatch):
    monkeypatch.setattr(Elmo, "stateful", True)
    monkeypatch.delitem(sys.modules, "elmo_tasks.drop_in_stateless", raising=False)
    try:
        importlib.import_module("elmo_tasks.drop_in_stateless")
        assert allennlp.modules.elmo.Elmo is Elmo
        assert not Elmo.stateful
    finally:
        drop_in.uninstall()
    assert allennlp.modules.elmo.Elmo is AllenNlpElmo
