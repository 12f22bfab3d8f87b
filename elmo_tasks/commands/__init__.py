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

VERBS: dict[str, tuple[type[Verb] | VerbGroup, ...]] = {
    "Use a model": (Models, Predict, Serve, Explain, SquadPredictions),
    "Train on your own data": (Inspect, Classify, Tag),
    "Judge and compare models": (Errors, Confusion, Mix, Compare, Ablate, Report),
    "Vectors of texts and words": (Embed, Similar, Neighbors, VECTOR_VERBS, Intrinsic, PROBE),
    "Make files of models": (Ensemble, Slim, Export, Calibrate),
    "This installation": (Doctor,),
}
"""The verbs by their purpose."""


@Subcommand.register("elmo")
class ElmoGroup(Subcommand):
    """The command `allennlp elmo`."""

    def add_subparser(self, parser: Subparsers) -> argparse.ArgumentParser:
        group = VerbGroup(
            name=self.name,
            help="Vectors, biLMs, archives, data, experiments, a service.",
            description="The verbs of elmo_tasks.",
            metavar="VERB",
            verbs=VERBS,
        )
        return group.add_parser(parser)
