"""Our readers with third-party models: fields by the model's names, and errors for misfits."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import torch
from allennlp.commands.train import TrainModel
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, DataLoader, DatasetReader, Instance, TextFieldTensors
from allennlp.models import Model
from allennlp.modules.text_field_embedders import BasicTextFieldEmbedder
from allennlp.modules.token_embedders import ElmoTokenEmbedder
from allennlp.predictors import Predictor
from torch import nn

from elmo_tasks.compat.repairs import wrap


def install() -> None:
    """Makes the changes; it may be called twice."""
    Model.__call__ = _call
    wrap(TrainModel, "run", _run)
    wrap(Predictor, "__init__", _init_predictor)
    wrap(BasicTextFieldEmbedder, "forward", _embed)


def _call(self: Model, *args: Any, **fields: Any) -> Any:
    return nn.Module.__call__(self, *args, **_fields_for(self, fields))


def _fields_for(model: Model, fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a batch; those of our readers by the names that the model has for them."""
    metadata = (fields.get("metadata") or [None])[0]
    if not hasattr(metadata, "allennlp_fields"):
        return fields
    parameters = inspect.signature(model.forward).parameters
    if _take_all(parameters):
        return fields
    others = metadata.allennlp_fields(fields)
    return {name: value for name, value in others.items() if name in parameters} | {
        name: value for name, value in fields.items() if name in parameters or name not in metadata.own_fields
    }


def _take_all(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def _init_predictor(
    stock: Callable[..., None],
    self: Predictor,
    model: Model,
    dataset_reader: DatasetReader,
    *args: Any,
    **options: Any,
) -> None:
    own = hasattr(self, "load_line") and hasattr(self, "to_instance")
    if not own and hasattr(dataset_reader, "allennlp_instance"):
        dataset_reader = _ReaderForPredictor(dataset_reader)
    stock(self, model, dataset_reader, *args, **options)


def _embed(
    stock: Callable[..., torch.Tensor],
    self: BasicTextFieldEmbedder,
    text_field_input: TextFieldTensors,
    *args: Any,
    **options: Any,
) -> torch.Tensor:
    try:
        return stock(self, text_field_input, *args, **options)
    except ConfigurationError as error:
        if not error.message.startswith("Mismatched token keys"):
            raise
        found, expected = (
            ", ".join(sorted(names)) or "none" for names in (text_field_input, self._token_embedders)
        )
        raise ConfigurationError(
            f"the token_indexers of dataset_reader or validation_dataset_reader are {found}, expected those "
            f"of the model's token_embedders in both: {expected}"
        ) from error


class _ReaderForPredictor(DatasetReader):
    """One of our readers, which AllenNLP's predictors call with the inputs for their own."""

    def __init__(self, reader: Any) -> None:
        super().__init__()
        self.wrapped_reader = reader
        self.read = reader.read
        self.text_to_instance = reader.allennlp_instance
        self.apply_token_indexers = reader.apply_token_indexers


def _run(stock: Callable[..., Any], self: TrainModel) -> Any:
    loader = getattr(self.trainer, "data_loader", None)
    if loader is not None and (instance := _first(loader)) is not None:
        check_fields(self.model, instance)
    return stock(self)


def _first(loader: DataLoader) -> Instance | None:
    """Returns the first instance that the loader has read, or reads it anew, in this process."""
    reader = getattr(loader, "reader", None)
    if reader is None or getattr(loader, "_instances", None):
        return next(iter(loader.iter_instances()), None)
    with closing(iter(reader.read(loader.data_path))) as instances:
        return next(instances, None)


def check_fields(model: Model, instance: Instance) -> None:
    """Raises `ConfigurationError` if the instance lacks a field, or the model takes no such field or ids."""
    batch = Batch([instance])
    batch.index_instances(model.vocab)
    fields = _fields_for(model, batch.as_tensor_dict())
    _check_ids_of_characters(model, fields)
    if hasattr(model, "split_fields"):
        model.split_fields(fields)
        return
    parameters = inspect.signature(model.forward).parameters
    needed = [
        name
        for name, each in parameters.items()
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    missing = [name for name in needed if name not in fields]
    unknown = [] if _take_all(parameters) else [name for name in fields if name not in parameters]
    if missing or unknown:
        found = f"no field {missing[0]!r}" if missing else f"the field {unknown[0]!r}"
        raise ConfigurationError(
            f"model: found {found} in the instances of dataset_reader, which have "
            f"{', '.join(sorted(instance.fields))}; expected the fields of {type(model).__name__}: "
            f"{', '.join(parameters)}"
        )


def _check_ids_of_characters(model: Model, fields: dict[str, Any]) -> None:
    """Checks that AllenNLP's embedder of ELMo gets the ids of AllenNLP's indexer: ours are other integers."""
    for path, module in model.named_modules():
        name = path.rpartition("token_embedder_")[2]
        if isinstance(module, ElmoTokenEmbedder) and any(
            "character_ids" in field.get(name, ()) for field in fields.values() if isinstance(field, dict)
        ):
            raise ConfigurationError(
                f'dataset_reader.token_indexers.{name}: found "type": "elmo_character_ids", expected "type": '
                '"elmo_characters", for the embedder "elmo_token_embedder"'
            )
