"""
SQuAD beside allennlp-models' `bidaf` with its own settings.

The folder holds `train.json` and `dev.json` of SQuAD 1.1; `--limit` takes so many questions of each, of
paragraphs at like distances. Words, the vocabulary of the training data and `--vectors` are the same for all;
without vectors, each learns its own. The peer takes these from `--overrides`, and nothing else.

Table 3 of Peters et al. 2018: `--systems ours elmo-input elmo-input+output elmo-output`. Beside the peer with
the same biLM: `--systems elmo-computed peer-elmo`, of published sizes with `--size`.
"""

import json
from pathlib import Path
from typing import Any

from allennlp.data import Token, Tokenizer

from benchmarks.configs import Settings, bilstm
from benchmarks.quality import Comparison
from elmo_tasks.data.tokenization import tokenizer


@Tokenizer.register("spacy_with_places")
class WordsWithPlaces(Tokenizer):
    """The words of our reader before it splits them, which the peer's reader does by itself."""

    def __init__(self) -> None:
        self._words = tokenizer()

    def tokenize(self, text: str) -> list[Token]:
        _, words, offsets = self._words(text)
        return [Token(word, idx=start) for word, (start, _) in zip(words, offsets, strict=True)]


class Squad(Comparison):
    config, peer_package = "squad", "allennlp_models.rc"
    metric, unit, suffix = "F1", "questions", ".json"
    epochs, timed = 20, (400, 80)

    def some(self, files: list[Path], number: int | None) -> str:
        content = json.loads(files[0].read_text(encoding="utf-8"))
        paragraphs: list[dict[str, Any]] = [p for article in content["data"] for p in article["paragraphs"]]
        total = sum(len(paragraph["qas"]) for paragraph in paragraphs)
        chosen, questions, passed = [], 0, 0
        for paragraph in paragraphs:
            passed += len(paragraph["qas"])
            if questions < passed * min(1, (number or total) / total):
                chosen.append(paragraph)
                questions += len(paragraph["qas"])
        print(f"{files[0]}: {questions} questions of {len(chosen)} paragraphs")
        return json.dumps({**content, "data": [{"title": "", "paragraphs": chosen}]})

    def peer(self, ours: Settings, elmo_dim: int) -> Settings:
        """The config bidaf.jsonnet of allennlp-models; data, vocabulary, vectors and epochs as ours."""
        words = ours["model"]["text_field_embedder"]["token_embedders"]["tokens"]
        if "pretrained_file" not in words:
            words = {"type": "embedding", "embedding_dim": 100}
        ours["dataset_reader"] = {
            "type": "squad1",
            "tokenizer": {"type": "spacy_with_places"},
            "token_indexers": {
                "tokens": {"type": "single_id", "lowercase_tokens": True},
                "token_characters": {
                    "type": "characters",
                    "character_tokenizer": {
                        "byte_encoding": "utf-8",
                        "start_tokens": [259],
                        "end_tokens": [260],
                    },
                    "min_padding_length": 5,
                },
            },
        }
        characters = {
            "type": "character_encoding",
            "embedding": {"num_embeddings": 262, "embedding_dim": 16},
            "encoder": {"type": "cnn", "embedding_dim": 16, "num_filters": 100, "ngram_filter_sizes": [5]},
            "dropout": 0.2,
        }
        ours["model"] = {
            "type": "bidaf",
            "text_field_embedder": {"token_embedders": {"tokens": words, "token_characters": characters}},
            "num_highway_layers": 2,
            "phrase_layer": bilstm(words["embedding_dim"] + 100 + elmo_dim, 100, num_layers=1),
            "matrix_attention": {
                "type": "linear",
                "combination": "x,y,x*y",
                "tensor_1_dim": 200,
                "tensor_2_dim": 200,
            },
            "modeling_layer": bilstm(800, 100, num_layers=2, dropout=0.2),
            "span_end_encoder": bilstm(1400, 100, num_layers=1),
            "dropout": 0.2,
        }
        for loader in ("data_loader", "validation_data_loader"):
            ours[loader] = {"batch_sampler": {"type": "bucket", "batch_size": 40}}
        ours["trainer"] = {
            **{key: ours["trainer"][key] for key in ("num_epochs", "patience", "callbacks")},
            "validation_metric": "+f1",
            "grad_norm": 5.0,
            "learning_rate_scheduler": {
                "type": "reduce_on_plateau",
                "factor": 0.5,
                "mode": "max",
                "patience": 2,
            },
            "optimizer": {"type": "adam", "betas": [0.9, 0.9]},
        }
        return ours


_TASK = Squad()
add_arguments, run = _TASK.add_arguments, _TASK.run
