"""
The speed of a biLM of ELMoForManyLangs compared with its own package (`requirements/peers.txt`), in one run
that alternates between the two.

TEXT has one tokenised sentence a line. The weights are random, of the size of all that were published; the
dictionaries are made of the text. Both sides go from words to all layers. A round is one pass of each side
over the same batches; ours begins each without known words.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.bilms import Sentences, count_tokens, in_batches, read_text, seconds, size_of_text
from benchmarks.elmo_speed import BATCH
from benchmarks.results import OURS, Results, add_rates, add_results_argument, show
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, read_frozen_bilm, read_options

CASE, TARGET = f"2x4096_512: batches of {BATCH}, cold", 5.0
CONFIGURATION = "cnn_50_100_512_4096_sample.json"
MARKS = ("<oov>", "<pad>", "<bos>", "<eos>", "<bow>", "<eow>")


def package() -> Any:
    """`elmoformanylangs`, without a mark that it imports, which has no effect, and its slow first weights."""
    sys.modules.setdefault("overrides", SimpleNamespace(overrides=lambda method: method))  # type: ignore[arg-type]
    import elmoformanylangs
    from elmoformanylangs.modules import lstm_cell_with_projection

    logging.getLogger("elmoformanylangs").setLevel(logging.ERROR)
    lstm_cell_with_projection.block_orthogonal = lambda *sizes: None
    return elmoformanylangs


def write_folder(folder: Path, theirs: Any, sentences: Sentences) -> None:
    """Random weights, as the package itself begins to train."""
    from elmoformanylangs.frontend import Model
    from elmoformanylangs.modules.embedding_layer import EmbeddingLayer

    config = json.loads(Path(theirs.__file__).with_name("configs").joinpath(CONFIGURATION).read_text())
    (folder / "config.json").write_text(json.dumps({"config_path": CONFIGURATION}))
    words = [word for words in sentences for word in words]
    tables = []
    for name, entries in (("word", words), ("char", "".join(words))):
        rows = {entry: row for row, entry in enumerate(dict.fromkeys([*MARKS, *_frequent(entries)]))}
        lines = (f"{entry}\t{row}\n" for entry, row in rows.items())
        (folder / f"{name}.dic").write_text("".join(lines), encoding="utf-8")
        tables.append(EmbeddingLayer(config["token_embedder"][f"{name}_dim"], rows, fix_emb=False))
    torch.manual_seed(13)
    model = Model(config, *tables)
    torch.save(model.token_embedder.state_dict(), folder / "token_embedder.pkl")
    torch.save(model.encoder.state_dict(), folder / "encoder.pkl")


def _frequent(entries: Iterable[str]) -> list[str]:
    return [entry for entry, count in Counter(entries).items() if count > 1]


def largest_difference(embedder: Any, bilm: Any, batch: Sentences) -> float:
    """Over all layers of a first batch, which both start from zeros."""
    layers = bilm.encode(bilm.padded_ids(batch))
    theirs = map(torch.from_numpy, embedder.sents2elmo(batch, output_layer=-2))
    differences = [
        (layers[:, row, : len(words)] - expected).abs().max()
        for row, (words, expected) in enumerate(zip(batch, theirs, strict=True))
    ]
    return torch.stack(differences).max().item()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", type=Path)
    parser.add_argument("-n", type=int, default=128, help="sentences")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    add_results_argument(parser)


@torch.no_grad()
def run(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(arguments.threads)
    theirs = package()
    sentences = read_text(arguments.text, arguments.n)
    results = Results("manylangs-speed", arguments.csv)
    with tempfile.TemporaryDirectory() as name:
        write_folder(Path(name), theirs, sentences)
        embedder = theirs.Embedder(name, batch_size=BATCH)
        bilm = read_frozen_bilm(read_options(DEFAULT_OPTIONS, name), name)
    batches = in_batches(sentences, BATCH)
    results.add(OURS, 0, "largest difference", largest_difference(embedder, bilm, batches[0]))
    our_times, their_times = [], []
    for _ in range(arguments.rounds):
        their_times.append(seconds(partial(embedder.sents2elmo, output_layer=-2), batches))
        bilm.clear_word_cache()
        our_times.append(seconds(lambda batch: bilm.encode(bilm.padded_ids(batch)), batches))
    add_rates(results, CASE, count_tokens(batches), our_times, their_times, TARGET)
    show(results.ratios(), results.means(of="difference"))
    print(size_of_text(sentences))
