"""
Words with their senses: JSON Lines, and the XML of Raganato et al. (2017), http://lcl.uniroma1.it/wsdeval/.

Word sense disambiguation by the nearest averaged vector (Peters et al. 2018, section 5.3).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

import torch
from torch.nn import functional as F

from elmo_tasks.common.progress import progress
from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.data.json_lines import read_json_lines
from elmo_tasks.evaluation.similarity import round_cosines
from elmo_tasks.vectors.encoder import Encoder

# ==== evaluation.senses
_XML, _KEY, _PACKED = ".data.xml", ".gold.key.txt", ".gz"
_PARTS_OF_SPEECH = {1: "NOUN", 2: "VERB", 3: "ADJ", 4: "ADV", 5: "ADJ"}
"""WordNet's numbers, in a sense key behind the `%`."""


class Target(NamedTuple):
    """The tokens `[start, end)` of a sentence, whose sense is known."""

    start: int
    end: int
    lemma: str
    """What is told apart: the lemma, in XML with its part of speech."""
    senses: tuple[str, ...]
    """Any of them is right."""


class SenseSentence(NamedTuple):
    words: list[str]
    targets: list[Target]


def read_senses(path: str) -> list[SenseSentence]:
    """
    - `NAME.data.xml`, with `NAME.gold.key.txt` beside it: sentences of `wf` and `instance` elements, and a
      line with the id and the senses of each instance. Either may be packed, `.gz`.
    - Any other file: JSON Lines, `{"lemma": "line", "tokens": [...], "index": 3, "sense": "cord"}`.

    # Raises
    `InputError`, with the file and, where it is one, the line: no sense in a file, no JSON, no XML, a key or
    an element that is missing, an index outside of the sentence, and whatever reading raises.
    """
    sentences = []
    files = input_files(path)
    keys = {_keys_of(file) for file in files if _is_xml(file)}
    for file in files:
        if file in keys:
            continue
        of_file = list(_read_xml(file) if _is_xml(file) else _read_jsonl(file))
        if not any(sentence.targets for sentence in of_file):
            raise InputError.at(file, found="no word with a sense", expected="at least one")
        sentences += of_file
    return sentences


def read_first_senses(path: str) -> dict[str, str]:
    """
    The first sense of each lemma, named as in `Target`, of WordNet's `index.sense`: lines of a sense key, an
    offset, the sense's number and a count.

    # Raises
    `InputError`, with the file and the line: another number of columns, or no sense key.
    """
    first: dict[str, str] = {}
    for file in input_files(path):
        for line, text in read_lines(file):
            if not text.strip():
                continue
            cells = text.split(" ")
            lemma, mark, rest = cells[0].partition("%")
            kind = rest.partition(":")[0]
            if len(cells) != 4 or not mark or kind not in map(str, _PARTS_OF_SPEECH):
                raise InputError.at(file, line, found=repr(text), expected="sense key, offset, number, count")
            if cells[2] == "1":
                first.setdefault(f"{lemma}.{_PARTS_OF_SPEECH[int(kind)]}", cells[0])
    return first


def _read_jsonl(file: Path) -> Iterator[SenseSentence]:
    expected = 'JSON with "lemma", "tokens", "index" and "sense"'
    for line, content in read_json_lines(file, expected=expected):
        try:
            words, place = content["tokens"], content["index"]
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise TypeError("tokens is no list of strings")
            if type(place) is not int or not 0 <= place < len(words):
                raise TypeError(f"index is {place!r}, of {len(words)} tokens")
            lemma, sense = content["lemma"], content["sense"]
            if not isinstance(lemma, str) or not isinstance(sense, str):
                raise TypeError(f"lemma is {lemma!r}, sense is {sense!r}")
            yield SenseSentence(words, [Target(place, place + 1, lemma, (sense,))])
        except (KeyError, TypeError) as error:
            found = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise InputError.at(file, line, found=found, expected=expected) from error


def _is_xml(file: Path) -> bool:
    return file.name.removesuffix(_PACKED).endswith(_XML)


def _keys_of(file: Path) -> Path:
    """The file beside one of XML that has its senses."""
    keys = file.with_name(file.name.removesuffix(_PACKED).removesuffix(_XML) + _KEY)
    packed = keys.with_name(keys.name + _PACKED)
    return packed if packed.exists() else keys


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
    """A `wf` or `instance` of several words, "New York", has as many tokens."""
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
    for line, text in read_lines(file):
        if not text.strip():
            continue
        name, *keys = text.split()
        if not keys:
            raise InputError.at(file, line, found=repr(text), expected="an id and its senses")
        senses[name] = tuple(keys)
    return senses


# ==== evaluation.sense_probe
class SenseProbe:
    """
    A sense is the mean of the vectors of its occurrences in the training data; an occurrence has the sense of
    the highest cosine among those of its lemma. Of equally near ones the most frequent is taken, and so it is
    where the occurrence has no vector. A lemma that was not in training has its first sense, where
    `first_senses` has one, or else no answer, which is wrong.

    # Parameters

    encoder : of the vectors.
    first_senses : by lemma.
    """

    def __init__(self, *, encoder: Encoder, first_senses: Mapping[str, str]) -> None:
        self._encoder = encoder
        self._first_senses = first_senses
        self._senses: dict[str, list[str]] = {}
        self._vectors: dict[str, torch.Tensor] = {}
        """`(senses of the lemma, rows, dim)`, normalised."""

    def train(self, sentences: Sequence[SenseSentence]) -> None:
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
        """How many targets each row has right."""
        correct = dict.fromkeys(self._encoder.names, 0)
        for target, vector in self._targets(sentences, "dev"):
            for name, answer in zip(self._encoder.names, self._answers(target, vector), strict=True):
                correct[name] += answer in target.senses
        return correct

    def _answers(self, target: Target, vector: torch.Tensor) -> list[str | None]:
        """The answer of each row. *Shape:* `vector` `(rows, dim)`."""
        if target.lemma not in self._senses:
            return [self._first_senses.get(target.lemma)] * len(vector)
        # (senses, rows)
        cosines = torch.einsum("srd,rd->sr", self._vectors[target.lemma], F.normalize(vector, dim=1))
        best = round_cosines(cosines).argmax(dim=0)
        return [self._senses[target.lemma][sense] for sense in best.tolist()]

    def _targets(
        self, sentences: Sequence[SenseSentence], name: str
    ) -> Iterator[tuple[Target, torch.Tensor]]:
        """Each target, and its vectors, `(rows, dim)`."""
        bar = progress(sentences, work=name, unit="sentences")
        for sentence, vectors in self._encoder.encode_items(bar, lambda sentence: sentence.words):
            for target in sentence.targets:
                yield target, self._encoder.occurrence(vectors, target.start, target.end)


class _Mean:
    """The mean of vectors that come one by one; of equal ones it is exactly that vector."""

    def __init__(self) -> None:
        self.value = torch.zeros(())
        self._count = 0

    def add(self, vector: torch.Tensor) -> None:
        self._count += 1
        self.value = self.value + (vector - self.value) / self._count


class Baseline(NamedTuple):
    """Answers that no vector is needed for."""

    correct: int
    unseen: int
    """Targets whose lemma is not in the training data."""
    total: int


def senses_by_frequency(sentences: Iterable[SenseSentence]) -> dict[str, list[str]]:
    """The senses of each lemma, the most frequent first; of equally frequent ones the one seen first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        for target in sentence.targets:
            counts[target.lemma].update(target.senses)
    return {lemma: [sense for sense, _ in senses.most_common()] for lemma, senses in counts.items()}


def sense_baseline(
    train: Iterable[SenseSentence], dev: Iterable[SenseSentence], first_senses: Mapping[str, str]
) -> Baseline:
    """The most frequent sense in training, or, of a lemma that is not there, the first."""
    known = senses_by_frequency(train)
    answers = {**first_senses, **{lemma: senses[0] for lemma, senses in known.items()}}
    targets = [target for sentence in dev for target in sentence.targets]
    return Baseline(
        correct=sum(answers.get(target.lemma) in target.senses for target in targets),
        unseen=sum(target.lemma not in known for target in targets),
        total=len(targets),
    )
