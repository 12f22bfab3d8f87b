"""The text of the English biLM that comes with the project."""

import argparse
import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

from elmo_tasks.data.formats.columns import FORM, line_groups, read_conllu
from elmo_tasks.data.formats.coreference import read_documents
from elmo_tasks.data.formats.roles import RoleOptions, RoleSentence, read_columns
from elmo_tasks.data.formats.trees import parse
from elmo_tasks.data.input_files import input_files, read_lines
from elmo_tasks.data.text_stream import (
    Passage,
    SentenceSplitter,
    WordsOrLine,
    file_sentences,
    passages,
    words_of,
)
from elmo_tasks.data.tokenization import tokenizer
from elmo_tasks.elmo.model.characters import BEGIN_SENTENCE, END_SENTENCE, UNKNOWN

Document = list[list[str]]

ONTOGUM_GENRES = ("academic", "bio", "interview", "news", "textbook", "voyage")
"""The genres under CC BY or CC BY-SA; the texts of the others have NC or ND licences, or mixed ones."""
VALID_SENTENCES = 300
"""Sentences left out of each corpus; at most one in twenty."""
NOVEL_BEGINNING = 3000
"""Tokens that are left out at the start of each novel: the coreference documents hold some 2,000."""
BEGINNING_WORDS = 60
"""Words of a coreference document; a novel begins where one of its sentences begins with eight of them."""
SHORTEST_MATCH = 8
"""Words of a dev sentence that is looked for in the training text."""
WEIGHTS = {
    "wikipedia": 1,
    "litbank": 1,
    "wikinews": 2,
    "gmb_voa": 3,
    "un_debates": 1,
    "us_gov_web": 1,
    "stackexchange": 2,
    "tatoeba": 4,
    "snli": 3,
    "squad": 3,
    "ewt": 6,
    "ontogum": 6,
}
"""How many times each corpus is read in a round of `training_configs/bilm_english.jsonnet`."""
PASSAGE = 64
"""Sentences of a passage, as in `training_configs/bilm_english.jsonnet`."""
VOCABULARY_SIZE = 32_000
FIRST_CHAPTER = re.compile(
    r"(chapter|chap \.|book|part|letter|adventure) (i|1|one|first)\b( \.)?$", re.IGNORECASE
)


# Each corpus: its documents


def lines(path: Path) -> Iterator[Document]:
    """One tokenised sentence a line, an empty line between documents."""
    for passage in passages(file_sentences([path]), None):
        yield [words_of(sentence) for sentence in passage]


def conllu(path: Path) -> Iterator[Document]:
    sentences: list[WordsOrLine | None] = []
    for rows, comments in (sentence for file in input_files(path) for sentence in read_conllu(file)):
        if any(comment.startswith("# newdoc") for comment in comments):
            sentences.append(None)
        sentences.append([cells[FORM] for _, cells in rows])
    for passage in passages(sentences, None):
        yield [words_of(sentence) for sentence in passage]


def snli(path: Path) -> Iterator[Document]:
    """Each caption and each different hypothesis of it, next to each other."""
    tokenize = tokenizer(None)
    pairs: dict[str, dict[str, None]] = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            pair = json.loads(line)
            pairs.setdefault(pair["sentence1"], {})[pair["sentence2"]] = None
    for caption, hypotheses in pairs.items():
        yield [words for text in (caption, *hypotheses) if (words := tokenize(text).words)]


def squad(path: Path) -> Iterator[Document]:
    split = SentenceSplitter("en")
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        paragraphs = (paragraph["context"] for paragraph in article["paragraphs"])
        yield [words_of(sentence) for sentence in split(paragraphs) if sentence]


def coreference(path: Path) -> Iterator[Document]:
    """The documents of a file, or of all files of a folder."""
    for file in input_files(path):
        yield from (record.values["sentences"] for record in read_documents(file))


def ontogum(folder: Path) -> Iterator[Document]:
    for path in sorted(folder.iterdir()):
        if path.name.split("_")[1] in ONTOGUM_GENRES:
            yield from coreference(path)


def novels(path: Path, documents: Path, left_out: Counter[str]) -> Iterator[Document]:
    """
    The novels without their beginnings. The file has no mark between two novels: one begins where a document
    of the coreference data does, and, since not all of them are at hand, a first chapter is taken for a
    beginning, too.
    """
    (sentences,) = lines(path)
    beginnings = {
        ahead: i
        for i, document in enumerate(coreference(documents))
        # Not its first words alone: the file of the novels may have no heading, or split it in another way.
        for ahead in windows(folded(document)[:BEGINNING_WORDS])
    }
    document: Document = []
    tokens_to_skip = 0
    begun: set[int] = set()
    for i, words in enumerate(sentences):
        ahead = tuple(folded(sentences[i : i + SHORTEST_MATCH])[:SHORTEST_MATCH])
        if ahead in beginnings or FIRST_CHAPTER.match(" ".join(words)):
            if ahead in beginnings:
                begun.add(beginnings[ahead])
            tokens_to_skip = NOVEL_BEGINNING
            if document:
                yield document
            document = []
        if tokens_to_skip > 0:
            tokens_to_skip -= len(words)
            left_out["tokens of beginnings of novels"] += len(words)
        else:
            document.append(words)
    left_out["novels begun"] = len(begun)
    if document:
        yield document


# The dev sets: their sentences, as words in lower case


def folded(sentences: Iterable[Iterable[str]]) -> list[str]:
    """Their words in lower case: runs of letters and digits."""
    return re.findall(r"[^\W_]+", " ".join(" ".join(words) for words in sentences).lower())


def columns(path: Path) -> Iterator[list[str]]:
    """The first words of the lines."""
    for group in line_groups(read_lines(path)):
        yield [line.split()[0] for _, line in group]


def news(path: Path) -> Iterator[list[str]]:
    split = SentenceSplitter("en")
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            yield from (words_of(words) for words in split(row[1:]) if words)


def table(path: Path) -> Iterator[list[str]]:
    """Each cell, since one column has the sentences."""
    return ([cell] for _, line in read_lines(path) for cell in line.split("\t"))


def from_json(path: Path, *keys: str) -> Iterator[list[str]]:
    """Yields the values of these keys in JSON Lines: text, or words."""
    values = (json.loads(line)[key] for _, line in read_lines(path) for key in keys)
    return ([value] if isinstance(value, str) else value for value in values)


DEV_TEXTS: dict[str, Callable[[Path], Iterable[Iterable[str]]]] = {
    "ner/*/dev*": columns,
    "coref_*/dev": lambda path: (words for document in coreference(path) for words in document),
    "srl_ewt/dev*": lambda path: (
        sentence.words for sentence in read_columns(path, RoleOptions()) if isinstance(sentence, RoleSentence)
    ),
    "snli/dev*": lambda path: from_json(path, "sentence1", "sentence2"),
    "squad/dev*": lambda path: (words for document in squad(path) for words in document),
    "sst5/dev*": lambda path: (parse(line).words for _, line in read_lines(path)),
    "ag_news/dev*": news,
    "wsd/dev*": lambda path: from_json(path, "tokens"),
    "sst2/dev*": table,
    "wic/validation.tsv": table,
    "ud_ewt/*dev.conllu": lambda path: (words for document in conllu(path) for words in document),
    "lm_litbank/heldout*": lambda path: (words for document in lines(path) for words in document),
}
"""The function that reads the sentences of each dev set."""


def dev_sentences(data: Path) -> Iterator[list[str]]:
    """Every sentence of every dev set, folded."""
    for pattern, read in DEV_TEXTS.items():
        for path in sorted(data.glob(pattern)):
            yield from (folded([words]) for words in read(path))


def windows(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """All runs of `SHORTEST_MATCH` words."""
    for start in range(len(words) - SHORTEST_MATCH + 1):
        yield tuple(words[start : start + SHORTEST_MATCH])


class DevText:
    """Tells whether a sentence holds one of a dev set."""

    def __init__(self, sentences: Iterable[list[str]]) -> None:
        self._by_beginning: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for words in sentences:
            if len(words) >= SHORTEST_MATCH:
                self._by_beginning.setdefault(tuple(words[:SHORTEST_MATCH]), set()).add(tuple(words))

    def within(self, sentence: list[str]) -> bool:
        words = folded([sentence])
        for start, ahead in enumerate(windows(words)):
            for match in self._by_beginning.get(ahead, ()):
                if tuple(words[start : start + len(match)]) == match:
                    return True
        return False


# From documents to files


def join_hyphenated(document: Document, random: Random) -> Document:
    """At a random half, `a - b` as `a-b`."""
    return [_joined(words, random) if "-" in words else words for words in document]


def _joined(words: list[str], random: Random) -> list[str]:
    joined: list[str] = []
    join = False
    for i, word in enumerate(words):
        between = 0 < i < len(words) - 1 and words[i - 1].isalnum() and words[i + 1].isalnum()
        if word == "-" and between:
            # `state - of - the - art` is one word, or none of it is.
            join = join if i > 1 and words[i - 2] == "-" else random.random() < 0.5
            if join:
                joined[-1] += "-"
                continue
        if joined and joined[-1].endswith("-") and len(joined[-1]) > 1 and join and words[i - 1] == "-":
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def split_off(documents: list[Document]) -> tuple[list[Document], Document]:
    """Returns the documents without the last sentences, and these."""
    kept, last = list(documents), list[list[str]]()
    number = min(VALID_SENTENCES, sum(map(len, documents)) // 20)
    while len(last) < number:
        document = kept.pop()
        missing = number - len(last)
        last = document[-missing:] + last
        if len(document) > missing:
            kept.append(document[:-missing])
    return kept, last


def write(path: Path, documents: Iterable[Document]) -> dict[str, int]:
    sizes = {"documents": 0, "sentences": 0, "tokens": 0}
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=6) as file:
        for document in documents:
            if sizes["documents"]:
                file.write("\n")
            file.writelines(" ".join(words) + "\n" for words in document)
            sizes["documents"] += 1
            sizes["sentences"] += len(document)
            sizes["tokens"] += sum(map(len, document))
    print(f"{path.name}: {sizes['sentences']:,} sentences, {sizes['tokens']:,} tokens", flush=True)
    return sizes


def vocabulary(counts: Counter[str], known: list[str]) -> list[str]:
    """The words of `known` and the most frequent others, the most frequent first."""
    chosen = dict.fromkeys(known)
    for word, _ in counts.most_common():
        if len(chosen) >= VOCABULARY_SIZE:
            break
        chosen[word] = None
    # <UNK> stands first, where the log-uniform sampler draws most often: it is the most frequent target but a
    # few.
    return [UNKNOWN, *sorted(chosen, key=lambda word: -counts[word])]


class EnglishText:
    """
    The text that the English biLM of `pretrained/english` is trained on, from the published files of the
    corpora: one tokenised sentence a line, an empty line between documents.

    DATA holds the folders lm_open, lm_litbank, ud_ewt, snli, squad and coref_ontogum, whose training parts
    alone are read, and the dev sets of the tasks. OUT gets one gzip file of each corpus;
    `valid-CORPUS.txt.gz` with the last sentences of each, which are in no other file; `vocab.txt`, the words
    of the softmax; and `text.json`, which says how much text each file holds and what was left out.

    Leaves out and counts the beginning of each novel of LitBank, which is a document of the
    coreference data; and every sentence that holds a sentence of 8 or more words of a dev set (words compared
    in lower case, without punctuation). Texts that come without tokens are split by spaCy's blank English.
    Where spaCy has split hyphenated words (`all - seater`), they are joined again at a random half, so that
    the biLM knows both ways of writing them.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("data", type=Path)
        parser.add_argument("out", type=Path)
        parser.add_argument(
            "--words-of", type=Path, help="a vocab.txt, all of whose words the new one has, too"
        )

    @staticmethod
    def run(arguments: argparse.Namespace) -> None:
        data, out = arguments.data, arguments.out
        out.mkdir(parents=True, exist_ok=True)
        left_out: Counter[str] = Counter()
        open_text = sorted((data / "lm_open").glob("*.txt.gz"))
        corpora = {path.name.removesuffix(".txt.gz"): lines(path) for path in open_text} | {
            "snli": snli(data / "snli/train.jsonl"),
            "squad": squad(data / "squad/train.json"),
            "ewt": conllu(data / "ud_ewt/en_ewt-ud-train.conllu"),
            "ontogum": ontogum(data / "coref_ontogum/train"),
            "litbank": novels(data / "lm_litbank/train.txt.gz", data / "coref_litbank", left_out),
        }
        split_by_spacy = {"snli", "squad"} | {path.name.removesuffix(".txt.gz") for path in open_text}
        dev_text = DevText(dev_sentences(data))
        random = Random(13)
        counts: Counter[str] = Counter()
        sizes = {}
        for name, documents in corpora.items():
            corpus = []
            for document in documents:
                clean = [words for words in document if not dev_text.within(words)]
                left_out[f"sentences of {name} with one of a dev set"] += len(document) - len(clean)
                if clean:
                    corpus.append(join_hyphenated(clean, random) if name in split_by_spacy else clean)
            corpus, valid = split_off(corpus)
            for document in corpus:
                for words in document:
                    for word in words:
                        counts[word] += WEIGHTS[name]
                counts[BEGIN_SENTENCE] += WEIGHTS[name] * len(document)
                counts[END_SENTENCE] += WEIGHTS[name] * len(document)
            sizes[name] = write(out / f"{name}.txt.gz", corpus) | {"weight": WEIGHTS[name]}
            write(out / f"valid-{name}.txt.gz", [valid])
        known = (
            arguments.words_of.read_text(encoding="utf-8").splitlines()
            if arguments.words_of
            else [BEGIN_SENTENCE, END_SENTENCE]
        )
        words = vocabulary(counts, [word for word in known if word != UNKNOWN])
        (out / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
        (out / "text.json").write_text(json.dumps({"corpora": sizes, "left_out": left_out}, indent=2) + "\n")
        print(f"{len(words):,} words; left out: {dict(left_out)}")


class MixedText:
    """
    All corpora of the English biLM's text in one file, each as often as a round reads it, their passages of
    up to 64 sentences in random order: a training then begins without reading ahead.

    TEXT is the folder of `english-text`; OUT is a gzip file.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("text", type=Path)
        parser.add_argument("out", type=Path)
        parser.add_argument("--seed", type=int, default=13)

    @staticmethod
    def run(arguments: argparse.Namespace) -> None:
        mixed: list[Passage] = []
        for name, weight in WEIGHTS.items():
            mixed += weight * list(passages(file_sentences([arguments.text / f"{name}.txt.gz"]), PASSAGE))
        Random(arguments.seed).shuffle(mixed)
        write(arguments.out, ([words_of(sentence) for sentence in passage] for passage in mixed))
