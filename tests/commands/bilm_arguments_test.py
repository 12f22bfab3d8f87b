from argparse import ArgumentParser, Namespace
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import add_bilm_arguments, read_bilm
from elmo_tasks.elmo import Elmo
from elmo_tasks.elmo.files import DEFAULT_OPTIONS
from tests.commands.texts import shipped_bilm
from tests.elmo.files import VOCABULARY, make_files, make_word_files, read_frozen
from tests.elmo.inference.precisions import REFUSAL, take_bfloat16_away
from tests.elmo.many_langs_files import make_folder


def parsed(*arguments: Any) -> Namespace:
    parser = ArgumentParser()
    add_bilm_arguments(parser)
    return parser.parse_args(list(map(str, arguments)))


def test_the_shipped_bilm_by_default():
    bilm = read_bilm(parsed())
    assert bilm.digest() == shipped_bilm().digest()
    assert (bilm.device.type, bilm.precision) == ("cpu", "float32")


def test_files_of_a_bilm_that_reads_words(tmp_path):
    files = make_word_files(tmp_path)
    bilm = read_bilm(parsed(*(f"--{name.replace('_', '-')}={file}" for name, file in files.items())))
    ids = bilm.padded_ids([VOCABULARY, ["elsewhere"]])
    assert torch.equal(bilm.encode(ids), read_frozen(**files).encode(ids))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--options-file", "o"], "--options-file and --weight-file belong together: give both, or neither"),
        (["--weight-file", DEFAULT_OPTIONS], "--options-file and --weight-file belong together"),
        (["--vocabulary-file", "v"], "found a vocabulary_file, v, expected none: the biLM reads characters"),
        (["--device", "qpu"], "--device qpu cannot be used: Expected one of cpu"),
        (["--device", "meta"], "--device meta cannot be used: it computes nothing"),
        (["--device", "hpu"], "--device hpu cannot be used: "),
        (["--device", "cuda:99"], "--device cuda:99 cannot be used: "),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    with pytest.raises(ConfigurationError) as caught:
        read_bilm(parsed(*arguments))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_of_other_sizes_than_the_options(tmp_path):
    options_file, _ = make_files(tmp_path / "one", dim=14)
    _, weight_file = make_files(tmp_path / "other")
    with pytest.raises(ConfigurationError, match=r"other/weights\.hdf5: dataset .* has shape .*, expected"):
        read_bilm(parsed("--options-file", options_file, "--weight-file", weight_file))


def test_bfloat16_where_there_is_none(monkeypatch):
    take_bfloat16_away(monkeypatch)
    with pytest.raises(ConfigurationError) as caught:
        read_bilm(parsed("--precision", "bfloat16"))
    assert all(part in str(caught.value) for part in REFUSAL)
    assert "\n" not in str(caught.value)


def test_a_folder_of_elmoformanylangs_is_enough(elmo, tmp_path):
    """For `embed` and `calibrate`, whose options are those that all verbs have."""
    folder = make_folder(tmp_path / "bilm")
    text = tmp_path / "text.txt"
    text.write_text("한국어 서울 the cat\nthe 한국\n", encoding="utf-8")
    assert elmo("calibrate", text, tmp_path / "start.hdf5", "--weight-file", folder) == 0
    start = ["--initial-state", tmp_path / "start.hdf5"]
    assert elmo("embed", text, tmp_path / "vectors.hdf5", "--weight-file", folder, *start) == 0
    expected = Elmo(weight_file=str(folder), initial_state=str(tmp_path / "start.hdf5"))
    with h5py.File(tmp_path / "vectors.hdf5") as file:
        for row, line in enumerate(text.read_text(encoding="utf-8").splitlines()):
            layers = expected.bilm.encode(expected.bilm.padded_ids([line.split()]), expected.start)[:, 0]
            np.testing.assert_allclose(file[str(row)][...], layers, atol=1e-6)
