"""The verb `ensemble`: several archives of one task as one archive, and how AllenNLP opens it."""

import json
from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.meta import META_NAME, Meta
from allennlp.common.params import remove_keys_from_params
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.models.archival import CONFIG_NAME, Archive, archive_model, get_weights_path

from elmo_tasks.archives import open_archive
from elmo_tasks.archives.slim import whole_state
from elmo_tasks.commands.base import Input, Verb, archive_argument, flag, option
from elmo_tasks.commands.partial_outputs import partial_file
from elmo_tasks.common.errors import FilePath
from elmo_tasks.common.progress import progress
from elmo_tasks.common.strict_params import block_errors
from elmo_tasks.common.values import Names, check_value
from elmo_tasks.elmo import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.inference import private_state_dict
from elmo_tasks.elmo.token_embedder import elmo_from_state
from elmo_tasks.modules.elmo_model import ElmoModel, EnsembleModel
from elmo_tasks.training.sampling import unwrapped_block

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
"""The keys of a config, except the model, that `evaluate` and `predict` read."""


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
        with partial_file(self.output, force=self.force) as path:
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
    # PyTorch writes a tensor that has several names once. A file of Python reports a full disk.
    with open(folder / WEIGHTS, "wb") as file:
        torch.save(model.state_dict(), file)
    archive_model(folder, weights=WEIGHTS, archive_path=path)


@Model.register("elmo_ensemble")
class ArchivedEnsemble(EnsembleModel):
    """
    An `EnsembleModel` that AllenNLP opens from an archive. It has one of two forms.

    - the archive that `write_ensemble` writes, which holds the members;
    - a folder with a `config.json` whose members stay where they are: `"model": {"type": "elmo_ensemble",
      "archives": [...]}`, with paths as in `open_members`, and the `dataset_reader` and `data_loader` of a
      member.
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
                raise ConfigurationError(f"{weights_file} cannot be used: the members have their own weights")
            model = cls._with_members_elsewhere(config)
        return model.cuda(cuda_device) if cuda_device >= 0 else model

    @classmethod
    def _with_own_members(cls, config: Params, folder: FilePath, weights_file: FilePath | None) -> Model:
        """Builds the members one by one, so that equal biLMs are in memory once."""
        vocabulary = config.get("vocabulary", {})
        vocab = Vocabulary.from_files(
            Path(folder, "vocabulary"), vocabulary.get("padding_token"), vocabulary.get("oov_token")
        )
        state = whole_state(folder, weights_file or get_weights_path(folder))
        members: list[Model] = []
        bilms: dict[str, FrozenBiLm | TrainedBiLm] = {}
        for index, block in enumerate(config["model"]["members"]):
            prefix = f"members.{index}."
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
            raise ConfigurationError(f"the config of the ensemble differs from its archives: {problem}")
        return cls(vocab=archives[0].model.vocab, members=[archive.model for archive in archives])


def open_members(archives: list[str]) -> list[Archive]:
    """Opens archives of one task, vocabulary and token indexers. One of equal biLMs stays in memory."""
    opened: list[Archive] = []
    bilms: dict[str, FrozenBiLm | TrainedBiLm] = {}
    for name in progress(archives, work="reading", unit="archives"):
        archive = open_archive(name)
        if problem := _member_problem(archive, opened[0] if opened else archive):
            raise ConfigurationError(f"{name}: {problem}" + (f" as in {archives[0]}" if opened else ""))
        _share_bilm(archive.model, bilms)
        opened.append(archive)
    return opened


def _member_problem(archive: Archive, first: Archive) -> str | None:
    kind = type(archive.model)
    if not issubclass(kind, ElmoModel):
        return f"a {kind.__name__} is not a model of a task"
    if kind is not type(first.model):
        return f"its model is a {kind.__name__}, not a {type(first.model).__name__}"
    if problem := _indexer_problem(archive.config, first.config):
        return problem
    for namespace in sorted(archive.model.vocab.get_namespaces() | first.model.vocab.get_namespaces()):
        words, first_words = (
            member.model.vocab.get_index_to_token_vocabulary(namespace) for member in (archive, first)
        )
        if words != first_words:
            return f"its vocabulary {namespace!r} is not the same"
    return None


def _indexer_problem(config: Params, first: Params) -> str | None:
    both = [params.as_dict(quiet=True) for params in (config, first)]
    for reader in ("dataset_reader", "validation_dataset_reader"):
        blocks = (unwrapped_block(settings.get(reader, settings["dataset_reader"])) for settings in both)
        indexers, first_indexers = (block.get("token_indexers") or {} for block in blocks)
        if indexers != first_indexers:
            return f"the token_indexers of its {reader} are {indexers}, not {first_indexers}"
    return None


def _share_bilm(model: ElmoModel, bilms: dict[str, FrozenBiLm | TrainedBiLm]) -> None:
    """Replaces the model's biLM by the known one with the same digest, if there is one."""
    if model.elmo is not None and model.elmo.bilm is not None:
        bilm = model.elmo.bilm
        model.elmo.bilm = bilms.setdefault(bilm.digest(), bilm)
