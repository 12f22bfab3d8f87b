import numpy as np
import pytest
import torch
from allennlp.modules.elmo import _ElmoCharacterEncoder, batch_to_ids

from elmo_tasks.elmo.model import CharacterOptions
from elmo_tasks.elmo.model.characters import character_ids
from elmo_tasks.elmo.model.encoders import CharacterEncoder, Highway
from tests.elmo.files import VARIANTS, make_files, read_bilm
from tests.elmo.numpy_reference import NumpyBiLm

WORDS = ["cat", "", "Łódź", "😀", "x" * 48, "y" * 60, "<S>", "</S>", "a"]


@pytest.mark.parametrize("changes", VARIANTS)
def test_equals_the_step_by_step_reference(tmp_path, changes):
    files = make_files(tmp_path, **changes)
    encoder, reference = read_bilm(*files).double().token_encoder, NumpyBiLm(*files)
    vectors = encoder(torch.tensor(character_ids(WORDS)))
    expected = np.stack([reference.word_vector(word) for word in WORDS])
    np.testing.assert_allclose(vectors.detach(), expected, atol=1e-7)


def test_equals_allennlp(tmp_path):
    files = make_files(tmp_path)
    ours, theirs = read_bilm(*files).double().token_encoder, _ElmoCharacterEncoder(*map(str, files)).double()
    expected = theirs(batch_to_ids([WORDS]))["token_embedding"][0, 1:-1]
    torch.testing.assert_close(ours(torch.tensor(character_ids(WORDS))), expected, atol=1e-12, rtol=1e-12)


def test_a_new_highway_carries_most_of_its_input():
    torch.manual_seed(0)
    highway = Highway(size=6)
    inputs = torch.randn(5, 6)
    carry = torch.sigmoid(highway.carry(inputs))
    # What bilm-tf calls carry lets through what is transformed.
    expected = carry * torch.relu(highway.transform(inputs)) + (1 - carry) * inputs
    torch.testing.assert_close(highway(inputs), expected)
    assert (highway.carry.bias == -2).all()


def test_no_projection_where_the_sizes_agree():
    options = CharacterOptions(filters=((1, 4), (2, 4)), dim=3, activation="relu", n_highway=0)
    assert CharacterEncoder(options=options, projection_dim=8).projection is None
    assert CharacterEncoder(options=options, projection_dim=6).projection is not None
