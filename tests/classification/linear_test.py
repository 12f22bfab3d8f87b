"""The linear classifier, against a pipeline of scikit-learn's own classes."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model
from allennlp.models.archival import load_archive
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from elmo_tasks import Elmo, ElmoEmbedder, load
from elmo_tasks.classification import linear
from elmo_tasks.classification.fitting import best_thresholds, labels_of_folds
from elmo_tasks.classification.linear import PREDICTIONS
from elmo_tasks.common.files import bundled
from elmo_tasks.modules.static_vectors import StaticVectors
from elmo_tasks.pipeline.explanations import Explainer, can_explain
from elmo_tasks.vectors.files import VectorTable, write_vectors
from tests.conftest import TINY_ELMO
from tests.errors import error_of, mentions

MESSAGES, MRPC = (bundled(f"fixtures/classification/{name}").resolve() for name in ("messages", "mrpc"))


def train(folder, data, *, dev=None, text=("text",), label="label", classes=None, overrides=None, **trainer):
    """The metrics of a run in a folder, on rows of labelled texts that are split at blanks."""
    if not isinstance(data, str):
        columns = (label, *text)
        with open(folder.with_suffix(".csv"), "w", newline="") as file:
            csv.writer(file).writerows([columns, *data])
        classes = classes or sorted({row[0] for row in data})
        data = str(folder.with_suffix(".csv"))
    config = bundled("training_configs/classifier_linear_elmo.jsonnet").resolve()
    source = folder.with_suffix(".jsonnet")
    keys = {"train": data, "dev": dev, "text": text[0], "text2": (*text, None)[1], "label": label}
    keys |= {"classes": classes, "tokenizer": "whitespace"}
    hidden = " ".join(f"{name}:: {json.dumps(value)}," for name, value in keys.items())
    source.write_text(f"(import '{config}') + {{ {hidden} }}")
    overrides = TINY_ELMO | {f"trainer.{name}": value for name, value in trainer.items()} | (overrides or {})
    train_model(Params.from_file(str(source), json.dumps(overrides)), str(folder))
    return json.loads((folder / "metrics.json").read_text())


class Features(BaseEstimator, TransformerMixin):
    """The features of texts, or of pairs of texts, as a dense matrix."""

    def fit(self, X, y=None):  # noqa: N803
        texts = [" ".join(words) for side in zip(*X, strict=True) for words in side]
        words = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)
        characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
        self.vectorizers = [words.fit(texts), characters.fit(texts)]
        self.scaler = StandardScaler().fit(self.joined(X, self.means))
        return self

    def transform(self, X):  # noqa: N803
        vectors = self.scaler.transform(self.joined(X, self.means))
        parts = [vectors * 0.5 / vectors.shape[1] ** 0.5]
        parts += [self.joined(X, partial(self.weights, vectorizer)) for vectorizer in self.vectorizers]
        return np.concatenate(parts, axis=1)

    def joined(self, X, features_of):  # noqa: N803
        sides = [features_of(side) for side in zip(*X, strict=True)]
        if len(sides) == 1:
            return sides[0]
        first, second = sides
        return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)

    def means(self, texts):
        embedder = ElmoEmbedder(*TINY_ELMO.values())
        return np.stack([vectors.mean(axis=(0, 1)) for vectors in embedder.embed_sentences(texts)])

    def weights(self, vectorizer, texts):
        return vectorizer.transform([" ".join(words) for words in texts]).toarray()


def reference(C, **options):  # noqa: N803
    return make_pipeline(Features(), LogisticRegression(C=C, solver="newton-cg", **options))


def rows_of(path):
    """Rows of a class and the words of the texts."""
    with open(path, newline="") as file:
        return [(row["label"], row["text"]) for row in csv.DictReader(file)]


TRAIN, DEV = rows_of(MESSAGES / "train.csv"), rows_of(MESSAGES / "dev.csv")


def words_of(rows):
    return [[text.split() for text in texts] for _, *texts in rows]


def probabilities(folder, rows):
    """*Shape:* `(texts, classes)`, by the archive of a run."""
    predictor = load(folder / "model.tar.gz").predictor
    names = ("sentence1", "sentence2") if len(rows[0]) > 2 else ("sentence",)
    inputs = [dict(zip(names, texts, strict=True)) for _, *texts in rows]
    return np.array([list(each["probabilities"].values()) for each in predictor.predict_batch_json(inputs)])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run on the messages, and its metrics."""
    folder = tmp_path_factory.mktemp("linear") / "run"
    return folder, train(folder, TRAIN, dev=str(MESSAGES / "dev.csv"))


def test_predicts_as_the_regression_does(run):
    folder, metrics = run
    regression = reference(metrics["C"]).fit(words_of(TRAIN), [label for label, _ in TRAIN])
    expected = regression.predict_proba(words_of(DEV))
    np.testing.assert_allclose(probabilities(folder, DEV), expected, atol=1e-4)
    accuracy = regression.score(words_of(DEV), [label for label, _ in DEV])
    assert metrics["validation_accuracy"] == metrics["best_validation_accuracy"] == pytest.approx(accuracy)


def test_cross_validation_fits_all_features_on_the_other_folds(run):
    folder, metrics = run
    labels, texts = np.array([label for label, _ in TRAIN]), words_of(TRAIN)
    found, of_half = np.zeros((len(labels), 3)), np.empty_like(labels)
    scores = []
    for trained, held_out in StratifiedKFold(5, shuffle=True, random_state=13).split(labels, labels):
        unseen = [texts[index] for index in held_out]
        features = Features().fit([texts[index] for index in trained])
        regression = LogisticRegression(solver="newton-cg", warm_start=True)
        for strength in (0.1, 1, 10, 100, 1000):
            if strength <= metrics["C"]:
                regression.set_params(C=strength)
                regression.fit(features.transform([texts[index] for index in trained]), labels[trained])
        found[held_out] = regression.predict_proba(features.transform(unseen))
        predicted = regression.classes_[found[held_out].argmax(axis=1)]
        scores.append(
            [(predicted == labels[held_out]).mean(), f1_score(labels[held_out], predicted, average="macro")]
        )
        half = sorted(trained, key=lambda index: labels[index])[::2]
        regression = reference(metrics["C"]).fit([texts[index] for index in half], labels[half])
        of_half[held_out] = regression.predict(unseen)
    predicted = regression.classes_[found.argmax(axis=1)]
    assert metrics["cross_validation_accuracy"] == pytest.approx((predicted == labels).mean(), abs=0.01)
    macro_f1 = f1_score(labels, predicted, average="macro")
    assert metrics["cross_validation_macro_f1"] == pytest.approx(macro_f1, abs=0.01)
    for name, spread in zip(("accuracy", "macro_f1"), np.std(scores, axis=0), strict=True):
        assert metrics[f"cross_validation_{name}_spread"] == pytest.approx(spread, abs=0.01)
    assert metrics["cross_validation_accuracy_with_50"] == pytest.approx((of_half == labels).mean(), abs=0.01)
    lines = [json.loads(line) for line in (folder / PREDICTIONS).read_text().splitlines()]
    assert [line["gold_label"] for line in lines] == labels.tolist()
    assert [line["sentence1_tokens"] for line in lines] == [words for (words,) in texts]
    written = [list(line["probabilities"].values()) for line in lines]
    np.testing.assert_allclose(written, found, atol=2e-3)


def test_pairs(tmp_path):
    with open(MRPC / "train.txt", encoding="utf-8-sig") as file:
        table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = [(row["Quality"], row["#1 String"], row["#2 String"]) for row in table]
    metrics = train(tmp_path / "run", rows, text=("a", "b"))
    regression = reference(metrics["C"]).fit(words_of(rows), [label for label, *_ in rows])
    new = [("", "It is here .", "No"), *((label, b, a) for label, a, b in rows[:5])]
    expected = regression.predict_proba(words_of(new))
    np.testing.assert_allclose(probabilities(tmp_path / "run", new), expected, atol=1e-4)


def test_class_weights(tmp_path):
    rows = TRAIN[:60] + [row for row in TRAIN[60:] if row[0] == "payment"]
    metrics = train(tmp_path / "balanced", rows, class_weight="balanced")
    regression = reference(metrics["C"], class_weight="balanced")
    expected = regression.fit(words_of(rows), [label for label, _ in rows]).predict_proba(words_of(DEV))
    np.testing.assert_allclose(probabilities(tmp_path / "balanced", DEV), expected, atol=1e-4)
    metrics = train(tmp_path / "chosen", rows, class_weight={"delivery": 3.0})
    regression = reference(metrics["C"], class_weight={"delivery": 3.0})
    expected = regression.fit(words_of(rows), [label for label, _ in rows]).predict_proba(words_of(DEV))
    np.testing.assert_allclose(probabilities(tmp_path / "chosen", DEV), expected, atol=1e-4)
    message = error_of(ConfigurationError, train, tmp_path / "unknown", rows, class_weight={"spam": 2.0})
    assert mentions(message, "class_weight", "'spam'")


def test_two_classes_and_one_without_texts(tmp_path):
    rows = [row for row in TRAIN if row[0] != "payment"]
    metrics = train(tmp_path / "run", rows, classes=["payment", "delivery", "account"])
    regression = reference(metrics["C"]).fit(words_of(rows), [label for label, _ in rows])
    found = probabilities(tmp_path / "run", DEV)
    np.testing.assert_allclose(found[:, [2, 1]], regression.predict_proba(words_of(DEV)), atol=1e-4)
    assert found[:, 0].max() < 1e-6


def make_encoder(folder):
    """Stands in for a trained encoder: mixes, a layer, heads of sentences and of pairs, static vectors."""
    elmo = Elmo(*TINY_ELMO.values(), placement="input+output")
    torch.manual_seed(0)
    for mix in elmo.mixes.values():
        torch.nn.init.normal_(mix.scores)
    heads = {
        name: torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(20, size))
        for name, size in (("a", 3), ("b_pair", 4), ("c", 2))
    }
    words = sorted({word for _, text in TRAIN for word in text.lower().split()})
    vectors = np.random.default_rng(13).normal(size=(len(words), 6)).astype(np.float32)
    write_vectors(folder / "static.txt", VectorTable(words, vectors))
    return SimpleNamespace(
        static_vectors=StaticVectors(str(folder / "static.txt")),
        elmo=elmo,
        input_dim=elmo.dim,
        projection=torch.nn.Linear(2 * elmo.dim, 20),
        heads=heads,
        sentence_heads=["a", "c"],
    )


@torch.no_grad()
def encoded(encoder, texts):
    """The mean word vectors, the scores of the encoder's labels, and the mean static vectors."""
    means, scores = [], []
    for text in texts:
        elmo = encoder.elmo(encoder.elmo.padded_ids([text]))
        words = torch.cat([elmo.input[0], elmo.output[0]], dim=1)
        vector = encoder.projection(words).amax(dim=0).relu()
        means.append(words.mean(dim=0))
        scores.append(torch.cat([encoder.heads[name].eval()(vector) for name in encoder.sentence_heads]))
    return torch.stack(means).numpy(), torch.stack(scores).numpy(), encoder.static_vectors(texts).numpy()


@pytest.mark.parametrize("pairs", [False, True])
def test_a_sentence_encoder(tmp_path, monkeypatch, pairs):
    encoder = make_encoder(tmp_path)
    monkeypatch.setattr(linear, "open_archive", lambda name: SimpleNamespace(model=encoder))
    rows = [(label, *([text, DEV[i % 30][1]] if pairs else [text])) for i, (label, text) in enumerate(TRAIN)]
    text = ("a", "b") if pairs else ("a",)
    options = {"model.elmo.placement": "input+output", "trainer.sentence_encoder": "elmo:x"}
    metrics = train(tmp_path / "run", rows, text=text, overrides=options)

    class WithEncoder(Features):
        def transform(self, X):  # noqa: N803
            vectors = self.scaler.transform(self.joined(X, self.means))
            size = len(encoder.projection.weight[0])
            factors = np.repeat([0.5 / size**0.5, 0.7 / 5**0.5, 0.7 / 6**0.5], [size, 5, 6])
            copies = vectors.shape[1] // len(factors)
            parts = [vectors * np.tile(factors, copies) / copies**0.5]
            parts += [self.joined(X, partial(self.weights, vectorizer)) for vectorizer in self.vectorizers]
            return np.concatenate(parts, axis=1)

        def means(self, texts):
            return np.concatenate(encoded(encoder, texts), axis=1)

    regression = make_pipeline(WithEncoder(), LogisticRegression(C=metrics["C"], solver="newton-cg"))
    regression.fit(words_of(rows), [label for label, *_ in rows])
    new = [(label, *row[::-1]) for label, *row in rows[:9]] if pairs else DEV
    expected = regression.predict_proba(words_of(new))
    np.testing.assert_allclose(probabilities(tmp_path / "run", new), expected, atol=1e-4)
    message = error_of(ConfigurationError, train, tmp_path / "b", rows, text=text, sentence_encoder="elmo:x")
    assert mentions(message, "sentence_encoder", "input+output")


def test_rare_classes_are_told(tmp_path):
    rows = [*TRAIN, *(("rare", f"text {number}") for number in range(3))]
    metrics = train(tmp_path / "run", rows, class_weight={"rare": 2.0})
    assert metrics["folds"] == 5
    assert mentions((tmp_path / "run/out.log").read_text(), "5", "'rare'")


ONE_PAYMENT = [row for row in TRAIN if row[0] == "delivery"] + [("payment", "the invoice")] * 9


@pytest.mark.parametrize("rows", [TRAIN[:1] * 5, [("delivery", "x"), ("payment", "y")], ONE_PAYMENT])
def test_nothing_to_learn_from(tmp_path, rows):
    assert mentions(
        error_of(ConfigurationError, train, tmp_path / "run", rows, classes=["delivery", "payment"]),
        "learned",
    )


def test_a_stop_before_the_weights_are_written(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(linear, "sides_of", stop)
    with pytest.raises(KeyboardInterrupt):
        train(Path("run"), TRAIN)
    assert not Path("run/model.tar.gz").exists()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(linear, "evaluate", stop)
    with pytest.raises(KeyboardInterrupt):
        train(Path("again"), TRAIN, dev=str(MESSAGES / "dev.csv"))
    assert load("again/model.tar.gz")("My parcel is late.").label in ("delivery", "payment", "account")


def test_an_archive_is_opened_without_pickles_and_evaluated(run, allennlp, tmp_path):
    folder, metrics = run
    assert torch.load(folder / "best.th", weights_only=True)
    allennlp("evaluate", folder / "model.tar.gz", MESSAGES / "dev.csv", "--output-file", tmp_path / "scores")
    scores = json.loads((tmp_path / "scores").read_text())
    assert scores == {name: pytest.approx(metrics[f"validation_{name}"], abs=1e-5) for name in scores}
    model = load_archive(folder / "model.tar.gz").model
    again = Model.from_params(Params.from_file(str(folder / "config.json"))["model"], vocab=model.vocab)
    again.load_state_dict(model.state_dict())
    texts = ["The courier has lost my parcel .", "Help"]
    assert torch.equal(again.ngrams(texts), model.ngrams(texts))


def test_a_slim_archive_predicts_the_same(allennlp, tmp_path):
    config = bundled("training_configs/classifier_linear_elmo.jsonnet").resolve()
    allennlp("train", config, "-s", tmp_path / "run")
    allennlp("elmo", "slim", tmp_path / "run/model.tar.gz", "-o", tmp_path / "slim.tar.gz")
    texts = [text for _, text in DEV]
    whole, slim = (load(path) for path in (tmp_path / "run/model.tar.gz", tmp_path / "slim.tar.gz"))
    assert [whole(text).label for text in texts] == [slim(text).label for text in texts]


def test_threads_and_batches(run):
    model = load(run[0] / "model.tar.gz")
    texts = [text for _, text in DEV]
    alone = [model(text).probabilities for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: model(text).probabilities, texts * 4)) == alone * 4
    together = model.predictor.predict_batch_json([{"sentence": text} for text in texts])
    for one, other in zip(alone, together, strict=True):
        assert other["probabilities"] == pytest.approx(one, abs=1e-5)


def test_texts_without_words_or_with_new_ones(run):
    predict = load(run[0] / "model.tar.gz").predictor.predict_batch_json
    empty, new = predict([{"sentence": " "}, {"sentence": "Жжжж"}])
    assert (empty["label"], empty["probabilities"]) == (None, {})
    assert sum(new["probabilities"].values()) == pytest.approx(1)


def test_explanations_are_of_the_vectors(run):
    predictor = load(run[0] / "model.tar.gz").predictor
    assert can_explain(predictor)
    ((text,),) = Explainer(predictor)({"sentence": "The courier has lost my parcel ."})["explanations"]
    assert text["tokens"][1] == "courier"
    assert sum(text["shares"]) == pytest.approx(1)


SEVERAL = [
    (["rain", "town"], "rain fell on the old town"),
    (["town"], "the town was quiet"),
    (["rain"], "more rain in the morning"),
    ([], "a walk by the river"),
] * 6


def test_several_labels(tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps({"text": text, "label": labels}) + "\n" for labels, text in SEVERAL))
    config = bundled("training_configs/classifier_linear_elmo.jsonnet").resolve()
    keys = {
        "train": str(data),
        "dev": str(data),
        "classes": ["rain", "snow", "town"],
        "tokenizer": "whitespace",
    }
    hidden = " ".join(f"{name}:: {json.dumps(value)}," for name, value in keys.items())
    (tmp_path / "a.jsonnet").write_text(f"(import '{config}') + {{ {hidden} }}")
    overrides = {**TINY_ELMO, "dataset_reader.several_labels": True, "model.several_labels": True}
    folder = tmp_path / "run"
    train_model(Params.from_file(str(tmp_path / "a.jsonnet"), json.dumps(overrides)), str(folder))
    metrics = json.loads((folder / "metrics.json").read_text())
    model = load(folder / "model.tar.gz")
    thresholds = model.predictor._model.thresholds.tolist()
    indicators = np.array([[int(name in labels) for name in keys["classes"]] for labels, _ in SEVERAL])
    words = [(text.split(),) for _, text in SEVERAL]
    for column, name in enumerate(keys["classes"]):
        found = [model(text).probabilities[name] for _, text in SEVERAL[:4]]
        if not indicators[:, column].any():
            assert found == [0] * 4
            continue
        regression = reference(metrics["C"]).fit(words, indicators[:, column])
        expected = regression.predict_proba(words[:4])[:, 1]
        assert found == pytest.approx(expected.tolist(), abs=1e-4)
    records = [json.loads(line) for line in (folder / PREDICTIONS).read_text().splitlines()]
    assert [each["gold_labels"] for each in records] == [sorted(labels) for labels, _ in SEVERAL]
    predicted = np.array([[name in each["labels"] for name in keys["classes"]] for each in records])
    assert metrics["cross_validation_micro_f1"] == pytest.approx(
        f1_score(indicators, predicted, average="micro")
    )
    # No other threshold has a better F1.
    scores = np.array([list(each["probabilities"].values()) for each in records])
    for column, bound in ((0, thresholds[0]), (2, thresholds[2])):
        best = max(f1_score(indicators[:, column], scores[:, column] >= other) for other in scores[:, column])
        assert f1_score(indicators[:, column], scores[:, column] >= bound) == pytest.approx(best)


def test_thresholds_of_a_fold_are_chosen_by_the_others():
    labels = np.tile([[1], [0]], (60, 1))
    # The first fold's probabilities are half as high.
    probabilities = np.where(labels, 0.8, 0.5) * np.where(np.arange(120) < 40, 0.5, 1)[:, None]
    folds = np.split(np.arange(120), 3)
    predicted = labels_of_folds(labels, probabilities, folds)
    assert not predicted[:40].any()
    assert predicted[40:].sum() > labels[40:].sum()


def test_copies_of_a_text_stand_in_one_fold(tmp_path):
    rows = [*TRAIN[:30], *TRAIN[:30], *TRAIN[30:]]
    train(tmp_path / "run", rows)
    lines = [json.loads(line) for line in (tmp_path / "run" / PREDICTIONS).read_text().splitlines()]
    first, second = ([list(each["probabilities"].values()) for each in lines[i : i + 30]] for i in (0, 30))
    np.testing.assert_allclose(first, second, atol=1e-4)


def test_labels_and_the_model_have_to_agree(tmp_path):
    overrides = {"model.several_labels": True}
    message = error_of(ConfigurationError, train, tmp_path / "run", TRAIN, overrides=overrides)
    assert mentions(message, "one label", "several_labels: true")


def test_all_texts_are_in_memory(tmp_path):
    overrides = {"data_loader.max_instances_in_memory": 10}
    message = error_of(ConfigurationError, train, tmp_path / "run", TRAIN, overrides=overrides)
    assert mentions(message, "max_instances_in_memory")


def test_a_rare_class_keeps_its_threshold():
    labels = np.zeros((60, 2), dtype=int)
    labels[:20, 0] = labels[:9, 1] = 1
    probabilities = np.tile(np.linspace(0.4, 0.01, 60)[:, None], 2)
    thresholds = best_thresholds(labels, probabilities)
    assert thresholds[0] == pytest.approx((probabilities[19, 0] + probabilities[20, 0]) / 2)
    assert thresholds[1] == 0.5
