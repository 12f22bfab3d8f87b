"""The six tasks compared with the models of allennlp-models: their configs, sizes and data."""

import copy
import json
from itertools import islice
from pathlib import Path
from typing import Any

from allennlp.common.util import import_module_and_submodules
from allennlp.data import DatasetReader, Instance, Token, Tokenizer

from benchmarks.comparison import Comparison, equally_spaced
from benchmarks.configs import Settings, add_dev_tags, bilstm, feedforward, with_stock_training
from benchmarks.coref import AVERAGE_F1, average_f1
from elmo_tasks.archives import open_archive
from elmo_tasks.coref.reader import CorefReader
from elmo_tasks.data.formats.columns import SEPARATORS, line_groups
from elmo_tasks.data.input_files import read_lines
from elmo_tasks.data.tokenization import tokenizer
from elmo_tasks.sst.reader import SstReader
from elmo_tasks.training.experiments import TrainingRun


class Ner(Comparison):
    """
    NER compared with allennlp-models' `crf_tagger` of the same sizes, optimizer and batches.

    The folder holds `train.*` and `dev.*` in CoNLL columns; other columns than four by
    --overrides '{"dataset_reader.columns": ["word", "tag"]}', for ours alone.

    The time of an epoch with a frozen biLM, whose activations ours keeps on disk from the first epoch on:
    --seeds --rounds 1 --timed 500 0 --size original --time elmo elmo-computed peer-elmo
    """

    config, peer_package = "ner", "allennlp_models.tagging"
    metric, unit, suffix = "F1", "sentences", ".conll"
    epochs = 15
    timed_epochs = 4

    def some(self, files: list[Path], number: int | None) -> str:
        """The first sentences."""
        sentences = line_groups(read_lines(files[0]), separators=SEPARATORS)
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


_DOCUMENT, _POS = "#", 4


class Srl(Comparison):
    """
    Semantic roles compared with allennlp-models' `srl` of the same sizes, optimizer, batch size and
    vocabulary.

    The folder holds `train.*` and `dev.*` in the columns of CoNLL 2012. Sentences without predicates are left
    out. F1 is without the predicates, as both report it. The peer marks every word of a predicate at its
    input, its C-V included, ours only its head.
    """

    config, peer_package = "srl", "allennlp_models.structured_prediction"
    metric, unit, suffix = "F1", "sentences", ".gold_conll"
    epochs, timed = 10, (200, 50)

    def some(self, files: list[Path], number: int | None) -> str:
        """
        The first sentences with predicates, without parts of speech: then the peer builds no trees, which
        stop it at some brackets.
        """
        sentences: list[str] = []
        for block in files[0].read_text(encoding="utf-8").split("\n\n"):
            rows = [line.split() for line in block.splitlines() if not line.startswith(_DOCUMENT)]
            if any("(V*" in cell for row in rows for cell in row):
                rows = [[*row[:_POS], "XX", *row[_POS + 1 :]] for row in rows]
                sentences.append("".join("\t".join(row) + "\n" for row in rows))
            if len(sentences) == number:
                break
        return "\n".join(sentences)

    def peer(self, ours: Settings, elmo_dim: int) -> Settings:
        model = ours["model"]
        embedder = model["text_field_embedder"]
        words = embedder["token_embedders"]["tokens"]["embedding_dim"]
        add_dev_tags(ours)
        ours["dataset_reader"]["type"] = "srl"
        ours["model"] = {
            "type": "srl",
            "text_field_embedder": embedder,
            "binary_feature_dim": model["predicate_dim"],
            "encoder": {
                "type": "alternating_lstm",
                "input_size": words + model["predicate_dim"] + elmo_dim,
                "hidden_size": model["hidden_size"],
                "num_layers": model["num_layers"],
                "recurrent_dropout_probability": model["dropout"],
                "use_input_projection_bias": False,
            },
        }
        # It reads folders.
        for path in ("train_data_path", "validation_data_path"):
            ours[path] = str(Path(ours[path]).parent)
        return with_stock_training(
            ours, metric="+f1-measure-overall", optimizer=None, sorting_keys=["tokens"]
        )


WITHOUT_SINGLETONS = "average F1 without singletons"


class Coref(Comparison):
    """
    Coreference compared with allennlp-models' `coref` of the same sizes, optimizer, words and vocabulary.

    The folder holds `train/` and `dev/` in CoNLL-2012 columns. Both train on windows of
    `model.max_training_sentences` sentences of a document: ours on one that is drawn each time, the peer on
    the first. For AllenNLP's ELMo in the peer, a document is one sentence. ELMo of ours keeps no activations
    where the time is to be compared: `--systems ours peer elmo-computed peer-elmo`.

    F1 is the average of MUC, B-cubed and CEAF-e by our metric, for both, in the epoch that is best by its
    own. Gold clusters of one mention, which neither proposes, count as missed; OntoNotes has none, so there
    is a score without them, too.
    """

    config, peer_package = "coref", "allennlp_models.coref"
    metric, unit, suffix = AVERAGE_F1, "files", ".conll"
    epochs, timed = 20, (8, 2)

    def some(self, files: list[Path], number: int | None) -> str:
        """The first documents in one file, as the peer reads it."""
        return "".join(path.read_text(encoding="utf-8") for path in files[:number])

    def scores(self, run: TrainingRun) -> dict[str, float]:
        import_module_and_submodules(self.peer_package)
        archive = open_archive(run.folder / "model.tar.gz")
        model, reader = archive.model.eval(), archive.validation_dataset_reader
        dev = run.config["validation_data_path"]
        proposed = []
        for instance in reader.read(dev):
            reader.apply_token_indexers(instance)
            clusters = model.forward_on_instance(instance)["clusters"]
            proposed.append([list(map(tuple, cluster)) for cluster in clusters])
        return {
            self.metric: average_f1(proposed, CorefReader().read(dev)),
            WITHOUT_SINGLETONS: average_f1(proposed, CorefReader(singletons=False).read(dev)),
        }

    def peer(self, ours: Settings, elmo_dim: int) -> Settings:
        model = ours["model"]
        sizes, hidden, dropout = model["feedforward_sizes"], model["hidden_sizes"][0], model["dropout"]
        embedders = model["text_field_embedder"]["token_embedders"]
        cnn = embedders["token_characters"]["encoder"]
        words = embedders["tokens"]["embedding_dim"] + elmo_dim
        words += cnn["num_filters"] * len(cnn["ngram_filter_sizes"])
        span = words + 4 * hidden + model["feature_dim"]
        reader = {
            "type": "coref",
            "token_indexers": ours["dataset_reader"]["token_indexers"],
            "max_span_width": model["max_span_width"],
        }
        ours["dataset_reader"] = reader | {"max_sentences": model["max_training_sentences"]}
        ours["validation_dataset_reader"] = copy.deepcopy(reader)
        ours["model"] = {
            "type": "coref",
            "text_field_embedder": model["text_field_embedder"],
            "context_layer": bilstm(words, hidden),
            "mention_feedforward": feedforward(span, *sizes, dropout=dropout),
            "antecedent_feedforward": feedforward(3 * span + model["feature_dim"], *sizes, dropout=dropout),
            "feature_size": model["feature_dim"],
            **{
                key: model[key]
                for key in ("max_span_width", "spans_per_word", "max_antecedents", "lexical_dropout")
            },
        }
        ours["data_loader"] = {"batch_size": 1, "shuffle": True}
        ours["validation_data_loader"] = {"batch_size": 1}
        ours["trainer"] |= {"validation_metric": "+coref_f1", "checkpointer": {}}
        ours["trainer"]["optimizer"]["type"] = "adam"
        return ours


@Tokenizer.register("spacy_with_places")
class WordsWithPlaces(Tokenizer):
    """The words of our reader before it splits them, which the peer's reader does by itself."""

    def __init__(self) -> None:
        self._words = tokenizer()

    def tokenize(self, text: str) -> list[Token]:
        _, words, offsets = self._words(text)
        return [Token(word, idx=start) for word, (start, _) in zip(words, offsets, strict=True)]


class Squad(Comparison):
    """
    SQuAD compared with allennlp-models' `bidaf` with its own settings.

    The folder holds `train.json` and `dev.json` of SQuAD 1.1; `--limit` takes that many questions of each,
    from evenly spaced paragraphs. Words, the vocabulary of the training data and `--vectors` are the same for
    all; without vectors, each learns its own. The peer takes these from `--overrides`, and nothing else.

    Table 3 of Peters et al. 2018: `--systems ours elmo-input elmo-input+output elmo-output`. Compared with
    the peer and the same biLM: `--systems elmo-computed peer-elmo`, of published sizes with `--size`.
    """

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


class Snli(Comparison):
    """
    SNLI compared with allennlp-models' `esim` of the same sizes, optimizer, batch size, words and vocabulary.

    The folder holds `train.*` and `dev.*`. Timed with ELMo, both have the same frozen biLM at their input.
    """

    config, peer_package = "snli", "allennlp_models.pair_classification"
    metric, unit, suffix = "accuracy", "pairs", ".jsonl"
    epochs, timed = 10, (1000, 200)
    timed_elmo = "elmo-input-computed"

    def some(self, files: list[Path], number: int | None) -> str:
        """The first pairs with a label."""
        lines = (line for _, line in read_lines(files[0]) if line and json.loads(line)["gold_label"] != "-")
        return "".join(f"{line}\n" for line in islice(lines, number))

    def peer(self, ours: Settings, elmo_dim: int) -> Settings:
        """Stock parts with our reader, so that words are the same."""
        model = ours["model"]
        embedder, hidden, dropout = (model[key] for key in ("text_field_embedder", "hidden_size", "dropout"))
        ours["model"] = {
            "type": "esim",
            "dropout": dropout,
            "text_field_embedder": embedder,
            "encoder": bilstm(embedder["token_embedders"]["tokens"]["embedding_dim"] + elmo_dim, hidden),
            "matrix_attention": {"type": "dot_product"},
            "projection_feedforward": feedforward(8 * hidden, hidden),
            "inference_encoder": bilstm(hidden, hidden),
            "output_feedforward": feedforward(8 * hidden, hidden, dropout=dropout),
            "output_logit": feedforward(hidden, 3, last="linear"),
        }
        return with_stock_training(ours, metric="+accuracy", sorting_keys=["premise"])


@DatasetReader.register("sst_for_peer")
class ReaderForPeer(SstReader):
    """The same words, phrases and vocabulary; the peer's `forward` takes no metadata."""

    def _instance(self, *args: Any, **kwargs: Any) -> Instance:
        instance = super()._instance(*args, **kwargs)
        del instance.fields["metadata"]
        return instance


class Sst(Comparison):
    """
    SST-5 compared with allennlp-models' `bcn` of the same sizes, dropout, optimizer, batch size, phrases and
    vocabulary.

    The folder holds the trees `train.*` and `dev.*`. Timed runs train on no phrases inside sentences; with
    ELMo, both have the same frozen biLM at their input, AllenNLP's own `Elmo` there.
    """

    config, peer_package = "sst", "allennlp_models.classification"
    metric, unit, suffix = "accuracy", "trees", ".txt"
    epochs, timed = 5, (1000, 200)
    timed_elmo = "elmo-input-computed"
    timed_overrides = {"dataset_reader.min_phrase_tokens": None}  # noqa: RUF012

    def some(self, files: list[Path], number: int | None) -> str:
        """Trees at like distances."""
        lines = files[0].read_text(encoding="utf-8").strip("\n").split("\n")
        return "".join(f"{line}\n" for line in equally_spaced(lines, number))

    def peer(self, ours: Settings, elmo_dim: int) -> Settings:
        """Stock parts with our reader."""
        model = ours["model"]
        embedder, projection, hidden = (
            model[key] for key in ("text_field_embedder", "projection_size", "hidden_size")
        )
        words = embedder["token_embedders"]["tokens"]["embedding_dim"]
        dropout, sizes = model["classifier_dropout"], model["classifier_sizes"]
        ours["model"] = {
            "type": "bcn",
            "text_field_embedder": embedder,
            "embedding_dropout": model["dropout"],
            "pre_encode_feedforward": feedforward(words + elmo_dim, projection, dropout=model["dropout"]),
            "encoder": bilstm(projection, hidden),
            "integrator": bilstm(6 * hidden, hidden),
            "integrator_dropout": dropout,
            "output_layer": feedforward(
                8 * hidden, *sizes, 5, dropout=[dropout] * len(sizes) + [0.0], last="linear"
            ),
        }
        for reader in ("dataset_reader", "validation_dataset_reader"):
            ours[reader]["type"] = "sst_for_peer"
        return with_stock_training(ours, metric="+accuracy", sorting_keys=["tokens"])

    def plug_elmo(self, peer: Settings, block: Settings) -> None:
        peer["model"] |= {"elmo": {"num_output_representations": 1, **block}, "use_input_elmo": True}
