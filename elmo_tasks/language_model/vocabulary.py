"""The vocabulary of a softmax that was trained before, from its file."""

from allennlp.data import Vocabulary

from elmo_tasks.elmo.model.words import UNKNOWN
from elmo_tasks.elmo.sources import read_words
from elmo_tasks.language_model.bptt_batch import NAMESPACE
from elmo_tasks.strict_params import StrictParams
from elmo_tasks.values import Name


@Vocabulary.register("elmo_words", constructor="from_words_file")
class WordsVocabulary(StrictParams, Vocabulary):
    """
    A vocabulary file of bilm-tf, in its order: the word of line n has index n in the namespace `tokens`.

    `<UNK>`, wherever it stands, is the index of all other words.
    """

    @classmethod
    def from_words_file(cls, words_file: Name) -> "WordsVocabulary":
        """
        # Parameters

        words_file : path, URL or `hf://` name; gzip or not.

        # Raises
        `ConfigurationError`, with the file and the line: see `read_words`.
        """
        vocab = cls()
        words = [vocab._padding_token, *read_words(words_file)]
        words[words.index(UNKNOWN)] = vocab._oov_token
        vocab._index_to_token[NAMESPACE] = dict(enumerate(words))
        vocab._token_to_index[NAMESPACE] = {word: index for index, word in enumerate(words)}
        return vocab
