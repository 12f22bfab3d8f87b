"""`allennlp elmo predict`: `allennlp predict`, also on Ray."""

import argparse
from pathlib import Path

from allennlp.commands import predict

from elmo_tasks.commands.base import Verb, add_archive_argument, add_device_argument, positive
from elmo_tasks.commands.engines import add_engine_arguments, engine_of
from elmo_tasks.commands.sources import Source
from elmo_tasks.commands.staging import add_force_argument, check_output
from elmo_tasks.predictors.command import predictor_arguments


class Predict(Verb):
    """See `elmo_tasks.scale.predict` for how it runs on Ray."""

    name = "predict"
    help = "Predictions of an archive, to JSON Lines."
    description = """Reads JSON Lines, and with --engine ray Parquet as well, a row an object; writes what
        `allennlp predict` writes, line for line. With --engine ray, IN may be a folder, a pattern, s3:// or
        gs://, and OUT appears when it is whole; until then the work is in OUT.partial, for --resume."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_archive_argument(parser)
        parser.add_argument("input", type=Source, metavar="IN", help="what to predict, an object a line")
        parser.add_argument("output", metavar="OUT", help="JSON Lines to write")
        parser.add_argument("--batch-size", type=positive, default=1, help="lines at once")
        add_device_argument(parser)
        parser.add_argument("--predictor", help="the name of a predictor, instead of the task's")
        parser.add_argument("--predictor-args", default="", help="its parameters, as JSON")
        parser.add_argument("--overrides", default="", help="of the archive's config, as JSON")
        again = parser.add_mutually_exclusive_group()
        again.add_argument(
            "--resume", action="store_true", help="with --engine ray: go on with a run that was stopped"
        )
        add_force_argument(again, "OUT, discard a run that was stopped")
        add_engine_arguments(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        engine = engine_of(arguments, "resume")
        predictor_args = predictor_arguments(arguments.predictor_args)
        if engine is None:
            output = Path(arguments.output)
            check_output(output, force=arguments.force)
            output.parent.mkdir(parents=True, exist_ok=True)
            predict._predict(_of_allennlp(arguments))
            with open(output, "rb") as results:
                print(f"{output}: {sum(1 for _ in results):,} lines")
            return
        from elmo_tasks.commands.predict_on_ray import predict_on_ray

        predict_on_ray(arguments, engine, predictor_args)


def _of_allennlp(arguments: argparse.Namespace) -> argparse.Namespace:
    """The arguments of `allennlp predict`."""
    return argparse.Namespace(
        archive_file=arguments.archive,
        input_file=arguments.input,
        output_file=arguments.output,
        weights_file=None,
        silent=True,
        use_dataset_reader=False,
        dataset_reader_choice="validation",
        multitask_head=None,
        file_friendly_logging=False,
        batch_size=arguments.batch_size,
        cuda_device=arguments.cuda_device,
        predictor=arguments.predictor,
        predictor_args=arguments.predictor_args,
        overrides=arguments.overrides,
    )
