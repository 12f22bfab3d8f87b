"""The verbs about archives, such as `ensemble`, `explain`, `mix` and `slim`."""

import json
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from allennlp.common import JsonDict, Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.meta import META_NAME, Meta
from allennlp.common.params import remove_keys_from_params
from allennlp.data import Instance, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.evaluation import SimpleEvaluator
from allennlp.models import Model
from allennlp.models.archival import CONFIG_NAME, Archive, archive_model, get_weights_path
from allennlp.predictors import Predictor

from elmo_tasks import __version__
from elmo_tasks.commands.base import (
    DType,
    Gpu,
    Input,
    Positive,
    Verb,
    archive_argument,
    device_option,
    flag,
    option,
    positional,
    run_name,
)
from elmo_tasks.commands.results import ResultArguments
from elmo_tasks.commands.staging import staged_file
from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.common.machine import chosen_device
from elmo_tasks.common.progress import progress
from elmo_tasks.common.strict_params import block_errors
from elmo_tasks.common.table import Cell, Table, heat_map, save
from elmo_tasks.common.values import Names, check_value
from elmo_tasks.compat.archives import (
    extracted_archive,
    open_archive,
    packed_archive,
    slim,
    trained_archives,
    trained_card,
)
from elmo_tasks.data.reader import whole_reader
from elmo_tasks.elmo import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.inference import private_state_dict
from elmo_tasks.elmo.token_embedder import archived_state, elmo_from_state
from elmo_tasks.evaluation.mixes import LearnedMix, read_mixes
from elmo_tasks.language_model import BiLmReader
from elmo_tasks.language_model.callbacks import text_metrics
from elmo_tasks.modules.elmo_model import ElmoModel, EnsembleModel
from elmo_tasks.modules.metrics import ClassificationMetric, confusion_name
from elmo_tasks.page.templates import page_template
from elmo_tasks.predictors.command import json_lines_file, load_file
from elmo_tasks.predictors.interpretation import METHODS, Explainer, InterpretablePredictor, can_explain
from elmo_tasks.squad.dataset import read_datasets
from elmo_tasks.squad.reader import SquadReader
from elmo_tasks.training import ElmoBucketSampler, GroupedBucketSampler
from elmo_tasks.training.sampling import whole_block


@dataclass(frozen=True, kw_only=True)
class ModelVerb(Verb):
    """A verb that runs the model of an archive."""

    archive: Input = archive_argument()
    device: Gpu = device_option()

    def open(self) -> Archive:
        """Opens the archive, with its model on the device."""
        device = chosen_device(self.device, asked="--device")
        opened = open_archive(self.archive)
        opened.model.to(device)
        return opened


@dataclass(frozen=True, kw_only=True)
class Confusion(ModelVerb):
    name = "confusion"
    help = "The confusion matrix of a classifier."
    description = """Evaluates an archived classifier, or an ensemble of classifiers, on labelled data, as
        `allennlp evaluate` does; or a biLM with `frequent_words` on text, with the words as its classes.
        Shows accuracy, macro F1, and a table with a row for each gold class: how many of its instances were
        taken for each class, and its precision, recall and F1. The picture has each row's shares."""

    input: Input = positional("FILE", "data, as the archive's dataset reader reads it")
    output: Path = positional("PNG", "picture to write; its suffix says in which format")
    force: bool = flag("overwrite PNG")
    batch_size: Positive = option("instances at once", 64)

    def run(self) -> None:
        _check_format(self.output)
        with staged_file(self.output, force=self.force) as path:
            archive = self.open()
            labels = _metric(self.archive, archive.model).labels
            metrics = self._evaluate(archive)
            print(f"accuracy {metrics['accuracy']:.4f}, macro F1 {metrics['macro_f1']:.4f}\n")
            print(confusion_table(labels, metrics).markdown(), end="")
            draw(labels, metrics, path)
        print(f"\n{self.output}: the shares of {len(labels)} classes")

    def _evaluate(self, archive: Archive) -> dict[str, float]:
        model, reader = archive.model.eval(), archive.validation_dataset_reader
        if isinstance(reader, BiLmReader):
            return text_metrics(model, reader, self.input, next(model.parameters()).device)
        sampler = ElmoBucketSampler(batch_size=self.batch_size, shuffle=False)
        loader = MultiProcessDataLoader(reader, self.input, batch_sampler=sampler)
        loader.index_with(model.vocab)
        return SimpleEvaluator(cuda_device=self.device)(model, loader)


def confusion_table(labels: list[str], metrics: dict[str, float]) -> Table:
    """Returns a row for each gold class, from the metrics of a `ClassificationMetric`."""
    scores = ("precision", "recall", "f1")
    table = Table(("gold", *(f"as {label}" for label in labels), *scores))
    for gold in labels:
        counts = [int(metrics[confusion_name(gold, predicted)]) for predicted in labels]
        table.add(gold, *counts, *(metrics[f"{score}-{gold}"] for score in scores))
    return table


def draw(labels: list[str], metrics: dict[str, float], path: Path) -> None:
    """Draws the shares of each gold class as colours; a row also names its number of instances."""
    shares, names = [], []
    for gold in labels:
        counts = [metrics[confusion_name(gold, predicted)] for predicted in labels]
        total = sum(counts)
        shares.append([count / total if total else 0.0 for count in counts])
        names.append(f"{gold} ({total:.0f})")
    figure = heat_map(shares, rows=names, columns=labels)
    axes = figure.axes[0]
    axes.set_xlabel("predicted")
    axes.set_ylabel("gold (instances)")
    save(figure, path)


def _check_format(output: Path) -> None:
    from matplotlib.figure import Figure

    # PGF needs TeX, which it reports only when it writes.
    formats = [kind for kind in Figure().canvas.get_supported_filetypes() if kind != "pgf"]
    if output.suffix.removeprefix(".").lower() not in formats:
        raise ConfigurationError(
            f"found {output}, expected a name that ends in one of .{', .'.join(formats)}"
        )


def _metric(name: str, model: Model) -> ClassificationMetric:
    member = model.first if isinstance(model, EnsembleModel) else model
    metric = getattr(member, "metric", None)
    if not isinstance(metric, ClassificationMetric):
        raise ConfigurationError(
            f"{name}: found a model of the class {type(member).__name__}, expected a classifier, or a biLM "
            "with frequent_words"
        )
    return metric


@dataclass(frozen=True, kw_only=True)
class SquadPredictions(ModelVerb):
    name = "squad-predictions"
    help = "Answers in SQuAD's official format."
    description = """Writes one JSON object, {"id": "answer", ...}, as the official scripts evaluate-v1.1.py
        and evaluate-v2.0.py read it, and `python -m elmo_tasks.squad.score DATA OUT`. The answers in DATA are
        not read, and may be missing."""

    input: Input = positional("DATA", "SQuAD's JSON: a file, folder, pattern or URL")
    output: Path = positional("OUT", "JSON file to write")
    force: bool = flag("overwrite OUT")
    batch_size: Positive = option("questions at once", 45)

    def run(self) -> None:
        with staged_file(self.output, force=self.force) as path:
            archive = self.open()
            reader = whole_reader(archive.validation_dataset_reader)
            if not isinstance(reader, SquadReader):
                raise ConfigurationError(
                    f"{self.archive}: found the dataset reader {type(reader).__name__}, expected elmo_squad"
                )
            instances = [
                reader.text_to_instance(paragraph.passage, question.text, id=question.id)
                for dataset in read_datasets(self.input, answers=False)
                for paragraph in dataset.paragraphs
                for question in paragraph.questions
            ]
            answers = predictions(archive, instances, batch_size=self.batch_size)
            path.write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")
        print(f"{self.output}: {len(answers):,} answers")


def predictions(archive: Archive, instances: list[Instance], *, batch_size: int) -> dict[str, str]:
    """Returns the answer to each question by its id, in their order; an empty string for no answer."""
    sampler = GroupedBucketSampler(
        group="paragraph", batch_size=batch_size, sorting_keys=["passage"], shuffle=False
    )
    answers: dict[str, str] = {instance["metadata"].metadata.id: "" for instance in instances}
    archive.model.eval()
    for batch in progress(
        list(sampler.get_batch_indices(instances)), work="squad-predictions", unit="batches"
    ):
        chosen = [instances[index] for index in batch]
        for instance in chosen:
            archive.validation_dataset_reader.apply_token_indexers(instance)
        answers |= {output["id"]: output["answer"] for output in archive.model.forward_on_instances(chosen)}
    return answers


@dataclass(frozen=True, kw_only=True)
class Mix(Verb):
    name = "mix"
    help = "The mix weights that models have learned."
    description = """Shows the normalised weight of each layer, and gamma, for each placement of ELMo in
        archived models. Weights that are a function of the token have no fixed numbers, and are left
        empty."""

    archives: list[Input] = archive_argument(nargs="+")
    results: ResultArguments

    def run(self) -> None:
        with self.results.writer() as writer:
            archives = progress(self.archives, work="mix", unit="archives")
            mixes = [(archive, mix) for archive in archives for mix in read_mixes(archive)]
            layers = range(max(mix.bilm.num_layers for _, mix in mixes))
            names = [f"layer {layer}" for layer in layers]
            table = Table(("archive", "model", "placement", "weights", "gamma", *names))
            for archive, mix in mixes:
                # Archives may differ in their number of layers.
                shares: list[Cell] = [*(mix.shares() or ())]
                shares += [None] * (len(layers) - len(shares))
                table.add(archive, mix.model, mix.placement, mix.kind(), mix.gamma(), *shares)
            figure = heat_map(
                [row[-len(layers) :] for row in table.rows], rows=_row_names(mixes), columns=names
            )
            writer.write(table, figure)


def _row_names(mixes: list[tuple[str, LearnedMix]]) -> list[str]:
    runs = {(mix.model, run_name(archive)) for archive, mix in mixes}
    rows = [f"{mix.model}, {mix.placement}" for _, mix in mixes]
    if len(runs) == len({mix.model for _, mix in mixes}):
        return rows
    return [f"{run_name(archive)}: {row}" for (archive, _), row in zip(mixes, rows, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Models(Verb):
    name = "models"
    help = "The models that come trained."
    description = """Lists the archives that come with the project, with their scores. `elmo:NAME` is the path
        of an archive for each command, and `elmo_tasks.load("NAME")` opens it in Python."""

    def run(self) -> None:
        table = Table(("name", "task", "trained on", "licence of the text", "score", "MB"))
        for name, path in trained_archives().items():
            card = trained_card(name)
            size = f"{path.stat().st_size / 1e6:.1f}"
            table.add(f"elmo:{name}", *map(card.get, ("task", "data", "licence", "score")), size)
        print(table.markdown() if table.rows else "none is installed: pip install elmo_tasks[models]")


@dataclass(frozen=True, kw_only=True)
class Slim(Verb):
    name = "slim"
    help = "An archive without its biLM."
    description = """Writes the archive of a model without its biLM, which must be the one that comes with the
        project, frozen. When the archive is opened, this biLM is put into it. A version of the project with
        another biLM refuses the archive."""

    archive: Input = archive_argument()
    output: Path = option("tar.gz file to write", short="-o", metavar="OUT", required=True)
    dtype: DType = option("type of the stored weights; float16 rounds them", "float32")
    force: bool = flag("overwrite OUT")

    def run(self) -> None:
        path = packed_archive(self.archive)
        with staged_file(self.output, force=self.force) as staged, extracted_archive(path) as folder:
            slim(folder, staged, dtype=self.dtype, version=__version__)
        before, after = (file.stat().st_size / 1e6 for file in (path, self.output))
        print(f"{self.output}: {after:.1f} MB, {before:.1f} MB before")


TEMPLATE = Path(__file__).with_name("explain.html")


@dataclass(frozen=True, kw_only=True)
class Explain(ModelVerb):
    name = "explain"
    help = "Which words a prediction rests on."
    description = """Reads the input of `allennlp predict`, and writes JSON Lines: for each input the result,
        and for each prediction in it (an entity, a cluster; one for other tasks) the words of each text with
        their shares in its gradient, by one of AllenNLP's interpreters; the part of ELMo counts. Beside OUT,
        a page of HTML shows the words in colours. An input that cannot be read ends the work; the results
        before it, if any, are written."""

    input: Input = positional("IN", "JSON Lines, as `allennlp predict` reads them")
    output: Path = positional("OUT", "JSON Lines to write; the page is OUT.html")
    force: bool = flag("overwrite OUT")
    method: str = option("the interpreter of AllenNLP", METHODS[0], choices=METHODS)
    through_elmo: bool = flag(
        "take the gradient at the words, through the biLM (default: at the vectors of ELMo)"
    )

    @classmethod
    def outputs(cls, output: Path) -> list[Path]:
        return [output, _page(output)]

    def run(self) -> None:
        output = self.output
        page = _page(output)
        if output.suffix.lower() in (".html", ".htm"):
            expected = f"{output.with_suffix('.jsonl')}, beside which the page is written"
            raise ConfigurationError(f"{output}: found the name of a page, expected {expected}")
        if self.input != "-":
            json_lines_file(self.input)  # a clear error if nothing is there
        with (
            staged_file(page, force=self.force) as html,
            staged_file(output, force=self.force) as path,
        ):
            predictor = _predictor(self.archive, self.open())
            predictor.through_elmo = self.through_elmo
            inputs = list(load_file(predictor, self.input))
            explained, problem = _explain(Explainer(predictor, self.method), inputs)
            if problem is not None and not explained:
                raise problem
            lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in explained)
            path.write_text("".join(lines), encoding="utf-8")
            html.write_text(render(explained), encoding="utf-8")
        print(f"{output}: {len(explained):,} inputs; {page}")
        if problem is not None:
            raise problem


def _page(output: Path) -> Path:
    return output.with_name(f"{output.name}.html")


def _explain(
    explainer: Explainer, inputs: list[JsonDict]
) -> tuple[list[dict[str, Any]], ConfigurationError | ElmoError | None]:
    """Returns the explanations of the inputs before one that cannot be read, and the error of that one."""
    explained: list[dict[str, Any]] = []
    try:
        explained.extend(map(explainer, progress(inputs, work="explain", unit="inputs")))
    except (ConfigurationError, ElmoError) as error:
        return explained, error
    return explained, None


def render(explained: list[dict[str, Any]]) -> str:
    """Returns the page of HTML."""
    to_json = partial(json.dumps, ensure_ascii=False)
    return page_template(TEMPLATE, json=to_json).render(explained=explained)


def _predictor(name: str, archive: Archive) -> InterpretablePredictor:
    """Returns the predictor of an archive."""
    predictor = Predictor.from_archive(archive)
    if not can_explain(predictor):
        raise ConfigurationError(
            f"{name}: found a model of the class {type(archive.model).__name__}, expected a single model of "
            "NER, SST, SNLI, SQuAD, classification or coreference"
        )
    return predictor


WEIGHTS = "weights.th"

COPIED_KEYS = (
    "dataset_reader",
    "validation_dataset_reader",
    "vocabulary",
    "data_loader",
    "validation_data_loader",
    "evaluation",
    "random_seed",
    "numpy_seed",
    "pytorch_seed",
)
"""The keys of a config, beside the model, that `evaluate` and `predict` read."""


@dataclass(frozen=True, kw_only=True)
class Ensemble(Verb):
    name = "ensemble"
    help = "Several archives of one task, as one archive."
    description = """Writes one archive that evaluate and predict take like any other, and that decodes from
        the averaged scores of several models of one task. It no longer needs their archives. Equal biLMs are
        stored, and run, once."""

    archives: list[Input] = archive_argument(nargs="+")
    output: Path = option("tar.gz file to write", short="-o", metavar="OUT", required=True)
    force: bool = flag("overwrite OUT")

    def run(self) -> None:
        with staged_file(self.output, force=self.force) as path:
            archives = open_members(self.archives)
            members = [archive.model for archive in archives]
            model = EnsembleModel(vocab=members[0].vocab, members=members)
            write_ensemble(path, model, [archive.config for archive in archives])
        bilms = {module for module in model.modules() if isinstance(module, FrozenBiLm | TrainedBiLm)}
        print(f"{self.output}: {len(archives)} members, distinct biLMs: {len(bilms)}")


def write_ensemble(path: Path, model: EnsembleModel, configs: list[Params]) -> None:
    """Writes the archive of an ensemble; the folder of `path` is a folder to work in."""
    folder = path.parent
    members = [config.as_dict(quiet=True) for config in configs]
    config: dict[str, Any] = {key: members[0][key] for key in COPIED_KEYS if key in members[0]}
    config["model"] = {"type": "elmo_ensemble", "members": [member["model"] for member in members]}
    (folder / CONFIG_NAME).write_text(json.dumps(config, indent=2), encoding="utf-8")
    Meta.new().to_file(folder / META_NAME)
    model.vocab.save_to_files(str(folder / "vocabulary"))
    # PyTorch writes a tensor that has several names once. Only a file of Python tells of a full disk.
    with open(folder / WEIGHTS, "wb") as file:
        torch.save(model.state_dict(), file)
    archive_model(folder, weights=WEIGHTS, archive_path=path)


@Model.register("elmo_ensemble")
class ArchivedEnsemble(EnsembleModel):
    """
    An `EnsembleModel` that AllenNLP opens from an archive. It has one of two forms.

    - the archive that `write_ensemble` writes, which holds the members;
    - a folder with a `config.json` whose members stay where they are: `"model": {"type": "elmo_ensemble",
      "archives": [...]}`, with paths as in `open_members`, beside the `dataset_reader` and the `data_loader`
      of a member.
    """

    @classmethod
    def _load(
        cls, config: Params, serialization_dir: FilePath, weights_file: FilePath | None, cuda_device: int
    ) -> Model:
        """Builds the ensemble of an archive; AllenNLP calls it."""
        if "members" in config["model"]:
            model = cls._with_own_members(config, serialization_dir, weights_file)
        else:
            if weights_file is not None and weights_file != get_weights_path(serialization_dir):
                raise ConfigurationError(
                    f"found the weights {weights_file}, but the members have their own, expected none"
                )
            model = cls._with_members_elsewhere(config)
        return model.cuda(cuda_device) if cuda_device >= 0 else model

    @classmethod
    def _with_own_members(cls, config: Params, folder: FilePath, weights_file: FilePath | None) -> Model:
        """Builds the members one by one, so that equal biLMs are in memory once."""
        vocabulary = config.get("vocabulary", {})
        vocab = Vocabulary.from_files(
            Path(folder, "vocabulary"), vocabulary.get("padding_token"), vocabulary.get("oov_token")
        )
        state = archived_state(folder, weights_file)
        members: list[Model] = []
        bilms: dict[str, FrozenBiLm | TrainedBiLm] = {}
        for number, block in enumerate(config["model"]["members"]):
            prefix = f"members.{number}."
            weights = {
                name.removeprefix(prefix): weight for name, weight in state.items() if name.startswith(prefix)
            }
            if (elmo := block.get("elmo")) is not None:
                elmo_from_state(elmo, weights, "elmo.")
            remove_keys_from_params(block)
            member = Model.from_params(block, vocab=vocab)
            with private_state_dict():
                member.load_state_dict(weights)
            _share_bilm(member, bilms)
            members.append(member)
        return cls(vocab=vocab, members=members)

    @classmethod
    def _with_members_elsewhere(cls, config: Params) -> Model:
        block = config["model"]
        block.pop("type")
        with block_errors():
            check_value(paths := block.pop("archives"), Names, "model.archives")
        archives = open_members(paths)
        block.assert_empty(cls.__name__)
        if problem := _indexer_problem(config, archives[0].config):
            raise ConfigurationError(f"the ensemble's config: {problem}, as in its archives")
        return cls(vocab=archives[0].model.vocab, members=[archive.model for archive in archives])


def open_members(archives: list[str]) -> list[Archive]:
    """
    Opens archives: paths or URLs of `model.tar.gz`, or folders of runs. One of equal biLMs stays in memory.

    # Raises
    `ConfigurationError`, with the archive: it is no archive, its model is not of a task, or its class,
    vocabulary or token indexers differ from those of the first. `OSError`: nothing is there.
    """
    opened: list[Archive] = []
    bilms: dict[str, FrozenBiLm | TrainedBiLm] = {}
    for name in progress(archives, work="reading", unit="archives"):
        archive = open_archive(name)
        if problem := _problem(archive, opened[0] if opened else archive):
            raise ConfigurationError(f"{name}: {problem}" + (f", as in {archives[0]}" if opened else ""))
        _share_bilm(archive.model, bilms)
        opened.append(archive)
    return opened


def _problem(archive: Archive, first: Archive) -> str | None:
    found, expected = type(archive.model), type(first.model)
    if not issubclass(found, ElmoModel):
        return f"found a model of the class {found.__name__}, expected one of a task"
    if found is not expected:
        return f"found a model of the class {found.__name__}, expected {expected.__name__}"
    problem = _indexer_problem(archive.config, first.config)
    return problem or _vocabulary_problem(archive.model.vocab, first.model.vocab)


def _indexer_problem(config: Params, first: Params) -> str | None:
    for reader in ("dataset_reader", "validation_dataset_reader"):
        found, expected = (_token_indexers(each, reader) for each in (config, first))
        for name in sorted(found.keys() | expected.keys()):
            if found.get(name) != expected.get(name):
                return (
                    f"the token indexer {name!r} of the {reader} is {found.get(name)}, expected "
                    f"{expected.get(name)}"
                )
    return None


def _token_indexers(config: Params, reader: str) -> dict[str, Any]:
    settings = config.as_dict(quiet=True)
    return whole_block(settings.get(reader, settings["dataset_reader"])).get("token_indexers") or {}


def _vocabulary_problem(vocab: Vocabulary, first: Vocabulary) -> str | None:
    for namespace in sorted(vocab.get_namespaces() | first.get_namespaces()):
        found, expected = (
            list(each.get_index_to_token_vocabulary(namespace).values()) for each in (vocab, first)
        )
        for index, (word, wanted) in enumerate(zip_longest(found, expected)):
            if word != wanted:
                return (
                    f"the vocabulary {namespace!r} has {len(found)} entries, expected {len(expected)}; entry "
                    f"{index} is {word!r}, expected {wanted!r}"
                )
    return None


def _share_bilm(model: ElmoModel, bilms: dict[str, FrozenBiLm | TrainedBiLm]) -> None:
    """Replaces the model's biLM by the known one with the same digest, if there is one."""
    if model.elmo is not None and model.elmo.bilm is not None:
        bilm = model.elmo.bilm
        model.elmo.bilm = bilms.setdefault(bilm.digest(), bilm)
