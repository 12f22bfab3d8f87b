"""
Wrong results and lost data: what AllenNLP computes, reads, drops or overwrites without a word, errors that it
finds after hours, runs that cannot resume, and archives that run code.

`compat.TO_BE_RIGHT` lists the changes; a docstring says what AllenNLP does without the change.
"""

import inspect
import itertools
import json
import logging
import os
import random
import re
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from glob import glob
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from allennlp.commands import build_vocab, count_instances, evaluate
from allennlp.commands.train import TrainModel
from allennlp.common import Params, cached_transformers, from_params, util
from allennlp.common import params as params_module
from allennlp.common.checks import ConfigurationError
from allennlp.common.registrable import Registrable
from allennlp.common.util import is_distributed
from allennlp.data import DataLoader, DatasetReader, Instance, Vocabulary
from allennlp.evaluation import SimpleEvaluator
from allennlp.evaluation.serializers import SimpleSerializer
from allennlp.models import Model, archival
from allennlp.models.archival import CONFIG_NAME, Archive
from allennlp.modules.token_embedders import Embedding
from allennlp.modules.token_embedders.embedding import EmbeddingsTextFile
from allennlp.nn import RegularizerApplicator
from allennlp.nn import util as nn_util
from allennlp.training import GradientDescentTrainer, Trainer
from allennlp.training import util as training_util
from allennlp.training.callbacks.backward import MixedPrecisionBackwardCallback
from allennlp.training.moving_average import MovingAverage
from allennlp.training.scheduler import Scheduler
from torch.nn import Module

from elmo_tasks.archives import open_archive
from elmo_tasks.archives.opening import (
    extracted_archive,
    override_block_of,
    usable_gpu,
    vocabulary_from_files,
)
from elmo_tasks.archives.slim import read_whole_state
from elmo_tasks.archives.trust import (
    is_opening_untrusted,
    only_known_types,
    refuse_to_fetch,
    resolve_registered,
)
from elmo_tasks.common.errors import did_you_mean
from elmo_tasks.common.files import refuse_inputs_as_outputs
from elmo_tasks.common.old_keys import old_keys_named
from elmo_tasks.common.strict_params import ConfigError, block_errors
from elmo_tasks.compat.running import around, installed_transformer, wrap
from elmo_tasks.data.fields import TagField
from elmo_tasks.data.reader import check_readable

logger = logging.getLogger(__name__)

_MAY_GROW = {"trainer.num_epochs": 20, "trainer.patience": None}
"""Keys that may grow when a run is resumed, with their defaults."""
_LENGTH_OF_RUN = ("num_epochs", "total_steps", "warmup_steps")
"""Attributes of a scheduler that follow from the number of epochs."""


@around(MovingAverage, "load_state_dict")
def resume_moving_averages(stock: object, self: MovingAverage, state_dict: dict[str, Any]) -> None:
    """A resumed average follows the checkpoint's copies of the parameters, and never reaches the model."""
    for kind, averages in (("shadows", self._shadows), ("backups", self._backups)):
        for name, value in state_dict[kind].items():
            averages[name].copy_(value)


@around(GradientDescentTrainer, "_train_epoch")
def count_batches_trained(
    stock: Callable[..., dict[str, float]], self: GradientDescentTrainer, epoch: int
) -> dict[str, float]:
    """
    The training loss of an epoch that is resumed half-way is half as large: its sum over the later batches is
    divided by the number of all. And data without a batch, as with `drop_last`, train nothing silently.
    """
    metrics = stock(self, epoch)
    batches, before = self._batches_in_epoch_completed, self._start_after_batches_in_epoch_completed
    if not batches:
        raise ConfigurationError(
            "the training data do not make a batch; take a smaller batch_size, or no drop_last"
        )
    if epoch == self._start_after_epochs_completed:
        for name in metrics.keys() & {"loss", "reg_loss"}:
            metrics[name] *= batches / (batches - before)
    return metrics


@around(MixedPrecisionBackwardCallback, "on_backward")
def average_over_accumulated_batches(
    stock: Callable[..., bool],
    self: MixedPrecisionBackwardCallback,
    trainer: GradientDescentTrainer,
    batch_outputs: dict[str, torch.Tensor],
    *args: Any,
    **options: Any,
) -> bool:
    """
    With `use_amp` and `num_gradient_accumulation_steps` gradients are added up, not averaged, so that more
    steps are a higher learning rate and more clipping.
    """
    loss = batch_outputs["loss"] / trainer._num_gradient_accumulation_steps
    return stock(self, trainer, {**batch_outputs, "loss": loss}, *args, **options)


@around(RegularizerApplicator, "__call__")
def warn_of_idle_regularizers(
    stock: Callable[..., Any], self: RegularizerApplicator, module: torch.nn.Module
) -> torch.Tensor | float:
    """
    A regularizer whose regex fits no parameter does nothing, as one of `scalar_parameters` where our embedder
    replaces AllenNLP's.
    """
    if not hasattr(self, "_was_called"):
        self._was_called = True
        names = [name for name, _ in module.named_parameters()]
        for regex, _ in self._regularizers:
            if not any(re.search(regex, name) for name in names):
                logger.warning("regularizer: the regex %r fits no parameter; here it has no effect", regex)
    return stock(self, module)


@around(EmbeddingsTextFile, "__init__")
def read_vectors_of_all_kinds(
    stock: Callable[..., None], self: EmbeddingsTextFile, file_uri: str, *args: Any, **options: Any
) -> None:
    """
    No word of vectors with tabs is found, binary ones end in a UnicodeDecodeError, and errors name neither
    file nor line. `vocabulary.pretrained_files` reads by the same class.
    """
    from elmo_tasks.vectors.files import vector_file_lines  # imports what `repair` comes before

    self.uri = file_uri
    self.close = lambda: None
    lines = vector_file_lines(file_uri)
    first = next(lines, "")
    self.num_tokens = self._get_num_tokens_from_first_line(first)
    self._iterator = lines if self.num_tokens else itertools.chain([first], lines)


def open_archives_safely() -> None:
    """
    An archive may write files outside its folder, and its config may run any Python code; damaged archives
    end in tracebacks that do not name them; and a vocabulary is not found by all that names an archive.

    Modules that were imported before, of AllenNLP, of allennlp-models and of the user, have AllenNLP's loader
    by their own name: so it is replaced in each.
    """
    archival.extracted_archive = extracted_archive
    nn_util.read_state_dict = read_whole_state
    Vocabulary.from_files = classmethod(vocabulary_from_files)
    Registrable.resolve_class_name = classmethod(resolve_registered)
    stock = archival.load_archive
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("load_archive") is stock:
            module.load_archive = open_archive  # type: ignore[attr-defined]


def take_installed_models() -> None:
    """An archive that is opened downloads models of spaCy and transformers."""
    wrap(cached_transformers, "get", installed_transformer)
    wrap(util, "spacy_download", _download_spacy_model)


def _download_spacy_model(stock: Callable[..., None], name: str) -> None:
    if is_opening_untrusted():
        refuse_to_fetch(f"the spaCy model {name!r} (`python -m spacy download {name}`)")
    stock(name)


@around(TrainModel, "from_partial_objects")
def check_data_first(stock: Callable[..., TrainModel], cls: type[TrainModel], **parts: Any) -> TrainModel:
    """
    A wrong path of data for validation or test is found after an epoch, or after the whole training; and
    `evaluate_on_test` does nothing without test data, and waits for ever in several processes.
    """
    if parts.get("evaluate_on_test") and (is_distributed() or not parts.get("test_data_path")):
        raise ConfigError(
            "the test needs a test_data_path, and a training in one process",
            key="evaluate_on_test",
            remedy="otherwise run `allennlp evaluate` after the training",
        )
    if not is_distributed() or parts["local_rank"] == 0:
        reader = parts.get("validation_dataset_reader") or parts["dataset_reader"]
        for key in ("validation_data_path", "test_data_path"):
            if parts.get(key) is not None:
                _check_apart(reader, parts[key])
    return stock(cls, **parts)


def _check_apart(reader: DatasetReader, path: Any) -> None:
    """Leaves the log and the random numbers unchanged."""
    disabled, drawn = logging.root.manager.disable, random.getstate()
    logging.disable(logging.WARNING)
    try:
        check_readable(reader, path)
    finally:
        logging.disable(disabled)
        random.setstate(drawn)


def repair_recovery() -> None:
    """
    `train --recover` ends in a KeyError where a key is new, refuses to train a finished run for more epochs,
    and takes half a vocabulary for a whole one where several processes train; `train --force` removes data in
    the folder of the run, and folders that have no run.
    """
    wrap(training_util, "create_serialization_dir", _create_or_recover)
    wrap(Scheduler, "load_state_dict", _keep_length_of_run)


def _create_or_recover(
    stock: Callable[..., None],
    params: Params,
    serialization_dir: str | os.PathLike[str],
    recover: bool,
    force: bool,
) -> None:
    folder = Path(serialization_dir)
    saved = folder / CONFIG_NAME
    if force:
        _refuse_inputs_as_outputs(params, serialization_dir)
    if folder.is_dir() and not recover and any(folder.iterdir()):
        if not saved.exists():
            raise ConfigError("the folder has other files", where=folder, remedy="name another one")
        if not force:
            remedy = "--recover continues it, --force starts over"
            raise ConfigError("the folder has a run", where=folder, remedy=remedy)
    if recover and not force and saved.exists():
        before = Params.from_file(saved)
        _check_same(params, before)
        params = before
    stock(params, serialization_dir, recover, force)
    if recover and params.get("distributed") and not any(folder.glob("model_state_*")):
        # The workers read the files of the vocabulary, which a kill may have cut.
        shutil.rmtree(folder / "vocabulary", ignore_errors=True)
        training_util.make_vocab_from_params(params.duplicate(), serialization_dir)


def _refuse_inputs_as_outputs(params: Params, serialization_dir: str | os.PathLike[str]) -> None:
    """Checks that the folder, which `--force` removes, has nothing that the run reads."""
    folder = os.path.realpath(serialization_dir)
    for key, value in params.as_flat_dict().items():
        for name in value if isinstance(value, list) else [value]:
            if not isinstance(name, str) or "activations" in key.split("."):
                continue
            path = name.partition("!")[0]  # of an archive
            is_inside = os.path.join(os.path.realpath(path), "").startswith(os.path.join(folder, ""))
            if is_inside and (os.path.exists(path) or glob(path)):
                raise ConfigurationError(
                    f"--force would remove {key} {name}, which is in {serialization_dir}; name another "
                    "folder for the run"
                )


def _check_same(params: Params, before: Params) -> None:
    new, old = params.as_flat_dict(), before.as_flat_dict()
    changed = [
        key
        for key in sorted(new.keys() | old.keys())
        if (key not in new or key not in old or new[key] != old[key])
        and not (key in _MAY_GROW and _grows(*(flat.get(key, _MAY_GROW[key]) for flat in (old, new))))
    ]
    if changed:
        raise ConfigurationError(
            f"--recover needs the config of the run, which has another {', '.join(changed)}; only "
            f"{' and '.join(_MAY_GROW)} may grow"
        )


def _grows(old: Any, new: Any) -> bool:
    return new is None or (isinstance(new, int) and isinstance(old, int) and new >= old)


def _keep_length_of_run(stock: Callable[..., None], self: Scheduler, state_dict: dict[str, Any]) -> None:
    """Resumes a schedule that depends on the length of the run, by the length that the run has now."""
    length = {name: value for name, value in vars(self).items() if name in _LENGTH_OF_RUN}
    stock(self, state_dict)
    vars(self).update(length)


def check_vocabulary_of_pretrained() -> None:
    """
    A `_pretrained` module of another vocabulary gives each word the vector of another, in an archive that
    cannot be opened.
    """
    wrap(Archive, "extract_module", _extract_module)
    wrap(TrainModel, "__init__", _check_pretrained)


def _extract_module(
    stock: Callable[..., Module], self: Archive, path: str, *args: Any, **options: Any
) -> Module:
    """Notes the vocabulary of the archive that a module comes from."""
    module = stock(self, path, *args, **options)
    module._vocabulary_of_archive = self.model.vocab
    return module


def _check_pretrained(stock: Callable[..., None], self: TrainModel, *args: Any, **options: Any) -> None:
    stock(self, *args, **options)
    for name, module in self.model.named_modules():
        theirs = vars(module).get("_vocabulary_of_archive")
        embeddings = (part for part in module.modules() if theirs and isinstance(part, Embedding))
        for namespace in sorted({part._vocab_namespace for part in embeddings if part._vocab_namespace}):
            words, their_words = (
                each.get_index_to_token_vocabulary(namespace) for each in (self.model.vocab, theirs)
            )
            if words != their_words:
                raise ConfigError(
                    f"the {len(their_words):,} {namespace} of the archive are not the {len(words):,} of the "
                    "vocabulary, so words would get the vectors of others",
                    key=f"model.{name}._pretrained",
                    remedy='use "vocabulary": {"type": "from_files", "directory": the archive_file}',
                )


def read_overrides() -> None:
    """`build-vocab` and `count-instances` drop their --overrides."""
    for module in (build_vocab, count_instances):
        wrap(module, f"{module.__name__.rpartition('.')[2]}_from_args", _with_overrides)


def _with_overrides(stock: Callable[..., None], args: Namespace) -> None:
    params = Params.from_file(args.param_path, args.overrides)
    with TemporaryDirectory() as folder, old_keys_named(params.params):
        args.param_path = os.path.join(folder, CONFIG_NAME)
        params.to_file(args.param_path)
        stock(args)


def name_old_keys() -> None:
    """The error of a config of AllenNLP before 1.0 has neither the key nor its path."""
    TrainModel.from_params = classmethod(_train_model_from_params)


def _train_model_from_params(cls: type[TrainModel], params: Params, *args: Any, **options: Any) -> TrainModel:
    with old_keys_named(params.duplicate().params):
        return super(TrainModel, cls).from_params(params, *args, **options)


def check_trainer() -> None:
    """
    The trainer drops keys that it does not know, misses a metric only after an epoch, takes a device by its
    number alone, and does not say where it diverges.
    """
    GradientDescentTrainer.from_params = classmethod(_trainer_from_params)
    wrap(GradientDescentTrainer, "train", _train)


def _trainer_from_params(
    cls: type[GradientDescentTrainer], params: Params, *args: Any, **options: Any
) -> Trainer:
    """Checks the keys of the trainer, which drops unknown ones: `num_epoch` would train 20 epochs."""
    parameters = from_params.infer_params(cls, options.get("constructor_to_inspect"))
    for key in params.keys() - parameters.keys():
        what, hint = f"{cls.__name__} has no parameter {key!r}", did_you_mean(key, parameters)
        if hint:
            raise ConfigError(what + hint, key=f"{params.history}{key}")
        logger.warning("%s%s: %s; here it has no effect", params.history, key, what)
    with block_errors(params.history):
        if (device := params.get("cuda_device")) is not None:
            params["cuda_device"] = usable_gpu(device)
    if params.get("grad_norm", False) is None:
        params["grad_norm"] = False  # AllenNLP's word for none
    return super(GradientDescentTrainer, cls).from_params(params, *args, **options)


def _train(stock: Callable[..., Any], self: GradientDescentTrainer) -> Any:
    """
    Checks the names of the metrics that choose the best epoch of a model of ours; of other models they are
    known after an epoch. A metric of a label, such as `f1-PER`, and the metrics of a biLM come with the data.
    """
    of_ours = type(self.model).__module__.startswith("elmo_tasks.")
    if self._validation_data_loader is not None and of_ours and (own := self.model.get_metrics(reset=True)):
        metrics = {*own, "loss", "reg_loss"}
        for _, name in self._metric_tracker.tracked_metrics:
            if metrics.isdisjoint((name, name.partition("-")[0])):
                hint = did_you_mean(name, metrics) or f"; the model has {', '.join(sorted(metrics))}"
                raise ConfigError(
                    f"{name!r} is not a metric of the model{hint}", key="trainer.validation_metric"
                )
    try:
        return stock(self)
    except ValueError as error:
        if str(error) != "nan loss encountered":
            raise
        raise ConfigError(
            f"the loss is NaN in epoch {self._epochs_completed + 1}, batch "
            f"{self._batches_in_epoch_completed + 1}: training diverged",
            remedy="take a lower trainer.optimizer.lr, or clip the gradients by trainer.grad_norm",
        ) from error


@around(params_module, "with_overrides")
def warn_of_dropped_keys(
    stock: Callable[..., Any], original: Any, overrides_dict: dict[str, Any], prefix: str = ""
) -> Any:
    """An override of a block drops the other keys of the block silently."""
    for name, block in overrides_dict.items():
        before = original.get(name) if isinstance(original, dict) else None
        if isinstance(before, dict) and isinstance(block, dict) and "type" not in block:
            key = f"{prefix}{name}"
            if dropped := [each for each in before if each not in block]:
                dotted = json.dumps({f"{key}.{each}": value for each, value in block.items()})
                logger.warning(
                    "overrides: %s is a new block without %s; to keep them, write %s",
                    key,
                    ", ".join(dropped),
                    dotted,
                )
    return stock(original, overrides_dict, prefix)


def let_evaluate_take_its_options() -> None:
    """
    `allennlp evaluate` refuses --batch-size with a batch sampler, overwrites its input, loses metrics of data
    with equal names, scores only the `batches_per_epoch` of the training, and writes predictions a batch a
    line in the order of a sampler.
    """
    wrap(evaluate, "evaluate_from_archive", _evaluate_from_archive)
    wrap(SimpleEvaluator, "__call__", _evaluate)
    evaluate.DataLoader = _EvaluationLoader


class _EvaluationLoader:
    @staticmethod
    def from_params(params: Params, **extras: Any) -> DataLoader:
        if params.history == "data_loader.":  # of the training, for want of a validation_data_loader
            params.pop("batches_per_epoch", None)
        if "batch_size" in params and "batch_sampler" in params:
            params["batch_sampler"]["batch_size"] = params.pop("batch_size")
        for key in extras:  # the user's data, even if the config names others
            params.pop(key, None)
        return DataLoader.from_params(params=params, **extras)


def _evaluate_from_archive(
    stock: Callable[..., dict[str, Any]], *args: Any, **options: Any
) -> dict[str, Any]:
    call = inspect.signature(stock).bind(*args, **options)
    call.apply_defaults()
    _check_data_and_outputs(call.arguments)
    with only_known_types(override_block_of(call.arguments["cmd_overrides"])):
        return stock(*args, **options)


def _evaluate(
    stock: Callable[..., dict[str, Any]],
    self: SimpleEvaluator,
    model: Model,
    data_loader: DataLoader,
    batch_weight_key: str | None = None,
    metrics_output_file: str | None = None,
    predictions_output_file: str | None = None,
) -> dict[str, Any]:
    """
    Refuses data of other types than the model's. Writes a line for each record of a model of ours, in the
    order of the data, which a sampler changes.
    """
    instances = getattr(data_loader, "_instances", None) or []
    _check_types(model, instances)
    if predictions_output_file is None or not hasattr(model, "results"):
        return stock(self, model, data_loader, batch_weight_key, metrics_output_file, predictions_output_file)
    serializer = self.batch_serializer = _RecordSerializer(model)
    metrics = stock(self, model, data_loader, batch_weight_key, metrics_output_file, predictions_output_file)
    if instances and "metadata" in instances[0].fields:
        in_order = (serializer.lines[id(instance["metadata"].metadata)] for instance in instances)
        Path(predictions_output_file).write_text("".join(f"{line}\n" for line in in_order), "utf-8")
    return metrics


def _check_types(model: Model, instances: Sequence[Instance]) -> None:
    """Raises `ConfigurationError` if tags have no span of a type that the model finds."""
    fields = [
        each for instance in instances for each in instance.fields.values() if isinstance(each, TagField)
    ]
    tags = {tag for field in fields for tag in field.labels} - {"O"}
    known = model.vocab.get_token_to_index_vocabulary(fields[0]._label_namespace) if fields else {}
    if fields and tags.isdisjoint(known):
        own, theirs = (", ".join(sorted({tag[2:] for tag in each} - {""})) for each in (known, tags))
        option = """--overrides '{"dataset_reader.format": "predicates"}'"""
        remedy = f"for the predicates of files with roles, add {option}" if own == "V" else ""
        raise ConfigError(f"the model finds {own}, and the data have {theirs or 'no spans'}", remedy=remedy)


class _RecordSerializer(SimpleSerializer):
    """Makes a line for each record: its ids, its result, and the metadata of its instance."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.lines: dict[int, str] = {}
        """The lines by the identities of their metadata."""

    def __call__(self, batch: dict[str, Any], output_dict: dict[str, Any], *args: Any, **options: Any) -> str:
        results = self._model.results(output_dict)
        metadata = batch.get("metadata") or [None] * len(results)
        records = (
            {**getattr(about, "ids", {}), **result.to_json(), "metadata": about}
            for about, result in zip(metadata, results, strict=True)
        )
        lines = [json.dumps(util.sanitize(record)) for record in records]
        self.lines.update(zip(map(id, metadata), lines, strict=True))
        return "\n".join(lines)


def _check_data_and_outputs(arguments: dict[str, Any]) -> None:
    try:  # as AllenNLP does
        data = json.loads(f"[{arguments['input_file']}]")
    except json.JSONDecodeError:
        data = arguments["input_file"].split(",")
    files = (arguments["metrics_output_file"], arguments["predictions_output_file"])
    outputs = [name for names in files if names is not None for name in names.split(",")]
    for output in map(Path, outputs):
        if not output.parent.is_dir():
            raise ConfigurationError(f"{output}: the folder {output.parent} does not exist")
    sources = [arguments["archive_file"], arguments["weights_file"], *data]
    paths = [source for source in sources if isinstance(source, str | os.PathLike)]
    refuse_inputs_as_outputs(outputs, paths, error=ConfigurationError)
    # AllenNLP tells the metrics of several data apart by the names of their files.
    names = [Path(path).stem for path in data if isinstance(path, str)]
    if arguments["metrics_output_file"] is None and len(set(names)) < len(names):
        raise ConfigurationError("several data have the same name; use --output-file with a name for each")
