"""`allennlp elmo ...`: verbs of one subject are in one file."""

import argparse

from allennlp.commands import Subcommand

from elmo_tasks.commands.archives import Confusion, Mix, Models, Slim
from elmo_tasks.commands.base import Subparsers, Verb, VerbGroup
from elmo_tasks.commands.bilm import Calibrate, Export
from elmo_tasks.commands.doctor import Doctor
from elmo_tasks.commands.embed import Embed
from elmo_tasks.commands.ensemble import Ensemble
from elmo_tasks.commands.errors import Errors
from elmo_tasks.commands.experiments import Ablate, Compare
from elmo_tasks.commands.inspect import Inspect
from elmo_tasks.commands.intrinsic import PROBE, Intrinsic, Neighbors, Similar
from elmo_tasks.commands.own_data import Classify, Tag
from elmo_tasks.commands.predict import Explain, Predict, SquadPredictions
from elmo_tasks.commands.results import Report
from elmo_tasks.commands.serve import Serve
from elmo_tasks.commands.vectors import VECTOR_VERBS

VERBS: tuple[type[Verb] | VerbGroup, ...] = (
    Embed,
    Calibrate,
    Export,
    Ensemble,
    Confusion,
    Errors,
    Explain,
    Predict,
    Serve,
    Inspect,
    Intrinsic,
    Neighbors,
    Similar,
    PROBE,
    Mix,
    Models,
    Classify,
    Tag,
    Slim,
    VECTOR_VERBS,
    Compare,
    Ablate,
    Report,
    SquadPredictions,
    Doctor,
)


@Subcommand.register("elmo")
class ElmoGroup(Subcommand):
    """The command `allennlp elmo`."""

    def add_subparser(self, parser: Subparsers) -> argparse.ArgumentParser:
        group = VerbGroup(
            name=self.name,
            help="Vectors, biLMs, archives, data, experiments, a service.",
            description="The verbs of elmo_tasks: vectors, biLMs, archives, data, experiments, a service.",
            title="Verbs",
            verbs=VERBS,
        )
        return group.add_parser(parser)
