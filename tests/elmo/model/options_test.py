import json

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model import BiLmOptions, CharacterOptions, WordOptions
from tests.elmo.files import OPTIONS, changed, make_files
from tests.errors import error_of, mentions


def test_from_a_file_and_from_its_content(tmp_path):
    options = BiLmOptions.read(make_files(tmp_path)[0])
    assert options == BiLmOptions.read(OPTIONS)
    assert options == BiLmOptions(
        tokens=CharacterOptions(filters=((1, 4), (2, 6), (5, 8)), dim=4, activation="relu", n_highway=2),
        dim=12,
        projection_dim=6,
        n_layers=2,
        cell_clip=3.0,
        proj_clip=3.0,
        use_skip_connections=True,
    )
    assert options.output_dim == 12
    assert options.reads_characters
    assert BiLmOptions.read(json.loads(json.dumps(options.to_json()))) == options


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"n_characters": 261}, "char_cnn.n_characters is 261"),
        ({"max_characters_per_token": 51}, "per_token: 51 is not"),
        ({"max_characters_per_token": 4}, "filters.2.0: 5 is not"),
        ({"activation": "gelu"}, "activation: 'gelu' is not"),
        ({"dim": None}, "lstm.dim: None is not"),
        ({"dim": "64"}, "lstm.dim: '64' is not"),
        ({"projection_dim": 0}, "projection_dim: 0 is not"),
        ({"filters": [[51, 4]]}, "filters.0.0: 51 is not"),
    ],
)
def test_wrong_options(tmp_path, changes, expected):
    file = tmp_path / "options.json"
    file.write_text(json.dumps(changed(**changes)))
    message = error_of(ElmoError, BiLmOptions.read, file)
    assert message.startswith(f"{file}: ")
    assert expected in message


def test_char_cnn_decides_what_is_read():
    """bilm-tf trains on characters with n_tokens_vocab, too."""
    assert BiLmOptions.read(OPTIONS | {"n_tokens_vocab": 800_000}) == BiLmOptions.read(OPTIONS)
    options = {"lstm": OPTIONS["lstm"]}
    assert BiLmOptions.read(options | {"n_tokens_vocab": 13}).tokens == WordOptions(n_tokens=13)
    message = error_of(ElmoError, BiLmOptions.from_json, options, where="train.jsonnet")
    assert mentions(message, "train.jsonnet: ", "char_cnn", "n_tokens_vocab")
    message = error_of(ElmoError, BiLmOptions.read, options | {"n_tokens_vocab": 0})
    assert "n_tokens_vocab: 0 is not" in message
