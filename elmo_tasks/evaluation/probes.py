"""
Probes of vectors (Peters et al. 2018, section 5.3). Parts of speech are tagged by a linear classifier on
frozen vectors; a word gets the sense whose averaged vector is nearest; and Word in Context (Pilehvar and
Camacho-Collados 2019, arXiv:1808.09121) asks whether a word has the same sense in two sentences, which a
threshold on the cosine of its two vectors answers.

Tagged data are CoNLL-U (https://universaldependencies.org/format.html), or a word and its tag a line.
"""

import logging
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

import numpy as np
import torch
from torch.nn import functional as F

from elmo_tasks.common.progress import progress
from elmo_tasks.data.formats.columns import FORM, UPOS, XPOS, ColumnLayout, is_conllu, read_conllu
from elmo_tasks.data.formats.delimited import DelimitedLayout
from elmo_tasks.data.formats.records import read_records
from elmo_tasks.data.input_files import (
    InputError,
    check_found,
    file_beside,
    input_files,
    nonblank_lines,
    read_json_lines,
    read_lines,
    shorten_json,
)
from elmo_tasks.data.tokenization import Words, tokenizer
from elmo_tasks.evaluation.words import round_cosines
from elmo_tasks.vectors.encoder import VectorEncoder

logger = logging.getLogger(__name__)

_WORDNET_POS = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}
"""WordNet's numbers, as they follow the `%` in a sense key."""
_XML, _SENSE_KEYS, _PACKED = ".data.xml", ".gold.key.txt", ".gz"
_PAIRS, _PAIR_LABELS = ".data.txt", ".gold.txt"
_WIC_PAIR = re.compile(r"[^\t]*\t[^\t]*\t(\d+)-(\d+)\t([^\t]*)\t([^\t]*)")
_PAIR_COLUMNS = ("sentence1", "sentence2", "start1", "start2", "end1", "end2", "label")
_SAME_SENSE = {"0": False, "1": True, "false": False, "true": True, "f": False, "t": True}


class Target(NamedTuple):
    """The tokens `[start, end)` of a sentence, whose sense is known."""

    start: int
    end: int
    lemma: str
    """The word whose senses are distinguished; in XML, the lemma and its part of speech."""
    senses: tuple[str, ...]
    """The correct senses: any of them is a correct answer."""


class SenseSentence(NamedTuple):
    words: list[str]
    targets: list[Target]


def sense_probe(
    encoder: VectorEncoder,
    train: Sequence[SenseSentence],
    dev: Sequence[SenseSentence],
    first_senses: Mapping[str, str],
) -> dict[str, int]:
    """
    Counts the targets of `dev` that each row of vectors answers correctly. The answer is the nearest of the
    lemma's senses, by cosine, and the most frequent of equally near ones; so it is the most frequent for an
    occurrence without a vector. The vector of a sense is the mean of its occurrences in `train`. A lemma that
    is not in `train` has its first sense if `first_senses` has one, and else no answer, which is wrong.
    """
    senses = senses_by_frequency(train)
    means: defaultdict[tuple[str, str], _Mean] = defaultdict(_Mean)
    for target, vector in _target_vectors(encoder, train, "train"):
        for sense in target.senses:
            means[target.lemma, sense].add(vector)
    # (senses of the lemma, rows, dim), normalised
    vectors = {
        lemma: F.normalize(torch.stack([means[lemma, sense].value for sense in of_lemma]), dim=2)
        for lemma, of_lemma in senses.items()
    }
    correct = dict.fromkeys(encoder.names, 0)
    for target, vector in _target_vectors(encoder, dev, "dev"):
        answers = [first_senses.get(target.lemma)] * len(vector)
        if target.lemma in senses:
            # (senses, rows)
            cosines = torch.einsum("srd,rd->sr", vectors[target.lemma], F.normalize(vector, dim=1))
            best = round_cosines(cosines).argmax(dim=0)
            answers = [senses[target.lemma][sense] for sense in best.tolist()]
        for name, answer in zip(encoder.names, answers, strict=True):
            correct[name] += answer in target.senses
    return correct


def _target_vectors(
    encoder: VectorEncoder, sentences: Sequence[SenseSentence], work: str
) -> Iterator[tuple[Target, torch.Tensor]]:
    """Yields each target with its vectors. *Shape:* `(rows, dim)`."""
    bar = progress(sentences, work=work, unit="sentences")
    for sentence, vectors in encoder.encode_items(bar, lambda sentence: sentence.words):
        for target in sentence.targets:
            yield target, encoder.occurrence(vectors, target.start, target.end)


class _Mean:
    """A running mean of vectors. The mean of equal vectors is exactly that vector."""

    def __init__(self) -> None:
        self.value = torch.zeros(())
        self._count = 0

    def add(self, vector: torch.Tensor) -> None:
        self._count += 1
        self.value = self.value + (vector - self.value) / self._count


class Baseline(NamedTuple):
    """The result of answers that need no vectors."""

    correct: int
    unseen: int
    total: int


def sense_baseline(
    train: Iterable[SenseSentence], dev: Iterable[SenseSentence], first_senses: Mapping[str, str]
) -> Baseline:
    senses_in_train = senses_by_frequency(train)
    answers = {**first_senses, **{lemma: senses[0] for lemma, senses in senses_in_train.items()}}
    targets = [target for sentence in dev for target in sentence.targets]
    return Baseline(
        correct=sum(answers.get(target.lemma) in target.senses for target in targets),
        unseen=sum(target.lemma not in senses_in_train for target in targets),
        total=len(targets),
    )


def senses_by_frequency(sentences: Iterable[SenseSentence]) -> dict[str, list[str]]:
    """Sorts the senses of each lemma, the most frequent first; of equal counts, the one seen first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        for target in sentence.targets:
            counts[target.lemma].update(target.senses)
    return {lemma: [sense for sense, _ in senses.most_common()] for lemma, senses in counts.items()}


def read_senses(path: str) -> list[SenseSentence]:
    """
    Reads sentences with senses from files of two kinds; for all else there is an `InputError`, with the file
    and the line.

    - `NAME.data.xml` and `NAME.gold.key.txt` in the same folder: sentences of `wf` and `instance` elements,
      and a line with the id and the senses of each instance. Either may be packed, `.gz`.
    - Any other file: JSON Lines, `{"lemma": "line", "tokens": [...], "index": 3, "sense": "cord"}`.
    """
    sentences = []
    files = input_files(path)
    keys = {_sense_key_file(file) for file in files if _is_xml(file)}
    for file in files:
        if file in keys:
            continue
        sentences_of_file = list(_read_xml(file) if _is_xml(file) else _read_sense_lines(file))
        check_found(any(sentence.targets for sentence in sentences_of_file), "words with senses", file)
        sentences += sentences_of_file
    return sentences


def read_first_senses(path: str) -> dict[str, str]:
    """
    Reads the first sense of each lemma, named as in `Target`, from WordNet's `index.sense`: lines of a sense
    key, an offset, the sense's number and a count. Other lines are an `InputError`.
    """
    first: dict[str, str] = {}
    for file in input_files(path):
        for line, text in nonblank_lines(file):
            cells = text.split(" ")
            lemma, _, numbers = cells[0].partition("%")
            kind = numbers.partition(":")[0]
            if len(cells) != 4 or kind not in _WORDNET_POS:
                what = f"{text!r} is not a sense key, an offset, the sense's number and a count"
                raise InputError(what, where=file, line=line)
            if cells[2] == "1":
                first.setdefault(f"{lemma}.{_WORDNET_POS[kind]}", cells[0])
    return first


def _read_sense_lines(file: Path) -> Iterator[SenseSentence]:
    expected = 'JSON with "lemma", "tokens", "index" and "sense"'
    for line, content in read_json_lines(file):
        lemma, words, index, sense = (
            content.get(key) if isinstance(content, dict) else None
            for key in ("lemma", "tokens", "index", "sense")
        )
        if (
            not isinstance(lemma, str)
            or not isinstance(words, list)
            or not all(isinstance(word, str) for word in words)
            or not isinstance(index, int)
            or not 0 <= index < len(words)
            or not isinstance(sense, str | int)
        ):
            raise InputError(f"{shorten_json(content)} is not {expected}", where=file, line=line)
        yield SenseSentence(words, [Target(index, index + 1, lemma, (str(sense),))])


def _is_xml(file: Path) -> bool:
    return file.name.removesuffix(_PACKED).endswith(_XML)


def _sense_key_file(file: Path) -> Path:
    name = file.name.removesuffix(_PACKED).removesuffix(_XML) + _SENSE_KEYS
    packed = file.with_name(name + _PACKED)
    return packed if packed.exists() else file_beside(file, name)


def _read_xml(file: Path) -> Iterator[SenseSentence]:
    senses = {}
    for _, text in nonblank_lines(_sense_key_file(file)):
        name, *keys = text.split()
        senses[name] = tuple(keys)
    parser: XMLPullParser[Element] = XMLPullParser(["end"])
    line = 0
    try:
        for line, text in read_lines(file):
            parser.feed(text + "\n")
            for _, element in cast(Iterator[tuple[str, Element]], parser.read_events()):
                if element.tag == "sentence":
                    yield _sentence_of_xml(element, senses, file, line)
                if element.tag in ("sentence", "text"):
                    element.clear()
        parser.close()
    except ParseError as error:
        raise InputError(f"the XML is damaged: {error}", where=file, line=error.position[0]) from error


def _sentence_of_xml(
    element: Element, senses: dict[str, tuple[str, ...]], file: Path, line: int
) -> SenseSentence:
    """A `wf` or `instance` of several words, such as "New York", has as many tokens."""
    sentence = SenseSentence([], [])
    for token in element:
        start = len(sentence.words)
        sentence.words.extend((token.text or "").split())
        if token.tag == "instance":
            name, lemma, kind = (token.get(key) for key in ("id", "lemma", "pos"))
            if not senses.get(name or "") or lemma is None or kind is None or start == len(sentence.words):
                what = f"an instance needs text, lemma, pos, and an id of {_SENSE_KEYS}: {dict(token.attrib)}"
                raise InputError(what, where=file, line=line)
            target = Target(start, len(sentence.words), f"{lemma}.{kind}", senses[name or ""])
            sentence.targets.append(target)
    return sentence


class Use(NamedTuple):
    """The tokens `[start, end)` of a sentence."""

    words: list[str]
    start: int
    end: int


class UsePair(NamedTuple):
    """Two uses of a word, and whether they have the same sense."""

    first: Use
    second: Use
    same: bool


class Threshold(NamedTuple):
    """The lowest cosine of two uses with the same sense."""

    cosine: float
    correct: int
    """The number of correct answers for the pairs on which the threshold was chosen."""


def use_cosines(encoder: VectorEncoder, pairs: Sequence[UsePair]) -> torch.Tensor:
    """Returns the cosine of each pair's uses, 0 without a vector. *Shape:* `(rows, pairs)`, float64."""
    uses = [use for pair in pairs for use in (pair.first, pair.second)]
    bar = progress(uses, work="uses", unit="sentences")
    # (rows, 2 pairs, dim)
    vectors = torch.stack(
        [
            encoder.occurrence(vectors, use.start, use.end)
            for use, vectors in encoder.encode_items(bar, lambda use: use.words)
        ],
        dim=1,
    )
    first, second = vectors[:, ::2].double(), vectors[:, 1::2].double()
    return round_cosines(F.cosine_similarity(first, second, dim=2))


def choose_threshold(cosines: torch.Tensor, same: torch.Tensor) -> Threshold:
    """
    Finds the threshold with the most correct answers; of equally good ones, the lowest. It lies halfway
    between two neighbouring cosines, or at infinity, where all pairs have the same answer.

    *Shape:* both `(pairs,)`.
    """
    values = cosines.unique()
    ends = values.new_tensor([torch.inf])
    # (thresholds,)
    thresholds = torch.cat([-ends, (values[1:] + values[:-1]) / 2, ends])
    cosines_of_same, cosines_of_different = cosines[same].sort().values, cosines[~same].sort().values
    below_same = torch.searchsorted(cosines_of_same, thresholds)
    below_different = torch.searchsorted(cosines_of_different, thresholds)
    correct = len(cosines_of_same) - below_same + below_different
    best = int(correct.argmax())
    return Threshold(float(thresholds[best]), int(correct[best]))


def read_use_pairs(path: str) -> list[UsePair]:
    """
    Reads pairs of uses, in one of these layouts; for all else there is an `InputError`, with the file and the
    line.

    - WiC's: `NAME.data.txt`, without a header: word, part of speech, `3-5` (the words' indices from 0), and
      two tokenised sentences, separated by tabs; and in the same folder `NAME.gold.txt`, a line T or F for
      each pair;
    - SuperGLUE's: JSON Lines with the names below, and true or false as `label`;
    - tab-separated columns with a header: two sentences, the first and the last character of the word in
      each, as `[start, end)`, and whether its senses are the same, 0 or 1. Quotes are literal; further
      columns and blank lines are ignored.
    """
    files = input_files(path)
    label_files = {_label_file(file) for file in files if file.name.endswith(_PAIRS)}
    pairs: list[UsePair] = []
    for file in files:
        if file not in label_files:
            pairs_of_file = list((_read_wic if file.name.endswith(_PAIRS) else _read_columns)(file))
            check_found(pairs_of_file, "pairs", file)
            pairs += pairs_of_file
    return pairs


def _label_file(file: Path) -> Path:
    return file_beside(file, file.name.removesuffix(_PAIRS) + _PAIR_LABELS)


def _read_wic(file: Path) -> Iterator[UsePair]:
    rows = list(nonblank_lines(file))
    label_file = _label_file(file)
    labels = [label.strip() for _, label in nonblank_lines(label_file)]
    if len(labels) != len(rows) or not set(labels) <= {"T", "F"}:
        raise InputError(f"{file.name} needs {len(rows)} lines of T or F here", where=label_file)
    for (line, text), label in zip(rows, labels, strict=True):
        match = _WIC_PAIR.fullmatch(text)
        uses = [Use(match[n + 2].split(), int(match[n]), int(match[n]) + 1) for n in (1, 2)] if match else []
        if not uses or any(use.end > len(use.words) for use in uses):
            columns = (
                "a word, a part of speech, two indices such as 3-5, and two sentences, with tabs between"
            )
            raise InputError(f"{text!r} is not {columns}", where=file, line=line)
        yield UsePair(uses[0], uses[1], _SAME_SENSE[label.lower()])


def _read_columns(file: Path) -> Iterator[UsePair]:
    tokenize = tokenizer()
    for record in read_records(file, layout=DelimitedLayout(delimiter="\t", quotes=False)):
        values = [str(record.values.get(name, "is missing")) for name in _PAIR_COLUMNS]
        first, second = (_use(tokenize(values[n]), values[n + 2], values[n + 4]) for n in (0, 1))
        label = values[-1].lower()
        if first is None or second is None or label not in _SAME_SENSE:
            row = ", ".join(map(" ".join, zip(_PAIR_COLUMNS[2:], values[2:], strict=True)))
            what = f"each start and end must mark a word, and the label be 0 or 1, true or false: {row}"
            raise InputError(what, where=file, line=record.line)
        yield UsePair(first, second, _SAME_SENSE[label.lower()])


def _use(sentence: Words, start: str, end: str) -> Use | None:
    """Returns all tokens that have characters of `[start, end)`."""
    if not start.isdecimal() or not end.isdecimal():
        return None
    tokens = [
        index
        for index, (first, last) in enumerate(sentence.offsets)
        if first < int(end) and last > int(start)
    ]
    return Use(sentence.words, tokens[0], tokens[-1] + 1) if tokens else None


TAG_COLUMNS = {"upos": UPOS, "xpos": XPOS}
L2 = 1e-5
"""The penalty L2/2 ||W||^2 is added to the mean negative log-likelihood, on standardised features."""
MAX_ITERATIONS = 200
TOLERANCE = 1e-4
"""The search ends when no partial derivative is larger."""


class TaggedSentence(NamedTuple):
    words: list[str]
    tags: list[str]


def read_tagged(path: str, *, column: str) -> list[TaggedSentence]:
    """
    Reads tagged sentences, with an empty line between them. In CoNLL-U it reads the syntactic words, without
    multi-word tokens (`1-2`) and empty nodes (`1.1`), and the tags of a `column`, one of `TAG_COLUMNS`. Other
    files have two columns, a word and its tag. All else is an `InputError`, with the file and the line.
    """
    return [sentence for file in input_files(path) for sentence in _read_tagged_file(file, column)]


def _read_tagged_file(file: Path, column: str) -> Iterator[TaggedSentence]:
    if is_conllu(line for _, line in read_lines(file)):
        for words, _ in read_conllu(file):
            rows = [(line, cells[FORM], cells[TAG_COLUMNS[column]]) for line, cells in words]
            yield _tagged_sentence(file, rows, column)
        return
    layout = ColumnLayout(["word", "tag"], None, needed=["word", "tag"])
    has_sentences = False
    for lines in layout.sentences(file):
        has_sentences = True
        cells = ((line_number, layout.row(file, line_number, line)) for line_number, line in lines)
        yield _tagged_sentence(file, [(line_number, word, tag) for line_number, (word, tag) in cells], column)
    check_found(has_sentences, "sentences", file)


def _tagged_sentence(file: Path, rows: list[tuple[int, str, str]], column: str) -> TaggedSentence:
    for line, word, tag in rows:
        if tag in ("", "_") or not word:
            raise InputError(f"the word {word!r} has no tag ({column})", where=file, line=line)
    return TaggedSentence([word for _, word, _ in rows], [tag for *_, tag in rows])


def most_frequent_tag(train: Sequence[TaggedSentence], dev: Sequence[TaggedSentence]) -> int:
    """Counts correct answers if a word has its most frequent tag, an unknown word that of all words."""
    by_word: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            by_word[word][tag] += 1
    most_frequent = Counter(tag for sentence in train for tag in sentence.tags).most_common(1)[0][0]
    best = {word: tags.most_common(1)[0][0] for word, tags in by_word.items()}
    return sum(
        best.get(word, most_frequent) == tag
        for sentence in dev
        for word, tag in zip(sentence.words, sentence.tags, strict=True)
    )


def tagging_probe(
    encoder: VectorEncoder, train: Sequence[TaggedSentence], dev: Sequence[TaggedSentence], folder: Path
) -> dict[str, int]:
    """
    Trains a classifier for each row, and counts the tags of `dev` that it predicts correctly. Tags that are
    not in `train` are never predicted; the log counts them. The vectors of `train` are stored in `folder`,
    which the caller removes.
    """
    tags = list(dict.fromkeys(tag for sentence in train for tag in sentence.tags))
    classes = {tag: index for index, tag in enumerate(tags)}
    unseen = sum(tag not in classes for sentence in dev for tag in sentence.tags)
    if unseen:
        logger.warning("%d words have a tag that is not in the training data: all count as wrong", unseen)
    classifiers = _train_classifiers(encoder, train, classes, folder)
    correct = dict.fromkeys(encoder.names, 0)
    bar = progress(dev, work="dev", unit="sentences")
    for sentence, vectors in encoder.encode_items(bar, lambda sentence: sentence.words):
        # (tokens,)
        gold = torch.tensor([classes.get(tag, -1) for tag in sentence.tags])
        for name, row in zip(encoder.names, vectors, strict=True):
            correct[name] += int((classifiers[name](row) == gold).sum())
    return correct


def _train_classifiers(
    encoder: VectorEncoder, train: Sequence[TaggedSentence], classes: Mapping[str, int], folder: Path
) -> dict[str, "LinearClassifier"]:
    gold = np.array([classes[tag] for sentence in train for tag in sentence.tags])
    with ExitStack() as stack:
        # The vectors of each row go to a file: together they may not fit into memory.
        files = [stack.enter_context(open(folder / f"row {row}", "w+b")) for row in range(len(encoder.names))]
        bar = progress(train, work="train", unit="sentences")
        for vectors in encoder.encode(sentence.words for sentence in bar):
            for file, row in zip(files, vectors, strict=True):
                file.write(np.ascontiguousarray(row.numpy()).data)
        classifiers = {}
        rows = progress(list(zip(encoder.names, files, strict=True)), work="training", unit="classifiers")
        for name, file in rows:
            file.seek(0)
            features = np.fromfile(file, np.float32).reshape(-1, encoder.dim)
            classifiers[name] = fit(features, gold, len(classes))
        return classifiers


class LinearClassifier(NamedTuple):
    """A linear classifier. *Shape:* `weight` `(classes, dim)`, `bias` `(classes,)`."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(vectors, dim)` to `(vectors,)`."""
        return F.linear(vectors, self.weight, self.bias).argmax(dim=1)


def fit(features: np.ndarray, classes: np.ndarray, num_classes: int) -> LinearClassifier:
    """
    Finds the minimum of the penalised negative log-likelihood by L-BFGS, starting from zero: there is neither
    randomness nor anything to tune. Each feature is first scaled to mean 0 and deviation 1, so that all
    layers are treated the same way; to save memory, this overwrites `features`.

    *Shape:* `features` `(vectors, dim)`, float32; `classes` `(vectors,)`, from 0 to `num_classes - 1`, each
    at least once.
    """
    if num_classes == 1:
        return LinearClassifier(torch.zeros(1, features.shape[1]), torch.zeros(1))
    # These imports take half a second.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(copy=False)
    features = scaler.fit_transform(features)
    # For two classes scikit-learn has one row of weights, the difference of ours.
    penalty = L2 / 2 if num_classes == 2 else L2
    regression = LogisticRegression(C=1 / (penalty * len(classes)), tol=TOLERANCE, max_iter=MAX_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # MAX_ITERATIONS may be reached
        regression.fit(features, classes)
    weight, bias = regression.coef_, regression.intercept_
    if num_classes == 2:
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    weight = weight / scaler.scale_
    bias = bias - weight @ scaler.mean_
    return LinearClassifier(torch.from_numpy(weight).float(), torch.from_numpy(bias).float())
