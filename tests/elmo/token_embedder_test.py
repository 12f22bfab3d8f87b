"""ELMo in a model that is not ours: token indexers, vectors, the penalty, archives that stand alone."""

import copy
import json
from inspect import signature

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Instance, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import TextField
from allennlp.modules import TokenEmbedder
from allennlp.modules.elmo import batch_to_ids
from allennlp.modules.text_field_embedders import BasicTextFieldEmbedder
from allennlp.nn import RegularizerApplicator
from allennlp.nn.regularizers import Regularizer

from elmo_tasks.elmo import Elmo
from elmo_tasks.elmo.model.characters import character_ids, unicode_ids, word_ids
from elmo_tasks.elmo.token_embedder import ARCHIVED_WEIGHTS, ElmoTokenEmbedder
from tests.elmo.files import SENTENCES, batch, make_block

PATH = "model.text_field_embedder.token_embedders.words."


@pytest.fixture(scope="module")
def block(tmp_path_factory):
    return {"type": "elmo", **make_block(tmp_path_factory.mktemp("elmo"))}


def built(block, **extras) -> ElmoTokenEmbedder:
    return TokenEmbedder.from_params(Params(dict(block), history=PATH), **extras)


def test_its_parameters_are_elmos():
    elmo, embedder = (
        {name: (each.default, each.annotation) for name, each in signature(cls).parameters.items()}
        for cls in (Elmo, ElmoTokenEmbedder)
    )
    assert dict(elmo, placement=None) | embedder == dict(embedder, placement=None)
    assert embedder.keys() - elmo.keys() == {"projection_dim"}


def test_vectors_are_elmos(block):
    embedder = built({**block, "layer_norm": True}).eval()
    files = {name: block[name] for name in ("options_file", "weight_file")}
    elmo = Elmo(layer_norm=True, **files).eval()
    vectors = embedder(batch(SENTENCES))
    assert torch.equal(vectors, elmo(batch(SENTENCES)).input)
    assert vectors.size(-1) == embedder.get_output_dim()
    # AllenNLP's own indexer gives other integers of the same characters
    assert torch.equal(embedder(batch_to_ids(SENTENCES)), vectors)


@pytest.mark.parametrize("weights", ["trainable", "function"])
def test_the_regularizer_finds_the_penalty(block, weights):
    embedder = built({**block, "mix_l2": 0.5, "weights": weights, "projection_dim": 3})
    with torch.no_grad():
        for parameter in embedder.parameters():
            parameter += 1
    regularizer = RegularizerApplicator([("", Regularizer.from_params(Params({"type": "elmo_mix"})))])
    torch.testing.assert_close(regularizer(embedder), embedder.elmo.penalty())
    torch.testing.assert_close(regularizer(copy.deepcopy(embedder)), embedder.elmo.penalty())


def test_a_penalty_without_a_regularizer_is_an_error(block):
    embedder = built({**block, "mix_l2": 0.5}).train()
    steps = torch.optim.Adam(embedder.parameters())
    # Batches whose gradients add up to one step; the penalty may come with the last.
    for _ in range(2):
        embedder(batch(SENTENCES)).square().sum().backward()
    steps.step()
    embedder.eval()(batch(SENTENCES))
    with pytest.raises(ConfigurationError, match=r'"regularizer": .*"elmo_mix"'):
        embedder.train()(batch(SENTENCES))


def test_no_regularizer_for_a_mix_that_does_not_learn(block):
    embedder = built({**block, "mix_l2": 0.5, "projection_dim": 3}).train()
    embedder.elmo.mixes.requires_grad_(False)
    steps = torch.optim.Adam(embedder.parameters())
    for _ in range(2):
        embedder(batch(SENTENCES)).square().sum().backward()
        steps.step()


def archive(folder, *embedders: ElmoTokenEmbedder, block) -> dict[str, torch.Tensor]:
    """Writes the archive of a model whose text field embedders have the token embedder `words` each."""
    state = {}
    for i, embedder in enumerate(embedders):
        module = BasicTextFieldEmbedder({"words": embedder})
        state |= {f"_embedder_{i}.{name}": weight for name, weight in module.state_dict().items()}
    torch.save(state, folder / ARCHIVED_WEIGHTS)
    config = {"model": {"text_field_embedder": {"token_embedders": {"words": block}}}}
    (folder / "config.json").write_text(json.dumps(config))
    return embedders[0].state_dict()


def test_an_archive_of_a_penalty_without_weights(block, tmp_path):
    """They could be written before it was refused."""
    block = {**block, "layers": "top"}
    archive(tmp_path, built(block), block=block)
    built({**block, "mix_l2": 0.1}, serialization_dir=str(tmp_path))


def test_an_archive_stands_alone(block, tmp_path):
    trained = built({**block, "gamma": False, "trainable": True}).eval()
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter += 0.01
    lost = {**block, "gamma": False, "options_file": "/lost", "weight_file": "/lost"}
    state = archive(tmp_path, trained, block=lost)
    embedder = built(lost, serialization_dir=str(tmp_path)).eval()
    embedder.load_state_dict(state)
    with torch.no_grad():
        assert torch.equal(embedder(batch(SENTENCES)), trained(batch(SENTENCES)))


def test_overrides_of_what_an_archive_holds_are_refused(block, tmp_path):
    archive(tmp_path, built(block), block=block)
    with pytest.raises(ConfigurationError, match=rf"{PATH}weight_file: .*'/other'"):
        built({**block, "weight_file": "/other"}, serialization_dir=str(tmp_path))
    pytest.importorskip("lmdb")
    embedder = built({**block, "activations": str(tmp_path / "activations")}, serialization_dir=str(tmp_path))
    assert embedder.elmo.activations is not None


def test_two_of_one_name(block, tmp_path):
    archive(tmp_path, built(block), built(block), block=block)
    assert built(block, serialization_dir=str(tmp_path)).elmo.dim == built(block).elmo.dim
    smaller = built(block | make_block(tmp_path / "smaller", dim=10))
    archive(tmp_path, built(block), smaller, block=block)
    with pytest.raises(ConfigurationError, match="2 biLMs"):
        built(block, serialization_dir=str(tmp_path))


def indexed(indexer, words):
    """Returns the ids of one sentence."""
    field = TextField(list(map(Token, words)), {"elmo": indexer})
    field.index(Vocabulary())
    return field.as_tensor(field.get_padding_lengths())["elmo"][indexer.encoder.reads]


@pytest.mark.parametrize(
    ("name", "ids", "dtype"),
    [
        ("character_ids", character_ids, torch.int16),
        ("unicode_ids", unicode_ids, torch.int32),
        ("word_ids", word_ids, torch.int64),
    ],
)
def test_ids_in_a_batch(name, ids, dtype):
    indexer = TokenIndexer.from_params(Params({"type": f"elmo_{name}"}))
    sentences = [["한국어", "cat"], ["Yes"]]
    batch = Batch(
        [Instance({"tokens": TextField(list(map(Token, words)), {"elmo": indexer})}) for words in sentences]
    )
    batch.index_instances(Vocabulary())
    tensor = batch.as_tensor_dict()["tokens"]["elmo"][name]
    assert tensor.dtype == dtype
    assert tensor[0].tolist() == ids(["한국어", "cat"]).tolist()
    assert tensor[1, 0].tolist() == ids(["Yes"])[0].tolist()
    assert not tensor[1, 1].any()
    assert indexed(indexer, []).shape == ids([]).shape
    padded = TokenIndexer.from_params(Params({"type": f"elmo_{name}", "token_min_padding_length": 3}))
    assert len(indexed(padded, ["cat"])) == 3
