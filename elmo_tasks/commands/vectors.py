"""`allennlp elmo vectors`: one vector a word, trained on a text, or ELMo's own."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import BilmArguments, ContextArguments, copy_corpus
from elmo_tasks.commands.base import (
    Positive,
    Seed,
    Verb,
    VerbGroup,
    flag,
    number,
    option,
    positional,
    text_argument,
)
from elmo_tasks.commands.partial_outputs import partial_file
from elmo_tasks.common.progress import progress
from elmo_tasks.embedding.corpus import Corpus
from elmo_tasks.vectors import DEFAULTS, train_table, write_vectors
from elmo_tasks.vectors.encoder import BiLmEncoder
from elmo_tasks.vectors.training import frequent_words

VECTOR_METHODS = tuple(DEFAULTS)
_WORD2VEC, _SVD = DEFAULTS["word2vec"], DEFAULTS["svd"]

NotNegative = Annotated[float, number(float, "a number, 0 or more", lambda value: 0 <= value < math.inf)]
AboveZero = Annotated[float, number(float, "a number above 0", lambda value: 0 < value < math.inf)]
Layer = Annotated[str, lambda text: f"layer {text}" if text.isdecimal() else text]


class TrainVectors(Verb):
    """A verb that trains vectors; its name is the name of the method."""

    input: str = text_argument("TEXT")
    output: Path = positional("OUT", "file to write; gzip if it ends in .gz")
    force: bool = flag("overwrite OUT")
    dim: Positive = option("size of the vectors", _WORD2VEC["dim"])
    window: Positive = option("the most words on each side", _WORD2VEC["window"])
    min_count: Positive = option("leaves out words that occur less often", _WORD2VEC["min_count"])
    lowercase: bool = flag("lower-case the text")
    seed: Seed = option("random seed", _WORD2VEC["seed"])

    def run(self) -> None:
        train_file(
            self.name,
            self.input,
            self.output,
            lowercase=self.lowercase,
            force=self.force,
            **{name: getattr(self, name) for name in DEFAULTS[self.name]},
        )


class Word2Vec(TrainVectors):
    name = "word2vec"
    help = "skip-gram with negative sampling"
    description = "Word2Vec: skip-gram with negative sampling (Mikolov et al. 2013), by gensim."

    negative: Positive = option("words drawn for each predicted one", _WORD2VEC["negative"])
    subsample: NotNegative = option("Mikolov's t for frequent words; 0: none", _WORD2VEC["subsample"])
    epochs: Positive = option("passes over the text", _WORD2VEC["epochs"])


class Svd(TrainVectors):
    name = "svd"
    help = "decomposed counts of words near each other"
    description = """Truncated singular value decomposition of the positive pointwise mutual information of
        words and their neighbours (Levy, Goldberg and Dagan 2015), by SciPy."""

    shift: AboveZero = option("k: log k is subtracted from the information", _SVD["shift"])
    smoothing: AboveZero = option("exponent of counts of contexts", _SVD["smoothing"])
    eigenvalues: NotNegative = option("exponent of singular values", _SVD["eigenvalues"])


def train_file(
    method: str,
    source: str,
    output: Path,
    *,
    lowercase: bool = False,
    force: bool = False,
    **settings: int | float,
) -> None:
    with partial_file(output, force=force) as path:
        text = copy_corpus(source, path.parent, skip_empty=True)
        table = train_table(method, CorpusSentences(text, lowercase=lowercase), **settings)
        write_vectors(path, table)
    print(f"{output}: {len(table.words):,} words, {table.vectors.shape[1]} dimensions")


class ElmoVectors(Verb):
    name = "elmo"
    help = "a biLM's vectors of words alone, or averaged over contexts"
    description = """Writes the vectors that a biLM gives each word of a text: as a sentence of its own, or
        averaged over its occurrences in --contexts, which may be the same text. Words without an occurrence
        there are left out, and so are words that a biLM of words does not know."""

    input: str = text_argument("WORDS")
    output: Path = positional("OUT", "file to write; gzip if it ends in .gz")
    force: bool = flag("overwrite OUT")
    layer: Layer = option("layer of the biLM: a number, 0 for the token layer, or average", "average")
    min_count: Positive = option("leaves out words that occur less often in WORDS", 1)
    lowercase: bool = flag("lower-case WORDS")
    contexts: ContextArguments
    bilm: BilmArguments

    def run(self) -> None:
        with partial_file(self.output, force=self.force) as path:
            text = copy_corpus(self.input, path.parent, skip_empty=True)
            sentences = CorpusSentences(text, lowercase=self.lowercase)
            words = list(frequent_words(sentences, self.min_count))
            encoder = BiLmEncoder(bilm=self.bilm.read(), mixes={}, only=self.layer)
            (vectors,) = self.contexts.word_vectors(encoder, words, path.parent)
            table = vectors.table(words)
            if not table.words:
                raise ConfigurationError(
                    f"none of {len(words):,} words is in --contexts, or none is known to the biLM"
                )
            write_vectors(path, table)
        missing = len(words) - len(table.words)
        without = f"; {missing:,} without a vector" if missing else ""
        print(f"{self.output}: {len(table.words):,} words, {table.vectors.shape[1]} dimensions{without}")


class CorpusSentences:
    """The words of each line; each pass over them shows its progress."""

    def __init__(self, text: Corpus, *, lowercase: bool) -> None:
        self._text = text
        self._lowercase = lowercase

    def __iter__(self) -> Iterator[list[str]]:
        lines = progress(self._text, total=len(self._text), work="text", unit="lines")
        return (line.lower().split() if self._lowercase else line.split() for line in lines)


VECTOR_VERBS = VerbGroup(
    name="vectors",
    help="One vector a word: Word2Vec, SVD, or ELMo's own.",
    description="""Trains static word vectors on a text, one tokenised sentence a line, or takes the vectors
        that a biLM gives its words, and writes them as text, as word2vec does. The key pretrained_file of an
        embedding, the key input_vectors of elmo_bilm, the option --vectors of other verbs and gensim read
        them.""",
    metavar="METHOD",
    verbs={"Methods": (Word2Vec, Svd, ElmoVectors)},
)
