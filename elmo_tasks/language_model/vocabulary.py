"""The vocabulary of a softmax that was trained before, from its file."""

from os import PathLike
from typing import Optional, Union

from allennlp.data import Vocabulary

from elmo_tasks.elmo.words import UNKNOWN, read_words
from elmo_tasks.language_model.block import NAMESPACE


@Vocabulary.register("elmo_words", constructor="from_words_file")
class WordsVocabulary(Vocabulary):
    """
    A vocabulary file of bilm-tf, in its order: the word of line n has index n in the namespace `tokens`.

    `<UNK>`, wherever it stands, is the index of all other words.
    """

    @classmethod
    def from_words_file(cls, words_file: str) -> "WordsVocabulary":
        """
        # Parameters

        words_file : path, URL or `hf://` name; gzip or not.

        # Raises
        `InputError`, with the file and the line: see `read_words`.
        """
        vocab = cls(oov_token=UNKNOWN)
        words = [vocab._padding_token, *read_words(words_file)]
        vocab._index_to_token[NAMESPACE] = dict(enumerate(words))
        vocab._token_to_index[NAMESPACE] = {word: index for index, word in enumerate(words)}
        return vocab

    @classmethod
    def from_files(
        cls,
        directory: Union[str, PathLike],
        padding_token: Optional[str] = None,
        oov_token: Optional[str] = None,
    ) -> Vocabulary:
        """Of an archive."""
        return super().from_files(directory, padding_token, oov_token or UNKNOWN)
