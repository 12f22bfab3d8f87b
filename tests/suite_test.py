from allennlp.data import DatasetReader, TokenIndexer
from allennlp.models import Model
from allennlp.modules import TokenEmbedder
from allennlp.predictors import Predictor

import elmo_tasks.suite  # noqa: F401


def test_every_task_and_elmo_are_registered():
    for task in ("ner", "srl", "coref", "squad", "snli", "sst", "classifier", "bilm"):
        assert issubclass(Model.by_name(f"elmo_{task}"), Model)
        assert f"elmo_{task}" in Predictor.list_available()
    assert {"elmo_ner", "elmo_sample"} <= set(DatasetReader.list_available())
    assert {"elmo_character_ids", "elmo_word_ids"} <= set(TokenIndexer.list_available())
    assert "elmo" in TokenEmbedder.list_available()
