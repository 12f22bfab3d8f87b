import gzip

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.vectors.word_vectors import WordTable, frequent_words, write_table

TABLE = WordTable(["the", "한국어", "1,000"], np.float32([[1, -2], [0.1, 3e-9], [1234567, 1 / 3]]))


def test_frequent_words_come_first():
    sentences = [["b", "a", "a"], [], ["c", "b", "a", "d", "d"]]
    assert list(frequent_words(sentences, 2).items()) == [("a", 3), ("b", 2), ("d", 2)]
    assert frequent_words(sentences, 1) == {"a": 3, "b": 2, "d": 2, "c": 1}
    for count, words in ((4, 4), (1, 0)):
        with pytest.raises(ConfigurationError, match=f"found {words} words, none of them {count} times"):
            frequent_words(sentences if words else [], count)


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz"])
def test_layout_of_word2vec(tmp_path, name):
    path = tmp_path / name
    write_table(path, TABLE)
    content = path.read_bytes()
    text = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
    header, *lines = text.removesuffix("\n").split("\n")
    assert header == "3 2"
    assert [line.split(" ")[0] for line in lines] == TABLE.words
    numbers = [[float(number) for number in line.split(" ")[1:]] for line in lines]
    assert np.array(numbers) == pytest.approx(TABLE.vectors, rel=1e-6)


def test_equal_tables_are_equal_bytes(tmp_path):
    for name in ("one.gz", "another.gz"):
        write_table(tmp_path / name, TABLE)
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "another.gz").read_bytes()
