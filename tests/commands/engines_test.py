import importlib.util

import pytest

from elmo_tasks.commands import embed as engines


@pytest.mark.parametrize(
    "argument", [["--workers", 2], ["--skip-bad"], ["--dtype", "float16"], ["--ray-address", "auto"]]
)
def test_arguments_of_ray_without_it(elmo, source, output, argument, capsys):
    assert elmo("embed", source, output, *argument) == 1
    assert f"{argument[0]} belongs to --engine ray" in capsys.readouterr().err
    assert not output.exists()


def test_what_is_not_installed_is_named(elmo, source, output, capsys, monkeypatch):
    monkeypatch.setattr(
        engines, "find_spec", lambda name: None if name == "ray" else importlib.util.find_spec(name)
    )
    assert elmo("embed", source, output, "--engine", "ray") == 1
    shown = capsys.readouterr().err
    assert shown.startswith("error: --engine ray needs ray")
    assert "make install EXTRAS='ray'" in shown
