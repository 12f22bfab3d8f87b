"""`allennlp elmo doctor`."""

from importlib import metadata
from pathlib import Path

import pytest
import torch
from allennlp.common import file_utils

from elmo_tasks.commands import doctor


@pytest.fixture
def cache(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"0" * 2_500_000)
    monkeypatch.setattr(file_utils, "CACHE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "none"))


def test_every_section_has_facts(elmo, cache, capsys):
    assert elmo("doctor") == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if not line.startswith("  ")]
    assert titles == ["versions", "processor", "GPU", "spaCy models", "caches", "extras"]
    assert f"  torch: {metadata.version('torch')}" in lines
    configs = next(line for line in lines if line.startswith("  configs, fixtures: "))
    assert Path(configs.split(": ")[1].split(", ")[0], "ner_elmo.jsonnet").expanduser().exists()
    assert any(line.startswith("  files of URLs: ") and line.endswith(", 1 files, 2.5 MB") for line in lines)
    assert any(line.startswith("  Hugging Face: ") and line.endswith(", 0 files, 0.0 MB") for line in lines)


REQUIRES = [
    "pytest>=1",
    "torch<1",
    'nothing-of-that-name ; python_version < "3"',
    'no-such-package>=2 ; extra == "bad"',
    'pytest>=1 ; extra == "good"',
]


def test_what_is_required_and_not_there(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRES)
    facts = dict(doctor.versions())
    assert facts["not as required"] == f"torch is {metadata.version('torch')}, expected <1"
    extras = {"Provides-Extra": ["bad", "good"]}
    monkeypatch.setattr(metadata, "metadata", lambda name: type("", (), {"get_all": extras.get}))
    assert dict(doctor.extras()) == {"bad": "no-such-package is not installed", "good": "can be used"}


@pytest.mark.parametrize(
    ("supported", "abilities", "said"),
    [
        (False, {}, "cannot be used: it needs AVX-512"),
        (True, {"avx512_f": True}, "can be used; no faster than float32, not exact"),
        (True, {"avx512_bf16": True}, "faster than float32, not exact"),
        (True, {"amx_bf16": True}, "faster than float32, not exact"),
    ],
)
def test_bfloat16(monkeypatch, supported, abilities, said):
    monkeypatch.setattr(doctor, "onednn_has_bfloat16", lambda: supported)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: abilities)
    facts = dict(doctor.processor())
    assert facts["bfloat16"] == said
    assert facts["AVX-512"] == ("yes" if "avx512_f" in abilities else "no")


@pytest.mark.parametrize("onednn", [True, False])
def test_float32(monkeypatch, onednn):
    monkeypatch.setattr(doctor, "has_onednn", lambda: onednn)
    monkeypatch.setattr(doctor, "onednn_rounds_single_rows_alike", lambda: False)
    expected = (
        "packed weights, by oneDNN; a lone row is padded to two" if onednn else "slower, and the last bit"
    )
    assert dict(doctor.processor())["float32"].startswith(expected)
