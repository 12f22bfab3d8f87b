"""
The text that the English biLM of `elmo_tasks/pretrained/english` was trained on, from the corpora as they are
distributed: one tokenised sentence a line, an empty line between documents.

    python benchmarks/english_text.py DATA OUT

DATA holds the folders lm_litbank, ud_ewt, snli, squad and coref_ontogum; their training parts alone are read.
OUT gets one gzip file of each, and valid.txt.gz with the last sentences of each, which are in no other. Texts
that come without tokens are split by spaCy's blank English.
"""

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from elmo_tasks.data.text_stream import SentenceSplitter, words_of
from elmo_tasks.data.tokenization import tokenizer

Document = list[list[str]]

ONTOGUM_GENRES = ("academic", "bio", "interview", "news", "textbook", "voyage")
"""The genres under CC BY or CC BY-SA; the texts of the others have NC or ND licences, or mixed ones."""
VALID_SENTENCES = 300
"""Of each corpus."""


def universal_dependencies(path: Path) -> Iterator[Document]:
    document: Document = []
    words: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# newdoc") and document:
            yield document
            document = []
        elif not line and words:
            document.append(words)
            words = []
        elif line[:1].isdigit() and line.split("\t")[0].isdigit():
            words.append(line.split("\t")[1].replace(" ", ""))
    yield document


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


def ontogum(folder: Path) -> Iterator[Document]:
    for path in sorted(folder.iterdir()):
        if path.name.split("_")[1] not in ONTOGUM_GENRES:
            continue
        document: Document = [[]]
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                continue
            if line:
                document[-1].append(line.split("\t")[3])
            elif document[-1]:
                document.append([])
        yield [words for words in document if words]


def litbank(path: Path) -> Iterator[Document]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield list(map(str.split, file))


def split_off(documents: Iterable[Document], number: int) -> tuple[list[Document], Document]:
    """All but the last `number` sentences, and these."""
    kept, last = list(documents), list[list[str]]()
    while len(last) < number:
        document = kept.pop()
        missing = number - len(last)
        last = document[-missing:] + last
        if len(document) > missing:
            kept.append(document[:-missing])
    return kept, last


def write(path: Path, documents: list[Document]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("\n".join("".join(" ".join(words) + "\n" for words in document) for document in documents))
    sentences = [words for document in documents for words in document]
    print(f"{path.name}: {len(sentences):,} sentences, {sum(map(len, sentences)):,} tokens")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    data, out = arguments.data, arguments.out
    out.mkdir(parents=True, exist_ok=True)
    corpora = {
        "litbank": litbank(data / "lm_litbank/train.txt.gz"),
        "ewt": universal_dependencies(data / "ud_ewt/en_ewt-ud-train.conllu"),
        "snli": snli(data / "snli/train.jsonl"),
        "squad": squad(data / "squad/train.json"),
        "ontogum": ontogum(data / "coref_ontogum/train"),
    }
    valid = []
    for name, documents in corpora.items():
        kept, last = split_off(documents, VALID_SENTENCES)
        write(out / f"{name}.txt.gz", kept)
        valid.append(last)
    write(out / "valid.txt.gz", valid)


if __name__ == "__main__":
    main()
