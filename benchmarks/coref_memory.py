"""
Peak memory and seconds of predicting one long document, with the sizes of the config and random weights.

The document is made of the training documents' sentences, as many as have so many words.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from allennlp.common import Params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model

from benchmarks.bilms import SIZES, bilm_files
from benchmarks.configs import read_config
from benchmarks.memory import peak_memory
from benchmarks.quality import MEMORY
from benchmarks.results import OURS, Results, add_results_argument, show
from elmo_tasks.coref.documents import CorefDocument, read_documents
from elmo_tasks.data.input_files import input_files


def long_document(folder: Path, words: int) -> CorefDocument:
    sentences: list[list[str]] = []
    documents = (document for path in input_files(folder / "train*") for document in read_documents(path))
    for sentence in (sentence for document in documents for sentence in document.sentences):
        if words <= 0:
            break
        sentences.append(sentence[:words])
        words -= len(sentence)
    return CorefDocument.of(sentences, id="long")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, help="folder with train/, or one file of it")
    parser.add_argument("--words", type=int, default=20_000)
    parser.add_argument("--elmo", default="shipped", choices=[*SIZES, "none"])
    parser.add_argument("--overrides", type=json.loads, default={}, metavar="JSON", help="of the config")
    add_results_argument(parser)


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
