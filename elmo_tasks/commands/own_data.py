"""The verbs `classify` and `tag`, which train a model on one's own data."""

import json
import logging
import re
import shlex
import shutil
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal

from allennlp.commands.train import train_model
from allennlp.common import JsonDict, Params
from allennlp.common.params import parse_overrides, with_overrides
from allennlp.data import DatasetReader
from allennlp.models.archival import CONFIG_NAME
from allennlp.models.model import _DEFAULT_WEIGHTS

from elmo_tasks.archives import open_archive
from elmo_tasks.archives.opening import trained_archives
from elmo_tasks.classification.linear import PREDICTIONS as PREDICTIONS_OF_FOLDS
from elmo_tasks.commands.arguments import BILM_FILES
from elmo_tasks.commands.base import Input, Positive, Verb, flag, option, positional
from elmo_tasks.commands.errors import gold_of, mistakes_in, shown_mistakes
from elmo_tasks.commands.inspect import (
    CONFIGS,
    LEFT_OUT,
    Inspection,
    description,
    find_readings,
    read_best,
    read_with,
    reader_class,
    text_option,
)
from elmo_tasks.common.files import bundled
from elmo_tasks.common.table import counted
from elmo_tasks.compat.command import ARCHIVE, end_of_training, telling_how_to_recover
from elmo_tasks.data.formats.sample import sample_of
from elmo_tasks.data.input_files import InputError, shorten
from elmo_tasks.data.repeated_texts import Records
from elmo_tasks.pipeline.predictor import InputRecord
from elmo_tasks.pipeline.stream import predict
from elmo_tasks.pipeline.trained import task_predictor
from elmo_tasks.training.experiments import METRICS
from elmo_tasks.training.sampling import drawn_indices, drawn_texts, sample_size

TRAINED_SHARE = 0.9
"""The share of the records that is trained on, where no dev data are given."""
SEED = 13
PREDICTIONS = "validation.jsonl"
"""The file of a run with the records that chose the epoch, and their predictions."""
NETWORK_TEXTS = 20_000
"""
The number of texts from which the network is trained, too. The linear model was as good with 3,264 pairs of
MRPC and 6,920 sentences of SST-2. With 24,851 descriptions of AG News it had an accuracy of .896 on 842
others, and the network, in twelve times the time, of .900.
"""
LINEAR = "classifier_linear_elmo"
_EXAMPLES, _LONGEST = 3, 200
_VOCABULARY, _ENGLISH, _FEW_WORDS = "pretrained/english/vocab.txt", 0.65, 30
"""Some 90% or more of the words of English texts are known, and at most 55% in other languages."""


class TrainOnOwnData(Verb):
    """Base class of verbs that make a config for data, and train by it."""

    task: ClassVar[str]
    """One of `CONFIGS`, whose model and trainer are taken."""

    train: Input = positional("TRAIN", "labelled data: file, folder, pattern, archive or URL")
    dev: Input | None = positional(
        "DEV",
        "data to score, which choose the best epoch (default for a network: a tenth of TRAIN)",
        nargs="?",
    )
    output: Path = option("folder of the run", short="-o", metavar="RUN", required=True)
    epochs: Positive | None = option("the largest number of epochs (default: from the config)")
    label: str | None = option("the column of the labels or tags (default: found)", metavar="COLUMN")
    text: list[str] = text_option()
    skip_bad: bool = flag("leave out bad records, such as rows without a text")
    seed: int = option("the number that draws weights, batches and held-out records", default=SEED)
    no_elmo: bool = flag("train the same model without ELMo, to compare", exclusive="elmo")
    options_file: Input | None = option(BILM_FILES["options_file"])
    weight_file: Input | None = option(BILM_FILES["weight_file"], exclusive="elmo")
    overrides: str = option(
        "values of the config as JSON, as in `allennlp train`; if a network is trained, of its config",
        default="",
    )
    recover: bool = flag("continue a run that was stopped")
    force: bool = flag("overwrite RUN")

    def run(self) -> None:
        inspection = self._inspection()
        print("\n".join(description(self.train, inspection)), flush=True)
        if about := list(self._about_dev(inspection)):
            print("\n".join(about), flush=True)
        with _without_warnings(logging.getLogger(reader_class(self.task).__module__)):
            predictions = self.train_models(inspection)
        results = list(map(json.loads, predictions.read_text(encoding="utf-8").splitlines()))
        print("\nPredictions:")
        for result in results[:_EXAMPLES]:
            print(f"  {shorten(self.shown(result), _LONGEST)}")
        print(f"All, with the gold labels, are in {predictions}.\n")
        print("\n".join(shown_mistakes(mistakes_in(results))))
        is_pair = "sentence2" in inspection.dataset_reader
        record = dict.fromkeys(("sentence1", "sentence2") if is_pair else ("sentence",), "...")
        archive = shlex.quote(str(self.output / ARCHIVE))
        print(
            f"\nTo predict, write {json.dumps(record)} a line, and run this; for a file in the format of "
            f"{self.train}, add --use-dataset-reader, for texts in a csv --text COLUMN.\n\n"
            f"allennlp predict {archive} TEXTS.jsonl --output-file PREDICTIONS.jsonl --silent"
        )

    def has_epochs(self, inspection: Inspection) -> bool:
        """Returns whether a model is trained whose best epoch is chosen by data that it is not trained on."""
        return True

    def train_models(self, inspection: Inspection) -> Path:
        """Trains, shows the scores, and returns the file of the predictions to show."""
        self.train_model(self._config(inspection, CONFIGS[self.task]), self.output)
        return self.predict_dev()

    def train_model(self, config: dict[str, Any], folder: Path) -> None:
        # A command that was killed may not have got to the second folder.
        recover = self.recover and (folder == self.output or folder.exists())
        with telling_how_to_recover(folder):
            train_model(Params(config), folder, recover=recover, force=self.force)
        print(end_of_training(folder))

    def _inspection(self) -> Inspection:
        sample = sample_of(self.train, self.label, self.text)
        readings = find_readings(sample, self.task)
        remedy = f"try `allennlp elmo inspect {shlex.quote(self.train)}`"
        if doubts := readings[0].doubts if readings else ():
            likeliest = {doubt.what: doubt.columns[0] for doubt in doubts}
            commands = (
                f"`{self._command({**likeliest, doubts[0].what: column})}`" for column in doubts[0].columns
            )
            questions = "; ".join(doubt.question() for doubt in doubts)
            raise InputError(questions, where=self.train, remedy=f"choose by {' or '.join(commands)}")
        try:
            inspection, _ = read_best(self.train, readings[:1], sample)
        except InputError as error:
            error.add_note(remedy)
            raise
        if not inspection.labels:
            raise InputError("the data have no labels", where=self.train, remedy=remedy)
        self._check_bad(inspection)
        return inspection

    def _check_bad(self, inspection: Inspection) -> None:
        if "skip_bad" in inspection.dataset_reader and not self.skip_bad:
            problem = next(each for each in inspection.warnings if each.startswith(LEFT_OUT))
            raise InputError(problem.removeprefix(LEFT_OUT), remedy="--skip-bad leaves out such records")

    def _command(self, columns: Mapping[str, str]) -> str:
        """Returns this command with other `columns` as its `label` and `text`."""
        words = ["allennlp", "elmo", self.name, self.train, *filter(None, [self.dev])]
        for argument in fields(self):
            name, default = argument.name, argument.default_factory
            value = columns.get(name, getattr(self, name))
            if callable(default) and value != default():
                given = f"--{name.replace('_', '-')}"
                values = value if isinstance(value, list) else [value]
                words += [given] if value is True else chain(*((given, str(each)) for each in values))
        return shlex.join(words)

    @property
    def _has_bundled_bilm(self) -> bool:
        files = self.options_file or self.weight_file
        return not (self.no_elmo or files or "model.elmo" in self.overrides)

    def _about_dev(self, inspection: Inspection) -> Iterator[str]:
        """Yields lines about the data that are not trained on: DEV, or a part of TRAIN that is held out."""
        assert inspection.texts is not None
        trained, has_epochs = inspection.texts.records, self.has_epochs(inspection)
        if self._has_bundled_bilm and (known := _known_to_bilm(inspection.texts.first)) < _ENGLISH:
            yield (
                f"  odd: {known:.0%} of the words are in the vocabulary of the biLM, which has read English; "
                "docs/languages.md names biLMs for other languages, for --weight-file, and --no-elmo trains "
                "without one"
            )
        if self.dev is None and not has_epochs:
            return
        if self.dev is None:
            name, (trained, records) = "the part that is held out", self._split(trained)
            yield f"  held out to choose the epoch: {counted(len(records), 'record')}, drawn at random"
        else:
            dev = read_with(self.task, self.dev, inspection.dataset_reader, sample_of(self.dev))
            self._check_bad(dev)
            assert dev.texts is not None
            use = "to choose the epoch, not trained on" if has_epochs else "not trained on"
            yield (
                f"{self.dev}: {counted(dev.records, 'record')}, {use}; "
                "to train on several files, give a pattern or their folder as TRAIN"
            )
            yield from (f"  odd: {warning}" for warning in dev.warnings)
            name, records = "DEV", dev.texts.records
        texts_of_train, labels = {text for text, _ in trained}, {label for _, label in records}
        if shared := sum(text in texts_of_train for text, _ in records):
            yield f"  odd: texts of {name} that are in TRAIN, too: {shared:,} of {len(records):,}"
        of_one_label = self.task == "classification" and not has_several_labels(inspection.dataset_reader)
        if of_one_label and (lacking := inspection.labels.keys() - labels):
            classes = ", ".join(repr(each) for each in inspection.labels if each in lacking)
            yield f"  odd: {name} has no text of {shorten(classes)}, whose f1 in the scores is 0 therefore"

    def _split(self, records: Records) -> tuple[Records, Records]:
        """Returns the records that `elmo_sample` draws, and those that are held out."""
        texts, classes = zip(*records, strict=True)
        if self.task == "classification":
            drawn = drawn_texts(texts, classes, TRAINED_SHARE, self.seed)
        else:
            drawn = drawn_indices([None] * len(records), TRAINED_SHARE, self.seed)
        if len(drawn) == len(records) or sample_size(TRAINED_SHARE, len(records)) == len(records):
            problem = f"the data have {counted(len(records), 'record')}, too few to hold some out"
            if self.task == "classification" and 1 < len(classes) == len(set(classes)):
                problem = "each class has one text, so that none can be held out"
            raise InputError(problem, where=self.train, remedy="give a DEV")
        parts: tuple[Records, Records] = [], []
        for index, record in enumerate(records):
            parts[index not in drawn].append(record)
        return parts

    def _config(self, inspection: Inspection, name: str) -> dict[str, Any]:
        """Returns the config of the data with the values of `--overrides`."""
        config = self._config_of_data(inspection, name)
        overrides = parse_overrides(self.overrides) if self.overrides else {}
        if name == LINEAR and self.has_epochs(inspection):
            # Its model and trainer have other keys than the network's.
            overrides = {key: value for key, value in overrides.items() if key.startswith("dataset_reader")}
        return with_overrides(config, overrides) if overrides else config

    def _config_of_data(self, inspection: Inspection, name: str) -> dict[str, Any]:
        name = name.removesuffix("_elmo" if self.no_elmo else "")
        config = Params.from_file(str(bundled(f"training_configs/{name}.jsonnet"))).as_dict(quiet=True)
        indexers = config["dataset_reader"]["token_indexers"]
        reader = {**inspection.dataset_reader, "token_indexers": indexers}
        holds_out = self.dev is None and self.has_epochs(inspection)
        dev = self.train if holds_out else self.dev
        config |= {"train_data_path": self.train, "validation_data_path": dev}
        reader |= {"skip_bad": True} if self.skip_bad else {}  # in DEV, too
        config["dataset_reader"] = reader
        if holds_out:
            trained = {"type": "elmo_sample", "reader": reader, "fraction": TRAINED_SHARE, "seed": self.seed}
            trained |= {"stratified": True} if self.task == "classification" else {}
            held_out = {**trained, "reader": deepcopy(reader), "rest": True}
            config |= {"dataset_reader": trained, "validation_dataset_reader": held_out}
        if files := {name: path for name in BILM_FILES if (path := getattr(self, name))}:
            config["model"]["elmo"] |= files
        if self.task == "classification":
            config["model"]["pairs"] = "sentence2" in reader
            if has_several_labels(reader):
                config["model"]["several_labels"] = True
                if "validation_metric" in config["trainer"]:
                    config["trainer"]["validation_metric"] = "+micro_f1"
        if self.epochs is not None and "num_epochs" in config["trainer"]:
            config["trainer"]["num_epochs"] = self.epochs
        config |= dict.fromkeys(("random_seed", "numpy_seed", "pytorch_seed"), self.seed)
        return config

    def predict_dev(self) -> Path:
        """Writes the predictions for the records that are not trained on to a file, and returns its path."""
        archive = open_archive(self.output / ARCHIVE)
        predictor = task_predictor(archive)
        # The reader of the archive itself reads the records that were trained on, too.
        block = archive.config.get("validation_dataset_reader", archive.config["dataset_reader"])
        records = map(InputRecord, DatasetReader.from_params(block.duplicate()).read(self.dev or self.train))
        lines: list[str] = []

        def add(record: InputRecord, result: JsonDict) -> None:
            lines.append(json.dumps(result | gold_of(record.content), ensure_ascii=False))

        predict(records, predictor, add)
        written = self.output / PREDICTIONS
        written.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return written

    @abstractmethod
    def shown(self, result: dict[str, Any]) -> str:
        """Returns a line about a prediction."""


class Classify(TrainOnOwnData):
    name = "classify"
    help = "A classifier of your own texts or pairs of texts."
    description = f"""Trains a linear classifier with ELMo. With --network, --epochs or at least
        {NETWORK_TEXTS:,} texts it trains a biLSTM, too, and keeps the better one on the same held-out texts.
        Columns, classes and format of the data are found, as `allennlp elmo inspect` finds them. Shows the
        scores, and three predictions."""
    task = "classification"

    network: bool = flag("train a biLSTM, too, and keep the better model")
    class_weight: Literal["balanced"] | None = option(
        "let all classes count as much in the linear model, however rare"
    )

    def _about_dev(self, inspection: Inspection) -> Iterator[str]:
        yield from super()._about_dev(inspection)
        if not (self.no_elmo or self._has_encoder(inspection)):
            yield "  the sentence encoder, which reads English by the biLM of the project, is left out"

    def has_epochs(self, inspection: Inspection) -> bool:
        wanted = self.network or self.no_elmo or self.epochs is not None
        return wanted or inspection.records >= NETWORK_TEXTS

    def train_models(self, inspection: Inspection) -> Path:
        if self.no_elmo and self.class_weight:
            raise InputError("--class-weight is of the linear model, which --no-elmo does not train")
        if self.no_elmo:
            return super().train_models(inspection)
        linear, network = self.output / "linear", self.output / "network"
        # It is there after the choice of a run that is continued.
        if not (self.recover and linear.exists()):
            self.train_model(self._config(inspection, LINEAR), self.output)
        if self.has_epochs(inspection):
            self.train_model(self._config(inspection, CONFIGS[self.task]), network)
            print(self._choose(linear, network))
        elif self.dev is None:
            return self.output / PREDICTIONS_OF_FOLDS
        return self.predict_dev()

    def _config_of_data(self, inspection: Inspection, name: str) -> dict[str, Any]:
        config = super()._config_of_data(inspection, name)
        if name != LINEAR:
            return config
        trainer = config["trainer"]
        trainer |= {"class_weight": self.class_weight, "seed": self.seed}
        if self._has_encoder(inspection):
            config["model"]["elmo"]["placement"] = "input+output"
            trainer["sentence_encoder"] = "elmo:sentence"
        return config

    def _has_encoder(self, inspection: Inspection) -> bool:
        assert inspection.texts is not None
        is_english = _known_to_bilm(inspection.texts.first) >= _ENGLISH
        return is_english and self._has_bundled_bilm and "sentence" in trained_archives()

    def _choose(self, linear: Path, network: Path) -> str:
        """
        Puts the network in the place of the linear model if it is better, and the linear model's files in a
        folder of their own; returns what is kept, and why.
        """
        of_linear, of_network = (
            json.loads((folder / METRICS).read_text("utf-8"))
            for folder in (linear if linear.exists() else self.output, network)
        )
        name = "micro_f1" if "best_validation_micro_f1" in of_linear else "accuracy"
        best = f"best_validation_{name}"
        scores = f"{name} {of_network[best]:.4f} of the network, {of_linear[best]:.4f} of the linear model"
        if of_network[best] <= of_linear[best]:
            return f"\nThe linear model is kept: {scores}, on the same texts."
        if not linear.exists():
            partial = linear.with_suffix(".partial")
            _copy_model(self.output, partial)
            partial.rename(linear)
        _copy_model(network, self.output)
        return f"\nThe network is kept, as {self.output / ARCHIVE}: {scores}, on the same texts."

    def shown(self, result: dict[str, Any]) -> str:
        texts = (" ".join(result[key]) for key in ("sentence1_tokens", "sentence2_tokens") if key in result)
        if "labels" in result:
            return f"{', '.join(result['labels']) or 'no label'}: {' | '.join(texts)}"
        return f"{result['label']} ({max(result['probabilities'].values()):.2f}): {' | '.join(texts)}"


def _copy_model(run: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in (ARCHIVE, CONFIG_NAME, METRICS, _DEFAULT_WEIGHTS):
        shutil.copyfile(run / name, folder / name)


@contextmanager
def _without_warnings(logger: logging.Logger) -> Iterator[None]:
    """Leaves out warnings of a reader about data that are read again: the inspection has shown them."""

    def is_shown(record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING

    logger.addFilter(is_shown)
    try:
        yield
    finally:
        logger.removeFilter(is_shown)


def _known_to_bilm(texts: Iterable[str]) -> float:
    """Returns the share of the words in texts that are in the vocabulary of the bundled biLM."""
    words = [word.lower() for text in texts for word in re.findall(r"[^\W\d_]+", text)]
    if len(words) < _FEW_WORDS:
        return 1.0
    known = _known_words()
    return sum(word in known for word in words) / len(words)


@cache
def _known_words() -> frozenset[str]:
    """Returns the vocabulary of the bundled biLM in lower case."""
    return frozenset(bundled(_VOCABULARY).read_text(encoding="utf-8").lower().splitlines())


def has_several_labels(reader: Mapping[str, Any]) -> bool:
    return bool(reader.get("several_labels")) or isinstance(reader.get("label"), list)


class Tag(TrainOnOwnData):
    name = "tag"
    help = "A model of entities in your own texts."
    description = """Trains a biLSTM-CRF with ELMo. Columns, tag scheme and format of the data are found, as
        `allennlp elmo inspect` finds them. Shows the scores, and three predictions."""
    task = "ner"

    def shown(self, result: dict[str, Any]) -> str:
        entities = ", ".join(f"{entity['text']} ({entity['type']})" for entity in result["entities"])
        return f"{entities or 'no entity'}: {' '.join(result['tokens'])}"
