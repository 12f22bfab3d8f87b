import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.export import standardize_tokens
from tests.elmo.files import random_bilm

TEXT = [["the", "cat", "sat"], ["the", "mat"], [], ["on", "the", "cat"]]


@pytest.mark.parametrize(("text", "words"), [([[], []], 0), ([["the", "the"], ["the"]], 1)])
def test_a_text_of_one_word_at_most(text, words):
    with pytest.raises(ElmoError, match=f"{words} distinct words"):
        standardize_tokens(random_bilm(), text)


def test_a_character_cnn_without_projection():
    with pytest.raises(ElmoError, match="no projection"):
        standardize_tokens(random_bilm(projection_dim=18), TEXT)
