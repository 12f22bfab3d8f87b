from itertools import pairwise, product

import pytest

from elmo_tasks.data.tag_schemes import (
    Scheme,
    Span,
    TagError,
    TagReader,
    allowed_transitions,
    convert,
    from_brackets,
    from_spans,
    to_spans,
)

LABELS = ("A", "B")

EXAMPLE_TAGS = {
    Scheme.IOB1: "I-A B-A I-A O I-B-c I-B-c I-B-c I-A O",
    Scheme.IOB2: "B-A B-A I-A O B-B-c I-B-c I-B-c B-A O",
    Scheme.BIOES: "S-A B-A E-A O B-B-c I-B-c E-B-c S-A O",
    Scheme.BIOUL: "U-A B-A L-A O B-B-c I-B-c L-B-c U-A O",
}


def all_span_lists(length, start=0):
    """Every way to place labelled spans on `length` tokens."""
    if start == length:
        yield []
        return
    for rest in all_span_lists(length, start + 1):
        yield rest
    for end in range(start + 1, length + 1):
        for label, rest in product(LABELS, all_span_lists(length, end)):
            yield [Span(start, end, label), *rest]


def all_tags(scheme):
    return ["O", *(f"{prefix}-{label}" for prefix in scheme.prefixes for label in LABELS)]


def is_valid(tags, scheme):
    try:
        to_spans(tags, scheme)
    except TagError:
        return False
    return True


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("length", range(6))
def test_all_span_lists_round_trip(scheme, length):
    for spans in all_span_lists(length):
        tags = from_spans(spans, length, scheme)
        assert len(tags) == length
        assert to_spans(tags, scheme) == spans


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("length", range(5))
def test_valid_are_exactly_the_tags_of_some_spans(scheme, length):
    """All sequences of a length: those that `to_spans` takes are those that `from_spans` makes."""
    taken = {tags for tags in product(all_tags(scheme), repeat=length) if is_valid(tags, scheme)}
    made = {tuple(from_spans(spans, length, scheme)) for spans in all_span_lists(length)}
    assert taken == made


@pytest.mark.parametrize("scheme", Scheme)
def test_allowed_transitions_are_exactly_the_valid_sequences(scheme):
    tags = all_tags(scheme)
    allowed = allowed_transitions(tags, scheme)
    for length in range(1, 5):
        for sequence in product(range(len(tags)), repeat=length):
            passes = bool(
                allowed.start[sequence[0]]
                and allowed.end[sequence[-1]]
                and all(allowed.transitions[pair] for pair in pairwise(sequence))
            )
            assert passes == is_valid([tags[index] for index in sequence], scheme)


@pytest.mark.parametrize(("source", "target"), list(product(Scheme, repeat=2)))
def test_convert(source, target):
    tags = EXAMPLE_TAGS[source].split()
    assert convert(tags, source, target) == EXAMPLE_TAGS[target].split()


def read(sentences, name="auto", **options):
    """The spans of sentences, and the name of their scheme."""
    reader = TagReader(name, **options)
    sentences = [sentence.split() if isinstance(sentence, str) else sentence for sentence in sentences]
    any(map(reader.find_scheme, sentences))
    spans = [reader.spans(tags, [line] * len(tags)) for line, tags in enumerate(sentences, start=1)]
    return spans, str(reader)


@pytest.mark.parametrize("scheme", Scheme)
def test_the_scheme_of_every_sentence_with_an_entity(scheme):
    """A sentence without entities looks like IOB2, and is the same in all schemes."""
    for length in range(1, 5):
        for spans in all_span_lists(length):
            tags = from_spans(spans, length, scheme)
            found, name = read([["O"], tags], strict=True)
            assert found == [[], spans]
            assert name == (scheme.value if spans else "IOB2")


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("bad", ["X-A", "B-", "", "O-A", "A", "B_A"])
def test_a_tag_that_does_not_exist(scheme, bad):
    with pytest.raises(TagError) as error:
        to_spans(["O", bad], scheme)
    assert error.value.position == 1
    assert repr(bad) in error.value.problem
    assert all(f"{prefix}-" in error.value.problem for prefix in scheme.prefixes)


def test_iob1_and_iob2_may_be_mixed_if_not_strict():
    """The scheme is that of more entities, and all are read."""
    tags = "I-A O I-A O B-A"
    assert read([tags]) == ([[Span(0, 1, "A"), Span(2, 3, "A"), Span(4, 5, "A")]], "IOB1")
    assert read([tags, "B-A"])[1] == "IOB2"
    reader = TagReader("IOB2")
    for length in range(5):
        for each in product(all_tags(Scheme.IOB2), repeat=length):
            if is_valid(each, Scheme.IOB1):
                assert reader.spans(each, range(length)) == to_spans(each, Scheme.IOB1)


@pytest.mark.parametrize(
    ("tags", "scheme", "name", "plain"),
    [
        ("O B I M", "auto", "IOB2", "O B-ENTITY I-ENTITY I-ENTITY"),
        ("O B", "IOB2", "IOB2", "O B-ENTITY"),
        ("O B-A M-A E-A", "auto", "BMES", "O B-A I-A E-A"),
        ("O B_A-x I_A-x", "auto", "IOB2", "O B-A-x I-A-x"),
        ("O B:A M:A E:A", "BMES", "BIOES", "O B-A I-A E-A"),
        ("O a_b-B A-B", "IOB2", "IOB2", "O B-a_b B-A"),
        ("O B-E I-E", "auto", "IOB2", "O B-E I-E"),
        ("O PE-B PER", "auto", "IO", "O I-PE-B I-PER"),
        ("O PE-B", "IO", "IO", "O I-PE-B"),
        ("O PER per-x", "auto", "IO", "O I-PER I-per-x"),
        ("PER", "IO", "IO", "I-PER"),
    ],
)
def test_spellings(tags, scheme, name, plain):
    assert read([tags], scheme) == (read([plain])[0], name)


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("O M-A U-A", "auto"),
        ("O A_B B-A", "auto"),
        ("O PER", "IOB2"),
        ("NN VB", "auto"),
        ("O PER B-A", "auto"),
    ],
)
def test_tags_of_no_spelling(tags, scheme):
    with pytest.raises(TagError):
        read([tags], scheme)


@pytest.mark.parametrize(
    ("cells", "tags"),
    [
        ("(A* * *) - (B)", "B-A I-A I-A O B-B"),
        ("* (A) (A*)", "O B-A B-A"),
        ("* *)", 1),
        ("(A* (B)", 1),
        ("(A* *", 1),
        ("x", 0),
    ],
)
def test_brackets(cells, tags):
    if isinstance(tags, str):
        assert from_brackets(cells.split()) == to_spans(tags.split(), Scheme.IOB2)
    else:
        with pytest.raises(TagError) as error:
            from_brackets(cells.split())
        assert error.value.position == tags
