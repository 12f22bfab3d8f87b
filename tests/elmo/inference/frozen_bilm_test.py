import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.model.encoders import WordEncoder
from tests.elmo.files import (
    FILLING,
    NONEMPTY,
    SENTENCES,
    VARIANTS,
    VOCABULARY,
    batch,
    frozen,
    make_files,
    make_word_files,
    random_bilm,
    read_bilm,
    trained,
)
from tests.elmo.inference.precisions import PRECISIONS, REFUSAL, needs_bfloat16, take_bfloat16_away
from tests.errors import error_of, mentions


def assert_equal(found, expected, tolerance):
    for ours, theirs in zip(found, expected, strict=True):
        assert not ours.requires_grad
        torch.testing.assert_close(ours.double(), theirs.detach(), atol=tolerance, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("changes", VARIANTS)
def test_equals_the_model(tmp_path, changes, dtype):
    """In float64 with weights so large that all bounds are reached; float32 would lose digits with them."""
    if dtype == torch.float64:
        model, tolerance = read_bilm(*make_files(tmp_path, **changes)), 1e-9
    else:
        model, tolerance = random_bilm(**{"cell_clip": 0.1, "proj_clip": 0.05} | changes), 2e-6
    bilm = frozen(model).to(dtype)
    model = model.double()
    state = exact_state = None
    for sentences in (SENTENCES, SENTENCES[::-1], [[]] * 5, SENTENCES[2:] + SENTENCES[:2]):
        ids = batch(sentences) if any(sentences) else torch.zeros(5, 3, 50, dtype=torch.int16)
        layers, state = bilm(ids, state)
        expected, exact_state = model(ids, exact_state)
        assert layers.dtype == dtype
        assert_equal([layers, *state], [expected, *exact_state], tolerance)
    found = bilm.encode(batch(SENTENCES))
    assert_equal([found], [model.encode(batch(SENTENCES))], tolerance)
    for row, words in enumerate(SENTENCES):
        assert not found[:, row, len(words) :].any()


def test_equals_the_model_that_reads_words(tmp_path):
    files = make_word_files(tmp_path)
    model = read_bilm(**files)
    bilm = FrozenBiLm.read(model.options, files["weight_file"], VOCABULARY)
    same_bits(bilm.state_dict(), model.state_dict())
    bilm.prepare()
    same_bits(bilm.state_dict(), model.state_dict())
    model = model.double()
    ids = WordEncoder.padded_ids(SENTENCES)
    assert torch.equal(bilm.padded_ids(SENTENCES), ids)
    assert_equal([bilm.encode(ids)], [model.encode(ids)], 5e-6)
    layers, state = bilm(ids)
    expected, exact_state = model(ids)
    assert_equal([layers, *state], [expected, *exact_state], 5e-6)
    assert bilm.knows(["cat", "nowhere", "Łódź"]).tolist() == [True, False, True]


@needs_bfloat16
@pytest.mark.parametrize("changes", VARIANTS)
def test_bfloat16_is_near(changes):
    model = random_bilm(**changes)
    difference = (frozen(model, "bfloat16").encode(batch(SENTENCES)) - model.encode(batch(SENTENCES))).abs()
    assert 0 < difference.max() < 0.1
    assert frozen(model, "bfloat16").digest() != model.digest()


def test_bfloat16_where_there_is_none(monkeypatch):
    take_bfloat16_away(monkeypatch)
    model = random_bilm()
    bilm = frozen(model, "bfloat16")
    for run in (bilm.prepare, lambda: bilm.encode(batch(NONEMPTY)), lambda: bilm(batch(NONEMPTY))):
        assert mentions(error_of(ElmoError, run), *REFUSAL)
    # The weights are still there.
    same_bits(bilm.state_dict(), model.state_dict())


@pytest.mark.parametrize("make", [frozen, trained, lambda model: model])
@pytest.mark.parametrize("index", [0, 1])
def test_ids_with_padding_before_a_word(make, index):
    bilm, ids = make(random_bilm()), batch([["a", "b", "c"], ["d"]])
    ids[0, index] = 0
    for run in (bilm, bilm.encode):
        with pytest.raises(ElmoError, match="padding"):
            run(ids)


def test_starts_where_it_is_told_to():
    bilm = frozen(random_bilm(**FILLING))
    _, state = bilm(batch([["so", "it", "begins"]]))
    for sentence in (SENTENCES[0], SENTENCES[3]):
        expected, _ = bilm(batch([sentence]), state)
        assert torch.equal(bilm.encode(batch([sentence]), state), expected)
    assert not torch.equal(bilm.encode(batch([["Yes"]])), bilm.encode(batch([["Yes"]]), state))


def test_the_state_that_is_given_stays_as_it_is():
    bilm = frozen(random_bilm(**FILLING))
    _, state = bilm(batch(SENTENCES))
    copies = [part.clone() for part in state]
    _, after = bilm(batch(SENTENCES), state)
    assert all(map(torch.equal, state, copies))
    assert not torch.equal(after.hidden, state.hidden)


def test_inference_mode_leaves_nothing_unusable_behind():
    bilm = frozen(random_bilm(**FILLING))
    with torch.inference_mode():
        expected = bilm.encode(batch(SENTENCES[:2]))
    mixed = bilm.encode(batch(SENTENCES)) * torch.ones(1, requires_grad=True)
    mixed.sum().backward()
    assert torch.equal(mixed[:, :2, :7].detach(), expected)


def same_bits(found, expected):
    assert list(found) == list(expected)
    for name, weight in expected.items():
        assert found[name].dtype == weight.dtype
        assert found[name].shape == weight.shape
        assert found[name].contiguous().numpy().tobytes() == weight.numpy().tobytes(), name


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("changes", [*VARIANTS, {"dim": 100, "projection_dim": 37}, FILLING])
def test_state_dict_is_that_of_the_model_bit_by_bit(changes, precision):
    model = random_bilm(**changes)
    bilm = frozen(model, precision)
    same_bits(bilm.state_dict(), model.state_dict())
    bilm.prepare()
    same_bits(bilm.state_dict(), model.state_dict())
    bilm.encode(batch(SENTENCES))
    same_bits(bilm.state_dict(), model.state_dict())
    again = FrozenBiLm(options=model.options, precision=precision)
    again.load_state_dict(bilm.state_dict())
    same_bits(again.state_dict(), model.state_dict())
    assert again.digest() == bilm.digest()


def test_strict_loading():
    bilm = frozen(random_bilm())
    state, before = bilm.state_dict(), bilm.encode(batch(NONEMPTY))
    name = "lstm.directions.1.0.bias"
    without = {key: weight for key, weight in state.items() if key != name}
    for wrong, expected in (
        (without, f'Missing key(s) in state_dict: "{name}"'),
        (state | {"lstm.more": torch.zeros(1)}, 'Unexpected key(s) in state_dict: "lstm.more"'),
        (state | {name: torch.zeros(3)}, f"{name} has the shape (3,) instead of (48,)"),
    ):
        assert expected in error_of(RuntimeError, bilm.load_state_dict, wrong)
    # Weights that fit are taken over, as by any module.
    found = bilm.load_state_dict({name: state[name] + 1, "lstm.more": torch.zeros(1)}, strict=False)
    assert set(found.missing_keys) == set(state) - {name}
    assert torch.equal(bilm.state_dict()[name], state[name] + 1)
    assert not torch.allclose(bilm.encode(batch(NONEMPTY)), before, atol=1e-3)


@pytest.mark.parametrize(("given", "own"), [(torch.float16, torch.float32), (torch.float32, torch.float64)])
def test_loaded_weights_take_the_type_that_it_computes_in(given, own):
    model = random_bilm().to(given)
    bilm = FrozenBiLm(options=model.options).to(own)
    bilm.load_state_dict(model.state_dict())
    layers = bilm.encode(batch(NONEMPTY))
    assert layers.dtype == own
    torch.testing.assert_close(layers, model.to(own).encode(batch(NONEMPTY)), atol=2e-6, rtol=0)
