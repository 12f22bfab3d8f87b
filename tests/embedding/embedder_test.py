"""`ElmoEmbedder` against the biLM itself."""

import json
import multiprocessing
import pickle
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_tasks import Elmo
from elmo_tasks.common import machine
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, DEFAULT_WEIGHTS
from elmo_tasks.embedding.embedder import ElmoEmbedder
from tests.commands.texts import DIM, LINES, TEXT, default_bilm, encode
from tests.elmo.files import needs_h5py
from tests.errors import error_of, mentions
from tests.forked import FORKED

SENTENCES = [line.split() for line in LINES]


@pytest.fixture(scope="module")
def embedder() -> ElmoEmbedder:
    return ElmoEmbedder()


@pytest.fixture(scope="module")
def expected() -> list[np.ndarray]:
    """The vectors of `SENTENCES`, each alone, from a state of zeros."""
    bilm = default_bilm()
    return [
        encode(bilm, [words])[0][:, 0].numpy() if words else np.zeros((3, 0, DIM), dtype=np.float32)
        for words in SENTENCES
    ]


def equal(embedded: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    return all(
        ours.shape == theirs.shape
        and ours.dtype == np.float32
        and np.allclose(ours, theirs, rtol=0, atol=1e-6)
        for ours, theirs in zip(embedded, expected, strict=True)
    )


def test_all_calls_give_the_vectors_of_the_bilm(embedder, expected):
    assert equal([embedder.embed_sentence(words) for words in SENTENCES], expected)
    assert equal(embedder.embed_batch(SENTENCES), expected)
    assert equal(embedder.embed_batch(map(tuple, SENTENCES)), expected)
    assert equal(list(embedder.embed_sentences(SENTENCES)), expected)
    assert equal(list(embedder.embed_sentences(iter(SENTENCES), batch_size=1)), expected)
    assert embedder.embed_batch([]) == list(embedder.embed_sentences([])) == []
    assert (embedder.num_layers, embedder.dim) == (3, DIM)


def test_sentences_are_asked_for_when_they_are_needed(embedder):
    asked: list[int] = []

    def sentences() -> Iterator[list[str]]:
        for number in range(1000):
            asked.append(number)
            yield ["word"] * (number % 7)

    embedded = embedder.embed_sentences(sentences(), batch_size=2)
    assert asked == []
    shapes = [next(embedded).shape for _ in range(40)]
    assert shapes == [(3, number % 7, DIM) for number in range(40)]
    assert len(asked) < 60
    embedded.close()


class Hasher(pickle.Pickler):
    """Sees tensors by their values, as the `Hasher` of the package datasets."""

    def reducer_override(self, obj: Any) -> Any:
        return (torch.tensor, (obj.tolist(),)) if isinstance(obj, torch.Tensor) else NotImplemented


def test_calls_leave_the_hash_as_it_is(embedder):
    hashes = []
    for call in (embedder.bilm.prepare, lambda: embedder.embed_batch(SENTENCES), embedder.bilm.digest):
        call()
        Hasher(data := BytesIO()).dump(embedder.embed_batch)
        hashes.append(data.getvalue())
    assert len(set(hashes)) == 1


def embed_by(embedder: ElmoEmbedder) -> None:
    """And by embedders and biLMs that this process makes itself."""
    sentences = [["We", "play", "chess"] * 10] * 8
    embedder.embed_batch(sentences)
    ElmoEmbedder().embed_batch(sentences)
    for trainable in False, True:
        elmo = Elmo(trainable=trainable)
        elmo(elmo.padded_ids(sentences))


def embed_here_and_in_a_fork() -> None:
    assert not machine._forks_have_one_thread
    torch.set_num_threads(2)
    embedder = ElmoEmbedder()
    embed_by(embedder)
    child = multiprocessing.get_context("fork").Process(target=embed_by, args=[embedder])
    child.start()
    child.join(60)
    child.kill()
    assert child.exitcode == 0


@pytest.mark.slow
def test_in_a_process_that_is_forked():
    """PyTorch's threads do not exist in a fork; one that waited for them would hang."""
    process = FORKED.Process(target=embed_here_and_in_a_fork)
    process.start()
    process.join(120)
    process.kill()
    assert process.exitcode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"options_file": DEFAULT_OPTIONS}, "options_file and weight_file belong together"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": "8"}, "batch_size is '8'"),
        ({"precision": "int7"}, "precision"),
        ({"vocabulary_file": DEFAULT_OPTIONS}, "vocabulary_file"),
        ({"options_file": DEFAULT_WEIGHTS, "weight_file": DEFAULT_WEIGHTS}, DEFAULT_WEIGHTS),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ElmoError, match=message):
        ElmoEmbedder(**arguments)


def test_tokens_of_other_libraries(embedder):
    spacy, data = pytest.importorskip("spacy"), pytest.importorskip("allennlp.data")
    doc = spacy.blank("en")("A cat, too.")
    words = [token.text for token in doc]
    expected = embedder.embed_sentence(words)
    for tokens in (doc, list(doc), [data.Token(word) for word in words]):
        assert np.array_equal(embedder.embed_sentence(tokens), expected)
    vectors, mask = embedder.batch_to_embeddings([doc, doc[:2]])
    assert mask.sum(dim=1).tolist() == [len(words), 2]
    assert np.allclose(vectors[0].numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("wrong", ["A cat", [1, 2], [None], 3, {"tokens": ["A", "cat"]}, {"A", "cat"}])
def test_what_are_no_tokens(embedder, wrong):
    with pytest.raises(ElmoError, match=r"^sentence 1: "):
        embedder.embed_batch([["fine"], wrong])


def read(path: Path) -> dict[str, np.ndarray]:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path) as file:
        return {name: dataset[...] for name, dataset in file.items()}


def read_vectors(path: Path) -> dict[str, np.ndarray]:
    return {name: array for name, array in read(path).items() if name != "sentence_to_index"}


@needs_h5py
@pytest.mark.parametrize("output_format", ["all", "top", "average", "sum", 1])
def test_embed_file(embedder, expected, tmp_path, output_format):
    source, output = tmp_path / "in.txt", tmp_path / "text"
    source.write_text(TEXT, encoding="utf-8")
    output.write_text("what was there before")
    with open(source, encoding="utf-8") as file:
        embedder.embed_file(file, str(output), output_format, batch_size=2)
    vectors = read(output)
    index = json.loads(vectors["sentence_to_index"][0])
    for i, layers in enumerate(expected):
        one = {"top": layers[-1], "average": layers.mean(axis=0), "sum": layers.sum(axis=0), 1: layers[1]}
        of_format = one.get(output_format, layers)
        assert np.allclose(vectors[str(i)], of_format, rtol=0, atol=1e-6)
    assert index == {line.strip(): str(i) for i, line in enumerate(LINES)}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "text"]


@needs_h5py
def test_vectors_are_float32_whatever_the_default_of_pytorch(expected, tmp_path):
    torch.set_default_dtype(torch.float64)
    try:
        embedder = ElmoEmbedder()
        vectors = embedder.embed_batch(SENTENCES)
        embedder.embed_file(LINES, tmp_path / "out.hdf5")
    finally:
        torch.set_default_dtype(torch.float32)
    in_file = read_vectors(tmp_path / "out.hdf5")
    for i, layers in enumerate(expected):
        for each in (vectors[i], in_file[str(i)]):
            assert each.dtype == np.float32
            assert np.allclose(each, layers, rtol=0, atol=1e-5)


@needs_h5py
def test_names_in_a_file(embedder, tmp_path):
    output, source = tmp_path / "out.hdf5", tmp_path / "in.txt"
    embedder.embed_file(["A cat\n", "A dog\n"], output, forget_sentences=True)
    assert set(read_vectors(output)) == {"0", "1"}
    embedder.embed_file(["A cat\n", "A dog\n"], output, use_sentence_keys=True)
    in_file = read_vectors(output)
    assert set(in_file) == {"A cat", "A dog"}
    for text, vectors in in_file.items():
        assert np.allclose(vectors, embedder.embed_sentence(text.split()), rtol=0, atol=1e-6)
    source.write_bytes(b"fine\n\xff\n")
    with open(source, "rb") as file:
        for text, path, options, *names in (
            (["A cat\n"] * 2, output, {"use_sentence_keys": True}, "the key 'A cat'"),
            (["A\0 cat\n"], output, {"use_sentence_keys": True}, "the key 'A", "NUL"),
            (["A cat\n", "A \udcff\n"], output, {}, "line 2: ", r"'\udcff'"),
            (["A cat\n"], output.with_suffix(".npz"), {}, "out.npz: ", "out.hdf5"),
            ([], output, {"output_format": "middle"}, "output_format", "'middle'"),
            (source, output, {}, "in.txt, line 2: ", "0xff"),
            (file, output, {}, "in.txt, line 1:"),
        ):
            assert mentions(error_of(ElmoError, embedder.embed_file, text, path, **options), *names)
    assert set(read_vectors(output)) == {"A cat", "A dog"}


@needs_h5py
def test_a_text_is_not_replaced_by_its_vectors(embedder, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("A cat\n")
    with open(source) as file:
        for text, path, names in (
            (source, tmp_path / "." / "in.txt", "in.txt is the input"),
            (file, source, "in.txt is the input"),
            (source, tmp_path, "is a folder"),
            (["A cat\n", "A\ndog\n"], tmp_path / "out.hdf5", "line 2:"),
        ):
            assert names in error_of(ElmoError, embedder.embed_file, text, path)
    assert source.read_text() == "A cat\n"
    assert not (tmp_path / "out.hdf5").exists()
