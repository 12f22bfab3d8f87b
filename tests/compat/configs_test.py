"""Configs: with gojsonnet, and errors of one line that name the file."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
from allennlp.common import Params, params
from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.compat import training
from tests.compat.repairs_test import stock


def test_gojsonnet_where_jsonnet_is_not_installed(monkeypatch, tmp_path):
    go = ModuleType("_gojsonnet")
    go.__spec__ = ModuleSpec("_gojsonnet", None)
    go.evaluate_file = lambda path, **options: '{"by": "go"}'
    go.evaluate_snippet = lambda path, text, **options: text
    for name in ("evaluate_file", "evaluate_snippet"):
        monkeypatch.setattr(params, name, getattr(params, name))
    monkeypatch.setitem(sys.modules, "_jsonnet", None)
    monkeypatch.setitem(sys.modules, "_gojsonnet", go)
    training.read_configs()
    (tmp_path / "a.jsonnet").touch()
    assert Params.from_file(tmp_path / "a.jsonnet").as_dict() == {"by": "go"}


@pytest.mark.parametrize(
    ("text", "overrides", "where", "names"),
    [
        ("{", "", "a.jsonnet", "a.jsonnet:2:1"),
        ('{"a": error "no"}', "", "a.jsonnet", "no"),
        ("{}", "{", "overrides", ""),
        ('{"model": {"dropout": 0.5}}', '{"modl.dropout": 1}', "a.jsonnet", "modl.dropout"),
    ],
)
def test_configs_and_overrides_that_are_wrong(tmp_path, text, overrides, where, names):
    path = tmp_path / "a.jsonnet"
    path.write_text(f"{text}\n")
    with pytest.raises(ConfigError) as caught:
        Params.from_file(path, overrides)
    assert str(caught.value.where).endswith(where)
    assert names in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(Exception) as of_stock:  # noqa: PT011
        stock(params).Params.from_file(path, overrides)
    assert not isinstance(of_stock.value, ConfigurationError)
