"""`allennlp elmo compare`: mixes of ELMo's layers, no ELMo, and static vectors in its place."""

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, get_args

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.params import with_overrides
from allennlp.data import DatasetReader

from elmo_tasks.commands.base import option
from elmo_tasks.commands.experiments import RunVerb, score_bars, train_and_report
from elmo_tasks.commands.results import ResultsWriter
from elmo_tasks.commands.staging import staging_folder
from elmo_tasks.commands.vectors import METHODS, train_file
from elmo_tasks.data.text_stream import instance_sentences
from elmo_tasks.elmo.model.scalar_mix import Weights
from elmo_tasks.training.experiments import Run, plan, summary
from elmo_tasks.vectors.text_format import dimensions

MIXES: dict[str, dict[str, Any]] = {
    weights + ("" if gamma else "-no-gamma"): {"model.elmo.weights": weights, "model.elmo.gamma": gamma}
    for weights in get_args(Weights)
    for gamma in (True, False)
}
NO_ELMO = {"model.elmo.placement": "none"}
VARIANTS = (*MIXES, "no-elmo", *METHODS)

_TOKENS = "model.text_field_embedder.token_embedders.tokens"
RESULTS = "results.csv"


def _vectors_option(method: str) -> Any:
    help = f"word vectors as text (default: the output of `vectors {method}` for the training data)"
    return option(help, metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class Compare(RunVerb):
    """The verb `compare`; see `MIXES`, `NO_ELMO` and `with_vectors`; `training.experiments` trains them."""

    name = "compare"
    help = "Mixes, gamma and static vectors, side by side."
    description = f"""Trains a config with ELMo once for each variant and seed: the mix of ELMo's layers
        trainable, frozen at random, or a learned function of them, each with and without gamma; no ELMo; and,
        without ELMo, word vectors that start as vectors of Word2Vec or of an SVD, trained on the text of the
        training data. Each run has a folder of its own in OUT. After a kill, the same command continues.
        {RESULTS}, .md, .png and .svg show the best scores on the validation data."""

    variants: list[str] = option(
        ", ".join(VARIANTS), VARIANTS, nargs="+", choices=VARIANTS, metavar="VARIANT"
    )
    word2vec: str | None = _vectors_option("word2vec")
    svd: str | None = _vectors_option("svd")
    mlflow: str | None = option(
        "store or server to log the runs to, in one experiment with the name of CONFIG", metavar="URI"
    )

    def run(self) -> None:
        output = self.output
        config = self.elmo_config()
        with staging_folder(output / RESULTS) as folder:
            variants = {**MIXES, "no-elmo": NO_ELMO}
            for method in METHODS:
                if method in self.variants:
                    file = getattr(self, method) or train_vectors(config, method, output, folder)
                    variants[method] = NO_ELMO | with_vectors(file)
            chosen = {name: variants[name] for name in self.variants}
            runs = plan(config, chosen, seeds=self.seeds, folder=output)
            if self.mlflow is not None:
                experiment = Path(self.config).name.partition(".")[0]
                runs = [tracked(run, uri=self.mlflow, experiment=experiment) for run in runs]
            train_and_report(runs, jobs=self.jobs, packages=self.include_package)
            ResultsWriter(folder, output / RESULTS).write(summary(runs), score_bars(runs))


def train_vectors(config: dict[str, Any], method: str, output: Path, folder: Path) -> str:
    """
    Trains vectors on the training data as the indexer of words sees it, of the size of the word vectors; see
    `text_vectors`.

    # Raises
    `ConfigurationError`: the config has no embedding and no indexer of words that are named `tokens`.
    """
    try:
        dim = config["model"]["text_field_embedder"]["token_embedders"]["tokens"]["embedding_dim"]
        indexer = config["dataset_reader"]["token_indexers"]["tokens"]
    except KeyError as error:
        raise ConfigurationError(
            f"{method}: found no {error} in the config, expected an embedding and an indexer named 'tokens'"
        ) from error
    lowercase = indexer.get("lowercase_tokens", False)
    return text_vectors(config, method, output, folder, dim=dim, lowercase=lowercase)


def text_vectors(
    config: dict[str, Any], method: str, output: Path, folder: Path, *, dim: int, lowercase: bool
) -> str:
    """
    Returns the file, in `output`, of vectors trained on the text of the training data as the reader sees it.
    They are trained once for a text and a size; `folder` is a folder to work in.
    """
    reader = DatasetReader.from_params(Params(config["dataset_reader"]).duplicate())
    digest = blake2b(digest_size=4)
    with open(folder / "sentences.txt", "wb") as file:
        for words in instance_sentences(reader.read(config["train_data_path"])):
            line = f"{' '.join(words)}\n".encode()
            file.write(line)
            digest.update(line)
    digest.update(f"{dim} {lowercase}".encode())
    path = output / f"{method}-{digest.hexdigest()}.txt.gz"
    if not path.exists():
        train_file(method, str(folder / "sentences.txt"), path, lowercase=lowercase, dim=dim)
    return str(path)


def with_vectors(file: str) -> dict[str, Any]:
    """Returns the overrides with which word vectors start as the vectors of a file, and have their size."""
    return {f"{_TOKENS}.pretrained_file": file, f"{_TOKENS}.embedding_dim": dimensions(file)}


def tracked(run: Run, *, uri: str, experiment: str) -> Run:
    """Returns the same run, logged to MLflow."""
    callback = {
        "type": "elmo_mlflow",
        "tracking_uri": uri,
        "experiment": experiment,
        "run_name": str(run),
    }
    callbacks = [*run.config["trainer"].get("callbacks", []), callback]
    return run._replace(config=with_overrides(run.config, {"trainer.callbacks": callbacks}))
