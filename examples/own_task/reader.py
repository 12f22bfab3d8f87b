"""Sentences with parts of speech, one a line: `The/DET ferry/NOUN left/VERB`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from allennlp.data import DatasetReader, Instance, Vocabulary
from allennlp.data.fields import MetadataField, SequenceLabelField, TextField
from allennlp.data.tokenizers import Token

from elmo_tasks.data.input_files import InputError, input_files, nonblank_lines
from elmo_tasks.data.reader import TaskReader

UNSEEN = -1
"""The number of a tag that the training data lack."""


@DatasetReader.register("own_pos")
class PosReader(TaskReader):
    """
    Reads a sentence a line, with its words between blanks; `/` and a tag follow each word.

    A path may be a file, a folder, a pattern or an archive, gzip or not (`input_files`).

    # Raises
    `InputError`, with the file and the line: a word without a tag.
    """

    def examples(self, file_path: str) -> Iterator[tuple[Path, int, str]]:
        for path in input_files(file_path):
            for line_number, line in nonblank_lines(path, self.encoding):
                yield path, line_number, line

    def instances(self, example: tuple[Path, int, str]) -> Iterator[Instance]:
        path, line_number, line = example
        pairs = [item.rpartition("/") for item in line.split()]
        for word, _, tag in pairs:
            if not word or not tag:
                raise InputError(f"{word or tag!r} is not WORD/TAG", where=path, line=line_number)
        yield self.text_to_instance([word for word, _, _ in pairs], [tag for _, _, tag in pairs])

    def text_to_instance(self, words: Sequence[str], tags: Sequence[str] | None = None) -> Instance:
        """Returns the instance of a sentence; prediction has no `tags`."""
        tokens = TextField([Token(word) for word in words])
        instance = Instance({"tokens": tokens, "metadata": MetadataField({"words": list(words)})})
        if tags is not None:
            instance.add_field("tags", PosField(list(tags), tokens, "labels"))
        return instance


class PosField(SequenceLabelField):
    """The tags of a sentence, by their numbers in the vocabulary; `UNSEEN` for one that it lacks."""

    def index(self, vocab: Vocabulary) -> None:
        ids = vocab.get_token_to_index_vocabulary("labels")
        self._indexed_labels = [ids.get(tag, UNSEEN) for tag in self.labels]
