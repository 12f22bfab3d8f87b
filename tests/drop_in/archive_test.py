"""An archive that AllenNLP's own code wrote, through both: with and without the drop-in."""

import asyncio
import json
import shutil
import tarfile

import numpy as np
import pytest
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import import_module_and_submodules
from allennlp.data.data_loaders import SimpleDataLoader
from allennlp.models import load_archive
from allennlp.predictors import SentenceTaggerPredictor
from allennlp.training.util import evaluate

from elmo_tasks import drop_in, load
from elmo_tasks.common.files import bundled, unpack
from tests.elmo.files import as_hdf5
from tests.errors import mentions

drop_in.uninstall()
DEV = str(bundled("fixtures/ner/dev.conll").resolve())


@pytest.fixture(autouse=True)
def _as_it_was():
    yield
    drop_in.uninstall()


def config(files: dict[str, str], epochs: int = 1, **elmo) -> dict:
    """A small `crf_tagger`, as it is written with AllenNLP alone."""
    block = {
        "type": "elmo_token_embedder",
        **files,
        "projection_dim": 10,
        **elmo,
    }
    return {
        "dataset_reader": {"type": "conll2003", "token_indexers": {"elmo": {"type": "elmo_characters"}}},
        "train_data_path": str(bundled("fixtures/ner/train.conll").resolve()),
        "model": {
            "type": "crf_tagger",
            "text_field_embedder": {"token_embedders": {"elmo": block}},
            "encoder": {"type": "lstm", "input_size": 10, "hidden_size": 8, "bidirectional": True},
            "label_encoding": "BIO",
        },
        "data_loader": {"batch_size": 8, "shuffle": True, "batches_per_epoch": 5},
        "validation_data_loader": {"batch_size": 8},
        "trainer": {"optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9}, "num_epochs": epochs},
    }


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The path of it."""
    pytest.importorskip("h5py")
    import_module_and_submodules("allennlp_models.tagging")
    folder = tmp_path_factory.mktemp("stock") / "run"
    files = as_hdf5(bundled("fixtures/elmo"), folder.with_name("bilm"))
    train_model(Params(config(files)), str(folder))
    return folder / "model.tar.gz"


def evaluated(archive, output, size: int = 8) -> list[dict]:
    """The outputs for all batches of the dev text, as `allennlp evaluate` writes them."""
    loaded = load_archive(archive)
    instances = list(loaded.validation_dataset_reader.read(DEV))
    loader = SimpleDataLoader(instances, batch_size=size, vocab=loaded.model.vocab)
    evaluate(loaded.model, loader, predictions_output_file=str(output))
    return [json.loads(line) for line in output.read_text().splitlines()]


def assert_same(batches: list[dict], expected: list[dict]) -> None:
    for batch, stock in zip(batches, expected, strict=True):
        assert batch["tags"] == stock["tags"]
        np.testing.assert_allclose(np.array(batch["logits"]), np.array(stock["logits"]), atol=1e-5)


def test_the_same_predictions(archive, tmp_path, allennlp):
    stock = evaluated(archive, tmp_path / "stock")
    assert len(stock) > 3
    drop_in.install()
    assert_same(evaluated(archive, tmp_path / "ours"), stock)
    packages = ("allennlp_models.tagging", "elmo_tasks.drop_in")
    include = [word for package in packages for word in ("--include-package", package)]
    output = tmp_path / "command"
    allennlp("evaluate", archive, DEV, *include, "--predictions-output-file", output)
    assert_same([json.loads(line) for line in output.read_text().splitlines()], stock)


@pytest.mark.parametrize("kind", ["archive", "with_files"])
def test_it_is_loaded_served_and_run_resumably(request, kind, tmp_path, allennlp):
    """By AllenNLP's own predictor, whose default tokenizer is a model of spaCy that is not installed."""
    archive = request.getfixturevalue(kind)
    model = load(archive)
    assert repr(model) == "<TrainedModel sentence_tagger(sentence)>"
    words = ["Ana", "flew", "."]
    assert model("Ana flew.")["words"] == words
    with pytest.raises(ConfigurationError, match="sentence"):
        model.predict_batch([{"tokens": words}])

    (tmp_path / "in.jsonl").write_text('{"sentence": "Ana flew."}\n' * 3)
    arguments = [archive, tmp_path / "in.jsonl", tmp_path / "out.jsonl"]
    arguments += ["--include-package", "allennlp_models.tagging"]
    allennlp("elmo", "predict", *arguments)
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["words"] for line in lines] == [words] * 3
    shown = allennlp("elmo", "predict", *arguments, "--force", "--predictor", "elmo_ner", status=1)
    assert mentions(shown, "elmo_ner", "CrfTagger", "sentence_tagger")


@pytest.fixture(scope="module")
def with_files(archive, tmp_path_factory):
    """The archive as AllenNLP up to 0.9 wrote it, with the files of its config, whose URLs have gone."""
    folder = tmp_path_factory.mktemp("old")
    unpack(archive, folder)
    saved = json.loads((folder / "config.json").read_text())
    block = saved["model"]["text_field_embedder"]["token_embedders"]["elmo"]
    files = {}
    (folder / "fta").mkdir()
    for name in ("options_file", "weight_file"):
        key = f"model.text_field_embedder.token_embedders.elmo.{name}"
        shutil.copy(block[name], folder / "fta" / key)
        block[name] = files[key] = f"https://nowhere.invalid/elmo_{name}"
    saved["iterator"] = {"type": "basic"}
    (folder / "config.json").write_text(json.dumps(saved))
    (folder / "files_to_archive.json").write_text(json.dumps(files))
    (folder / "meta.json").unlink()
    path = tmp_path_factory.mktemp("packed") / "model.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for part in folder.iterdir():
            tar.add(part, part.name)
    return path


@pytest.mark.parametrize("has_drop_in", [True, False])
def test_files_in_an_archive_of_0_9(archive, with_files, tmp_path, has_drop_in):
    stock = evaluated(archive, tmp_path / "stock")
    if has_drop_in:
        drop_in.install()
    assert_same(evaluated(with_files, tmp_path / "old"), stock)
    assert load(with_files)("Ana flew.") == load(archive)("Ana flew.")


def test_overrides_come_before_files_in_an_archive(with_files):
    key = "model.text_field_embedder.token_embedders.elmo.options_file"
    with pytest.raises(ConfigurationError, match="nosuch"):
        load_archive(with_files, overrides={key: "nosuch"})


def test_files_outside_of_an_archive_are_not_taken(with_files, tmp_path):
    unpack(with_files, tmp_path / "run")
    (tmp_path / "run/fta").rename(tmp_path / "run/elsewhere")
    index = tmp_path / "run/files_to_archive.json"
    index.write_text(index.read_text().replace('"model.', '"../elsewhere/model.'))
    with pytest.raises(ConfigurationError, match="nowhere"):
        load_archive(tmp_path / "run")


@pytest.mark.parametrize("has_texts", [True, False])
def test_it_is_served_with_a_plain_tab(with_files, monkeypatch, has_texts):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    if not has_texts:
        monkeypatch.delattr(SentenceTaggerPredictor, "predict")
    from elmo_tasks.page.tabs import Tab
    from elmo_tasks.serving.models import local_model, open_archives
    from tests.page.app_test import LIMITS, client_of

    ((name, opened),) = open_archives([str(with_files)]).items()
    tab = Tab.of(name, opened.predictor)
    form = {"sentence": "Ana flew."}
    if not has_texts:
        form = {"json": json.dumps(form)}

    async def respond():
        async with client_of({name: local_model(opened.predictor, LIMITS)}, [tab]) as client:
            yield await client.post(f"/show/{name}", data=form, follow_redirects=True)
            for content in ({"sentence": "Ana flew."}, {"tokens": []}, {"sentence": "a " * 99}):
                yield await client.post(f"/predict/{name}", json=content)

    async def collect():
        return [response async for response in respond()]

    page, answer, *refused = asyncio.run(collect())
    assert "flew" in page.text
    assert page.status_code == answer.status_code == 200
    assert answer.json()["words"] == ["Ana", "flew", "."]
    assert [response.status_code for response in refused] == [422, 422]


def test_without_a_state_a_sentence_is_the_same_in_any_batch(archive, tmp_path):
    drop_in.install(stateful=False)
    by_eight = [
        np.array(logits) for batch in evaluated(archive, tmp_path / "eight") for logits in batch["logits"]
    ]
    lone = [np.array(batch["logits"][0]) for batch in evaluated(archive, tmp_path / "one", size=1)]
    for logits, expected in zip(lone, by_eight, strict=True):
        np.testing.assert_allclose(logits, expected[: len(logits)], atol=1e-5)
