"""
NER beside allennlp-models' `crf_tagger` of the same sizes, optimizer and batches.

The folder holds `train.*` and `dev.*` in CoNLL columns; other columns than four by
--overrides '{"dataset_reader.columns": ["word", "tag"]}', for ours alone.

The time of an epoch with a frozen biLM, whose activations ours keeps on disk from the first epoch on:
--seeds --rounds 1 --timed 500 0 --size original --time elmo elmo-computed peer-elmo
"""

from itertools import islice
from pathlib import Path

from benchmarks.configs import Settings, add_dev_tags, bilstm, with_stock_training
from benchmarks.quality import Comparison
from elmo_tasks.data.columns import line_groups
from elmo_tasks.data.input_files import read_lines


class Ner(Comparison):
    config, peer_package = "ner", "allennlp_models.tagging"
    metric, unit, suffix = "F1", "sentences", ".conll"
    epochs = 15
    timed_epochs = 4

    def some(self, files: list[Path], number: int | None) -> str:
        """The first sentences."""
        sentences = line_groups(read_lines(files[0]), separators=("-DOCSTART-",))
        return "\n".join("".join(f"{line}\n" for _, line in lines) for lines in islice(sentences, number))

    def peer(self, ours: Settings, elmo_dim: int) -> Settings:
        model = ours["model"]
        embedders = model["text_field_embedder"]["token_embedders"]
        cnn = embedders["token_characters"]
        embedders["token_characters"] = {
            "type": "character_encoding",
            "embedding": {"embedding_dim": cnn["embedding_dim"], "vocab_namespace": "token_characters"},
            "encoder": {
                "type": "cnn",
                "embedding_dim": cnn["embedding_dim"],
                "num_filters": cnn["num_filters"],
                "ngram_filter_sizes": [cnn["width"]],
                "conv_layer_activation": "relu",
            },
        }
        add_dev_tags(ours)
        indexers = ours["dataset_reader"]["token_indexers"]
        indexers["token_characters"]["min_padding_length"] = cnn["width"]
        ours["dataset_reader"] = {"type": "conll2003", "coding_scheme": "BIOUL", "token_indexers": indexers}
        first, second = model["hidden_sizes"]
        embedded = embedders["tokens"]["embedding_dim"] + cnn["num_filters"] + elmo_dim
        ours["model"] = {
            "type": "crf_tagger",
            "label_encoding": "BIOUL",
            "constrain_crf_decoding": True,
            "calculate_span_f1": True,
            "dropout": model["dropout"],
            "text_field_embedder": model["text_field_embedder"],
            "encoder": {"type": "compose", "encoders": [bilstm(embedded, first), bilstm(2 * first, second)]},
        }
        return with_stock_training(ours, metric="+f1-measure-overall")


_TASK = Ner()
add_arguments, run = _TASK.add_arguments, _TASK.run
