"""`allennlp.commands.elmo` as packages use it that were written for AllenNLP 0.9."""

import importlib
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

from elmo_tasks import ElmoEmbedder, drop_in
from tests.elmo.files import FILLING, SENTENCES, make_files, needs_h5py
from tests.errors import mentions

drop_in.uninstall()


@pytest.fixture
def installed() -> Iterator[None]:
    drop_in.install()
    yield
    drop_in.uninstall()


def test_the_module_is_there_while_the_drop_in_is(installed):
    import allennlp.commands.elmo
    from allennlp.commands.elmo import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
    from allennlp.commands.elmo import ElmoEmbedder as Old

    assert allennlp.commands.elmo.ElmoEmbedder is Old
    assert issubclass(Old, ElmoEmbedder)
    assert Path(DEFAULT_OPTIONS_FILE).is_file()
    assert Path(DEFAULT_WEIGHT_FILE).is_file()
    drop_in.uninstall()
    drop_in.uninstall()
    assert not hasattr(allennlp.commands, "elmo")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("allennlp.commands.elmo")


def test_as_seqvec_calls_it(installed, tmp_path):
    """Proteins as lists of letters, sorted by length, in batches of so many residues; paths by name."""
    from allennlp.commands.elmo import ElmoEmbedder as Old

    options, weights = map(str, make_files(tmp_path, **FILLING))
    proteins = {"short": "MK", "middle": "MKTAYIAKQR", "long": "MSEQXLLV" * 12}
    embedder = Old(weight_file=weights, options_file=options, cuda_device=-1)
    ours = ElmoEmbedder(options, weights)
    ordered = sorted(proteins, key=lambda name: len(proteins[name]))
    for batch in (ordered[:2], ordered[2:]):
        with torch.no_grad():
            vectors = embedder.embed_batch([list(proteins[name]) for name in batch])
        assert len(vectors) == len(batch)
        for name, protein in zip(batch, vectors, strict=True):
            expected = ours.embed_sentence(list(proteins[name]))
            assert protein.shape == (3, len(proteins[name]), ours.dim)
            np.testing.assert_array_equal(protein, expected)
            # A vector of each residue, and one of the protein
            assert protein.sum(axis=0).mean(axis=0).shape == (ours.dim,)
            assert np.concatenate(protein, axis=1).shape == (len(proteins[name]), 3 * ours.dim)


@needs_h5py
def test_the_names_of_allennlp_0_9(installed, files):
    from allennlp.commands.elmo import DEFAULT_BATCH_SIZE, empty_embedding
    from allennlp.commands.elmo import ElmoEmbedder as Old

    assert DEFAULT_BATCH_SIZE == 64
    assert empty_embedding().shape == (3, 0, 1024)
    embedder, stock = Old(**files), _ElmoBiLm(**files)
    before = embedder.embed_sentence(["The", "cat"])
    ids = batch_to_ids([["The", "cat"], ["a"]])
    outputs, expected = embedder.elmo_bilm(ids), stock(ids)
    torch.testing.assert_close(outputs, expected, atol=1e-5, rtol=0)
    layers, mask = embedder.batch_to_embeddings([["The", "cat"], ["a"]])
    for i, layer in enumerate(expected["activations"]):
        vectors, tokens = remove_sentence_boundaries(layer, expected["mask"])
        torch.testing.assert_close(layers[:, i], vectors, atol=1e-5, rtol=0)
        assert torch.equal(mask, tokens)
    # The embedder's vectors are those of this biLM, and carry no state.
    np.testing.assert_array_equal(embedder.embed_sentence(["The", "cat"]), before)
    embedder.elmo_bilm._token_embedder._projection.bias.data.add_(1)
    assert np.abs(embedder.embed_sentence(["The", "cat"]) - before).max() > 0.1
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(embedder)).embed_sentence(["a"]), embedder.embed_sentence(["a"])
    )


def test_without_files_it_warns_of_another_bilm_than_that_of_0_9(installed, files):
    from allennlp.commands.elmo import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
    from allennlp.commands.elmo import ElmoEmbedder as Old

    for defaults in ((), (DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE)):
        with pytest.warns(UserWarning, match="without files") as warned:
            embedder = Old(*defaults)
        (warning,) = warned
        assert mentions(str(warning.message), str(embedder.dim), "1,024", "options.json", "weights.hdf5")
        assert warning.filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Old(**files)
        ElmoEmbedder()


@pytest.mark.parametrize("mode", ["all", "top", "average"])
def test_flair(installed, files, mode, monkeypatch):
    # flair 0.15.1 imports a class for images that transformers 5 dropped.
    monkeypatch.setattr("transformers.LayoutLMv2FeatureExtractor", object, raising=False)
    flair = pytest.importorskip("flair", reason="flair is not installed: requirements/peers.txt")
    from flair.data import Sentence
    from flair.embeddings.legacy import ELMoEmbeddings

    flair.device = torch.device("cpu")
    theirs = ELMoEmbeddings(**files, embedding_mode=mode)
    layers = {
        "all": np.concatenate,
        "top": lambda vectors: vectors[-1],
        "average": lambda vectors: vectors.mean(axis=0),
    }[mode]
    ours = ElmoEmbedder(**files)
    for embeddings in (theirs, pickle.loads(pickle.dumps(theirs))):
        sentences = [Sentence(words) for words in SENTENCES if words]
        embeddings.embed(sentences)
        for sentence in sentences:
            vectors = ours.embed_sentence([token.text for token in sentence])
            assert embeddings.embedding_length == len(layers(vectors[:, 0]))
            for index, token in enumerate(sentence):
                np.testing.assert_allclose(token.embedding, layers(vectors[:, index]), rtol=0, atol=1e-6)
