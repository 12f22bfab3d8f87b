import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.elmo.sources import read_words


def test_vocabulary(tmp_path):
    file = tmp_path / "vocabulary.txt"
    file.write_bytes("</S>\r\ncat\n<UNK>\nŁódź\n\u2028\x85.\n<S>".encode())
    assert read_words(file) == ["</S>", "cat", "<UNK>", "Łódź", "\u2028\x85.", "<S>"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"<S>\n</S>\n\n<UNK>\n", ", line 3: found an empty line, expected a word"),
        (b"<S>\n</S>\ncat\n<UNK>\ncat\n", ", line 5: found 'cat', which stands in line 3 too"),
        (b"<S>\n</S>\ncat\n", ": found no <UNK>, expected the lines <S>, </S>, <UNK>"),
        (b"", ": found no <S>, expected"),
        (b"<S>\n</S>\nc\xe9t\n<UNK>\n", ", line 3: found the byte 0xe9 at offset 10, expected UTF-8"),
    ],
)
def test_wrong_vocabulary(tmp_path, content, expected):
    file = tmp_path / "vocabulary.txt"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        read_words(file)
    assert f"{file}{expected}" in str(caught.value)
