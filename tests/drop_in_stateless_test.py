"""The switch."""

import importlib
import sys

import allennlp.modules.elmo

from elmo_tasks import drop_in


def test_importing_it_is_the_switch(monkeypatch):
    monkeypatch.setattr(drop_in.Elmo, "stateful", True)
    monkeypatch.delitem(sys.modules, "elmo_tasks.drop_in_stateless", raising=False)
    try:
        importlib.import_module("elmo_tasks.drop_in_stateless")
        assert allennlp.modules.elmo.Elmo is drop_in.Elmo
        assert not drop_in.Elmo.stateful
    finally:
        drop_in.uninstall()
    assert allennlp.modules.elmo.Elmo is drop_in.AllenNlpElmo
