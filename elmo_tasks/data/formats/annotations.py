"""
Entities in records of JSON and Parquet: tags of tokens, or spans, as the tools of annotators write them.

`_SHAPES` says where each tool has the parts of a span. `docs/data.md` shows a record of each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial, reduce
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple

from elmo_tasks.common.errors import errors_as
from elmo_tasks.data.formats import Fit, Format
from elmo_tasks.data.formats.columns import EntityOptions, EntitySentence, sentence_of
from elmo_tasks.data.formats.records import (
    ANSWER,
    DECISIONS,
    RecordFormat,
    class_names,
    is_rejected,
    read_records,
)
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import (
    InputError,
    NoWordsError,
    ids_of,
    place_near,
    shorten,
    shorten_json,
)
from elmo_tasks.data.tag_schemes import Span
from elmo_tasks.data.tokenization import Words

_TOKENS = ("tokens", "words", "tokenized_text")
_TEXTS = ("text", "sentence", "data", "content")
_TAGS = ("ner_tags", "tags", "ner", "labels", "label")
_SLOTS = "slot label"
_SPANS = ("label", "labels", "spans", "entities", "ents", "annotations", "annotation", *_TAGS[:3], _SLOTS)
_OF_ANNOTATORS = (ANSWER, "annotation_id", "extras")
"""Fields of records without entities, whose empty list Prodigy, Label Studio and dataturks leave out."""


class _Shape(NamedTuple):
    """Where a span has its parts: `span.0` is the first item of a list, and `|` is between other names."""

    start: str
    end: str
    label: str
    text: str = "text"
    """The characters of the span, if it repeats them."""
    name: str = "value|name"
    """The characters, or another name for them, such as a synonym of Rasa."""
    fields: Sequence[str] = _SPANS
    """The fields that may have the list of spans."""
    of_tokens: bool = False
    """Whether start and end count tokens, not characters."""
    includes_end: bool = False


class _Parts(NamedTuple):
    start: int
    end: int
    """The token or character after the last."""
    labels: list[str]


_SHAPES = {
    "GLiNER, DyGIE": _Shape("0", "1", "2", fields=["ner"], of_tokens=True, includes_end=True),
    "slots": _Shape("1", "2", "0", fields=[_SLOTS], of_tokens=True, includes_end=True),
    "SpERT": _Shape("start", "end", "type|label|labels", fields=["entities", "spans"], of_tokens=True),
    "doccano, spaCy": _Shape("0", "1", "2"),
    "Argilla": _Shape("1", "2", "0"),
    "Prodigy, Label Studio, LightTag, Rasa": _Shape("start", "end", "labels|label|type|tag|entity"),
    "later doccano": _Shape("start_offset", "end_offset", "label|labels|type"),
    "spans by name": _Shape("span.0", "span.1", "labels|label|type"),
    "dataturks": _Shape("points.0.start", "points.0.end", "label", "points.0.text", includes_end=True),
}
"""The tools, and the shapes of their spans."""


def _read(
    path: Path, options: EntityOptions, format: RecordFormat
) -> Iterator[EntitySentence | InputError | str]:
    """Yields the sentences of a file, or their errors; for a record left out, how annotators did so."""
    classes = class_names(path) if format == "parquet" else {}
    for record in read_records(path, format, encoding=options.encoding):
        sentences = record.make(partial(_sentences, record.line, classes, options), (*_TOKENS, *_TEXTS))
        yield from sentences if isinstance(sentences, list) else [sentences]


def fit_annotations(sample: Sample, format: RecordFormat) -> Fit:
    """Returns how well records fit, which is certain if one of them has tags or spans."""
    if not (sample.is_parquet if format == "parquet" else sample.is_json):
        return Fit.NO
    fits = {_fit(values) for record in sample.records for values in _plain(record)}
    return Fit.CERTAIN if Fit.CERTAIN in fits else min(fits, default=Fit.POSSIBLE)


def _fit(values: dict[str, Any]) -> Fit:
    tokens, text = _content(values)
    name, shape = _list_of_spans(values, tokens, text)
    if shape is not None or (tokens and len(values.get(_name_of_tags(values), ())) == len(tokens)):
        return Fit.CERTAIN
    if tokens or (text and _may_be_spans(name, values.get(name))):
        return Fit.LIKELY
    return Fit.POSSIBLE if text else Fit.NO


def _may_be_spans(name: str, value: Any) -> bool:
    """Tells whether a field has spans, of any shape: by its name, or by two numbers in each."""
    if name in ("entities", "ents", "spans"):
        return isinstance(value, list | dict)
    if not _is_list_of(value, (list, dict)):
        return False
    parts = (each.values() if isinstance(each, dict) else each for each in value)
    return all(sum(type(part) is int for part in each) > 1 for each in parts)


def unsplit_text(records: Iterable[Mapping[str, Any]]) -> str:
    """Returns the texts of records that come without their words, one after another."""
    without_words = (
        values for record in records for values in _plain(record) if values.keys().isdisjoint(_TOKENS)
    )
    return "".join(_content(values)[1] or "" for values in without_words)


def _sentences(
    line: int, classes: dict[str, list[str]], options: EntityOptions, record: dict[str, Any]
) -> list[EntitySentence] | str:
    if not options.every_record:
        if is_rejected(record):
            return DECISIONS[record[ANSWER]]
        annotations = record.get("annotations")
        if isinstance(annotations, list) and annotations and all(map(_is_skipped, annotations)):
            return "skipped"
    ids = ids_of(record, [name for name in record if name.lower() in _TEXTS])
    sentences: list[EntitySentence] = []
    for values in _plain(record):
        words, text = _content(values)
        content = None if words is not None or text is None else _words_of_text(values, text, options)
        words = words if content is None else content.words
        if words is None:
            raise InputError('the record has neither "tokens" nor "text"')
        if not words:
            raise NoWordsError("the record has no words")
        sentence = sentence_of(words, [line] * len(words), None)
        sentence.text, sentence.ids = content, ids
        if not options.every_record:
            _annotate(sentence, values, text, classes, options.tag_names)
        sentences.append(sentence)
    return sentences


def _content(values: Mapping[str, Any]) -> tuple[list[str] | None, str | None]:
    """Returns the tokens and the text of a record."""
    text = next((values[name] for name in _TEXTS if isinstance(values.get(name), str)), None)
    names = (*_TOKENS, *(name for name in _TEXTS if isinstance(values.get(name), list)))
    tokens = next((values[name] for name in names if name in values), None)
    if isinstance(values.get(_SLOTS), list) and text is not None:
        tokens = text.split()
    return tokens if _is_list_of(tokens, str) else None, text


def _words_of_text(values: dict[str, Any], text: str, options: EntityOptions) -> Words:
    name = next((name for name in _TOKENS if _is_list_of(values.get(name), dict)), None)
    if name is None:
        return options.split(text)
    with errors_as(InputError, f'"{name}" needs tokens with "start" and "end"', (KeyError, TypeError)):
        offsets = [(each["start"], each["end"]) for each in values[name]]
        return Words(text, [text[start:end] for start, end in offsets], offsets)


def _annotate(
    sentence: EntitySentence,
    values: dict[str, Any],
    text: str | None,
    classes: dict[str, list[str]],
    tag_names: list[str] | None,
) -> None:
    tokens = sentence.words if sentence.text is None else None
    if tokens and (name := _name_of_tags(values)):
        sentence.tags = _tags(values, name, len(tokens), tag_names or classes.get(name))
        return
    name, shape = _list_of_spans(values, tokens, text)
    if tokens and text is not None and shape is not None and not shape.of_tokens:
        sentence.text, tokens = _with_offsets(text, tokens), None
    spans: list[Span] | None = None
    moved: list[str] = []
    if name:
        spans = _spans(values, name, shape, tokens or text or "", moved)
    elif tokens is None and not values.keys().isdisjoint(_OF_ANNOTATORS):
        spans = []
    elif unread := [key for key in values if key not in _TOKENS and _is_list_of(values[key] or None, dict)]:
        raise _error(unread[0], values[unread[0]], f"is not read: entities are in {' or '.join(_SPANS[:5])}")
    if tokens is None:
        sentence.characters, sentence.moved = spans, moved
    else:
        sentence.spans = spans


def _name_of_tags(values: Mapping[str, Any]) -> str:
    """Returns the field with a list of tags; empty without one."""
    lists = (name for name in _TAGS if isinstance(values.get(name), list))
    return next(
        (name for name in lists if name != "ner" or _is_list_of(values[name] or None, (str, int))), ""
    )


def _tags(values: dict[str, Any], name: str, length: int, names: list[str] | None) -> list[str]:
    tags = values[name]
    if len(tags) != length:
        raise _error(name, values[name], f"needs {length} tags, one a token")
    if _is_list_of(tags, str):
        return tags
    if names is None or not all(type(each) is int and 0 <= each < len(names) for each in tags):
        known = "" if names is None else f", which now has {len(names)}"
        raise _error(
            name, values[name], f"has numbers: the key `tag_names` must have the name of each{known}"
        )
    return [names[each] for each in tags]


def _list_of_spans(
    values: Mapping[str, Any], tokens: Sequence[str] | None, text: str | None
) -> tuple[str, _Shape | None]:
    """
    Returns the field of the spans, empty without one, and their shape, which the first of them shows. Spans
    beside tokens and a text, which may count either, have none.
    """
    names = [name for name in _SPANS if values.get(name) is not None]
    for name in names:
        for shape in _SHAPES.values() if isinstance(values[name], list) and values[name] else ():
            has_content = (tokens if shape.of_tokens else text) is not None
            if has_content and name in shape.fields and _parts(values[name][0], shape):
                is_clear = text is None or shape.includes_end or not shape.of_tokens
                return name, shape if is_clear else None
    lists = (name for name in names if _is_list_of(values[name], (list, dict)))
    return next(lists, [*names, ""][0]), None


def _spans(
    values: Mapping[str, Any], name: str, shape: _Shape | None, content: str | list[str], moved: list[str]
) -> list[Span]:
    """Returns the spans of tokens or of a text, and describes those that are not at their offsets."""
    spans: list[Span] = []
    for value in values[name] if isinstance(values[name], list) else [values[name]]:
        parts = _parts(value, shape) if shape else None
        if parts and shape and isinstance(content, str) and not isinstance(value, list):
            parts = _at_own_text(parts, value, shape, content, moved)
        start, end, labels = parts or (0, 0, [])
        if not 0 <= start < end <= len(content) or (
            isinstance(content, str) and not content[start:end].strip()
        ):
            needed = f'entities in the {len(content)} characters of the text, such as [0, 4, "LABEL"]'
            if isinstance(content, list):
                needed = f'a tag for each token, or entities in the tokens 0 to {len(content)}, and no "text"'
            raise _error(name, value, f"needs {needed}")
        spans += [Span(start, end, label) for label in labels]
    return spans


def _at_own_text(parts: _Parts, span: Any, shape: _Shape, text: str, moved: list[str]) -> _Parts:
    """
    Returns a span where the text that it repeats is: at its start counted in UTF-16, where an emoji is two
    units, or once near it. `InputError`: it is at neither.
    """
    start, end, labels = parts
    own_text = _part(span, f"{shape.text}|{shape.name}")
    stated = text[max(start, 0) : max(end, 0)]
    if not isinstance(own_text, str) or not own_text.strip() or _letters(stated) == _letters(own_text):
        return parts
    units = text.encode("utf-16-le", "surrogatepass")[: 2 * max(start, 0)]
    place = len(units.decode("utf-16-le", "replace"))
    shown = f"{own_text!r} ({', '.join(labels)})"
    if not text.startswith(own_text, place):
        near = place_near(text, own_text, start)
        if near is None and own_text not in text and _part(span, shape.text) is None:
            return parts
        if near is None:
            at = f"the characters {start} to {end} of the text, which are {shorten(stated)!r}"
            raise InputError(f"{shown} is not at {at}")
        place = near
    moved.append(f"{shown} is at {place}, not at {start}")
    return _Parts(place, place + len(own_text), labels)


def _letters(text: str) -> str:
    """Returns a text without white space, and without Label Studio's mark of a line's end."""
    return "".join(text.replace("\\n", " ").split())


def _parts(span: Any, shape: _Shape) -> _Parts | None:
    start, end, labels = (_part(span, names) for names in shape[:3])
    if not type(start) is type(end) is int:
        return None
    labels = labels if isinstance(labels, list) else [labels]
    if not all(type(label) in (str, int) and label != "" for label in labels):
        return None
    return _Parts(start, end + shape.includes_end, list(map(str, labels)))


def _part(span: Any, names: str) -> Any:
    """Returns the part of a span under the first of the names that it has, see `_Shape`."""
    for path in _paths(names):
        try:
            value = reduce(getitem, path, span)
        except (IndexError, KeyError, TypeError):
            continue
        if value is not None:
            return value
    return None


@lru_cache
def _paths(names: str) -> list[list[str | int]]:
    paths = (name.split(".") for name in names.split("|"))
    return [[int(key) if key.isdecimal() else key for key in path] for path in paths]


def _with_offsets(text: str, tokens: list[str]) -> Words:
    """Returns tokens with their characters in the text."""
    offsets, end = [], 0
    for token in tokens:
        start = text.find(token, end)
        if start < 0:
            raise InputError(f"the token {token!r} is not in the text {shorten(text)!r}")
        end = start + len(token)
        offsets.append((start, end))
    return Words(text, tokens, offsets)


def _plain(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """
    Returns the fields of a record by small names, for rows of `_SHAPES`: out of Label Studio's nested lists;
    with CLUENER's spans, which are by their label and text, in a list; and for DyGIE and SciERC, whose spans
    count the tokens of a document, a record for each sentence.
    """
    values = {key.lower(): value for key, value in record.items()}
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        if isinstance(values.get("data"), dict):
            texts = {key: value for key, value in values["data"].items() if isinstance(value, str)}
            values["text"] = texts.get("text", next(iter(texts.values())) if len(texts) == 1 else None)
            results = [
                each
                for annotation in values["annotations"]
                if not _is_skipped(annotation)
                for each in annotation["result"]
            ]
            regions = [each["value"] for each in results if "start" in each.get("value", ())]
            values["annotations"] = regions if values["annotations"] else None
        if isinstance(values.get("label"), dict):
            values["label"] = [
                {"label": label, "points": [{"start": start, "end": last, "text": mention}]}
                for label, mentions in values["label"].items()
                for mention, offsets in mentions.items()
                for start, last in offsets
            ]
        if "sentences" in values and "ner" in values:
            sentences, starts = values["sentences"], [0]
            for tokens in sentences:
                starts.append(starts[-1] + len(tokens))
            return [
                values | {"tokens": tokens, "ner": [[a - start, b - start, *rest] for a, b, *rest in spans]}
                for start, tokens, spans in zip(starts[:-1], sentences, values["ner"], strict=True)
                if tokens
            ]
    return [values]


def _is_skipped(annotation: Any) -> bool:
    """Tells whether an annotator of Label Studio has skipped a text."""
    return isinstance(annotation, dict) and annotation.get("was_cancelled") is True


def _is_list_of(value: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, list) and all(isinstance(each, kind) for each in value)


def _error(name: str, value: Any, problem: str) -> InputError:
    return InputError(f'"{name}": {shorten_json(value)} {problem}')


_RECORDS: tuple[RecordFormat, ...] = ("json", "parquet")
FORMATS = tuple(
    Format(name, partial(fit_annotations, format=name), partial(_read, format=name)) for name in _RECORDS
)
