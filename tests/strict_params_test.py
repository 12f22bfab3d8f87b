import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader


def build(**params):
    return DatasetReader.from_params(Params({"type": "elmo_ner", **params}))


def test_known_keys_and_those_of_the_base_class():
    assert build(tag_scheme="IOB2", max_instances=3).max_instances == 3


@pytest.mark.parametrize(
    ("key", "hint"),
    [("tag_schema", "did you mean 'tag_scheme'?"), ("max_instance", "mean 'max_instances'?")],
)
def test_names_the_unknown_key_and_the_nearest(key, hint):
    with pytest.raises(ConfigurationError) as caught:
        build(**{key: 1})
    assert f"NerReader: unknown key '{key}'" in str(caught.value)
    assert hint in str(caught.value)


def test_nothing_is_near():
    with pytest.raises(ConfigurationError) as caught:
        build(xyzzy=1)
    assert "did you mean" not in str(caught.value)
    assert "known keys: columns," in str(caught.value)
