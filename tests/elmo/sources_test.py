"""`files_test.py` has what is read; here its errors become those of AllenNLP."""

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.elmo.files import (
    DEFAULT_OPTIONS,
    DEFAULT_WEIGHTS,
    read_bilm,
    read_frozen_bilm,
    read_initial_state,
    read_options,
    read_words,
)


def test_errors_are_those_of_allennlp(tmp_path):
    file = tmp_path / "vocabulary.txt"
    file.write_bytes(b"<S>\n</S>\n\n<UNK>\n")
    options = read_options(DEFAULT_OPTIONS)
    for read, message in (
        (lambda: read_words(file), f"{file}, line 3: found an empty line, expected a word"),
        (lambda: read_options(file), str(file)),
        (
            lambda: read_frozen_bilm(options, DEFAULT_WEIGHTS, file),
            "expected none: the biLM reads characters",
        ),
        (lambda: read_initial_state(DEFAULT_WEIGHTS, options), DEFAULT_WEIGHTS),
    ):
        with pytest.raises(ConfigurationError) as caught:
            read()
        assert message in str(caught.value)


def test_a_bilm_to_be_trained_has_the_same_weights():
    options = read_options(DEFAULT_OPTIONS)
    trained, frozen = (
        read_bilm(options, DEFAULT_WEIGHTS, trainable=trainable) for trainable in (True, False)
    )
    weights = frozen.state_dict()
    assert {name: weight.shape for name, weight in weights.items()} == {
        name: weight.shape for name, weight in trained.state_dict().items()
    }
    assert all(weight.equal(weights[name]) for name, weight in trained.state_dict().items())
