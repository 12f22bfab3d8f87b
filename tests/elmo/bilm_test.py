import numpy as np
import pytest
import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

from elmo_tasks.elmo import BiLm
from tests.elmo.files import SENTENCES, batch, make_files
from tests.elmo.numpy_reference import NumpyBiLm

VARIANTS = [
    {},
    {"activation": "tanh", "n_highway": 1, "use_skip_connections": False},
    {"n_layers": 1, "cell_clip": 0, "proj_clip": 0},
    {"n_layers": 3, "n_highway": 0},
    # No projections at all, as bilm-tf leaves them out where the sizes agree
    {"dim": 18, "projection_dim": 18},
]


@pytest.mark.parametrize("changes", VARIANTS)
def test_equals_the_step_by_step_reference(tmp_path, changes):
    files = make_files(tmp_path, **changes)
    bilm, reference = BiLm.read(*files).double(), NumpyBiLm(*files)
    layers, _ = bilm(batch(SENTENCES))
    for row, words in enumerate(SENTENCES):
        reference.reset()
        if words:
            np.testing.assert_allclose(layers[:, row, : len(words)].detach(), reference(words), atol=1e-6)
        assert not layers[:, row, len(words) :].any()


def test_reaches_the_bounds(tmp_path):
    """Else the comparison above would not see them."""
    bounded, free = (
        BiLm.read(*make_files(tmp_path / name, cell_clip=clip, proj_clip=clip))
        for name, clip in (("bounded", 3), ("free", 0))
    )
    assert not torch.allclose(bounded(batch(SENTENCES))[0], free(batch(SENTENCES))[0], atol=1e-2)


def test_carries_the_state_like_the_original(tmp_path):
    files = make_files(tmp_path)
    bilm, lanes = BiLm.read(*files), [NumpyBiLm(*files) for _ in range(2)]
    state = None
    for sentences in ([["a", "b", "c"], ["d"]], [["e"], ["f", "g"]], [["h", "i"], ["j"]]):
        layers, state = bilm(batch(sentences), state)
        for row, (words, lane) in enumerate(zip(sentences, lanes, strict=True)):
            np.testing.assert_allclose(layers[:, row, : len(words)].detach(), lane(words), atol=1e-5)


def test_equals_allennlp_in_all_layers(tmp_path):
    files = make_files(tmp_path)
    ours, theirs = BiLm.read(*files).double(), _ElmoBiLm(*map(str, files)).double()
    state = None
    for sentences in (SENTENCES[:2], SENTENCES[3:], SENTENCES[1:2] + SENTENCES[4:]):
        layers, state = ours(batch(sentences), state)
        outputs = theirs(batch_to_ids(sentences))
        for ours_layer, theirs_layer in zip(layers, outputs["activations"], strict=True):
            without_borders, _ = remove_sentence_boundaries(theirs_layer, outputs["mask"])
            torch.testing.assert_close(ours_layer, without_borders, atol=1e-12, rtol=1e-12)


def test_state_of_a_row_without_tokens_stays(tmp_path):
    bilm = BiLm.read(*make_files(tmp_path))
    _, before = bilm(batch([["a"], ["b", "c"]]))
    _, after = bilm(batch([["d"], []]), before)
    assert torch.equal(after.hidden[:, :, 1], before.hidden[:, :, 1])
    assert not torch.equal(after.hidden[:, :, 0], before.hidden[:, :, 0])


def test_batch_without_any_token(tmp_path):
    bilm = BiLm.read(*make_files(tmp_path))
    layers, state = bilm(torch.zeros(2, 3, 50, dtype=torch.int16))
    assert layers.shape == (3, 2, 3, 12)
    assert not layers.any()
    assert not state.hidden.any()
