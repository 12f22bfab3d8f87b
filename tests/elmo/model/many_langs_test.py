"""The weights of ELMoForManyLangs, against its own package."""

import json

import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.model import BiLm, WordOptions
from elmo_tasks.elmo.model.folders import SHIPPED, opened_folder, options_in, weights_in
from tests.elmo.many_langs import (
    CHARACTERS,
    SENTENCES,
    VARIANTS,
    WITHOUT_LONG_WORDS,
    WORDS,
    make_folder,
    reference,
)
from tests.errors import error_of, mentions


def read(path) -> FrozenBiLm:
    with opened_folder(path) as folder:
        options = options_in(folder)
        return FrozenBiLm(options=options, weights=weights_in(folder, options))


def assert_alike(layers, theirs, sentences):
    for row, (words, expected) in enumerate(zip(sentences, theirs, strict=True)):
        expected = torch.from_numpy(expected)
        torch.testing.assert_close(layers[:, row, : len(words)], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_from_a_fresh_state(tmp_path, changes):
    folder = make_folder(tmp_path, **changes)
    sentences = SENTENCES if changes.get("char_dim") != 0 else WITHOUT_LONG_WORDS
    with reference(folder) as embedder:
        theirs = embedder.sents2elmo(sentences, output_layer=-2)
        average = embedder.sents2elmo(sentences[:1])[0]
    frozen = read(folder)
    bilm = BiLm(options=frozen.options)
    bilm.load_state_dict(frozen.weights())
    ids = bilm.token_encoder.padded_ids(sentences)
    assert_alike(frozen.encode(ids), theirs, sentences)
    assert_alike(bilm.encode(ids), theirs, sentences)
    assert len(average) == len(sentences[0])


@pytest.mark.parametrize("changes", VARIANTS[::3], ids=str)
def test_carried_state_over_a_file(tmp_path, changes):
    """Batches of falling sizes and then more rows; the original sorts each by length, as ours are here."""
    folder = make_folder(tmp_path, **changes)
    sentences = [words for words in WITHOUT_LONG_WORDS for _ in range(3)]
    batches = [sorted(sentences[i : i + size], key=len, reverse=True) for i, size in ((0, 4), (4, 2), (6, 6))]
    bilm, state = read(folder), None
    with reference(folder) as embedder:
        for i, batch in enumerate(batches):
            theirs = embedder.sents2elmo(batch, output_layer=-2)
            if i == 0:
                state = bilm.initial_state(6)
            rows = batch + [[]] * (6 - len(batch))
            layers, state = bilm(bilm.padded_ids(rows), state)
            assert_alike(layers, theirs, batch)


def test_the_configurations_that_the_package_brings_along(tmp_path):
    """It names them by a path of its makers' machine; and brings them with the package."""
    make_folder(tmp_path)
    with reference(tmp_path):
        import elmoformanylangs
    shipped = tmp_path.joinpath(elmoformanylangs.__file__).parent / "configs"
    assert {path.name for path in shipped.iterdir()} == set(SHIPPED)
    for name, ours in SHIPPED.items():
        theirs = json.loads((shipped / name).read_text())
        assert {key: theirs[key] for key in ours} == ours
        (tmp_path / "config.json").write_text(json.dumps({"config_path": f"/users/conll/configs/{name}"}))
        with opened_folder(tmp_path) as folder:
            options = options_in(folder)
        assert (options.dim, options.projection_dim, options.cell_clip) == (4096, 512, 3.0)
        assert options.tokens.dictionaries.n_words == len(WORDS)
        assert options.tokens.dictionaries.n_characters == len(CHARACTERS)


def test_without_characters_it_reads_words(tmp_path):
    bilm = read(make_folder(tmp_path, char_dim=0, words=["<pad>", "cat", "<oov>"]))
    assert bilm.options.tokens == WordOptions(n_tokens=6)
    assert bilm.reads == "word_ids"
    assert bilm.knows(["cat", "<S>", "dog"]).tolist() == [True, True, False]
    # Marks that it lacks are unknown words.
    table = bilm.weights()["token_encoder.embedding"]
    assert torch.equal(table[3:], table[2].expand(3, -1))


def test_a_blank_is_that_of_u3000(tmp_path):
    """As in the original, which strips its lines."""
    bilm = read(make_folder(tmp_path, characters=[*CHARACTERS[:9], *CHARACTERS[10:], "\xa0"], word_dim=0))
    vectors = bilm.encode(bilm.padded_ids([["\u3000", "\xa0", "q"]]))[0, 0]
    assert torch.equal(vectors[1], vectors[2])
    assert not torch.equal(vectors[0], vectors[2])


def read_error(path) -> str:
    return error_of(ElmoError, read, path).replace(str(path), "FOLDER")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"dim": 6}, "FOLDER/sizes.json: encoder.dim and"),
        ({"activation": "gelu"}, "activation: 'gelu'"),
        ({"characters": CHARACTERS[1:]}, "FOLDER/char.dic: the lines for <pad>"),
        ({"words": WORDS[1:]}, "FOLDER/word.dic: the lines for <oov>"),
        ({"words": ["a\tb", *WORDS]}, "FOLDER/word.dic, line 1: "),
    ],
)
def test_wrong_folder(tmp_path, changes, expected):
    folder = make_folder(tmp_path / "bilm")
    try:
        make_folder(folder, **changes)
    finally:
        assert expected in read_error(folder)


def test_a_folder_without_sizes(tmp_path):
    folder = make_folder(tmp_path)
    (folder / "sizes.json").unlink()
    assert mentions(read_error(folder), "FOLDER/config.json", "sizes.json")


class Unsafe:
    def __reduce__(self):
        return exec, ("unsafe",)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (lambda state: state | {"more": torch.ones(2)}, "more"),
        (lambda state: {}, "projection.bias is missing"),
        (lambda state: state | {"projection.bias": torch.ones(7)}, "(7,) instead of (6,)"),
        (
            lambda state: state | {"projection.bias": torch.ones(6).to(torch.float8_e4m3fn)},
            "not a plain tensor",
        ),
        (lambda state: Unsafe(), "not a state dict of PyTorch alone (it names exec)"),
    ],
)
def test_wrong_weights(tmp_path, capsys, changed, expected):
    file = make_folder(tmp_path) / "token_embedder.pkl"
    torch.save(changed(torch.load(file, weights_only=True)), file)
    message = read_error(tmp_path)
    assert message.startswith("FOLDER/token_embedder.pkl: ")
    assert expected in message
    assert "unsafe" not in capsys.readouterr().out
