"""The verb `confusion`: the confusion matrix of a classifier."""

from dataclasses import dataclass
from pathlib import Path

from allennlp.common.checks import ConfigurationError
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.evaluation import SimpleEvaluator
from allennlp.models import Model
from allennlp.models.archival import Archive

from elmo_tasks.commands.base import Input, ModelVerb, Positive, flag, option, positional
from elmo_tasks.commands.partial_outputs import partial_file
from elmo_tasks.common.plot import heat_map, save
from elmo_tasks.common.table import Table
from elmo_tasks.language_model import BiLmReader
from elmo_tasks.language_model.callbacks import text_metrics
from elmo_tasks.modules.ensemble import EnsembleModel
from elmo_tasks.modules.metrics import ClassificationMetric, confusion_name
from elmo_tasks.training import ElmoBucketSampler


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
    batch_size: Positive = option("instances in a batch", 64)

    def run(self) -> None:
        _check_format(self.output)
        with partial_file(self.output, force=self.force) as path:
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
        raise ConfigurationError(f"{output} must end in one of .{', .'.join(formats)}")


def _metric(name: str, model: Model) -> ClassificationMetric:
    member = model.first if isinstance(model, EnsembleModel) else model
    metric = getattr(member, "metric", None)
    if not isinstance(metric, ClassificationMetric):
        raise ConfigurationError(
            f"{name}: {type(member).__name__} is not a classifier, nor a biLM with frequent_words"
        )
    return metric
