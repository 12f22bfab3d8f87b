import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_tasks.language_model.model import class_names
from tests.elmo.files import VOCABULARY
from tests.language_model.archives import write_words

UNKNOWN_INDEX = VOCABULARY.index("<UNK>") + 1


def build(file):
    return Vocabulary.from_params(Params({"type": "elmo_words", "words_file": str(file)}))


def test_is_the_file_in_its_order_also_from_an_archive(tmp_path):
    vocab = build(write_words(tmp_path / "words.txt"))
    vocab.save_to_files(str(tmp_path / "vocabulary"))
    for found in (vocab, Vocabulary.from_files(tmp_path / "vocabulary")):
        assert class_names(found) == VOCABULARY
        assert [found.get_token_index(word) for word in VOCABULARY] == list(range(1, len(VOCABULARY) + 1))
        assert found.get_token_index("zebra") == found.get_token_index("<UNK>") == UNKNOWN_INDEX
        assert found.get_vocab_size() == len(VOCABULARY) + 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["<S>", "</S>", "<UNK>", "a", "a"], "line 5: found 'a', which stands in line 4 too"),
        (["<S>", "", "<UNK>"], "line 2: found an empty line"),
        (["<S>", "</S>", "a"], "found no <UNK>"),
    ],
)
def test_wrong_files(tmp_path, words, expected):
    file = write_words(tmp_path / "words.txt", words)
    with pytest.raises(ConfigurationError, match=rf"words\.txt.*{expected}"):
        build(file)
