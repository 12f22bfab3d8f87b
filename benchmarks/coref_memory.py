"""
Peak memory and seconds of predicting one long document, with the sizes of the config and random weights:

    python benchmarks/coref_memory.py DATA_FOLDER [--words 20000] [--elmo shipped | small | original | none]

The document is made of the training documents' sentences, as many as have so many words.
"""

import tempfile
import time
from pathlib import Path

from allennlp.common import Params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from elmo_speed import SIZES, machine, weights
from side_by_side import argument_parser, peak_memory, quiet, read_config

from elmo_tasks.coref.documents import CorefDocument, read_documents


def long_document(folder: Path, words: int) -> CorefDocument:
    sentences: list[list[str]] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        for document in read_documents(path):
            for sentence in document.sentences:
                if words <= 0:
                    return CorefDocument.of(sentences, id="long")
                sentences.append(sentence[:words])
                words -= len(sentence)
    return CorefDocument.of(sentences, id="long")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--words", type=int, default=20_000)
    parser.add_argument("--elmo", default="shipped", choices=[*SIZES, "shipped", "none"])
    arguments = parser.parse_args()
    quiet()
    print(f"Machine: {machine()}.", flush=True)
    document = long_document(arguments.data / "train", arguments.words)
    config = "coref" if arguments.elmo == "none" else "coref_elmo"
    settings = read_config(config, Path(), Path(), seed=13, overrides=arguments.overrides)
    with tempfile.TemporaryDirectory() as folder:
        if arguments.elmo != "none":
            options_file, weight_file = weights(Path(folder), arguments.elmo)
            settings["model"]["elmo"] |= {"options_file": options_file, "weight_file": weight_file}
        reader = DatasetReader.from_params(Params(settings["dataset_reader"]))
        instance = reader.text_to_instance(document)
        reader.apply_token_indexers(instance)
        vocab = Vocabulary.from_instances([instance])
        model = Model.from_params(Params(settings["model"]), vocab=vocab).eval()
    before = peak_memory()
    start = time.perf_counter()
    clusters = model.forward_on_instance(instance)["clusters"]
    seconds = time.perf_counter() - start
    print(
        f"{len(document)} words, {len(clusters)} clusters: {seconds:.1f} s, "
        f"peak memory {peak_memory():.2f} GiB, {before:.2f} GiB before it"
    )


if __name__ == "__main__":
    main()
