"""`allennlp elmo neighbors`: the nearest occurrences of a word in a sentence (the paper's Table 4)."""

from dataclasses import dataclass

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import VectorArguments
from elmo_tasks.commands.base import Input, Positive, Verb, option, positional
from elmo_tasks.commands.results import ResultArguments
from elmo_tasks.commands.staging import copy_corpus
from elmo_tasks.common.progress import progress
from elmo_tasks.common.table import Table
from elmo_tasks.embedding.corpus import Corpus
from elmo_tasks.evaluation.nearest import Occurrence, nearest_tokens, text_blocks

COLUMNS = ("query", "vectors", "rank", "cosine", "line", "neighbor")


@dataclass(frozen=True, kw_only=True)
class Neighbors(Verb):
    """The verb `neighbors`; see `evaluation.nearest`."""

    name = "neighbors"
    help = "Nearest neighbours of a word in context."
    description = """Shows the tokens of a text, in their sentences, that are nearest to a word in its
        sentence, by the cosine of their vectors: for each layer of a biLM, their average and given mixes; and
        the words that are nearest by static vectors. The search is exact, and memory does not grow with the
        text."""

    word: str = positional("WORD", "the word, as it is written in the sentence")
    corpus: Input = option(
        "text, one tokenised sentence a line, gzip or not: a file, folder, pattern or URL, or - for stdin",
        metavar="TEXT",
        required=True,
    )
    sentence: list[str] = option(
        "a tokenised sentence with WORD, of which the first counts; may be repeated",
        [],
        action="append",
        metavar="TEXT",
    )
    line: list[Positive] = option(
        "the number of a line of TEXT with WORD, from 1; may be repeated (default, if there is no "
        "--sentence: the first that has WORD)",
        [],
        action="append",
    )
    top: Positive = option("the number of neighbours", 5)
    vectors: VectorArguments
    results: ResultArguments

    def run(self) -> None:
        word = self.word
        with self.results.writer() as writer:
            text = copy_corpus(self.corpus, writer.folder)
            queries = self._queries(text)
            encoder, static = self.vectors.encoders()
            bar = progress(text, total=len(text), work="neighbors", unit="lines")
            nearest = nearest_tokens(encoder, queries, text_blocks(encoder, bar), count=self.top)
            table = Table(COLUMNS)
            for query, by_row in zip(queries, nearest, strict=True):
                for name, neighbors in zip(encoder.names, by_row, strict=True):
                    for rank, (line, position, cosine) in enumerate(neighbors, start=1):
                        token = Occurrence(text[line].split(), position)
                        table.add(query.marked(), name, rank, cosine, line + 1, token.marked())
            for vectors in static:
                if not vectors.known([word]).all():
                    table.add(word, vectors.names[0], None, None, None, "(unknown)")
                else:
                    for rank, (other, cosine) in enumerate(vectors.nearest(word, self.top), start=1):
                        table.add(word, vectors.names[0], rank, cosine, None, other)
            writer.write(table)

    def _queries(self, text: Corpus) -> list[Occurrence]:
        """
        Returns the word in each of its sentences.

        # Raises
        `ConfigurationError`: a sentence or a line without the word, or a line that the text does not have.
        """
        word, corpus = self.word, self.corpus
        sources = [("--sentence", sentence) for sentence in self.sentence]
        for line in self.line:
            if line > len(text):
                raise ConfigurationError(
                    f"--line: found {line}, expected 1 to {len(text):,}, the lines of {corpus}"
                )
            sources.append((f"--line {line}", text[line - 1]))
        if not sources:
            first = next((line for line in text if word in line.split()), None)
            if first is None:
                raise ConfigurationError(
                    f"{corpus}: found no line with {word!r}, expected one, or a --sentence"
                )
            sources.append(("the first line", first))
        queries = []
        for source, sentence in sources:
            words = sentence.split()
            if word not in words:
                raise ConfigurationError(
                    f"{source}: found {sentence!r}, expected a sentence with the word {word!r}"
                )
            queries.append(Occurrence(words, words.index(word)))
        return queries
