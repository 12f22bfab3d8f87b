import logging

import pytest
import torch
from allennlp.data import Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader

from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.tag_schemes import MixedSchemeError, TagError
from elmo_tasks.ner.reader import NerReader, NerSentence
from tests.errors import error_of, mentions
from tests.records import read_with, words_of

CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
German JJ B-NP B-MISC
call NN I-NP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
"""
WORDS = [["EU", "rejects", "German", "call"], ["Peter", "Blackburn"]]
BIOUL = [["U-ORG", "O", "U-MISC", "O"], ["B-PER", "L-PER"]]
IOB2 = [["B-ORG", "O", "B-MISC", "O"], ["B-PER", "I-PER"]]


def two_columns(**parameters):
    return NerReader(columns=["word", "tag"], **parameters)


def read(path, content, reader=NerReader):
    return read_with(reader, path, content)


def tags(instances):
    return [list(instance["tags"]) for instance in instances]


def test_the_instances_and_a_batch(tmp_path):
    instances = read(tmp_path / "a", CONLL)
    assert (words_of(instances, "tokens"), tags(instances)) == (WORDS, BIOUL)
    assert [token.idx for token in instances[1]["tokens"]] == [0, 6]
    offsets = [(0, 5), (6, 15)]
    assert instances[1]["metadata"].metadata == NerSentence(WORDS[1], "Peter Blackburn", offsets, IOB2[1])
    loader = MultiProcessDataLoader(NerReader(), str(tmp_path / "a"), batch_size=2)
    loader.index_with(Vocabulary.from_instances(loader.iter_instances()))
    (batch,) = loader
    assert batch["tokens"]["tokens"]["tokens"].shape == (2, 4)
    assert batch["tags"].dtype == torch.long
    assert batch["tags"][0, 1] == 0
    assert [each.gold_tags for each in batch["metadata"]] == IOB2


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\n\n" + text.replace("\n\n", "\n\n\n \t\n") + "\n\n",
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("-DOCSTART- -X- -X- O", "-DOCSTART-"),
        lambda text: text.replace("\n\nPeter", "\n-DOCSTART- -X- O O\nPeter"),
        lambda text: text.replace(" ", " \t ").replace("Peter", "  Peter").replace("ORG", "ORG "),
    ],
)
def test_changes_that_make_no_difference(tmp_path, change):
    instances = read(tmp_path / "a", change(CONLL))
    assert (words_of(instances, "tokens"), tags(instances)) == (WORDS, BIOUL)


AS_DISTRIBUTED = "EU I-ORG\nrejects O\nGerman I-MISC\n\nBritish I-MISC\nO O\nB B-MISC\nC I-MISC\n\nD B-PER\n"
"""IOB1, but for the two `B-` of lines 7 and 10: as `eng.train` of CoNLL-2003 in some copies."""


@pytest.mark.parametrize("scheme", ["auto", "IOB1"])
def test_a_b_that_iob1_does_not_allow(tmp_path, caplog, scheme):
    with caplog.at_level(logging.INFO):
        instances = list(read(tmp_path / "eng.train", AS_DISTRIBUTED, two_columns(tag_scheme=scheme)))
    assert tags(instances) == [["U-ORG", "O", "U-MISC"], ["U-MISC", "O", "B-MISC", "L-MISC"], ["U-PER"]]
    (warning,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    assert mentions(warning, f"{tmp_path}/eng.train, line 7: ", "B-MISC", "I-MISC")
    assert "file: 2" in warning
    assert "5 entities (MISC 3, ORG 1, PER 1), 3 sentences (IOB1 3), 2 B- tags" in caplog.text
    strict = two_columns(tag_scheme=scheme, strict=True)
    error = error_of(InputError, read, tmp_path / "eng.train", AS_DISTRIBUTED, strict)
    assert mentions(error, f"{tmp_path}/eng.train, line 7: ", "B-MISC")


def test_text_to_instance_for_prediction():
    content = {"words": ["It", "'s"], "text": " It's", "offsets": [(1, 3), (3, 5)]}
    instance = NerReader().text_to_instance(**content)
    assert set(instance.fields) == {"tokens", "metadata"}
    assert [(token.idx, token.idx_end) for token in instance["tokens"]] == [(1, 3), (3, 5)]
    assert instance["metadata"].metadata == NerSentence(**content)


def test_text_to_instance_with_impossible_tags():
    with pytest.raises(TagError, match=r"token 1: .*'X-A'"):
        NerReader().text_to_instance(["a", "b"], ["O", "X-A"])
    with pytest.raises(TagError, match=r"token 0: .*I-A"):
        NerReader(tag_scheme="IOB2", strict=True).text_to_instance(["a"], ["I-A"])
    assert list(NerReader(tag_scheme="IOB2").text_to_instance(["a"], ["I-A"])["tags"]) == ["U-A"]
    words, tags = ["a", "b", "c", "d", "e"], ["I-A", "O", "I-A", "O", "B-A"]
    assert list(NerReader().text_to_instance(words, tags)["tags"]) == ["U-A", "O", "U-A", "O", "U-A"]
    with pytest.raises(MixedSchemeError):
        NerReader(strict=True).text_to_instance(words, tags)


@pytest.mark.parametrize(
    ("tags", "line", "first"),
    [("O|B-A O|S-A", 6, 3), ("S-A|B-A E-A|U-A", 6, 1), ("U-A|B-A E-A", 4, 1), ("O I-A O B-A", 4, 2)],
)
def test_tags_of_two_schemes_name_both_lines(tmp_path, tags, line, first):
    """Also with `skip_bad`: it is an error of the whole file."""
    content = "".join(f"x {tag}\n" for tag in tags.replace("|", " | ").split()).replace("x |", "")
    for skip_bad in (False, True):
        reader = two_columns(strict=True, skip_bad=skip_bad)
        error = error_of(InputError, read, tmp_path / "a", content, reader)
        assert mentions(error, f"{tmp_path}/a, line {line}: ", f" line {first}")


def test_a_sentence_is_read_before_the_rest(tmp_path):
    """Sentences without tags wait for the first with a tag, which settles the scheme."""
    (tmp_path / "a").write_text("x O\n\nx U-A\n\nx X\n\nx")
    instances = NerReader(columns=["word", "tag"]).read(str(tmp_path / "a"))
    assert tags([next(instances), next(instances)]) == [["O"], ["U-A"]]
    with pytest.raises(InputError, match="a, line 5:"):
        next(instances)
