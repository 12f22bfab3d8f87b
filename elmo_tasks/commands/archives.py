"""The verbs about trained models: `mix`, `confusion`, `models` and `slim`."""

import os
from itertools import product
from pathlib import Path
from textwrap import fill

from allennlp.common.checks import ConfigurationError
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.evaluation import SimpleEvaluator
from allennlp.models.archival import Archive

from elmo_tasks import __version__
from elmo_tasks.archives.opening import (
    TRAINED,
    archive_errors,
    extracted_archive,
    packed_archive,
    trained_archives,
    trained_card,
)
from elmo_tasks.archives.slim import slim
from elmo_tasks.commands.base import (
    DType,
    Input,
    ModelVerb,
    Positive,
    Verb,
    archive_argument,
    flag,
    option,
    positional,
    run_name,
)
from elmo_tasks.commands.partial_outputs import partial_file
from elmo_tasks.commands.results import ResultArguments
from elmo_tasks.common.progress import progress
from elmo_tasks.common.table import Cell, Table
from elmo_tasks.evaluation.plots import heat_map, save
from elmo_tasks.language_model.callbacks import text_metrics
from elmo_tasks.language_model.reader import BiLmReader
from elmo_tasks.modules.elmo_model import EnsembleModel
from elmo_tasks.modules.metrics import ClassificationMetric, confusion_name
from elmo_tasks.ner.model import NerModel
from elmo_tasks.training.sampling import ElmoBucketSampler
from elmo_tasks.vectors.encoder import read_mixes


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
            runs = {(mix.model, run_name(archive)) for archive, mix in mixes}
            one_run_a_model = len(runs) == len({model for model, _ in runs})
            layers = range(max(mix.bilm.num_layers for _, mix in mixes))
            names = [f"layer {layer}" for layer in layers]
            table = Table(("archive", "model", "placement", "weights", "gamma", *names))
            rows = []
            for archive, mix in mixes:
                # Archives may differ in their number of layers.
                shares: list[Cell] = [*(mix.shares() or ())]
                shares += [None] * (len(layers) - len(shares))
                table.add(archive, mix.model, mix.placement, mix.kind(), mix.gamma(), *shares)
                run = "" if one_run_a_model else f"{run_name(archive)}: "
                rows.append(f"{run}{mix.model}, {mix.placement}")
            numbers = [row[-len(layers) :] for row in table.rows]
            writer.write(table, heat_map(numbers, rows=rows, columns=names, middle=1 / len(layers)))


class Confusion(ModelVerb):
    name = "confusion"
    help = "The confusion matrix of a classifier."
    description = """Evaluates an archived classifier, or an ensemble of classifiers, on labelled data, as
        `allennlp evaluate` does; or a biLM with `frequent_words` on text, with the words as its classes.
        Shows accuracy and macro F1. A table has a row for each gold class: the number of its instances that
        the model gave to each class, and its precision, recall and F1. A line says if the model was trained
        on these data. The picture has each row's shares."""

    input: Input = positional("FILE", "data, as the archive's dataset reader reads it")
    output: Path = positional("PNG", "picture to write; its suffix says in which format")
    force: bool = flag("overwrite PNG")
    batch_size: Positive = option("instances in a batch", 64)

    def run(self) -> None:
        from matplotlib.figure import Figure

        formats = Figure().canvas.get_supported_filetypes()
        if self.output.suffix.removeprefix(".").lower() not in formats:
            raise ConfigurationError(f"{self.output} must end in one of .{', .'.join(formats)}")
        with partial_file(self.output, force=self.force) as path:
            archive = self.open()
            member = archive.model.first if isinstance(archive.model, EnsembleModel) else archive.model
            metric = getattr(member, "metric", None)
            if not isinstance(metric, ClassificationMetric):
                problem = f"{type(member).__name__} is not a classifier, nor a biLM with frequent_words"
                if isinstance(member, NerModel):
                    problem += f"; `allennlp elmo errors {self.archive} {self.input}` shows wrong entities"
                raise ConfigurationError(f"{self.archive}: {problem}")
            labels = metric.labels
            metrics = self._evaluate(archive)
            total = sum(metrics[confusion_name(*cell)] for cell in product(labels, labels))
            scores = f"accuracy {metrics['accuracy']:.4f}, macro F1 {metrics['macro_f1']:.4f}"
            print(f"{scores}, of {total:,.0f} instances")
            for key, use in (("train", "were trained on"), ("validation", "chose the best epoch")):
                data = archive.config.get(f"{key}_data_path", None)
                paths = [path for path in (data if isinstance(data, list) else [data]) if path]
                if os.path.realpath(self.input) in map(os.path.realpath, map(str, paths)):
                    print(f"These data {use}: expect lower scores on others.")
                    break
            print()
            print(confusion_table(labels, metrics).markdown(), end="")
            draw_confusion(labels, metrics, path)
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
    scores = ("precision", "recall", "f1")
    table = Table(("gold", *(f"as {label}" for label in labels), *scores))
    for gold in labels:
        counts = [int(metrics[confusion_name(gold, predicted)]) for predicted in labels]
        table.add(gold, *counts, *(metrics[f"{score}-{gold}"] for score in scores))
    return table


def draw_confusion(labels: list[str], metrics: dict[str, float], path: Path) -> None:
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


_FACTS = {
    "task": "task",
    "dev": "score",
    "unseen text": "unseen",
    "trained on": "data",
    "licence": "licence",
    "size": "size",
}
"""The facts of a model that comes trained, in their order, by what they are called."""


class Models(Verb):
    name = "models"
    help = "The models that come trained."
    description = """Lists the archives that come with the project, with their scores. `elmo:NAME` is the path
        of an archive for each command, and `elmo_tasks.load("NAME")` opens it in Python."""

    def run(self) -> None:
        archives = trained_archives()
        for name, path in archives.items():
            print(f"{TRAINED}{name}")
            facts = {"size": f"{path.stat().st_size / 1e6:.1f} MB", **trained_card(name)}
            for title, key in _FACTS.items():
                print(fill(facts[key], 79, initial_indent=f"  {title:13}", subsequent_indent=15 * " "))
            print()
        if not archives:
            print("no models are installed: pip install elmo_tasks[models]")


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
        staged_file = partial_file(self.output, force=self.force)
        with staged_file as staged, archive_errors(self.archive), extracted_archive(path) as folder:
            slim(folder, staged, dtype=self.dtype, version=__version__)
        before, after = (file.stat().st_size / 1e6 for file in (path, self.output))
        print(f"{self.output}: {after:.1f} MB, {before:.1f} MB before")
