import pytest

from elmo_tasks.common.files import bundled
from elmo_tasks.data.input_files import InputError
from elmo_tasks.evaluation.tagging import read_conllu

TEXT = """\
# newdoc id = a
# sent_id = 1
# text = I don't.
1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_
4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_


1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_"""


@pytest.mark.parametrize(
    ("column", "tags"),
    [
        ("upos", [["PRON", "AUX", "PART", "PUNCT"], ["INTJ"]]),
        ("xpos", [["PRP", "VBP", "RB", "."], ["UH"]]),
    ],
)
def test_words_and_tags(tmp_path, column, tags):
    (tmp_path / "a.conllu").write_text(TEXT)
    sentences = read_conllu(str(tmp_path), column=column)
    assert [sentence.words for sentence in sentences] == [["I", "do", "n't", "."], ["Yes"]]
    assert [sentence.tags for sentence in sentences] == tags
    assert [sentence.begins_document for sentence in sentences] == [True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n# only a comment\n", "a.conllu: found no sentence, expected at least one"),
        ("1\tI\tPRON\n", "a.conllu, line 1: found 3 columns, expected 10, separated by tabs"),
        ("1\tI\t_\t_\tPRP" + "\t_" * 5, "a.conllu, line 1: found a word without a tag, expected a tag, upos"),
    ],
)
def test_errors(tmp_path, text, message):
    (tmp_path / "a.conllu").write_text(text)
    with pytest.raises(InputError) as error:
        read_conllu(str(tmp_path / "a.conllu"), column="upos")
    assert message in str(error.value)


def test_sentences_of_the_fixtures():
    train, dev = (
        read_conllu(str(bundled(f"fixtures/evaluation/pos_{split}.conllu")), column="upos")
        for split in ("train", "dev")
    )
    assert (len(train), len(dev)) == (28, 10)
    assert train[3].words[:4] == ["They", "do", "n't", "like"]
