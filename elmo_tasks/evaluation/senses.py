"""
Word sense disambiguation by the nearest averaged vector (Peters et al. 2018, section 5.3). Data are JSON
Lines, or the XML of Raganato et al. (2017), http://lcl.uniroma1.it/wsdeval/.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

import torch
from torch.nn import functional as F

from elmo_tasks.common.progress import progress
from elmo_tasks.data.input_files import (
    InputError,
    file_beside,
    input_files,
    nonblank_lines,
    read_json_lines,
    read_lines,
)
from elmo_tasks.evaluation.similarity import round_cosines
from elmo_tasks.vectors.encoder import Encoder

_XML, _KEY, _PACKED = ".data.xml", ".gold.key.txt", ".gz"
_PARTS_OF_SPEECH = {1: "NOUN", 2: "VERB", 3: "ADJ", 4: "ADV", 5: "ADJ"}
"""WordNet's numbers, as they follow the `%` in a sense key."""


class Target(NamedTuple):
    """The tokens `[start, end)` of a sentence, whose sense is known."""

    start: int
    end: int
    lemma: str
    """The word whose senses are distinguished; in XML, the lemma and its part of speech."""
    senses: tuple[str, ...]
    """The correct senses: any of them is a correct answer."""


class SenseSentence(NamedTuple):
    """A sentence, and its words with senses."""

    words: list[str]
    targets: list[Target]


class SenseProbe:
    """
    A classifier of word senses. It answers with the nearest of the lemma's senses, by cosine; a sense is the
    mean of the vectors of its occurrences in the training data. The most frequent of equally near senses is
    taken, also for an occurrence without a vector. A lemma that is not in the training data has its first
    sense if `first_senses` has one, and else no answer, which is wrong.
    """

    def __init__(self, *, encoder: Encoder, first_senses: Mapping[str, str]) -> None:
        self._encoder = encoder
        self._first_senses = first_senses
        self._senses: dict[str, list[str]] = {}
        self._vectors: dict[str, torch.Tensor] = {}
        """`(senses of the lemma, rows, dim)`, normalised."""

    def train(self, sentences: Sequence[SenseSentence]) -> None:
        """Averages the vectors of each sense."""
        self._senses = senses_by_frequency(sentences)
        means: defaultdict[tuple[str, str], _Mean] = defaultdict(_Mean)
        for target, vector in self._targets(sentences, "train"):
            for sense in target.senses:
                means[target.lemma, sense].add(vector)
        self._vectors = {
            lemma: F.normalize(torch.stack([means[lemma, sense].value for sense in senses]), dim=2)
            for lemma, senses in self._senses.items()
        }

    def correct(self, sentences: Sequence[SenseSentence]) -> dict[str, int]:
        """Counts the targets that each row answers correctly."""
        correct = dict.fromkeys(self._encoder.names, 0)
        for target, vector in self._targets(sentences, "dev"):
            for name, answer in zip(self._encoder.names, self._answers(target, vector), strict=True):
                correct[name] += answer in target.senses
        return correct

    def _answers(self, target: Target, vector: torch.Tensor) -> list[str | None]:
        """Returns the answer of each row. *Shape:* `vector` `(rows, dim)`."""
        if target.lemma not in self._senses:
            return [self._first_senses.get(target.lemma)] * len(vector)
        # (senses, rows)
        cosines = torch.einsum("srd,rd->sr", self._vectors[target.lemma], F.normalize(vector, dim=1))
        best = round_cosines(cosines).argmax(dim=0)
        return [self._senses[target.lemma][sense] for sense in best.tolist()]

    def _targets(
        self, sentences: Sequence[SenseSentence], work: str
    ) -> Iterator[tuple[Target, torch.Tensor]]:
        """Yields each target with its vectors. *Shape:* `(rows, dim)`."""
        bar = progress(sentences, work=work, unit="sentences")
        for sentence, vectors in self._encoder.encode_items(bar, lambda sentence: sentence.words):
            for target in sentence.targets:
                yield target, self._encoder.occurrence(vectors, target.start, target.end)


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
    """Answers with the lemma's most frequent sense in the training data, or else with its first sense."""
    senses_in_train = senses_by_frequency(train)
    answers = {**first_senses, **{lemma: senses[0] for lemma, senses in senses_in_train.items()}}
    targets = [target for sentence in dev for target in sentence.targets]
    return Baseline(
        correct=sum(answers.get(target.lemma) in target.senses for target in targets),
        unseen=sum(target.lemma not in senses_in_train for target in targets),
        total=len(targets),
    )


def senses_by_frequency(sentences: Iterable[SenseSentence]) -> dict[str, list[str]]:
    """Returns the senses of each lemma, the most frequent first; of equal counts, the one seen first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        for target in sentence.targets:
            counts[target.lemma].update(target.senses)
    return {lemma: [sense for sense, _ in senses.most_common()] for lemma, senses in counts.items()}


def read_senses(path: str) -> list[SenseSentence]:
    """
    Reads sentences with senses from files of two kinds; for all else there is an `InputError`, with the file
    and the line.

    - `NAME.data.xml`, with `NAME.gold.key.txt` beside it: sentences of `wf` and `instance` elements, and a
      line with the id and the senses of each instance. Either may be packed, `.gz`.
    - Any other file: JSON Lines, `{"lemma": "line", "tokens": [...], "index": 3, "sense": "cord"}`.
    """
    sentences = []
    files = input_files(path)
    keys = {_keys_of(file) for file in files if _is_xml(file)}
    for file in files:
        if file in keys:
            continue
        sentences_of_file = list(_read_xml(file) if _is_xml(file) else _read_jsonl(file))
        if not any(sentence.targets for sentence in sentences_of_file):
            raise InputError.at(file, found="no word with a sense", expected="at least one")
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
            lemma, mark, numbers = cells[0].partition("%")
            kind = numbers.partition(":")[0]
            if len(cells) != 4 or not mark or kind not in map(str, _PARTS_OF_SPEECH):
                raise InputError.at(file, line, found=repr(text), expected="sense key, offset, number, count")
            if cells[2] == "1":
                first.setdefault(f"{lemma}.{_PARTS_OF_SPEECH[int(kind)]}", cells[0])
    return first


def _read_jsonl(file: Path) -> Iterator[SenseSentence]:
    expected = 'JSON with "lemma", "tokens", "index" and "sense"'
    for line, content in read_json_lines(file, expected=expected):
        try:
            words, index = content["tokens"], content["index"]
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise TypeError("tokens is no list of strings")
            if type(index) is not int or not 0 <= index < len(words):
                raise TypeError(f"index is {index!r}, of {len(words)} tokens")
            lemma, sense = content["lemma"], content["sense"]
            sense = str(sense) if type(sense) is int else sense
            if not isinstance(lemma, str) or not isinstance(sense, str):
                raise TypeError(f"lemma is {lemma!r}, sense is {sense!r}")
            yield SenseSentence(words, [Target(index, index + 1, lemma, (sense,))])
        except (KeyError, TypeError) as error:
            found = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise InputError.at(file, line, found=found, expected=expected) from error


def _is_xml(file: Path) -> bool:
    return file.name.removesuffix(_PACKED).endswith(_XML)


def _keys_of(file: Path) -> Path:
    """Returns the file with the senses of an XML file."""
    name = file.name.removesuffix(_PACKED).removesuffix(_XML) + _KEY
    packed = file.with_name(name + _PACKED)
    return packed if packed.exists() else file_beside(file, name)


def _read_xml(file: Path) -> Iterator[SenseSentence]:
    senses = _read_keys(_keys_of(file))
    parser: XMLPullParser[Element] = XMLPullParser(["end"])
    line = 0
    try:
        for line, text in read_lines(file):
            parser.feed(text + "\n")
            for _, element in cast(Iterator[tuple[str, Element]], parser.read_events()):
                if element.tag == "sentence":
                    yield _sentence(element, senses, file, line)
                if element.tag in ("sentence", "text"):
                    element.clear()
        parser.close()
    except ParseError as error:
        raise InputError.at(file, error.position[0], found=str(error), expected="XML") from error


def _sentence(element: Element, senses: dict[str, tuple[str, ...]], file: Path, line: int) -> SenseSentence:
    """A `wf` or `instance` of several words, such as "New York", has as many tokens."""
    sentence = SenseSentence([], [])
    for token in element:
        start = len(sentence.words)
        sentence.words.extend((token.text or "").split())
        if token.tag == "instance":
            name, lemma, kind = (token.get(key) for key in ("id", "lemma", "pos"))
            if name not in senses or lemma is None or kind is None or start == len(sentence.words):
                expected = f"text, lemma, pos, and an id of {_KEY}"
                raise InputError.at(file, line, found=f"the instance {dict(token.attrib)}", expected=expected)
            sentence.targets.append(Target(start, len(sentence.words), f"{lemma}.{kind}", senses[name]))
    return sentence


def _read_keys(file: Path) -> dict[str, tuple[str, ...]]:
    senses = {}
    for line, text in nonblank_lines(file):
        name, *keys = text.split()
        if not keys:
            raise InputError.at(file, line, found=repr(text), expected="an id and its senses")
        senses[name] = tuple(keys)
    return senses
