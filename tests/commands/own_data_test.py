"""`allennlp elmo classify` and `tag`: from a file to a trained model, without a config."""

import argparse
import json
import random
import re
import shlex
from pathlib import Path

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader

from elmo_tasks.commands.own_data import PREDICTIONS, PREDICTIONS_OF_FOLDS, Classify, Tag
from elmo_tasks.common.files import bundled
from elmo_tasks.training.experiments import METRICS
from tests.errors import error_of, mentions

CSV = "review,stars\n" + "".join(
    f'"A {word} film, seen {i} times.",{star}\n'
    for i, (word, star) in enumerate([("warm", "good"), ("dull", "bad")] * 10)
)


def predicted(shown):
    """The texts of the predictions that a verb shows."""
    lines = shown.partition("\nPredictions:\n")[2].partition("\nAll, ")[0].splitlines()
    return [line.partition(": ")[2] for line in lines]


def test_classify_fits_all_texts_and_scores_folds(tmp_path, allennlp):
    (tmp_path / "mine.csv").write_text(CSV)
    arguments = ("elmo", "classify", tmp_path / "mine.csv", "-o", tmp_path / "my run")
    arguments += ("--overrides", '{"trainer.folds": 4, "trainer.sentence_encoder": null}')
    shown = allennlp(*arguments, "--class-weight", "balanced")
    assert "held out" not in shown
    metrics = json.loads((tmp_path / "my run" / METRICS).read_text())
    accuracy, spread = (metrics[f"cross_validation_accuracy{end}"] for end in ("", "_spread"))
    assert f"accuracy {accuracy:.3f} (+-{spread:.3f} over 4 folds)" in shown
    assert mentions(shown, "25, 50 and 100%", f"{accuracy:.3f}")
    lines = (tmp_path / "my run" / PREDICTIONS_OF_FOLDS).read_text().splitlines()
    assert [json.loads(line)["gold_label"] for line in lines] == ["good", "bad"] * 10
    assert predicted(shown) == [" ".join(json.loads(line)["sentence1_tokens"]) for line in lines[:3]]
    config = json.loads((tmp_path / "my run/config.json").read_text())
    assert config["trainer"]["class_weight"] == "balanced"
    assert config["trainer"]["sentence_encoder"] is None
    (tmp_path / "in.jsonl").write_text('{"sentence": "A warm film."}\n')
    words = shlex.split(shown.strip().splitlines()[-1])[1:]
    names = {"TEXTS.jsonl": tmp_path / "in.jsonl", "PREDICTIONS.jsonl": tmp_path / "out.jsonl"}
    allennlp(*(names.get(word, word) for word in words))
    assert json.loads((tmp_path / "out.jsonl").read_text())["label"] == "good"
    assert mentions(allennlp(*arguments, status=1), "run", "--recover", "--force")
    allennlp(*arguments, "--class-weight", "balanced", "--recover")


def test_classify_scores_dev_data(tmp_path, allennlp):
    (tmp_path / "mine.csv").write_text(CSV)
    (tmp_path / "dev.csv").write_text("review,stars\nA warm day.,good\nSo dull.,bad\n")
    files = tmp_path / "mine.csv", tmp_path / "dev.csv"
    shown = allennlp("elmo", "classify", *files, "-o", tmp_path / "run")
    assert mentions(shown, "2 records", "not trained on", "2 validation instances", "| accuracy |")
    assert predicted(shown) == ["A warm day .", "So dull ."]
    metrics = json.loads((tmp_path / "run" / METRICS).read_text())
    assert (metrics["validation_instances"], metrics["folds"]) == (2, 5)


def test_classify_trains_both_models_on_a_part_and_shows_how_to_predict(tmp_path, allennlp):
    (tmp_path / "mine.csv").write_text(CSV)
    arguments = ("elmo", "classify", tmp_path / "mine.csv", "-o", tmp_path / "run", "--epochs", 1)
    shown = allennlp(*arguments)
    assert "labels: good 10, bad 10" in shown or "labels: bad 10, good 10" in shown
    assert "| accuracy |" in shown
    assert "| confusion" not in shown
    for folder in ("run", "run/network"):
        config = json.loads((tmp_path / folder / "config.json").read_text())
        train, dev = (config[f"{name}dataset_reader"] for name in ("", "validation_"))
        assert (train["fraction"], dev["fraction"], dev["rest"]) == (0.9, 0.9, True)
    held_out = DatasetReader.from_params(Params(dev)).read(str(tmp_path / "mine.csv"))
    texts = [" ".join(each["metadata"].metadata.sentence1) for each in held_out]
    assert predicted(shown) == texts
    lines = (tmp_path / "run" / PREDICTIONS).read_text().splitlines()
    words = [" ".join(json.loads(line)["sentence1_tokens"]) for line in lines]
    assert words == texts
    assert all(("warm" in line) == ('"gold_label": "good"' in line) for line in lines)
    assert "2 validation instances" in shown
    assert mentions(shown, " is kept", "accuracy", "of the network", "of the linear model")
    trained_on = allennlp("elmo", "confusion", tmp_path / "run", tmp_path / "mine.csv", tmp_path / "c.svg")
    assert mentions(trained_on, "of 20", "trained on")
    allennlp(*arguments, "--recover")


def test_a_run_whose_network_was_kept_is_continued(tmp_path, capsys, monkeypatch):
    (tmp_path / "mine.csv").write_text(CSV)
    choose = Classify._choose

    def with_a_worse_linear_model(self, linear, network):
        if not linear.exists():
            metrics = json.loads((self.output / METRICS).read_text())
            (self.output / METRICS).write_text(json.dumps(metrics | {"best_validation_accuracy": -1.0}))
        return choose(self, linear, network)

    monkeypatch.setattr(Classify, "_choose", with_a_worse_linear_model)
    for recover in (False, True):
        files = {"train": str(tmp_path / "mine.csv"), "dev": None, "output": tmp_path / "run"}
        Classify(**files, text=[], epochs=1, recover=recover).run()
        assert "The network is kept" in capsys.readouterr().out
    configs = [json.loads((tmp_path / run / "config.json").read_text()) for run in ("run", "run/linear")]
    assert [config["model"]["type"] for config in configs] == ["elmo_classifier", "elmo_linear"]


@pytest.mark.parametrize(("of_network", "kept"), [(0.9, "network"), (0.8, "linear")])
def test_the_better_model_is_kept(tmp_path, of_network, kept):
    for folder, name, accuracy in (
        (tmp_path, "linear", 0.8),
        (tmp_path / "network", "network", of_network),
    ):
        folder.mkdir(exist_ok=True)
        (folder / METRICS).write_text(json.dumps({"best_validation_accuracy": accuracy}))
        for file in ("config.json", "model.tar.gz", "best.th"):
            (folder / file).write_text(name)
    verb = Classify(train="a.csv", dev=None, output=tmp_path)
    shown = verb._choose(tmp_path / "linear", tmp_path / "network")
    assert mentions(shown, f"The {kept}", "is kept", str(of_network), "0.8")
    for file in ("config.json", "model.tar.gz", "best.th"):
        assert (tmp_path / file).read_text() == kept


def test_classify_pairs(tmp_path, allennlp):
    rows = (f"Who saw {number}?\tAnn saw {number}.\t{'ab'[number % 2]}\n" for number in range(10))
    (tmp_path / "a.tsv").write_text("question\tsentence\tlabel\n" + "".join(rows))
    shown = allennlp("elmo", "classify", tmp_path / "a.tsv", "-o", tmp_path / "run", "--epochs", 1)
    assert "texts: question, sentence; label: label" in shown
    assert 'write {"sentence1": "...", "sentence2": "..."} a line' in shown
    assert json.loads((tmp_path / "run/config.json").read_text())["model"]["pairs"] is True


def test_classify_several_labels(tmp_path, allennlp):
    kinds = [("rain", "a;b"), ("sun", "a"), ("wind", "b"), ("snow", "b;a")]
    rows = (f"We saw the {word} on day {number},{labels}\n" for number in range(5) for word, labels in kinds)
    (tmp_path / "a.csv").write_text("text,kinds\n" + "".join(rows))
    shown = allennlp("elmo", "classify", tmp_path / "a.csv", "-o", tmp_path / "run")
    assert mentions(shown, "labels: ", "a 15", "micro F1 ", "over 5 folds", "\nPredictions:\n")
    words = shown.strip().splitlines()[-1].split()[1:]
    (tmp_path / "in.jsonl").write_text('{"sentence": "We saw the sun on day 3"}\n')
    names = {"TEXTS.jsonl": tmp_path / "in.jsonl", "PREDICTIONS.jsonl": tmp_path / "out.csv"}
    allennlp(*(names.get(word, word) for word in words))
    assert (tmp_path / "out.csv").read_text() == "sentence,labels\nWe saw the sun on day 3,a\n"
    network = allennlp("elmo", "classify", tmp_path / "a.csv", "-o", tmp_path / "b", "--epochs", 1)
    assert mentions(network, "| micro_f1 |", "micro_f1 ", "on the same texts")


def test_columns_rows_and_the_config_can_be_chosen(tmp_path, allennlp):
    rows = "".join(
        f"A trip by boat {i},None,{'ab'[i % 2]}\nA day {i},Other,{'ab'[i % 2]}\n" for i in range(8)
    )
    (tmp_path / "a.csv").write_text(f"words,kind,part\n{rows},None,a\n")
    chosen = ["elmo", "classify", "-o", tmp_path / "run", "--label", "kind", "--text", "words"]
    chosen += [tmp_path / "a.csv"]
    assert mentions(allennlp(*chosen, status=1), "line 18", "--skip-bad")
    overrides = json.dumps({"trainer.num_epochs": 1})
    shown = allennlp(*chosen, "--skip-bad", "--seed", 3, "--no-elmo", "--overrides", overrides)
    assert mentions(shown, "texts: words; label: kind", "line 18")
    assert shown.count("line 18") == 1
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert "elmo" not in config["model"]
    assert (config["random_seed"], config["dataset_reader"]["seed"]) == (3, 3)


def test_tag_with_dev_data(tmp_path, allennlp):
    train, dev = (bundled(f"fixtures/ner/{name}.conll").resolve() for name in ("dev", "test"))
    shown = allennlp("elmo", "tag", train, dev, "-o", tmp_path / "run", "--epochs", 1)
    assert "| f1 |" in shown
    assert "held out:" not in shown
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["dataset_reader"]["type"] == "elmo_ner"
    assert config["validation_data_path"] == str(dev)


def test_too_few_records_to_hold_some_out(tmp_path, allennlp):
    (tmp_path / "mine.csv").write_text("".join(CSV.splitlines(keepends=True)[:5]))
    shown = allennlp("elmo", "classify", tmp_path / "mine.csv", "-o", tmp_path / "run", "--network", status=1)
    assert mentions(shown, f"error: {tmp_path / 'mine.csv'}: ", "4 records")
    assert not (tmp_path / "run").exists()


def inspection_of(verb, path, **options):
    """Returns what a verb says of its data before it trains."""
    arguments = {"dev": None, "output": Path("runs/a b"), "text": [], "label": None, "seed": 13, **options}
    defaults = {"epochs": 1, "skip_bad": False, "no_elmo": False, "overrides": "", "recover": False}
    trained = verb(train=str(path), force=False, **defaults | arguments)
    return list(trained._about_dev(trained._inspection()))


RARE = [(f"the order number {i} came", "bad" if i < 5 else "ok") for i in range(100)]


@pytest.mark.parametrize(
    ("train", "dev", "told"),
    [
        (RARE, None, ["held out", "10 records, drawn at random"]),
        (RARE[4:], None, ["9 records", "held out has no text of 'bad'"]),
        (
            RARE[:50],
            RARE[45:60],
            ["15 records, to choose", "pattern", "5 of 15", "has no text of 'bad'"],
        ),
        (RARE, RARE[:8], ["8 records", "texts of DEV that are in TRAIN, too: 8 of 8"]),
        (RARE, RARE[:1], ["dev.csv: 1 record,", "1 of 1"]),
        (RARE, [("so", ""), *RARE[:8]], ["line 2", "without a label", "8 of 8"]),
    ],
)
def test_what_is_told_of_the_data_that_choose_the_epoch(tmp_path, train, dev, told):
    paths = []
    for name, rows in (("train", train), ("dev", dev)):
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows or ()))
    assert mentions("\n".join(inspection_of(Classify, paths[0], dev=dev and str(paths[1]))), *told)


def test_sentences_of_dev_that_are_trained_on(tmp_path):
    train, dev = (bundled(f"fixtures/ner/{name}.conll").resolve() for name in ("train", "dev"))
    both = tmp_path / "both.conll"
    both.write_text(train.read_text() + "\n" + dev.read_text())
    lines = "\n".join(inspection_of(Tag, both, dev=str(dev)))
    records = re.search(r"(\d+) records", lines)[1]
    assert f"odd: texts of DEV that are in TRAIN, too: {records} of {records}" in lines
    assert "odd: " not in "\n".join(inspection_of(Tag, train, dev=str(dev)))


def test_texts_in_another_language(tmp_path):
    sentence = "Der Regen fiel auf die alte Stadt und niemand wollte vor die Tuer gehen"
    rows = "".join(f"{sentence} {number},{'ab'[number % 2]}\n" for number in range(10))
    (tmp_path / "a.csv").write_text(f"text,label\n{rows}")
    for options, count in (({}, 1), ({"no_elmo": True}, 0), ({"weight_file": "de.hdf5"}, 0)):
        verb = Classify(train=str(tmp_path / "a.csv"), dev=None, output=tmp_path, text=[], **options)
        told = [line for line in verb._about_dev(verb._inspection()) if "docs/languages.md" in line]
        assert len(told) == count


def test_classify_with_another_bilm(tmp_path, allennlp, files):
    (tmp_path / "mine.csv").write_text(CSV)
    own = {name: files[name] for name in ("options_file", "weight_file")}
    options = [word for name, path in own.items() for word in (f"--{name.replace('_', '-')}", path)]
    arguments = ("elmo", "classify", tmp_path / "mine.csv", "-o", tmp_path / "run", *options)
    assert "sentence encoder" in allennlp(*arguments)
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["model"]["elmo"] | own == config["model"]["elmo"]
    assert "sentence_encoder" not in config["trainer"]
    assert mentions(allennlp(*arguments, "--no-elmo", status=2), "--no-elmo", "--weight-file")


def test_a_class_for_each_text(tmp_path):
    (tmp_path / "a.csv").write_text(
        "text,label\n" + "".join(f"a day by the sea {i},c{i}\n" for i in range(6))
    )
    message = error_of(ConfigurationError, inspection_of, Classify, tmp_path / "a.csv")
    assert mentions(message, "a.csv", "each class has one text", "DEV")


WORDS = ["the", "boat", "sank", "in", "a", "storm", "near", "our", "old", "town", "and", "many", "came"]
DOUBTFUL = "one,two,three,kind,region\n" + "".join(
    ",".join(" ".join(random.Random(100 * i + size).choices(WORDS, k=size)) for size in (8, 9, 10))
    + f",{'xy'[i % 2]},{'ns'[i % 3 > 0]}\n"
    for i in range(30)
)
TAGGED = "Ann\tB-PER\tB-A\nwent\tO\tO\nto\tO\tO\nOslo\tB-LOC\tB-B\n\n" * 6


@pytest.mark.parametrize(
    ("verb", "content", "options", "asked", "chosen"),
    [
        (Classify, DOUBTFUL, {}, ["kind", "region", "one", "two", "three"], ["kind", "region"]),
        (Classify, DOUBTFUL, {"label": "kind"}, ["one", "two", "three"], ["one", "two", "three"]),
        (Classify, DOUBTFUL, {"text": ["two"]}, ["kind", "region"], ["kind", "region"]),
        (Tag, TAGGED, {}, ["column3", "column2"], ["column3", "column2"]),
    ],
)
def test_in_doubt_it_asks_with_a_command_for_each_choice(tmp_path, verb, content, options, asked, chosen):
    path = tmp_path / "a b"
    path.write_text(content)
    message = error_of(ConfigurationError, inspection_of, verb, path, seed=5, no_elmo=True, **options)
    question, _, commands = message.partition("choose by ")
    assert mentions(question, *(f"{column} (" for column in asked))
    for command, column in zip(commands.split("`")[1::2], chosen, strict=True):
        arguments = parser_of(verb).parse_args(shlex.split(command)[3:])
        assert (arguments.train, arguments.output) == (str(path), Path("runs/a b"))
        assert (arguments.seed, arguments.no_elmo) == (5, True)
        assert column in (arguments.label, *arguments.text)
        assert inspection_of(verb, path, label=arguments.label, text=arguments.text)


def parser_of(verb):
    return verb.add_parser(argparse.ArgumentParser().add_subparsers())


@pytest.mark.parametrize("verb", ["classify", "tag"])
def test_data_that_do_not_fit(verb, tmp_path, allennlp):
    (tmp_path / "a.txt").write_text("words without labels\n")
    shown = allennlp("elmo", verb, tmp_path / "a.txt", "-o", tmp_path / "run", status=1)
    assert "a.txt" in shown
    assert "elmo inspect" in shown
    assert not (tmp_path / "run").exists()
