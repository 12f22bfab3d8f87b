"""The declaration of arguments, and the groups of arguments that say which vectors are meant."""

import math
from argparse import ArgumentTypeError

import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import BilmArguments, VectorArguments
from elmo_tasks.commands.base import Positive, Seed
from elmo_tasks.commands.experiments import Fraction
from elmo_tasks.commands.vectors import AboveZero, NotNegative
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.files import DEFAULT_OPTIONS
from tests.commands.texts import parsed, tiny
from tests.elmo.files import read_frozen
from tests.errors import error_of, mentions
from tests.ner.archives import make_run

LAYERS = ["layer 0", "layer 1", "layer 2", "average"]
WORDS = ["The", "cat", "sat"]


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (Positive, {"1": 1, "007": 7}, ["0", "-1", "1.5", "1e3", "", "many"]),
        (Seed, {"0": 0, "4294967295": 2**32 - 1}, ["-1", "4294967296", "1.5", ""]),
        (Fraction, {"1": 1.0, "1e-3": 0.001}, ["0", "1.01", "nan", "x"]),
        (NotNegative, {"0": 0.0, "2.5": 2.5}, ["-1", "inf", "nan", "x"]),
        (AboveZero, {"0.5": 0.5}, ["0", "inf", "nan", "x"]),
    ],
)
def test_numbers(kind, right, wrong):
    (read,) = kind.__metadata__
    assert {text: read(text) for text in right} == right
    for text in wrong:
        with pytest.raises(ArgumentTypeError, match=f"'{text}'"):
            read(text)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--options-file", "o"], ["--options-file", "--weight-file"]),
        (["--weight-file", DEFAULT_OPTIONS], ["--options-file", "--weight-file"]),
        (["--vocabulary-file", "v"], ["vocabulary_file"]),
        *((["--device", name], ["--device", name]) for name in ("qpu", "hpu", "cuda:99")),
    ],
)
def test_arguments_of_a_bilm_that_do_not_fit(arguments, names):
    assert mentions(error_of(ElmoError, parsed(BilmArguments, *arguments).read), *names)


class TestVectors:
    def test_layers_and_mixes(self, tmp_path):
        """A mix of an archive is that of the same numbers, but for gamma, which changes no cosine."""
        options = tiny(tmp_path)
        run = make_run(tmp_path / "run", {"input": [math.log(2), math.log(3), math.log(5)]})
        encoder, static = parsed(VectorArguments, *options, "--mix", "0.2,.3,5e-1", "--mix", run).encoders()
        assert static == []
        assert encoder.names == [*LAYERS, "mix 0.2,.3,5e-1", f"{run} input"]
        (vectors,) = encoder.encode([WORDS])
        bilm = read_frozen(options[1], options[3])
        layers = bilm.encode(bilm.padded_ids([WORDS]))[:, 0]
        torch.testing.assert_close(vectors[:3], layers)
        torch.testing.assert_close(vectors[3], sum(layers) / 3)
        torch.testing.assert_close(vectors[4], 0.2 * layers[0] + 0.3 * layers[1] + 0.5 * layers[2])
        torch.testing.assert_close(vectors[5], 1.5 * vectors[4])

    @pytest.mark.parametrize(
        ("mix", "error"),
        [*((mix, ConfigurationError) for mix in ("1,2", "1", "1,2,inf", "1,2,nan")), ("1,2,three", OSError)],
    )
    def test_what_is_no_mix(self, tmp_path, mix, error):
        with pytest.raises(error, match=mix):
            parsed(VectorArguments, *tiny(tmp_path), "--mix", mix).encoders()

    def test_a_mix_of_another_bilm(self, tmp_path):
        run = make_run(tmp_path / "run", {"input": [0.0, 0.0, 0.0]})
        with pytest.raises(ConfigurationError, match=f"--mix: {run} "):
            parsed(VectorArguments, "--mix", run).encoders()
