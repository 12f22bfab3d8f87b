"""Sentences with parts of speech, one a line: `The/DET ferry/NOUN left/VERB`."""

from collections.abc import Iterator, Sequence

from allennlp.data import DatasetReader, Instance
from allennlp.data.fields import MetadataField, SequenceLabelField, TextField
from allennlp.data.tokenizers import Token

from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.data.reader import TaskReader


@DatasetReader.register("own_pos")
class PosReader(TaskReader):
    """
    Reads a sentence a line, with its words between blanks; `/` and a tag follow each word.

    A path may be a file, a folder, a pattern or an archive, gzip or not (`input_files`).

    # Raises
    `InputError`, with the file and the line: a word without a tag.
    """

    def _read(self, file_path: str) -> Iterator[Instance]:
        for path in input_files(file_path):
            # Each worker of a distributed run reads its share.
            for number, line in self.shard_iterable(read_lines(path)):
                pairs = [item.rpartition("/") for item in line.split()]
                for word, _, tag in pairs:
                    if not word or not tag:
                        raise InputError.at(
                            path, number, found=f"{word or tag!r} without a tag", expected="WORD/TAG"
                        )
                if pairs:
                    yield self.text_to_instance([word for word, _, _ in pairs], [tag for _, _, tag in pairs])

    def text_to_instance(self, words: Sequence[str], tags: Sequence[str] | None = None) -> Instance:
        """Returns the instance of a sentence; prediction has no `tags`."""
        tokens = TextField([Token(word) for word in words])
        instance = Instance({"tokens": tokens, "metadata": MetadataField({"words": list(words)})})
        if tags is not None:
            instance.add_field("tags", SequenceLabelField(list(tags), tokens, "labels"))
        return instance
