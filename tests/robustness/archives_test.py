"""Archives of models that come from others."""

import copy
import inspect
import json
import os
import re
import resource
import shutil
import socket
import sys
import tarfile
import time
from functools import cache
from pathlib import Path
from unittest.mock import Mock, patch
from urllib.request import urlopen

import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common import Params, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.params import with_overrides
from allennlp.common.util import import_module_and_submodules
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.models.archival import load_archive
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_tasks.archives import ArchiveError, known_types, trust
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import bundled
from elmo_tasks.ner.reader import NerReader
from tests.errors import mentions
from tests.robustness.attempt import FUZZ, attempt


class OwnReader(NerReader):
    """Nobody registers it."""


OWN = f"{__name__}.OwnReader"


def changed(run: Path, folder: Path, **files: bytes | str | None) -> Path:
    """A copy of a run with other files (`config`, `weights`...), as an archive; `None` for none."""
    shutil.copytree(run, folder)
    (folder / "model.tar.gz").unlink()
    os.rename(folder / "best.th", folder / "weights.th")
    for name, content in files.items():
        path = folder / {"config": "config.json", "weights": "weights.th", "meta": "meta.json"}[name]
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    path = folder.with_suffix(".tar.gz")
    with tarfile.open(path, "w:gz") as archive:
        for file in folder.iterdir():
            archive.add(file, arcname=file.name)
    return path


def error_of(archive: Path | str, **more) -> str:
    with pytest.raises(ArchiveError) as caught:
        load_archive(str(archive), **more)
    assert str(caught.value).startswith(f"{archive}: ")
    return str(caught.value)


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """The folder of temporary files; none is left behind."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())


def touch(path: Path) -> dict:
    return {"type": "subprocess.Popen", "args": ["touch", str(path)]}


@pytest.mark.parametrize("as_folder", [True, False])
@pytest.mark.parametrize(
    "key",
    [
        "dataset_reader",
        "validation_dataset_reader",
        "dataset_reader.token_indexers.more",
        "model",
        "model.text_field_embedder.token_embedders.more",
        "model.initializer",
        "vocabulary",
        "evaluation",
        "data_loader.batch_sampler",
    ],
)
def test_no_code_of_a_config_runs(run, config, tmp_path, key, as_folder):
    params = with_overrides(config, {key: touch(tmp_path / "ran")})
    archive = changed(run, tmp_path / "x", config=json.dumps(params))
    message = error_of(tmp_path / "x" if as_folder else archive)
    assert mentions(message, f"{key}.type", "'subprocess.Popen'")
    assert "ELMO_TASKS_TRUST_ARCHIVES=1" in message
    assert not (tmp_path / "ran").exists()


opened: list[str] = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
OUTSIDE = "imported_by_an_archive.Class"
EMBEDDERS = "model.text_field_embedder.token_embedders"


def from_hub(**options: object) -> dict:
    return {f"{EMBEDDERS}.more": {"type": "pretrained_transformer", "transformer_kwargs": options}}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"dataset_reader.token_indexers.more": OUTSIDE}, "TokenIndexer:"),
        ({"model.text_field_embedder": OUTSIDE}, "TextFieldEmbedder:"),
        ({f"{EMBEDDERS}.more": OUTSIDE}, "TokenEmbedder:"),
        ({"model": OUTSIDE}, "Model:"),
        # These are built later.
        ({"evaluation": {"batch_serializer": OUTSIDE}}, OUTSIDE),
        ({"data_loader": {"sampler": OUTSIDE}}, OUTSIDE),
        # Of both, transformers asks only whether they are empty.
        *((from_hub(trust_remote_code=value), "trust_remote_code:") for value in (True, "no", [False], {})),
        *((from_hub(weights_only=value), "weights_only:") for value in (False, 0, [])),
        # A shell runs the scorers of AllenNLP's models.
        *(({f"model.{key}": "; touch ran"}, f"{key}:") for key in ("evalb_directory_path", "srl_eval_path")),
        ({f"{EMBEDDERS}.tokens.vocab": {"type": "from_files", "directory": "."}}, "vocab:"),
    ],
)
def test_no_name_is_imported_and_nothing_unpickled(run, config, tmp_path, changes, place, monkeypatch):
    (tmp_path / "imported_by_an_archive.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    archive = changed(run, tmp_path / "x", config=json.dumps(with_overrides(config, changes)))
    assert place in error_of(archive)


TRANSFORMER = {"type": "pretrained_transformer", "model_name": "evil/model"}
SPACY = {"type": "spacy", "language": "en_core_web_lg", "pos_tags": True}


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({"model": {"type": "from_archive", "archive_file": "https://127.0.0.1:9/x.tar.gz"}}, "127.0.0.1"),
        ({"model": {"type": "from_archive", "archive_file": "hf://evil/model"}}, "hf://evil/model"),
        (
            {"model.text_field_embedder": {"_pretrained": {"archive_file": "gs://x/y", "module_path": "a"}}},
            "gs://x/y",
        ),
        ({f"{EMBEDDERS}.more": TRANSFORMER}, "evil/model"),
        ({"dataset_reader.token_indexers": {"x": TRANSFORMER}}, "evil/model"),
        (
            {"validation_dataset_reader": {"type": "text_classification_json", "tokenizer": SPACY}},
            "en_core_web_lg",
        ),
        ({"dataset_reader": {"type": "reads_a_url"}}, "localhost"),
    ],
    ids=str,
)
def test_opening_fetches_nothing(run, config, tmp_path, changes, needed, monkeypatch):
    """Whatever a library does to reach a host, while the user may."""
    connections = Mock(side_effect=ConnectionRefusedError)
    monkeypatch.setattr("socket.socket.connect", connections)
    archive = changed(run, tmp_path / "x", config=json.dumps(with_overrides(config, changes)))
    start = time.monotonic()
    assert needed in error_of(archive)
    assert time.monotonic() - start < 10
    connections.assert_not_called()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("localhost", 9))


@DatasetReader.register("reads_a_url")
class ReaderOfUrl(NerReader):
    def __init__(self, **options) -> None:
        super().__init__(**options)
        urlopen("http://localhost:9/")


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"model": {"type": "srl_bert", "bert_model": "evil/model"}}, "srl_bert"),
        ({"model": {"type": "bart", "model_name": "evil/model"}}, "bart"),
        ({"model": {"type": "t5", "model_name": "evil/model"}}, "t5"),
        ({"model": {"type": "bias_mitigator_applicator"}}, "bias_mitigator_applicator"),
        ({"model": {"type": "simple_seq2seq", "target_pretrain_file": "/x"}}, "target_pretrain_file"),
        ({"dataset_reader": {"type": "vqav2", "image_dir": "/"}}, "vqav2"),
        ({"validation_dataset_reader": {"type": "triviaqa", "base_tarball_path": "/x"}}, "triviaqa"),
        ({"dataset_reader": {"type": "srl", "bert_model_name": "evil/model"}}, "bert_model_name"),
        ({"dataset_reader.case_vocabulary": "/etc/passwd"}, "case_vocabulary"),
        ({f"{EMBEDDERS}.more": TRANSFORMER | {"override_weights_file": "/x"}}, "override_weights_file"),
        ({f"{EMBEDDERS}.more": {"type": "language_model_token_embedder"}}, "language_model_token_embedder"),
        ({"validation_data_loader.num_workers": 100_000}, "validation_data_loader.num_workers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_types_that_read_what_a_config_names(run, config, tmp_path, changes, refused, monkeypatch):
    types_of_allennlp()  # imports them
    monkeypatch.setattr("socket.socket.connect", Mock(side_effect=AssertionError))
    archive = changed(run, tmp_path / "x", config=json.dumps(with_overrides(config, changes)))
    assert mentions(error_of(archive), refused, "ELMO_TASKS_TRUST_ARCHIVES=1")


@cache
def types_of_allennlp() -> dict[tuple[str, str], set[str]]:
    """The parameters of all types, by the names of their kind and of their own."""
    for package in ("allennlp_models", "allennlp.fairness"):
        import_module_and_submodules(package)
    types = {}
    for kind, names in Registrable._registry.items():
        for name, (each, constructor) in names.items():
            if each.__module__.startswith("allennlp"):
                made_by = (
                    [getattr(each, constructor)]
                    if constructor
                    else [vars(base).get("__init__") for base in each.__mro__]
                )
                signatures = map(inspect.signature, filter(None, made_by))
                types[kind.__name__, name] = {key for signature in signatures for key in signature.parameters}
    return types


MODELS_OF_THIS_MACHINE = {
    *("archive_file", "submodels", "options_file", "weight_file"),
    *("model_name", "pretrained_model", "transformer_model", "transformer_model_name"),
}
"""Parameters for archives, biLMs and transformers, which SECURITY.md names."""


def test_known_types_take_no_files():
    """But those whose values `_SAFE` bounds, and those that are removed or replaced before they are used."""
    types = types_of_allennlp()
    listed = {(kind, name) for kind, names in known_types.KNOWN.items() for name in names.split()}
    assert types.keys() >= listed
    assert {kind for kind, _ in types} >= {*known_types.ANY}
    keys = set().union(*(keys for each, keys in types.items() if known_types.is_known(*each)))
    replaced = {"data_path", "directory", "pretrained_file", "pretrained_files", "serialization_dir"}
    files = {
        key
        for key in keys
        if re.search("_files?$|_path$|_dir$|directory|archive|image|ur[li]$|pretrained_m", key)
    }
    assert files <= MODELS_OF_THIS_MACHINE | replaced | {*trust._SAFE}


PLACES = {
    "dataset_reader": "DatasetReader",
    "dataset_reader.token_indexers.more": "TokenIndexer",
    "validation_dataset_reader": "DatasetReader",
    "model": "Model",
    "model.text_field_embedder": "TextFieldEmbedder",
    f"{EMBEDDERS}.more": "TokenEmbedder",
}


@settings(max_examples=20 * FUZZ)
@given(data=st.data())
def test_no_type_of_allennlp_reads_or_asks(run, config, tmp_path, data):
    secret = tmp_path / "secret"
    secret.write_text("a secret\n")
    types = types_of_allennlp()
    place, kind = data.draw(st.sampled_from([*PLACES.items()]))
    name = data.draw(st.sampled_from([name for of, name in types if of == kind]))
    keys = types[kind, name] - {"self", "vocab"} | {"tokenizer_kwargs"}
    block = {
        key: "evil/model" if key in MODELS_OF_THIS_MACHINE or "bert" in key else str(secret)
        for key in data.draw(st.sets(st.sampled_from([*keys]), max_size=4))
    }
    if not (folder := tmp_path / "x").exists():
        shutil.copytree(run, folder)
    params = with_overrides(config, {place: {"type": name, **block}})
    (folder / "config.json").write_text(json.dumps(params))
    opened.clear()
    with patch("socket.socket.connect", side_effect=AssertionError) as connect:
        _, message = attempt(load_archive, folder, error=ArchiveError)
    connect.assert_not_called()
    assert str(secret) not in opened
    assert "a secret" not in message


@pytest.mark.parametrize("as_name", [True, False])
def test_evaluate_builds_known_types_alone(run, config, tmp_path, as_name, monkeypatch):
    monkeypatch.setattr("socket.socket.connect", Mock(side_effect=AssertionError))
    collator = "language_model" if as_name else {"type": "language_model", "model_name": "evil/model"}
    config["data_loader"] = config["validation_data_loader"] = {"batch_size": 1, "collate_fn": collator}
    archive = changed(run, tmp_path / "x", config=json.dumps(config))
    data = bundled("fixtures/ner/dev.conll")
    with pytest.raises(ConfigurationError, match=r"language_model.*ELMO_TASKS_TRUST_ARCHIVES=1"):
        evaluate_from_archive(archive, str(data))
    overrides = {"validation_data_loader.collate_fn": "allennlp"}
    assert evaluate_from_archive(archive, str(data), cmd_overrides=json.dumps(overrides))


def test_the_user_may_trust_an_archive(run, config, tmp_path, monkeypatch):
    config["dataset_reader"]["type"] = OWN
    archive = changed(run, tmp_path / "x", config=json.dumps(config))
    assert mentions(error_of(archive), "dataset_reader.type", f"'{OWN}'")
    monkeypatch.setenv("ELMO_TASKS_TRUST_ARCHIVES", "1")
    assert type(load_archive(archive).dataset_reader) is OwnReader


def test_the_user_may_name_any_object(run, config):
    """In overrides, and in configs to train from."""
    archive = load_archive(run / "model.tar.gz", overrides={"dataset_reader.type": OWN})
    assert type(archive.dataset_reader) is OwnReader
    config["dataset_reader"]["type"] = OWN
    assert type(DatasetReader.from_params(Params(config["dataset_reader"]))) is OwnReader


def test_registered_names_are_taken(run, config, tmp_path):
    name = "a.name.with.dots"
    config["dataset_reader"]["type"] = name
    archive = changed(run, tmp_path / "x", config=json.dumps(config))
    DatasetReader.register(name)(OwnReader)
    try:
        assert type(load_archive(archive).dataset_reader) is OwnReader
    finally:
        del DatasetReader._registry[DatasetReader][name]


@pytest.mark.parametrize(
    "config",
    [
        "local f(x) = f(x + 1); f(0)",
        "std.foldl(function(a, b) a + a, std.range(1, 60), 'x')",
        "import '/etc/hostname'",
        '{"model": std.extVar("HOME")}',
        "[" * 100_000,
        "[]",
        b"\xff{}",
        "",
        '{"model": 3, "dataset_reader": []}',
        None,
    ],
    ids=lambda config: str(config)[:20],
)
def test_configs_that_are_no_json(run, tmp_path, config):
    error_of(changed(run, tmp_path / "x", config=config))


PATHS = [
    *("train_data_path", "validation_data_path", "vocabulary.directory", "vocabulary.pretrained_files"),
    *(f"model.elmo.{key}" for key in ("options_file", "weight_file", "vocabulary_file", "initial_state")),
    *("dataset_reader.case_vocabulary", f"{EMBEDDERS}.tokens.override_weights_file"),
    *("model.elmo.activations", f"{EMBEDDERS}.tokens.pretrained_file", "model.initializer", "model.vocab"),
]
"""Keys of a path in a config to train from."""


@settings(max_examples=20 * FUZZ)
@given(data=st.data())
def test_no_path_of_a_config_is_opened(run, config, tmp_path, data):
    secret = tmp_path / "secret"
    secret.write_text("a secret\n")
    present = [key for key in Params(config).as_flat_dict() if not key.startswith("trainer")]
    keys = data.draw(st.sets(st.sampled_from(PATHS + present), min_size=1, max_size=4))
    if not (folder := tmp_path / "x").exists():
        shutil.copytree(run, folder)
    config = with_overrides(copy.deepcopy(config), dict.fromkeys(keys, str(secret)))
    (folder / "config.json").write_text(json.dumps(config))
    opened.clear()
    _, message = attempt(load_archive, folder, error=ArchiveError)
    assert str(secret) not in opened
    assert "a secret" not in message


@pytest.mark.parametrize("name", ["/dev/zero", "file:///dev/zero"])
def test_devices_are_not_read(run, config, tmp_path, name):
    """They have no end."""
    embedder = {"type": "elmo_token_embedder", "options_file": name, "weight_file": name}
    changes = {f"{EMBEDDERS}.more": embedder}
    archive = changed(run, tmp_path / "x", config=json.dumps(with_overrides(config, changes)))
    assert mentions(error_of(archive), "more.options_file", "/dev/zero")


@pytest.mark.parametrize(
    "reader",
    [
        {"type": "elmo_classifier", "classes": ["a", "b"], "tokenizer": "gdown"},
        {"type": "elmo_classifier", "tokenizer": {"type": "elmo_spacy", "model": "gdown"}},
        {"type": "text_classification_json", "tokenizer": {"type": "spacy", "language": "gdown"}},
    ],
)
def test_no_package_is_imported_for_a_model_of_spacy(run, config, tmp_path, reader, monkeypatch):
    (tmp_path / "gdown.py").write_text("raise SystemExit('it ran')\n")
    (tmp_path / "gdown-1.0.dist-info").mkdir()
    (tmp_path / "gdown-1.0.dist-info" / "METADATA").write_text("Name: gdown\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    archive = changed(run, tmp_path / "x", config=json.dumps({**config, "validation_dataset_reader": reader}))
    assert mentions(error_of(archive), "validation_dataset_reader.tokenizer", "gdown", "spaCy")


@pytest.mark.parametrize("name", ["config.json", "meta.json", "weights.th", "best.th", "vocabulary/x.txt"])
@pytest.mark.parametrize("as_pipe", [True, False])
def test_special_files_of_a_run_are_not_read(run, tmp_path, name, as_pipe):
    """A pipe waits for its writer, and /dev/zero has no end."""
    folder = shutil.copytree(run, tmp_path / "x")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name) if as_pipe else (folder / name).symlink_to("/dev/zero")
    assert f"{Path(name).name} is neither a file nor a folder" in error_of(folder)
    if name.startswith("vocabulary"):
        with pytest.raises(ElmoError, match="neither a file nor a folder"):
            Vocabulary.from_files(folder)


def test_an_archive_that_opens_itself(run, config, tmp_path):
    config["model"] = {"type": "from_archive", "archive_file": str(tmp_path / "x.tar.gz")}
    archive = changed(run, tmp_path / "x", config=json.dumps(config))
    assert "opens the archive itself" in error_of(archive)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("vocabulary/more.txt", b"a\n" * 4_000_000),
        ("vocabulary/more", b"a" * (1 << 26)),
        ("bilm.json", b'{"digest": "", "prefixes": [' + b'"", ' * 20_000 + b'""]}'),
        ("meta.json", b'{"version": "' + b"1" * (1 << 20) + b'"}'),
        ("config.json", b"[" + b"[], " * 2_000_000 + b"[]]"),
    ],
)
def test_files_that_are_larger_than_real_ones(run, tmp_path, name, content):
    """They pack to a 20th, and less, of what they take."""
    shutil.copytree(run, tmp_path / "x")
    (tmp_path / "x" / name).write_bytes(content)
    assert re.search(r"more than [\d,]{6,}", error_of(tmp_path / "x"))


def test_null_and_the_codes_of_a_terminal(run, config, tmp_path):
    """`null` is the same as no key. A version is printed in a warning."""
    config |= {"validation_dataset_reader": None, "vocabulary": None}
    meta = '{"version": "9.0\\u001b[31m.0"}'
    archive = changed(run, tmp_path / "x", config=json.dumps(config), meta=meta)
    with pytest.warns(UserWarning, match=r"9\.0\\x1b\[31m\.0"):
        assert type(load_archive(archive).validation_dataset_reader) is NerReader


@pytest.mark.parametrize(
    "files",
    [{"weights": b"x"}, {"weights": None}, {"weights": b""}, {"meta": "x"}, {"meta": '{"version": 3}'}],
    ids=str,
)
def test_other_files_that_are_damaged(run, tmp_path, files):
    assert re.search(
        "not a whole archive|PyTorch did not write|meta.json: not JSON",
        error_of(changed(run, tmp_path / "x", **files)),
    )


@settings(max_examples=20 * FUZZ)
@given(position=st.integers(0), kind=st.sampled_from(["flip", "cut", "insert"]))
def test_any_damage_of_an_archive_names_it(run, tmp_path, position, kind):
    packed = (run / "model.tar.gz").read_bytes()
    byte = position // 8 % len(packed)
    rest = {
        "flip": bytes([packed[byte] ^ 1 << position % 8]) + packed[byte + 1 :],
        "cut": b"",
        "insert": b"\0" + packed,
    }
    (tmp_path / "x.tar.gz").write_bytes(packed[:byte] + rest[kind])
    archive, message = attempt(load_archive, tmp_path / "x.tar.gz", error=ArchiveError)
    if message:
        assert message.startswith(f"{tmp_path}/x.tar.gz: ")
    else:
        # Without a checksum: the header of gzip, with the name and time of the packed file, and filling.
        assert kind == "flip"
        state, expected = archive.model.state_dict(), torch.load(run / "best.th")
        assert all(torch.equal(state[name], weight) for name, weight in expected.items())


def test_other_models_are_opened_too(run, config, tmp_path):
    """By AllenNLP's own means to name an archive in a config."""
    assert isinstance(Model.from_archive(str(run / "model.tar.gz")), Model)
    config["dataset_reader"]["type"] = "os.system"
    archive = changed(run, tmp_path / "x", config=json.dumps(config))
    with pytest.raises(ConfigurationError, match=r"x\.tar\.gz: dataset_reader\.type"):
        Model.from_params(Params({"type": "from_archive", "archive_file": str(archive)}))


@pytest.mark.parametrize(("value", "position"), [(float("nan"), 0), (-float("inf"), -1)])
def test_weights_that_are_no_numbers(run, tmp_path, value, position):
    weights = torch.load(run / "best.th")
    name = [name for name, weight in weights.items() if weight.is_floating_point()][position]
    weights[name].view(-1)[-1] = value
    torch.save(weights, tmp_path / "weights")
    archive = changed(run, tmp_path / "x", weights=(tmp_path / "weights").read_bytes())
    assert name in error_of(archive)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float8_e4m3fn, torch.complex64], ids=str)
def test_weights_of_another_type(run, tmp_path, dtype):
    """PyTorch copies them into floats."""
    weights = torch.load(run / "best.th")
    name = next(name for name, weight in weights.items() if weight.is_floating_point())
    weights[name] = weights[name].to(dtype)
    torch.save(weights, tmp_path / "weights")
    archive = changed(run, tmp_path / "x", weights=(tmp_path / "weights").read_bytes())
    assert mentions(error_of(archive), name, str(dtype))


def test_weights_of_an_old_pytorch(run, tmp_path):
    weights = torch.load(run / "best.th")
    halves = {
        name: weight.half() if weight.is_floating_point() else weight for name, weight in weights.items()
    }
    torch.save(halves, tmp_path / "weights", _use_new_zipfile_serialization=False)
    archive = changed(run, tmp_path / "x", weights=(tmp_path / "weights").read_bytes())
    state = load_archive(archive).model.state_dict()
    assert all(torch.equal(state[name], weight.to(state[name])) for name, weight in halves.items())


def test_a_config_larger_than_its_weights(run, config, tmp_path):
    """The weights are counted before they are filled."""
    config["model"]["hidden_sizes"] = [12_000, 4]
    archive = changed(run, tmp_path / "x", config=json.dumps(config))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert mentions(error_of(archive), "larger than the weights", "ELMO_TASKS_TRUST_ARCHIVES=1")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
