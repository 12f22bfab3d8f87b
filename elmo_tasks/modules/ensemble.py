"""Several models of one task as one, which decodes from the average of their scores."""

from contextvars import ContextVar
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.params import remove_keys_from_params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.models.archival import Archive, get_weights_path
from allennlp.predictors import Predictor
from torch import nn

from elmo_tasks.common.errors import FilePath
from elmo_tasks.common.progress import progress
from elmo_tasks.common.strict_params import StrictParams, block_errors
from elmo_tasks.common.values import Names, check_value
from elmo_tasks.compat.archives import open_archive
from elmo_tasks.elmo import FrozenBiLm, LstmState, TrainedBiLm
from elmo_tasks.elmo.archived import archived_state, elmo_from_state
from elmo_tasks.elmo.inference import private_state_dict
from elmo_tasks.modules.elmo_model import ElmoModel


@Model.register("elmo_ensemble")
class EnsembleModel(StrictParams, Model):
    """
    Decodes as its first member does, but from the `average` of what the `scores` of all say of a batch. The
    best results of Peters et al. 2018 (section 4) are those of ensembles.

    Members that have one biLM in common run it once a batch; each mixes its layers on its own. Only a biLM
    that carries its state from batch to batch runs once for each member. An ensemble is not trained: its
    parameters take no gradients.

    `allennlp elmo ensemble` writes an archive that holds the members. A folder with a `config.json` is an
    archive, too, whose members stay where they are: `"model": {"type": "elmo_ensemble", "archives": [...]}`,
    with paths as in `open_members`, beside the `dataset_reader` and the `data_loader` of a member.

    # Parameters

    vocab : that of the members.
    members : two or more models of one class.

    # Raises
    `ConfigurationError`: other members.
    """

    default_predictor = "elmo_ensemble"

    def __init__(self, *, vocab: Vocabulary, members: list[Model]) -> None:
        super().__init__(vocab)
        if len(members) < 2 or not isinstance(members[0], ElmoModel) or len(set(map(type, members))) > 1:
            found = ", ".join(type(member).__name__ for member in members) or "none"
            raise ConfigurationError(f"found the members: {found}; expected two or more models of one task")
        self.members = nn.ModuleList(members).requires_grad_(False)
        self._layers = _LayersOfBatch()
        for member in members:
            if member.elmo is not None and member.elmo.activations is None and not member.elmo.stateful:
                member.elmo.encoder = self._layers

    @property
    def first(self) -> ElmoModel:
        """The member that decodes, counts for the metrics, and says which predictor is the task's."""
        return cast(ElmoModel, self.members[0])

    def forward(self, **fields: Any) -> dict[str, Any]:
        """The fields of the task's instances to the outputs of the task's model."""
        inputs, gold = self.first.split_fields(fields)
        with self._layers:
            scores = [member.scores(**inputs) for member in cast(list[ElmoModel], self.members)]
        return self.first.decode(self.first.average(scores), **gold)

    def make_output_human_readable(self, output_dict: dict[str, Any]) -> dict[str, Any]:
        return self.first.make_output_human_readable(output_dict)

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        return self.first.get_metrics(reset)

    @classmethod
    def _load(
        cls, config: Params, serialization_dir: FilePath, weights_file: FilePath | None, cuda_device: int
    ) -> Model:
        """AllenNLP's hook for loading: members one after the other, so that there is one biLM in memory."""
        block = config["model"]
        if "members" in block:
            vocabulary = config.get("vocabulary", {})
            vocab = Vocabulary.from_files(
                Path(serialization_dir, "vocabulary"),
                vocabulary.get("padding_token"),
                vocabulary.get("oov_token"),
            )
            state = archived_state(serialization_dir, weights_file)
            members = _members_inside(block["members"], state, vocab)
        else:
            if weights_file is not None and weights_file != get_weights_path(serialization_dir):
                raise ConfigurationError(
                    f"found the weights {weights_file}, but the members have their own, expected none"
                )
            block.pop("type")
            with block_errors():
                check_value(paths := block.pop("archives"), Names, "model.archives")
            archives = open_members(paths)
            block.assert_empty(cls.__name__)
            if problem := _indexer_problem(config, archives[0].config):
                raise ConfigurationError(f"the ensemble's config: {problem}, as in its archives")
            vocab = archives[0].model.vocab
            members = [archive.model for archive in archives]
        model = cls(vocab=vocab, members=members)
        return model.cuda(cuda_device) if cuda_device >= 0 else model


@Predictor.register("elmo_ensemble", constructor="of_task")
class EnsemblePredictor(Predictor):
    """The predictor of the members' task, under the name that an ensemble's archive looks for."""

    @classmethod
    def of_task(cls, model: EnsembleModel, dataset_reader: DatasetReader, **arguments: Any) -> Predictor:
        return Predictor.by_name(model.first.default_predictor)(model, dataset_reader, **arguments)


def open_members(archives: list[str]) -> list[Archive]:
    """
    Opens archives: paths or URLs of `model.tar.gz`, or folders of runs. Of equal biLMs, only one stays in
    memory.

    # Raises
    `ConfigurationError`, with the archive: it is no archive, or its model is not of a task, or its class, its
    vocabulary or its token indexers are not those of the first. `OSError`: nothing is there.
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
    """What keeps an archive from being in an ensemble with the first one."""
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
    return settings.get(reader, settings["dataset_reader"]).get("token_indexers") or {}


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
    """Puts the biLM that is known under its digest, if there is one, in place of the model's own."""
    if model.elmo is not None and model.elmo.bilm is not None:
        bilm = model.elmo.bilm
        model.elmo.bilm = bilms.setdefault(bilm.digest(), bilm)


def _members_inside(blocks: list[Params], state: dict[str, torch.Tensor], vocab: Vocabulary) -> list[Model]:
    """The members of an ensemble's own archive, from their configs and the weights of all."""
    members: list[Model] = []
    bilms: dict[str, FrozenBiLm | TrainedBiLm] = {}
    for number, block in enumerate(blocks):
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
    return members


_Run = tuple[FrozenBiLm | TrainedBiLm, tuple[torch.Tensor, ...], torch.Tensor]
_known_layers: ContextVar[list[_Run] | None] = ContextVar("known_layers", default=None)
"""Of the batch that this thread computes: the biLMs that have run, what they read, and their layers."""


class _LayersOfBatch:
    """
    A `LayerEncoder` for all members: within a `with` block, a biLM runs once for the same ids, so that
    members that have it in common share its layers. They are forgotten in the end. Each thread has its own.
    """

    def __enter__(self) -> None:
        _known_layers.set([])

    def __exit__(self, *_: object) -> None:
        _known_layers.set(None)

    def encode(self, bilm: FrozenBiLm | TrainedBiLm, ids: torch.Tensor, start: LstmState) -> torch.Tensor:
        """See `LayerEncoder.encode`."""
        inputs = (ids, *start)
        known_layers = _known_layers.get()
        for known, known_inputs, layers in known_layers or ():
            if known is bilm and all(map(torch.equal, inputs, known_inputs)):
                return layers
        layers = bilm.encode(ids, start)
        if known_layers is not None:
            known_layers.append((bilm, inputs, layers))
        return layers
