"""An archive that AllenNLP's own code wrote, through both: with and without the drop-in."""

import asyncio
import json

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
from elmo_tasks.common.files import bundled
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


def test_it_is_loaded_served_and_run_resumably(archive, tmp_path, allennlp):
    """By AllenNLP's own predictor, whose default tokenizer is a model of spaCy that is not installed."""
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


@pytest.mark.parametrize("has_texts", [True, False])
def test_it_is_served_with_a_plain_tab(archive, monkeypatch, has_texts):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    if not has_texts:
        monkeypatch.delattr(SentenceTaggerPredictor, "predict")
    from elmo_tasks.page.tabs import Tab
    from elmo_tasks.serving.models import local_model, open_archives
    from tests.page.app_test import LIMITS, client_of

    ((name, opened),) = open_archives([str(archive)]).items()
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
