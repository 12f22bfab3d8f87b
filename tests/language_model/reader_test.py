"""The reader, its blocks, and the vocabulary from a file."""

import logging
import random
from collections import Counter
from itertools import chain

import numpy as np
import pytest
import spacy
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.dataset_readers.dataset_reader import DistributedInfo, WorkerInfo
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_tasks.data.input_files import InputError
from elmo_tasks.elmo.model.characters import character_ids, word_ids
from elmo_tasks.language_model.bptt_batch import BlockField, blocks
from elmo_tasks.language_model.model import words_by_class
from elmo_tasks.language_model.reader import BiLmReader
from tests.elmo.files import VOCABULARY
from tests.errors import mentions
from tests.language_model.archives import write_words

DOCUMENTS = [
    [["The", "cat", "sat"], ["on"], ["the", "mat", "the", "cat"], ["고양이가", "잤다", "."], ["x"]],
    [["Ночь", "the", "@@PADDING@@", "<S>"], ["@@UNKNOWN@@", "cat"]],
    [["one", "two", "three", "four", "five", "six", "seven", "eight"]],
]
SENTENCES = [sentence for document in DOCUMENTS for sentence in document]
WORDS = list(chain(*SENTENCES))


def rebuild(tensors, vocab, known, kind="characters"):
    """Returns the sentences of the passages of all blocks, and checks that both directions agree."""
    spelt = ["<S>", "</S>", *known]
    ids = (character_ids if kind == "characters" else word_ids)(spelt)
    word_of = {row.tobytes(): word for row, word in zip(ids, spelt, strict=True)}
    streams = {}
    passages = []
    for block in tensors:
        assert block["words"].dtype == (torch.int16 if kind == "characters" else torch.int64)
        rows = [row.tobytes() for row in block["words"].numpy()]
        assert len(set(rows)) == len(rows)
        assert block["inputs"].shape == block["targets"].shape == (2, block["lengths"].sum())
        assert block["inputs"].dtype == block["targets"].dtype == block["lengths"].dtype == torch.int64
        assert block["fresh"].dtype == torch.bool
        assert block["lengths"].sum() > 0
        assert torch.equal(block["inputs"].unique(), torch.arange(len(rows)))
        start = 0
        for stream, (length, fresh) in enumerate(
            zip(block["lengths"].tolist(), block["fresh"].tolist(), strict=True)
        ):
            part = slice(start, start + length)
            start += length
            if fresh:
                assert length
                streams[stream] = ([], [], [], [])
                passages.append(streams[stream])
            if not length:
                continue
            for direction in (0, 1):
                numbers = block["inputs"][direction, part].tolist()
                streams[stream][direction].extend(word_of[rows[number]] for number in numbers)
                streams[stream][2 + direction].extend(block["targets"][direction, part].tolist())
    return [sentences_of(passage, vocab) for passage in passages]


def sentences_of(passage, vocab):
    forward, backward, forward_targets, backward_targets = passage
    borders = [n for n, word in enumerate(backward) if word == "</S>"]
    sentences = []
    for start, end in zip(borders, [*borders[1:], len(backward)], strict=True):
        words = forward[start + 1 : end]
        assert forward[start] == "<S>"
        assert backward[start + 1 : end] == words[::-1]
        assert forward_targets[start:end] == [expected_class(w, vocab) for w in [*words, "</S>"]]
        assert backward_targets[start:end] == [expected_class(w, vocab) for w in [*words[::-1], "<S>"]]
        sentences.append(words)
    return sentences


def expected_class(word, vocab):
    ids = vocab.get_token_to_index_vocabulary("tokens")
    return 0 if word == "@@PADDING@@" else ids.get(word, 1) - 1


def by_size(documents, passage):
    return [d[n : n + (passage or len(d))] for d in documents for n in range(0, len(d), passage or len(d))]


def blocks_of(passages, bptt_steps: int | None = 3) -> list[BlockField]:
    return list(blocks(passages, streams=2, bptt_steps=bptt_steps, process=0, input="characters"))


def test_vocabulary_counts():
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
    fields = blocks_of([SENTENCES])
    for field in fields:
        field.index(vocab)
    found = [field.as_tensor({}) for field in fields]
    assert rebuild(found, vocab, WORDS) == [SENTENCES]
    assert min(int(block["targets"].min()) for block in found) == 0


def test_two_blocks_are_no_batch():
    (field, *_) = blocks_of([SENTENCES])
    with pytest.raises(ConfigurationError, match="batch_size"):
        field.batch_tensors([{}, {}])


def write(path, documents=DOCUMENTS):
    path.write_text("\n\n".join("\n".join(" ".join(s) for s in d) for d in documents), encoding="utf-8")
    return str(path)


def numbered(path, sentences, document=7):
    """A text whose sentences are all different."""
    rows = [[f"{path.name}-{n}", *["w"] * (n % 4)] for n in range(sentences)]
    write(path, [rows[start : start + document] for start in range(0, sentences, document)])
    return rows


def read_blocks(reader, path, vocab=None):
    """The tensors of a read, and its vocabulary."""
    vocab = vocab or Vocabulary.from_instances(reader.read(path))
    tensors = []
    for instance in reader.read(path):
        instance.index_fields(vocab)
        tensors.append(instance.as_tensor_dict()["block"])
    return tensors, vocab


words = st.lists(st.sampled_from(["a", "b", "c", "다", "</S>x"]), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(
    documents=st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=5),
    streams=st.integers(1, 5),
    bptt_steps=st.none() | st.integers(1, 7),
    passage=st.integers(1, 4),
    shuffle=st.integers(0, 6),
    kind=st.sampled_from(["characters", "words"]),
)
def test_any_text(tmp_path_factory, documents, streams, bptt_steps, passage, shuffle, kind):
    path = write(tmp_path_factory.mktemp("text") / "text", documents)
    options = {"streams": streams, "bptt_steps": bptt_steps, "passage": passage, "shuffle_buffer": shuffle}
    tensors, vocab = read_blocks(BiLmReader(input=kind, **options), path)
    for block in tensors:
        assert block["lengths"].shape == block["fresh"].shape == (streams,)
        assert bptt_steps is None or block["lengths"].max() <= bptt_steps
    found = rebuild(tensors, vocab, [w for d in documents for s in d for w in s], kind)
    expected = by_size(documents, passage)
    assert sorted(found) == sorted(expected)
    if not shuffle:
        assert found == expected


def test_a_file_without_a_sentence(tmp_path):
    """It is skipped in a folder, unless no file has any."""
    (tmp_path / "c.txt").write_text(" \n\n")
    with pytest.raises(InputError, match=f"^{tmp_path}: "):
        list(BiLmReader().read(tmp_path))
    rows = numbered(tmp_path / "a.txt", 9)
    assert list(chain(*texts(BiLmReader(streams=1, shuffle_buffer=0), tmp_path))) == rows


def texts(reader, path):
    """The passages of a read in the order in which streams begin them."""
    tensors, vocab = read_blocks(reader, path, Vocabulary())
    known = {word for document in DOCUMENTS for sentence in document for word in sentence}
    known |= {f"{name}-{n}" for name in ("a.txt", "b.txt", "c.txt") for n in range(100)} | {"w"}
    return rebuild(tensors, vocab, sorted(known))


def test_order_depends_on_seed_and_epoch_alone(tmp_path):
    for name in ("a.txt", "b.txt", "c.txt"):
        numbered(tmp_path / name, 40)
    options = {"streams": 2, "passage": 3, "shuffle_buffer": 8}
    state = random.getstate(), torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()
    reader = BiLmReader(**options)
    epochs = [texts(reader, str(tmp_path)) for _ in range(3)]
    assert state == (random.getstate(), torch.get_rng_state().tolist(), np.random.get_state()[1].tolist())
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(epochs[2])
    resumed = BiLmReader(**options)
    for epoch in epochs:
        assert texts(resumed, str(tmp_path)) == epoch
        texts(resumed, str(tmp_path / "a.txt"))  # evaluation between epochs, which a resumed run leaves out
    assert texts(BiLmReader(**options, seed=14), str(tmp_path)) != epochs[0]


@pytest.mark.parametrize("running_text", [False, True])
def test_processes_share_the_text(tmp_path, running_text):
    rows = numbered(tmp_path / "a.txt", 50)
    found = []
    for rank in range(2):
        for worker in range(3):
            reader = BiLmReader(streams=2, passage=2, shuffle_buffer=4, running_text=running_text)
            reader._set_distributed_info(DistributedInfo(2, rank))
            reader._set_worker_info(WorkerInfo(3, worker))
            tensors, _ = read_blocks(reader, str(tmp_path / "a.txt"), Vocabulary())
            assert {block["process"] for block in tensors} == {worker}
            known = {word for row in rows for word in row} | {"a.txt", "-", *map(str, range(50))}
            found += chain(*rebuild(tensors, Vocabulary(), sorted(known)))
    if running_text:
        english = spacy.blank("en")
        tokens = [token.text for row in rows for token in english(" ".join(row))]
        assert Counter(chain(*found)) == Counter(tokens)
    else:
        assert sorted(found) == sorted(rows)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_epochs_of_a_data_loader(tmp_path, workers):
    numbered(tmp_path / "a.txt", 40)
    vocab = Vocabulary.from_instances(BiLmReader().read(str(tmp_path / "a.txt")))

    def run():
        loader = MultiProcessDataLoader(
            BiLmReader(streams=2, passage=2, bptt_steps=None),
            str(tmp_path / "a.txt"),
            batch_size=1,
            num_workers=workers,
            max_instances_in_memory=2,
            quiet=True,
        )
        assert len(Vocabulary.from_instances(loader.iter_instances()).get_token_to_index_vocabulary()) > 40
        loader.index_with(vocab)
        return [[batch["block"]["targets"].tolist() for batch in loader] for _ in range(2)]

    first = run()
    assert first[0] != first[1]
    assert run() == first


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (["Mr. Smith went home early .", "She left , too .", "No !"], None),
        (["She lives in London.", "He doesn't, either.", "No !"], "London."),
        (["这部电影很好看。", "我昨天在上海买了一本书。"], "这部电影很好看。"),
    ],
)
def test_raw_text_is_warned_of_once(tmp_path, caplog, lines, word):
    path = tmp_path / "text"
    path.write_text("\n".join(lines), encoding="utf-8")
    reader = BiLmReader()
    for _ in range(2):
        list(reader.read(path))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [mentions(warning, f"{path}: '{word}'") for warning in warnings] == [True] * bool(word)


def test_subsample(tmp_path, caplog):
    """Each word is kept as often as the formula says; sentences without words vanish."""
    rng = random.Random(5)
    sentences = [["the"], *[["the", "the", rng.choice("abcdefgh")] for _ in range(3000)]]
    path = write(tmp_path / "text", [sentences])
    reader = BiLmReader(subsample=0.01, streams=4)
    with caplog.at_level(logging.INFO):
        counts = [Counter(), Counter()]
        for count in counts:
            for instance in reader.read(path):
                instance.count_vocab_items({"tokens": count})
    frequency = Counter(word for sentence in sentences for word in sentence)
    for word, number in frequency.items():
        kept = (0.01 * frequency.total() / number) ** 0.5
        assert counts[0][word] == pytest.approx(number * kept, abs=5 * (number * kept) ** 0.5), word
    assert counts[0] != counts[1]
    left_out = frequency.total() - sum(counts[0][word] for word in frequency)
    assert f"{left_out:,} words left out (subsample)" in caplog.text
    assert "left without words" in caplog.text
    assert counts[0]["<S>"] == counts[0]["</S>"] < len(sentences)


def test_another_reader_gives_the_sentences(tmp_path):
    (tmp_path / "a.conll").write_text("\n\n".join("\n".join(f"{w} O" for w in s) for s in SENTENCES) + "\n")
    params = {"type": "elmo_bilm", "shuffle_buffer": 0, "passage": 4, "streams": 1}
    reader = DatasetReader.from_params(
        Params(params | {"source": {"type": "elmo_ner", "columns": ["word", "tag"]}})
    )
    assert texts(reader, str(tmp_path / "a.conll")) == by_size([SENTENCES], 4)
    (tmp_path / "plain.txt").write_text("three words here\n")
    with pytest.raises(InputError, match=r"line 1: "):
        texts(reader, str(tmp_path / "plain.txt"))


def test_former_names_of_keys_are_still_read():
    reader = DatasetReader.from_params(Params({"type": "elmo_bilm", "lanes": 3, "unroll": None}))
    assert (reader.streams, reader.bptt_steps) == (3, None)


def words_vocabulary(file):
    return Vocabulary.from_params(Params({"type": "elmo_words", "words_file": str(file)}))


def test_is_the_file_in_its_order_also_from_an_archive(tmp_path):
    vocab = words_vocabulary(write_words(tmp_path / "words.txt"))
    vocab.save_to_files(str(tmp_path / "vocabulary"))
    for found in (vocab, Vocabulary.from_files(tmp_path / "vocabulary")):
        assert words_by_class(found) == VOCABULARY
        assert [found.get_token_index(word) for word in VOCABULARY] == list(range(1, len(VOCABULARY) + 1))
        unknown = VOCABULARY.index("<UNK>") + 1
        assert found.get_token_index("zebra") == found.get_token_index("<UNK>") == unknown
        assert found.get_vocab_size() == len(VOCABULARY) + 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["<S>", "</S>", "<UNK>", "a", "a"], "line 5: 'a'"),
        (["<S>", "", "<UNK>"], "line 2"),
        (["<S>", "</S>", "a"], "<UNK>"),
    ],
)
def test_wrong_files(tmp_path, words, expected):
    file = write_words(tmp_path / "words.txt", words)
    with pytest.raises(ConfigurationError, match=rf"words\.txt.*{expected}"):
        words_vocabulary(file)
