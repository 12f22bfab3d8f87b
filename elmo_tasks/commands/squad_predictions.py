"""`allennlp elmo squad-predictions`: answers in the official format of SQuAD."""

import argparse
import json
from pathlib import Path

from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance
from allennlp.models.archival import Archive

from elmo_tasks.commands.base import Verb, add_model_arguments, archive_on_device
from elmo_tasks.commands.staging import add_output_argument, staged_file
from elmo_tasks.common.progress import progress
from elmo_tasks.data.reader import whole_reader
from elmo_tasks.squad.dataset import read_datasets
from elmo_tasks.squad.reader import SquadReader
from elmo_tasks.training import GroupedBucketSampler


class SquadPredictions(Verb):
    """See `predictions`."""

    name = "squad-predictions"
    help = "Answers in SQuAD's official format."
    description = """Writes one JSON object, {"id": "answer", ...}, as the official scripts evaluate-v1.1.py
        and evaluate-v2.0.py read it, and `python -m elmo_tasks.squad.score DATA OUT`. The answers in DATA are
        not looked at, and may be missing."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        data = "SQuAD's JSON: a file, folder, pattern or URL"
        add_model_arguments(parser, metavar="DATA", help=data, size=45, of="questions")
        add_output_argument(parser, metavar="OUT", help="JSON file to write")

    def run(self, arguments: argparse.Namespace) -> None:
        output: Path = arguments.output
        with staged_file(output, force=arguments.force) as path:
            archive = archive_on_device(arguments)
            reader = whole_reader(archive.validation_dataset_reader)
            if not isinstance(reader, SquadReader):
                raise ConfigurationError(
                    f"{arguments.archive}: found the dataset reader {type(reader).__name__}, "
                    "expected elmo_squad"
                )
            instances = [
                reader.text_to_instance(paragraph.passage, question.text, id=question.id)
                for dataset in read_datasets(arguments.input, answers=False)
                for paragraph in dataset.paragraphs
                for question in paragraph.questions
            ]
            answers = predictions(archive, instances, batch_size=arguments.batch_size)
            path.write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")
        print(f"{output}: {len(answers):,} answers")


def predictions(archive: Archive, instances: list[Instance], *, batch_size: int) -> dict[str, str]:
    """The answer to each question by its id, in their order; the empty string where there is none."""
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
