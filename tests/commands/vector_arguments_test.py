import gzip
import math
from argparse import ArgumentParser, Namespace
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import (
    add_vector_arguments,
    read_bilm_encoder,
    read_static_vectors,
)
from tests.commands.tiny import tiny
from tests.elmo.files import read_frozen
from tests.evaluation.archives import make_run

LAYERS = ["layer 0", "layer 1", "layer 2", "average"]
WORDS = ["The", "cat", "sat"]


def parsed(*arguments: Any) -> Namespace:
    parser = ArgumentParser()
    add_vector_arguments(parser)
    return parser.parse_args(list(map(str, arguments)))


def test_layers_and_mixes(tmp_path):
    """A mix of an archive is that of the same numbers, but for gamma, which changes no cosine."""
    options = tiny(tmp_path)
    run = make_run(tmp_path / "run", {"input": [math.log(2), math.log(3), math.log(5)]})
    encoder = read_bilm_encoder(parsed(*options, "--mix", "0.2,.3,5e-1", "--mix", run))
    assert encoder.names == [*LAYERS, "mix 0.2,.3,5e-1", f"{run} input"]
    (vectors,) = encoder.encode([WORDS])
    bilm = read_frozen(options[1], options[3])
    layers = bilm.encode(bilm.padded_ids([WORDS]))[:, 0]
    torch.testing.assert_close(vectors[:3], layers)
    torch.testing.assert_close(vectors[3], sum(layers) / 3)
    torch.testing.assert_close(vectors[4], 0.2 * layers[0] + 0.3 * layers[1] + 0.5 * layers[2])
    torch.testing.assert_close(vectors[5], 1.5 * vectors[4])
    assert read_bilm_encoder(parsed(*options)).names == LAYERS


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        ("1,2", "--mix: found 1,2, expected 3 numbers, one a layer, with commas between them"),
        ("1", "--mix: found 1, expected 3 numbers"),
        ("1,2,inf", "--mix: found 1,2,inf, expected 3 numbers"),
        ("1,2,nan", "--mix: found 1,2,nan, expected 3 numbers"),
    ],
)
def test_numbers_that_are_no_mix(tmp_path, mix, message):
    with pytest.raises(ConfigurationError, match=message):
        read_bilm_encoder(parsed(*tiny(tmp_path), "--mix", mix))


def test_archives_that_do_not_fit(tmp_path):
    with pytest.raises(OSError, match="1,2,three"):
        read_bilm_encoder(parsed(*tiny(tmp_path), "--mix", "1,2,three"))
    run = make_run(tmp_path / "run", {"input": [0.0, 0.0, 0.0]})
    with pytest.raises(ConfigurationError, match=f"{run} was trained with another biLM than the one to be"):
        read_bilm_encoder(parsed("--mix", run))


def test_static_vectors_by_the_names_of_their_files(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one/glove.txt").write_text("cat 1 0\nThe 0 2\n")
    (tmp_path / "vectors.gz").write_bytes(gzip.compress(b"cat 1 2 3\n"))
    arguments = parsed("--vectors", tmp_path / "vectors.gz", "--vectors", tmp_path / "one/glove.txt")
    packed, glove = read_static_vectors(arguments)
    assert (packed.names, packed.dim) == (["vectors.gz"], 3)
    assert (glove.names, glove.dim) == (["glove.txt"], 2)
    (vectors,) = glove.encode([WORDS[:2]])
    assert vectors.tolist() == [[[0, 2], [1, 0]]]
    assert read_static_vectors(parsed()) == []
    with pytest.raises(ConfigurationError, match="nowhere: found no file"):
        read_static_vectors(parsed("--vectors", "nowhere"))
