import pytest
from allennlp.common import Params

import elmo_tasks  # noqa: F401
from elmo_tasks.common.files import bundled
from elmo_tasks.training.experiments import NO_ELMO, Setting, layer_rows, own_setting, placement_rows


def config(name: str) -> dict:
    path = bundled(f"training_configs/{name}.jsonnet").resolve()
    return Params.from_file(str(path)).as_dict(quiet=True)


@pytest.mark.parametrize(
    ("task", "own"),
    [
        ("ner", "input-all-lambda-0.1"),
        ("srl", "input-all-lambda-0.001"),
        ("coref", "input-all"),
        ("squad", "input+output-all"),
        ("snli", "input+output-all-lambda-0.001"),
        ("sst", "input+output-all-lambda-0.001"),
    ],
)
def test_what_a_config_has(task, own):
    assert str(own_setting(config(f"{task}_elmo"))) == own


def test_the_rows_of_the_paper():
    own = own_setting(config("snli_elmo"))
    assert {row: str(setting) for row, setting in layer_rows(own).items()} == {
        "no ELMo": "none",
        "top layer": "input+output-top",
        "all layers, lambda 1": "input+output-all-lambda-1",
        "all layers, lambda 0.001": str(own),
    }
    assert {row: str(setting) for row, setting in placement_rows(own).items()} == {
        "no ELMo": "none",
        "input": "input-all-lambda-0.001",
        "input+output": str(own),
        "output": "output-all-lambda-0.001",
    }


def test_overrides():
    given = config("snli_elmo")
    changes = {"model.elmo.placement": "none", "model.elmo.layers": "all", "model.elmo.mix_l2": None}
    assert NO_ELMO.overrides(given, seed=3) == changes
    part = Setting("input", "top", None, fraction=0.1)
    assert str(part) == "input-top-fraction-0.1"
    overrides = part.overrides(given, seed=3)
    reader = given["dataset_reader"]
    sample = {"type": "elmo_sample", "reader": reader, "fraction": 0.1, "seed": 3}
    assert overrides["dataset_reader"] == sample
    assert overrides["validation_dataset_reader"] == reader
    given["validation_dataset_reader"] = {"type": "elmo_snli"}
    assert part.overrides(given, seed=3)["validation_dataset_reader"] == {"type": "elmo_snli"}
