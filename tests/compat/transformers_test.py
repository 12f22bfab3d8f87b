"""AllenNLP's parts for models of transformers, with tiny BERTs and RoBERTas of random weights."""

import functools
import json
import pickle

import pytest
import torch
import transformers
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.data import Batch, Instance, Token, TokenIndexer, Tokenizer, Vocabulary
from allennlp.data.fields import TextField
from allennlp.modules import TokenEmbedder

from elmo_tasks.common.files import bundled
from elmo_tasks.ner.predictor import NerPredictor

LONG = "The cats sat on the mats ."
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDPIECES = [*SPECIAL, "a", "b", "the", "cat", "##s", "sat", "on", "mat", "."]
SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 64,
    "initializer_range": 1.0,
}


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(WORDPIECES))
    torch.manual_seed(1)
    config = transformers.BertConfig(vocab_size=len(WORDPIECES), **SIZES)
    transformers.BertModel(config).save_pretrained(folder)
    return str(folder)


assert_close = functools.partial(torch.testing.assert_close, rtol=1e-4, atol=1e-4)


def make(base, model_name, kind="pretrained_transformer", **options):
    return base.from_params(Params({"type": kind, "model_name": model_name, **options}))


def texts(tokens):
    return [token.text for token in tokens]


def embed(sentences, indexer, embedder) -> torch.Tensor:
    """Returns the vectors of a batch: `(sentences, tokens, dim)`."""
    batch = Batch(Instance({"text": TextField(tokens, {"bert": indexer})}) for tokens in sentences)
    batch.index_instances(Vocabulary())
    with torch.no_grad():
        return embedder.eval()(**batch.as_tensor_dict()["text"]["bert"])


def last_layer(model_name, tokens) -> torch.Tensor:
    """Returns the last layer of the model itself, `(tokens, dim)`."""
    model = transformers.AutoModel.from_pretrained(model_name).eval()
    with torch.no_grad():
        return model(torch.tensor([[token.text_id for token in tokens]])).last_hidden_state[0]


class TestTokenizer:
    def test_wordpieces(self, bert):
        tokens = make(Tokenizer, bert).tokenize(LONG)
        assert " ".join(texts(tokens)) == "[CLS] the cat ##s sat on the mat ##s . [SEP]"
        assert [token.text_id for token in tokens] == [WORDPIECES.index(text) for text in texts(tokens)]
        assert [LONG[token.idx : token.idx_end] for token in tokens[1:4]] == ["The", "cat", "s"]

    def test_words(self, bert):
        tokenizer = make(Tokenizer, bert)
        tokens, offsets = tokenizer.intra_word_tokenize(["cats", "", "on"])
        assert texts(tokens) == ["[CLS]", "cat", "##s", "on", "[SEP]"]
        assert offsets == [(1, 2), None, (3, 3)]
        tokens, first, second = tokenizer.intra_word_tokenize_sentence_pair(["cats"], ["on", "mats"])
        assert texts(tokens) == ["[CLS]", "cat", "##s", "[SEP]", "on", "mat", "##s", "[SEP]"]
        assert [token.type_id for token in tokens] == [0, 0, 0, 0, 1, 1, 1, 1]
        assert (first, second) == ([(1, 2)], [(4, 4), (5, 6)])


class TestVectors:
    def test_of_a_batch(self, bert):
        sentences = [make(Tokenizer, bert).tokenize(text) for text in ("cats sat", "cat")]
        vectors = embed(sentences, make(TokenIndexer, bert), make(TokenEmbedder, bert))
        for sentence, found in zip(sentences, vectors, strict=True):
            assert_close(found[: len(sentence)], last_layer(bert, sentence))

    def test_of_words(self, bert):
        mismatched = {"kind": "pretrained_transformer_mismatched", "max_length": 64}
        indexer, embedder = make(TokenIndexer, bert, **mismatched), make(TokenEmbedder, bert, **mismatched)
        the, cat, s, sat = last_layer(bert, make(Tokenizer, bert).tokenize("the cats sat"))[1:-1]
        words = [Token(word) for word in ("the", "cats", "sat")]
        (vectors,) = embed([words], pickle.loads(pickle.dumps(indexer)), embedder)
        assert_close(vectors, torch.stack([the, (cat + s) / 2, sat]))


def test_beside_elmo(bert, tmp_path):
    mismatched = {"type": "pretrained_transformer_mismatched", "model_name": bert}
    overrides = {
        "dataset_reader.token_indexers.bert": mismatched,
        "model.text_field_embedder.token_embedders.bert": mismatched,
        "trainer.optimizer": {"type": "huggingface_adamw", "lr": 0.001},
        "trainer.num_epochs": 1,
        "data_loader.batches_per_epoch": 1,
    }
    config = bundled("training_configs/ner_elmo.jsonnet").resolve()
    model = train_model(Params.from_file(str(config), json.dumps(overrides)), str(tmp_path / "run"))
    name = "embeddings.word_embeddings.weight"
    (trained,) = (weight for path, weight in model.named_parameters() if path.endswith(name))
    assert not trained.equal(transformers.AutoModel.from_pretrained(bert).get_parameter(name))
    predictor = NerPredictor.from_path(str(tmp_path / "run" / "model.tar.gz"))
    assert len(predictor.predict_json({"tokens": ["cats", "sat"]})["tags"]) == 2
