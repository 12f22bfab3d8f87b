"""Coreference: variants of our model, the best score that it could have, memory of a long document."""

import argparse
import json
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import torch
from allennlp.common import Params
from allennlp.data import DatasetReader, Instance, TextFieldTensors, Vocabulary
from allennlp.models import Model

from benchmarks.bilms import SIZES, bilm_files, peak_memory
from benchmarks.comparison import MEMORY
from benchmarks.configs import read_config
from benchmarks.results import OURS, Results, add_results_argument, show
from elmo_tasks.coref.documents import Cluster, CorefDocument
from elmo_tasks.coref.metric import CorefScores
from elmo_tasks.coref.model import CorefModel
from elmo_tasks.coref.reader import CorefReader
from elmo_tasks.data.formats.coreference import read_documents
from elmo_tasks.data.input_files import input_files
from elmo_tasks.elmo import ElmoRepresentations

AVERAGE_F1 = "average F1"
"""The name of the score in the rows."""


def average_f1(proposed: Iterable[list[Cluster]], documents: Iterable[Instance]) -> float:
    """The average F1 of the clusters that are proposed for each document."""
    metric = CorefScores()
    for clusters, document in zip(proposed, documents, strict=True):
        metric(clusters, document["metadata"].metadata.clusters)
    return metric.get_metric()["average_f1"]


@Model.register("elmo_coref_document")
class DocumentLstm(CorefModel):
    """The biLSTM reads all sentences as one sequence; ELMo stays within a sentence."""

    def encode(
        self, tokens: TextFieldTensors, lengths: torch.Tensor, rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        longest = int(lengths[rows].max())
        # (sentences, longest)
        mask = torch.arange(longest, device=lengths.device) < lengths[rows].unsqueeze(1)
        # (sentences, longest, input_dim)
        embedded, elmo = self.embed_sentences(tokens, rows, longest)
        # (1, words, input_dim)
        words = self.lexical_dropout(embedded)[mask].unsqueeze(0)
        output = None if elmo.output is None else elmo.output[mask].unsqueeze(0)
        encoded = self.encoder(words, torch.ones_like(words[..., 0], dtype=torch.bool))
        context = self.at_output(encoded, ElmoRepresentations(None, output))
        return words[0, :, : self.word_dim], context[0]


@Model.register("elmo_coref_first_window")
class FirstWindow(CorefModel):
    """Training reads the first sentences of a document each time."""

    def window(self, lengths: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(len(lengths), device=lengths.device)
        return rows[: self.max_training_sentences] if self.training else rows


@Model.register("elmo_coref_document_first_window")
class DocumentFirstWindow(FirstWindow, DocumentLstm):
    """Both."""


LIMIT = "limit"
"""The name of that system in the rows."""


class CorefLimit:
    """
    The average F1 of a coreference system that proposes no cluster of one mention, like `coref` and its peer,
    and makes no mistake: it has every gold cluster of two mentions or more, and nothing else.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("data", type=Path, help="folder or file of the documents")
        add_results_argument(parser)

    @staticmethod
    def run(arguments: argparse.Namespace) -> None:
        documents = list(CorefReader().read(arguments.data))
        gold = [document["metadata"].metadata.clusters for document in documents]
        proposed = [[cluster for cluster in clusters if len(cluster) > 1] for clusters in gold]
        results = Results("coref limit", arguments.csv)
        results.add(LIMIT, 0, AVERAGE_F1, 100 * average_f1(proposed, documents))
        results.add(LIMIT, 0, "gold clusters", sum(map(len, gold)))
        results.add(LIMIT, 0, "gold clusters of two mentions or more", sum(map(len, proposed)))
        show(results.means())


def long_document(folder: Path, words: int) -> CorefDocument:
    sentences: list[list[str]] = []
    files = input_files(folder / "train*")
    documents = (record.values for file in files for record in read_documents(file))
    for sentence in (sentence for document in documents for sentence in document["sentences"]):
        if words <= 0:
            break
        sentences.append(sentence[:words])
        words -= len(sentence)
    return CorefDocument.of(sentences, id="long")


class CorefMemory:
    """
    Peak memory and seconds of predicting one long document, with the sizes of the config and random weights.

    The document is made of the first sentences of the training documents, until it has that number of words.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("data", type=Path, help="folder with train/, or one file of it")
        parser.add_argument("--words", type=int, default=20_000)
        parser.add_argument("--elmo", default="shipped", choices=[*SIZES, "none"])
        parser.add_argument("--overrides", type=json.loads, default={}, metavar="JSON", help="of the config")
        add_results_argument(parser)

    @staticmethod
    def run(arguments: argparse.Namespace) -> None:
        document = long_document(arguments.data, arguments.words)
        config = "coref" if arguments.elmo == "none" else "coref_elmo"
        settings = read_config(config, arguments.overrides)
        with tempfile.TemporaryDirectory() as folder:
            if arguments.elmo != "none":
                options_file, weight_file = bilm_files(Path(folder), arguments.elmo)
                settings["model"]["elmo"] |= {"options_file": options_file, "weight_file": weight_file}
            reader = DatasetReader.from_params(Params(settings["dataset_reader"]))
            instance = reader.text_to_instance(document)
            reader.apply_token_indexers(instance)
            vocab = Vocabulary.from_instances([instance])
            model = Model.from_params(Params(settings["model"]), vocab=vocab).eval()
        results = Results("coref-memory", arguments.csv)
        case = f"{len(document)} words, biLM {arguments.elmo}"
        results.add(OURS, 0, f"{case}: {MEMORY}, before", peak_memory() / 2**30)
        start = time.perf_counter()
        clusters = model.forward_on_instance(instance)["clusters"]
        seconds = time.perf_counter() - start
        results.add(OURS, 0, f"{case}: seconds", seconds, seconds)
        results.add(OURS, 0, f"{case}: {MEMORY}", peak_memory() / 2**30)
        results.add(OURS, 0, f"{case}: clusters", len(clusters))
        show(results.means())
