"""The verb `squad-predictions`: answers in SQuAD's official format."""

import json
from dataclasses import dataclass
from pathlib import Path

from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance
from allennlp.models.archival import Archive

from elmo_tasks.commands.base import Input, ModelVerb, Positive, flag, option, positional
from elmo_tasks.commands.partial_outputs import partial_file
from elmo_tasks.common.progress import progress
from elmo_tasks.data.formats.questions import read_questions
from elmo_tasks.data.reader import unwrapped_reader
from elmo_tasks.squad.reader import SquadReader
from elmo_tasks.training import GroupedBucketSampler


@dataclass(frozen=True, kw_only=True)
class SquadPredictions(ModelVerb):
    name = "squad-predictions"
    help = "Answers in SQuAD's official format."
    description = """Writes one JSON object, {"id": "answer", ...}, as the official scripts evaluate-v1.1.py
        and evaluate-v2.0.py read it, and `python -m elmo_tasks.squad.score DATA OUT`. The answers in DATA are
        not read, and may be missing."""

    input: Input = positional("DATA", "SQuAD's JSON: a file, folder, pattern or URL")
    output: Path = positional("OUT", "JSON file to write")
    force: bool = flag("overwrite OUT")
    batch_size: Positive = option("questions in a batch", 45)

    def run(self) -> None:
        with partial_file(self.output, force=self.force) as path:
            archive = self.open()
            reader = unwrapped_reader(archive.validation_dataset_reader)
            if not isinstance(reader, SquadReader):
                raise ConfigurationError(
                    f"{self.archive}: its dataset reader is {type(reader).__name__}, not elmo_squad"
                )
            instances = [
                reader.text_to_instance(question.text, paragraph.passage, id=question.id)
                for file in read_questions(self.input, answers=False)
                for paragraph in file.paragraphs
                for question in paragraph.questions
            ]
            answers = predictions(archive, instances, batch_size=self.batch_size)
            path.write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")
        print(f"{self.output}: {len(answers):,} answers")


def predictions(archive: Archive, instances: list[Instance], *, batch_size: int) -> dict[str, str]:
    """Returns the answer to each question by its id, in their order; an empty string for no answer."""
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
