import numpy as np
import pytest
import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

from elmo_tasks.elmo.model import BiLm, BiLmOptions
from tests.elmo.files import (
    SENTENCES,
    VARIANTS,
    batch,
    changed,
    make_block,
    make_files,
    make_word_files,
    needs_h5py,
    random_bilm,
    read_bilm,
)
from tests.elmo.numpy_reference import NumpyBiLm


def assert_equals_the_step_by_step_reference(bilm, reference):
    layers, _ = bilm(bilm.padded_ids(SENTENCES))
    for row, words in enumerate(SENTENCES):
        reference.reset()
        if words:
            np.testing.assert_allclose(layers[:, row, : len(words)].detach(), reference(words), atol=1e-6)
        assert not layers[:, row, len(words) :].any()


@pytest.mark.parametrize("changes", VARIANTS)
def test_equals_the_step_by_step_reference(tmp_path, changes):
    files = make_files(tmp_path, **changes)
    assert_equals_the_step_by_step_reference(read_bilm(*files).double(), NumpyBiLm(*files))


def test_of_words_equals_the_step_by_step_reference(tmp_path):
    files = make_word_files(tmp_path)
    assert_equals_the_step_by_step_reference(read_bilm(**files).double(), NumpyBiLm(**files))


def test_reaches_the_bounds(tmp_path):
    """Else the comparison above would not see them."""
    bounded, free = (
        read_bilm(*make_files(tmp_path / name, cell_clip=clip, proj_clip=clip))
        for name, clip in (("bounded", 3), ("free", 0))
    )
    assert not torch.allclose(bounded(batch(SENTENCES))[0], free(batch(SENTENCES))[0], atol=1e-2)


@pytest.mark.parametrize("reads", ["characters", "words"])
def test_carries_the_state_like_the_original(tmp_path, reads):
    files = make_word_files(tmp_path) if reads == "words" else make_block(tmp_path)
    bilm, lanes = read_bilm(**files), [NumpyBiLm(**files) for _ in range(2)]
    state = None
    for sentences in ([["the", "cat", "."], ["on"]], [["until"], ["mat", "and"]], [["x", "on"], ["The"]]):
        layers, state = bilm(bilm.padded_ids(sentences), state)
        for row, (words, lane) in enumerate(zip(sentences, lanes, strict=True)):
            np.testing.assert_allclose(layers[:, row, : len(words)].detach(), lane(words), atol=1e-5)


@needs_h5py
def test_equals_allennlp_in_all_layers(tmp_path):
    files = make_files(tmp_path)
    ours, theirs = read_bilm(*files).double(), _ElmoBiLm(*map(str, files)).double()
    state = None
    for sentences in (SENTENCES[:2], SENTENCES[3:], SENTENCES[1:2] + SENTENCES[4:]):
        layers, state = ours(batch(sentences), state)
        for ours_layer, theirs_layer in zip(layers, allennlp_layers(theirs, sentences), strict=True):
            torch.testing.assert_close(ours_layer, theirs_layer, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("changes", VARIANTS)
def test_encode_gives_each_sentence_as_if_it_were_alone(changes):
    bilm = random_bilm(**changes).double().requires_grad_(False)
    together = bilm.encode(batch(SENTENCES))
    torch.testing.assert_close(together, bilm(batch(SENTENCES))[0], atol=0, rtol=0)
    for row, words in enumerate(SENTENCES):
        if words:
            alone = bilm.encode(batch([words]))[:, 0]
            torch.testing.assert_close(alone, together[:, row, : len(words)], atol=1e-12, rtol=0)


def test_digest_tells_weights_and_options_apart(tmp_path):
    files = make_files(tmp_path)
    one, again = read_bilm(*files), read_bilm(*files)
    assert one.digest() == again.digest()
    with torch.no_grad():
        again.lstm.layers(1)[0].bias[3] += 1e-6
    assert one.digest() != again.digest()
    other = BiLm(options=BiLmOptions.read(changed(cell_clip=4)))
    other.load_state_dict(one.state_dict())
    assert one.digest() != other.digest()


def allennlp_layers(bilm: _ElmoBiLm, sentences: list[list[str]]) -> list[torch.Tensor]:
    """*Shape:* of each layer `(sentences, longest, 2 projection_dim)`, without the borders."""
    outputs = bilm(batch_to_ids(sentences))
    return [remove_sentence_boundaries(layer, outputs["mask"])[0] for layer in outputs["activations"]]
