"""The data of the archives that come with the project: which files, and what is made of them."""

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from elmo_tasks.data.formats.columns import SEPARATORS, line_groups
from elmo_tasks.data.formats.records import read_records
from elmo_tasks.data.formats.roles import RoleOptions, read_columns
from elmo_tasks.data.formats.tables import ENTAILMENT_LABELS
from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.data.tokenization import sentence_rules

Sentence = list[tuple[str, str]]
"""Words and tags."""
Rows = Iterator[Sentence]


def entities(path: Path) -> Rows:
    """Yields the sentences of a file in columns, without entities of type MISC."""
    for lines in line_groups(read_lines(path), separators=SEPARATORS):
        cells = [line.split() for _, line in lines]
        yield [(row[0], "O" if row[-1].endswith("-MISC") else row[-1]) for row in cells]


def predicates(path: Path) -> Rows:
    """Yields the sentences of a file of semantic roles; the predicates have the tag `B-V`."""
    for sentence in read_columns(path, RoleOptions()):
        if isinstance(sentence, InputError):
            raise sentence
        positions = {predicate.index for predicate in sentence.predicates}
        yield [(word, "B-V" if i in positions else "O") for i, word in enumerate(sentence.words)]


def recased(sentences: Iterable[Sentence]) -> Rows:
    """Yields sentences; each fifth one also in lower case."""
    for number, sentence in enumerate(sentences):
        yield sentence
        if number % 5 == 0:
            yield [(word.lower(), tag) for word, tag in sentence]


LIST_NUMBERS = ("{}.", "{}.", "{}.", "{}.", "{})", "({})", "{}", "{}:", "#{}")


def numbered(sentences: Iterable[Sentence]) -> Rows:
    """
    Yields sentences, some of them behind the number of a list: one in five of those that begin with a name,
    and one in fifty of the others.

    Hardly a sentence of the data begins so. Sentences of CrossNER and Re-DocRED that begin with a short word
    and a full stop mostly begin with the initials of a person, for which a model then takes `8.`, too.
    """
    draw = random.Random(13)
    for sentence in sentences:
        if draw.random() < (0.2 if sentence[0][1].startswith("B-") else 0.02):
            number = draw.choice((draw.randint(1, 9), draw.randint(1, 9), draw.randint(10, 99)))
            yield [(draw.choice(LIST_NUMBERS).format(number), "O"), *sentence]
        else:
            yield sentence


TWEETS = "ner_open/btc_{}.conll"
NER_FILES = (
    "ner/uner_ewt/{}.txt",
    TWEETS,
    "ner_open/wikigold_{}.conll",
    "ner_more/crossner_{}.conll.gz",
    "ner_more/redocred_{}.conll.gz",
    "ner_more/uner_pud_{}.conll.gz",
)
"""The files with persons, organizations and places, of which there are a training and a dev part."""


def ner_training(data: Path) -> Rows:
    """
    Yields the training sentences of `ner`, with copies in lower case and the numbers of lists. Tweets are
    read twice: otherwise the text from Wikipedia costs them 1.5 points of F1. Upper case needs no copies,
    since the reader of `ner` reads it in the usual case of its words.
    """
    for file in (*NER_FILES, TWEETS):
        yield from recased(numbered(entities(data / file.format("train"))))


def balanced(sets: Iterable[Rows]) -> Rows:
    """
    Yields the sentences of sets. Sentences of a small set come several times, so that each set has about as
    many names as the largest: the F1 of all sentences is near the mean of the sets' F1.
    """
    sentences = [list(each) for each in sets]
    names = [sum(tag.startswith("B-") for sentence in each for _, tag in sentence) for each in sentences]
    for each, count in zip(sentences, names, strict=True):
        for _ in range(round(max(names) / count)):
            yield from each


INFERENCE = (
    "snli/{}.jsonl",
    *(f"more/nli_more/{name}_{{}}.jsonl.gz" for name in ("snli_more", "cad", "mnli")),
)
SENTIMENT, SOURCE = "more/sentiment_more/{}_{}.tsv.gz", "lm_open/{}.txt.gz"
OPINION_TASKS = {
    "reviews": (("pros_cons", "product_reviews", "vader_products"), 3),
    "genres": (("emobank",), 2),
    "tweets": (("vader_tweets",), 3),
    "editorials": (("vader_editorials",), 2),
    "comments": (("goemotions",), 2),
}
"""The sets of opinions by task, as their labels mean different things, and how often training reads them."""
NEIGHBOURS = {"wikinews": 36_000, "wikipedia": 20_000, "stackexchange": 5000, "us_gov_web": 5000}
"""The numbers of pairs of neighbours, by source."""
SQUAD = ("squad/train.json", "more/squad_more/squad_more_train.json.gz")
QUESTIONS = (
    *SQUAD,
    "more/qa_more/tydiqa_en_train.json.gz",
    "more/qa_more/qed_train.json.gz",
)
ANSWERS = 24_000
"""The number of questions with the sentence of their answer."""
LEXICON = "more/vader_lexicon/vader_lexicon.txt"
"""The words and their valences, from -4 to 4, of vaderSentiment 3.3.2 (MIT)."""
NEGATIONS = frozenset(
    ("not", "n't", "no", "never", "without", "hardly", "neither", "nor", "cannot", "nobody")
)
VALENCES = {"positive": 60_000, "negative": 40_000, "neutral": 24_000}
"""The numbers of sentences whose words are positive or negative by the lexicon, or in none of it."""
SUBJECTS = 100
Records = Iterator[dict[str, Any]]


def sentence_records(data: Path, part: str) -> Records:
    """
    Yields the records of `sentence`, of the part `train` or `dev`. All are openly licensed, and none is of
    SST, TREC or AG News. Some tasks with short sentences are read several times in training.

    - Pairs of inference, and those that are entailed once more, without a label.
    - Opinions.
    - Sentences in a row, and questions with the sentence of their answer, without labels.
    - The subject of the document of a sentence, which are clusters of documents.
    - In training, the valence of sentences of these tasks, by a lexicon with words that opinions lack.
    """
    texts: dict[str, None] = {}
    for file in INFERENCE:
        for record in read_records(data / file.format(part)):
            pair = {name: record.values[name] for name in ("sentence1", "sentence2")}
            label = record.values["gold_label"]
            if label in ENTAILMENT_LABELS and all(map(str.strip, pair.values())):
                texts |= dict.fromkeys(pair.values())
                yield {"task": "nli", **pair, "gold_label": label}
                if label == "entailment":
                    yield {"task": "entailed", **pair}
    for task, (names, times) in OPINION_TASKS.items():
        for name in names * (times if part == "train" else 1):
            for record in read_records(data / SENTIMENT.format(name, part)):
                # The first emotion of several
                label = record.values["score" if name == "goemotions" else "label"].partition(",")[0]
                yield {"task": task, "sentence": record.values["sentence"], "gold_label": label}
    rows = [row for name, most in NEIGHBOURS.items() for row in neighbours(data, name, most)]
    pairs = [("neighbours", first, second) for first, second, _ in rows]
    pairs += [("answers", *pair) for pair in islice(questions(data), ANSWERS)]
    subjects = subjects_of([document for *_, document in rows], SUBJECTS)
    for number, (task, first, second) in enumerate(pairs):
        if (number % 40 == 0) == (part == "dev"):
            texts |= dict.fromkeys((first, second))
            yield {"task": task, "sentence1": first, "sentence2": second}
            if task == "neighbours":
                subject = {"task": "subjects", "sentence": first, "gold_label": f"s{subjects[number]}"}
                yield from [subject] * (2 if part == "train" else 1)
    if part == "train":
        shuffled = random.Random(13).sample([*texts], len(texts))
        by_valence = [(valence_of(text, read_lexicon(str(data / LEXICON))), text) for text in shuffled]
        for label, most in VALENCES.items():
            for text in islice((text for valence, text in by_valence if valence == label), most):
                yield {"task": "valence", "sentence": text, "gold_label": label}


STATIC_SOURCES = (*NEIGHBOURS, "gmb_voa", "tatoeba", "un_debates")
STATIC_SETTINGS: dict[str, Any] = {"dim": 100, "window": 10, "min_count": 15, "subsample": 1e-4, "epochs": 5}
"""Of word2vec, in lower case."""


def static_text(data: Path) -> Iterator[str]:
    """Yields the text of the static vectors of `sentence`, a sentence a line, with blanks between words."""
    rules = spacy.blank("en")
    texts: dict[str, None] = {}
    for file in INFERENCE:
        for record in read_records(data / file.format("train")):
            texts |= dict.fromkeys(record.values[name] for name in ("sentence1", "sentence2"))
    for names, _ in OPINION_TASKS.values():
        for name in names:
            for record in read_records(data / SENTIMENT.format(name, "train")):
                texts[record.values["sentence"]] = None
    for text in texts:
        yield " ".join(token.text for token in rules(text) if not token.is_space)
    for name in STATIC_SOURCES:
        yield from (line.strip() for _, line in read_lines(data / SOURCE.format(name)) if line.strip())


def neighbours(data: Path, name: str, most: int) -> list[tuple[str, str, str]]:
    """
    Returns two sentences in a row, of 7 to 37 words each, and the text of their document, at most four times
    for each document.
    """
    draw, found = random.Random(13), []
    lines = (line.strip() for _, line in read_lines(data / SOURCE.format(name)))
    for is_text, group in groupby(lines, key=bool):
        sentences, rows, before = list(group) if is_text else [], [], ""
        for sentence in sentences:
            follows = sentence if 6 <= sentence.count(" ") <= 36 else ""
            if before and follows:
                rows.append((before, follows, " ".join(sentences)))
            # A sentence is in one pair.
            before = "" if before else follows
        found += draw.sample(rows, min(4, len(rows)))
    draw.shuffle(found)
    return found[:most]


def subjects_of(documents: list[str], number: int) -> list[int]:
    """Returns the cluster of each document, by its words."""
    distinct = list(dict.fromkeys(documents))
    words = TfidfVectorizer(
        sublinear_tf=True,
        min_df=8,
        max_df=0.2,
        max_features=30_000,
        stop_words="english",
        token_pattern=r"[A-Za-z]{3,}",
    )
    vectors = normalize(TruncatedSVD(100, random_state=13).fit_transform(words.fit_transform(distinct)))
    clusters = MiniBatchKMeans(number, random_state=13, n_init=3, batch_size=4096).fit_predict(vectors)
    by_document = dict(zip(distinct, clusters.tolist(), strict=True))
    return [by_document[document] for document in documents]


@lru_cache(maxsize=1)
def read_lexicon(path: str) -> dict[str, float]:
    """Returns the valence of each word in lower case."""
    rows = (line.split("\t") for _, line in read_lines(path))
    return {word: float(valence) for word, valence, *_ in rows if word.isalpha() and word.islower()}


def valence_of(text: str, lexicon: dict[str, float]) -> str | None:
    """Returns whether the words of a text are positive or negative together, with negations before them."""
    words = re.findall(r"n't|[a-z]+|[^\sa-z]", text.lower().replace("n't", " n't"))
    valences = [
        lexicon[word] * (-0.7 if NEGATIONS.intersection(words[max(0, i - 3) : i]) else 1)
        for i, word in enumerate(words)
        if word in lexicon
    ]
    if not valences:
        return "neutral"
    return "positive" if sum(valences) >= 1.5 else "negative" if sum(valences) <= -1.5 else None


def questions(data: Path) -> Iterator[tuple[str, str]]:
    """Yields questions and the sentences of 4 to 46 words that have the first answer, in a random order."""
    found = []
    for file in QUESTIONS:
        articles = json.loads("\n".join(line for _, line in read_lines(data / file)))["data"]
        for paragraph in (each for article in articles for each in article["paragraphs"]):
            sentences = list(sentence_rules()(len(paragraph["context"]))(paragraph["context"]).sents)
            for question in paragraph["qas"]:
                start = question["answers"][0]["answer_start"]
                sentence = next(each.text for each in sentences if start < each.end_char)
                if question["question"].strip() and 3 <= sentence.count(" ") <= 45:
                    found.append((question["question"].strip(), sentence))
    random.Random(13).shuffle(found)
    return iter(found)


class Recipe(NamedTuple):
    """The data of an archive: files or patterns below the folder of the corpora."""

    train: tuple[str, ...]
    dev: tuple[str, ...]
    """Choose the epoch and the seed."""
    calibration: tuple[str, ...] = ()
    """Choose neither, and the probabilities are calibrated on them; without any, on `dev`."""
    read: Callable[[Path], Rows] | None = None
    """Reads a file, if one file in columns is made of several first."""
    training: Callable[[Path], Rows] | None = None
    """Returns the training sentences of the folder, if they are not simply the files' own."""
    records: Callable[[Path, str], Records] | None = None
    """Yields the records of the part `train` or `dev` of the folder, if one file is made of all."""
    last: tuple[str, ...] = ()
    """Files that the model is then trained on, by `NAME_last.jsonnet`."""
    static_text: Callable[[Path], Iterator[str]] | None = None
    """Yields the text from which the model's static vectors are trained first, by `STATIC_SETTINGS`."""


OPEN_GENRES = (
    "academic",
    "bio",
    "conversation",
    "court",
    "interview",
    "news",
    "speech",
    "textbook",
    "vlog",
    "voyage",
)
"""The genres of OntoGUM whose texts are under CC BY or CC BY-SA, or in the public domain."""
ONTOGUM = tuple(f"coref_ontogum/train/GUM_{genre}_*" for genre in OPEN_GENRES)
OPINIONS = ("emobank", "product_reviews", "vader_products", "vader_editorials")
REACTIONS = ("goemotions", "pros_cons", "vader_tweets", "uci_sentences")
ZOO = {
    "ner": Recipe(
        tuple(file.format("train") for file in NER_FILES),
        tuple(file.format("dev") for file in NER_FILES),
        (),
        entities,
        ner_training,
    ),
    "predicates": Recipe(("srl_ewt/train.gold_conll",), ("srl_ewt/dev.gold_conll",), (), predicates),
    "snli": Recipe(
        # In addition to captions of photos, the genres of MultiNLI, and pairs of SNLI that people rewrote to
        # another label. FEVER has no neutral pairs, Breaking NLI and ConjNLI are made by rules: all are left
        # out.
        (
            "snli/train.jsonl",
            "more/nli_more/snli_more_train.jsonl.gz",
            "more/nli_more/cad_train.jsonl.gz",
            "more/nli_more/mnli_train.jsonl.gz",
        ),
        ("more/nli_more/snli_more_dev.jsonl.gz", "more/nli_more/cad_dev.jsonl.gz"),
        ("snli/dev.jsonl", "more/nli_more/mnli_dev.jsonl.gz"),
    ),
    "srl": Recipe(
        # MASC has letters, travel guides, fiction and a court's transcript, and verbs alone as predicates:
        # the recipe of `predicates` is without it.
        ("srl_ewt/train.gold_conll", "more/srl_masc/srl_masc_train.gold_conll.gz"),
        ("srl_ewt/dev.gold_conll",),
    ),
    "squad": Recipe(
        SQUAD,
        ("more/squad_more/squad_more_dev.json.gz",),
        # Its questions have several references.
        ("squad/dev.json",),
        last=SQUAD,
    ),
    "sentiment": Recipe(
        # Reviews, comments, tweets, editorials, and the genres of EmoBank, all openly licensed.
        tuple(SENTIMENT.format(name, "train") for name in (*OPINIONS, *REACTIONS)),
        tuple(SENTIMENT.format(name, "dev") for name in OPINIONS),
        tuple(SENTIMENT.format(name, "dev") for name in REACTIONS),
    ),
    "sentence": Recipe(
        (
            *(file.format("train") for file in INFERENCE),
            *(SENTIMENT.format(name, "train") for names, _ in OPINION_TASKS.values() for name in names),
            *(SOURCE.format(name) for name in NEIGHBOURS),
            *QUESTIONS,
            LEXICON,
        ),
        (),
        records=sentence_records,
        static_text=static_text,
    ),
    "coref": Recipe((*ONTOGUM, "coref_litbank/train"), ("coref_ontogum/dev",), last=ONTOGUM),
    "sst": Recipe(("sst5/train.txt",), ("sst5/dev.txt",)),
    "topics": Recipe(
        # Linear models gain .04 by the second file, which is seven times as long.
        ("ag_news/train.csv", "more/ag_news_more/ag_news_more_train.csv.gz"),
        ("more/ag_news_more/ag_news_more_dev.csv.gz",),
        ("ag_news/dev.csv",),
    ),
}
