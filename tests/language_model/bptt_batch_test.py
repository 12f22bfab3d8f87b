import pickle
from collections import Counter
from itertools import chain

import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance, Vocabulary

from elmo_tasks.language_model import bptt_batch as module
from elmo_tasks.language_model.bptt_batch import BlockField, Lexicon, blocks, dry_block
from tests.language_model.blocks import DOCUMENTS, SENTENCES, by_size, rebuild

WORDS = list(chain(*SENTENCES))


def blocks_of(
    passages, *, streams=2, bptt_steps: int | None = 3, process=0, kind="characters"
) -> list[BlockField]:
    return list(blocks(passages, streams=streams, bptt_steps=bptt_steps, process=process, input=kind))


def vocabulary(fields: list[BlockField], **options) -> Vocabulary:
    return Vocabulary.from_instances([Instance({"block": field}) for field in fields], **options)


def tensors(fields: list[BlockField], vocab: Vocabulary) -> list[dict]:
    for field in fields:
        field.index(vocab)
    return [field.as_tensor({}) for field in fields]


@pytest.mark.parametrize("kind", ["characters", "words"])
@pytest.mark.parametrize("streams", [1, 2, 64])
@pytest.mark.parametrize("bptt_steps", [1, 3, None])
@pytest.mark.parametrize("passage", [1, 2, None])
def test_blocks_hold_the_text(kind, streams, bptt_steps, passage):
    passages = by_size(DOCUMENTS, passage)
    fields = blocks_of(passages, streams=streams, bptt_steps=bptt_steps, kind=kind)
    vocab = vocabulary(fields)
    found = tensors(fields, vocab)
    assert rebuild(found, vocab, WORDS, kind) == passages
    for field, block in zip(fields, found, strict=True):
        assert block["lengths"].shape == block["fresh"].shape == (streams,)
        assert bptt_steps is None or block["lengths"].max() <= bptt_steps
        assert len(field) == block["lengths"].sum()


def test_vocabulary_counts():
    """Each word once, the borders once a sentence, however the text is cut; `<UNK>` is no word."""
    text = [[*SENTENCES, ["<UNK>", "the"]]]
    expected = Counter(word for sentence in text[0] for word in sentence)
    expected.update(["<S>", "</S>"] * len(text[0]))
    del expected["<UNK>"]
    for bptt_steps in (1, 4, None):
        counter = {"tokens": Counter()}
        for field in blocks_of(text, bptt_steps=bptt_steps):
            field.count_vocab_items(counter)
        assert counter["tokens"] == expected
    vocab = Vocabulary({"tokens": expected}, min_count={"tokens": 3})
    found = tensors(blocks_of([SENTENCES]), vocab)
    assert rebuild(found, vocab, WORDS) == [SENTENCES]
    assert min(int(block["targets"].min()) for block in found) == 0


def test_a_stream_takes_the_next_passage_from_a_new_block_on():
    """A passage has a step for each word, and one for each border."""
    passages = [[["a"] * length] for length in (3, 1, 1, 4)]
    found = [(list(field.lengths), list(field.fresh)) for field in blocks_of(passages, process=5)]
    assert found == [
        ([3, 2], [True, True]),
        ([1, 2], [False, True]),
        ([3, 0], [True, False]),
        ([2, 0], [False, False]),
    ]
    assert {field.process for field in blocks_of(passages, process=5)} == {5}


def test_no_passages():
    assert blocks_of([]) == []


@pytest.mark.parametrize("kind", ["characters", "words"])
def test_a_block_without_steps(kind):
    vocab = Vocabulary()
    for dry in (dry_block(streams=3, input=kind), blocks_of([SENTENCES], kind=kind)[0].empty_field()):
        (block,) = tensors([dry], vocab)
        assert block["inputs"].shape == block["targets"].shape == (2, 0)
        assert len(block["words"]) == len(dry) == block["lengths"].sum() == 0
    assert dry_block(streams=3, input=kind).lengths == [0, 0, 0]


def test_two_blocks_are_no_batch():
    (field, *_) = blocks_of([SENTENCES])
    with pytest.raises(ConfigurationError, match="a batch of 2 blocks, expected batch_size 1"):
        field.batch_tensors([{}, {}])
    with pytest.raises(ConfigurationError, match="index"):
        field.as_tensor({})


def test_a_lexicon_that_grew_too_large_is_left_behind(monkeypatch):
    passages = by_size(DOCUMENTS, 2)
    fields = blocks_of(passages, streams=3, bptt_steps=2)
    vocab = vocabulary(fields)
    expected = tensors(fields, vocab)
    monkeypatch.setattr(module, "LEXICON_SIZE", 5)
    fields = blocks_of(passages, streams=3, bptt_steps=2)
    assert len({id(field.lexicon) for field in fields}) > 1
    assert rebuild(tensors(fields, vocab), vocab, WORDS) == rebuild(expected, vocab, WORDS)


def test_a_lexicon_numbers_words_as_they_come():
    lexicon, other = Lexicon("words"), Lexicon("words")
    steps = lexicon.steps([["a", "b"], ["a"]])
    assert lexicon.words == ["<S>", "</S>", "a", "b"]
    assert [[lexicon.words[number] for number in row] for row in steps] == [
        ["<S>", "a", "b", "<S>", "a"],
        ["</S>", "b", "a", "</S>", "a"],
        ["a", "b", "</S>", "a", "</S>"],
        ["b", "a", "<S>", "a", "<S>"],
    ]
    other.steps([["c"]])
    translated = other.translate(steps, lexicon)
    assert [[other.words[number] for number in row] for row in translated] == [
        [lexicon.words[number] for number in row] for row in steps
    ]
    assert lexicon.translate(steps, lexicon) is steps


def test_classes_are_those_of_the_vocabulary_that_is_asked():
    lexicon = Lexicon("words")
    numbers = lexicon.steps([["a", "b"]])[0]
    for words in (["a", "b", "<S>"], ["<S>", "b"], ["a", "b", "<S>"]):
        vocab = Vocabulary(tokens_to_add={"tokens": words})
        expected = [vocab.get_token_index(word) - 1 for word in ("<S>", "a", "b")]
        assert lexicon.classes(vocab, numbers).tolist() == expected


def test_on_its_way_to_another_process_a_block_has_its_own_words_alone():
    fields = blocks_of(by_size(DOCUMENTS, 2), streams=3, bptt_steps=2)
    vocab = vocabulary(fields)
    for block, field in zip(tensors(fields, vocab), fields, strict=True):
        copied = pickle.loads(pickle.dumps(field))
        assert set(copied.lexicon.words) <= {field.lexicon.words[n] for n in np.unique(field.steps)} | {
            "<S>",
            "</S>",
        }
        assert copied.human_readable_repr() == field.human_readable_repr()
        (again,) = tensors([copied], vocab)
        assert torch.equal(again["targets"], block["targets"])
        assert torch.equal(again["words"][again["inputs"]], block["words"][block["inputs"]])


def test_what_a_block_shows():
    (field,) = blocks_of([[["a", "b"]]], streams=1, bptt_steps=None)
    shown = field.human_readable_repr()
    assert shown == {"forward": ["<S>", "a", "b"], "backward": ["</S>", "b", "a"], "lengths": [3]}
