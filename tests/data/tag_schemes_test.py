import pickle
from itertools import pairwise, product

import pytest

from elmo_tasks.data.tag_schemes import (
    MixedSchemeError,
    Scheme,
    Span,
    TagError,
    allowed_transitions,
    convert,
    detect_scheme,
    from_brackets,
    from_spans,
    repaired,
    spelled,
    split_tag,
    to_spans,
)

LABELS = ("A", "B")

EXAMPLE = [Span(0, 1, "A"), Span(1, 3, "A"), Span(4, 7, "B"), Span(7, 8, "A")]
EXAMPLE_TAGS = {
    Scheme.IOB1: "I-A B-A I-A O I-B I-B I-B I-A O",
    Scheme.IOB2: "B-A B-A I-A O B-B I-B I-B B-A O",
    Scheme.BIOES: "S-A B-A E-A O B-B I-B E-B S-A O",
    Scheme.BIOUL: "U-A B-A L-A O B-B I-B L-B U-A O",
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
def test_an_example_of_each_scheme(scheme):
    tags = EXAMPLE_TAGS[scheme].split()
    assert to_spans(tags, scheme) == EXAMPLE
    assert from_spans(EXAMPLE, 9, scheme) == tags
    assert from_spans(reversed(EXAMPLE), 9, scheme) == tags


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


def test_allowed_transitions_of_no_tags_and_of_a_foreign_tag():
    assert [tuple(part.shape) for part in allowed_transitions([], Scheme.BIOUL)] == [(0,), (0,), (0, 0)]
    with pytest.raises(TagError) as error:
        allowed_transitions(["O", "U-A", "S-A"], Scheme.BIOUL)
    assert error.value.position == 2


@pytest.mark.parametrize(("source", "target"), list(product(Scheme, repeat=2)))
def test_convert(source, target):
    tags = EXAMPLE_TAGS[source].split()
    assert convert(tags, source, target) == EXAMPLE_TAGS[target].split()


@pytest.mark.parametrize("scheme", Scheme)
def test_detects_every_sentence_with_an_entity(scheme):
    """One that has none looks like IOB2, and is the same in all schemes."""
    for length in range(1, 5):
        for spans in all_span_lists(length):
            tags = from_spans(spans, length, scheme)
            assert detect_scheme([["O"], tags]) == (scheme if spans else Scheme.IOB2)


def test_a_label_may_have_hyphens():
    assert split_tag("B-creative-work") == ("B", "creative-work")
    tags = ["B-creative-work", "I-creative-work", "B-creative"]
    assert to_spans(tags, Scheme.IOB2) == [Span(0, 2, "creative-work"), Span(2, 3, "creative")]
    assert convert(tags, Scheme.IOB2, Scheme.BIOUL)[1] == "L-creative-work"


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("bad", ["X-A", "B", "B-", "-A", "", "O-A", "b-A", "BI-A", "o", "A", "B_A"])
def test_a_tag_that_does_not_exist(scheme, bad):
    with pytest.raises(TagError) as error:
        to_spans(["O", bad], scheme)
    assert error.value.position == 1
    assert repr(bad) in error.value.found
    assert all(f"{prefix}-" in error.value.expected for prefix in scheme.prefixes)
    with pytest.raises(TagError) as error:
        detect_scheme([["O"], ["O", bad]])
    assert (error.value.sentence, error.value.position) == (1, 1)


@pytest.mark.parametrize(
    ("scheme", "tags", "position", "found", "expected"),
    [
        ("IOB2", "O I-A", 1, "I-A after O", "B-A"),
        ("IOB2", "I-A", 0, "I-A at the start of the sentence", "B-A"),
        ("IOB2", "B-A I-B", 1, "I-B after B-A", "B-B"),
        ("IOB1", "O B-A", 1, "B-A after O", "I-A"),
        ("IOB1", "I-B B-A", 1, "B-A after I-B", "I-A"),
        ("IOB1", "S-A", 0, "the tag 'S-A'", "O or one of B-LABEL, I-LABEL"),
        ("BIOES", "O B-A", 1, "the end of the sentence after B-A", "I-A or E-A (BIOES)"),
        ("BIOES", "B-A O", 1, "O after B-A", "I-A or E-A"),
        ("BIOES", "S-A E-A", 1, "E-A after S-A", "B-A, S-A or O"),
        ("BIOUL", "B-A I-A", 1, "the end of the sentence after I-A", "I-A or L-A (BIOUL)"),
        ("BIOUL", "L-A", 0, "L-A at the start of the sentence", "B-A, U-A or O"),
        ("BIOUL", "B-A U-A", 1, "U-A after B-A", "I-A or L-A"),
    ],
)
def test_a_tag_at_the_wrong_position(scheme, tags, position, found, expected):
    with pytest.raises(TagError) as error:
        to_spans(tags.split(), Scheme(scheme))
    assert error.value.position == position
    assert error.value.found == found
    assert expected in error.value.expected
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


@pytest.mark.parametrize(
    ("sentences", "first", "second"),
    [
        (["O", "B-A I-A", "O O I-A"], ("IOB2", 1, 0), ("IOB1", 2, 2)),
        (["I-A I-A O B-A"], ("IOB1", 0, 0), ("IOB2", 0, 3)),
        (["S-A", "B-A L-A"], ("BIOES", 0, 0), ("BIOUL", 1, 1)),
        (["U-A", "O B-A I-A E-A"], ("BIOUL", 0, 0), ("BIOES", 1, 3)),
    ],
)
def test_mixed_schemes_name_both_positions(sentences, first, second):
    with pytest.raises(MixedSchemeError) as error:
        detect_scheme([tags.split() for tags in sentences])
    for evidence, (scheme, *position) in ((error.value.first, first), (error.value.second, second)):
        assert evidence[:3] == (Scheme(scheme), *position)
        assert str(evidence) in str(error.value)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_iob1_and_iob2_may_be_mixed_if_not_strict():
    tags = ["I-A", "O", "I-A", "O", "B-A"]
    assert detect_scheme([tags], strict=False) is Scheme.IOB1
    assert detect_scheme([tags, ["B-A"]], strict=False) is Scheme.IOB2
    with pytest.raises(MixedSchemeError):
        detect_scheme([tags], strict=True)


def test_repaired_tags_have_the_entities():
    tags = ["B-A", "B-A", "B-B", "O", "B-A", "I-A", "B-", "X"]
    assert repaired(tags, Scheme.IOB1) == (["I-A", "B-A", "I-B", "O", "I-A", "I-A", "B-", "X"], [0, 2, 4])
    for length in range(5):
        for tags in product(all_tags(Scheme.IOB2), repeat=length):
            spans, again = (to_spans(repaired(tags, each)[0], each) for each in (Scheme.IOB1, Scheme.IOB2))
            assert spans == again
    assert repaired(["I-A", "I-A", "I-B", "B-B", "O"], Scheme.IOB2) == (
        ["B-A", "I-A", "B-B", "B-B", "O"],
        [0, 2],
    )


@pytest.mark.parametrize(
    ("tags", "scheme", "name", "by_tag"),
    [
        ("O B I M", "auto", None, {"B": "B-ENTITY", "I": "I-ENTITY", "M": "I-ENTITY"}),
        ("O B", "IOB2", None, {"B": "B-ENTITY"}),
        ("O B-A M-A E-A", "auto", "BMES", {"M-A": "I-A"}),
        ("O M-A U-A", "auto", None, {}),
        ("O B_A-x I_A-x", "auto", None, {"B_A-x": "B-A-x", "I_A-x": "I-A-x"}),
        ("O B:A M:A", "BMES", None, {"B:A": "B-A", "M:A": "I-A"}),
        ("O a_b-B A-E", "IOB2", None, {"a_b-B": "B-a_b", "A-E": "E-A"}),
        ("O B-E I-E", "auto", None, {}),
        ("O A_B B-A", "auto", None, {}),
        ("O PE-B PER", "auto", "IO", {"PE-B": "I-PE-B", "PER": "I-PER"}),
        ("O PE-B", "IO", "IO", {"PE-B": "I-PE-B"}),
        ("O PER per-x", "auto", "IO", {"PER": "I-PER", "per-x": "I-per-x"}),
        ("O PER", "IOB2", None, {}),
        ("NN VB", "auto", None, {}),
        ("PER", "IO", "IO", {"PER": "I-PER"}),
        ("O PER B-A", "auto", None, {}),
        ("O X-A 12 B-", "auto", "IO", {}),
        ("O B-A", "auto", None, {}),
    ],
)
def test_spellings(tags, scheme, name, by_tag):
    assert spelled(tags.split(), scheme) == (name, by_tag)


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
        assert from_brackets(cells.split()) == tags.split()
    else:
        with pytest.raises(TagError) as error:
            from_brackets(cells.split())
        assert error.value.position == tags


def test_a_b_between_equal_labels_fits_both_iob_schemes():
    assert detect_scheme([["I-A", "B-A"]]) is Scheme.IOB1
    assert detect_scheme([["B-A", "B-A"]]) is Scheme.IOB2
    assert detect_scheme([]) is Scheme.IOB2


@pytest.mark.parametrize("bad", [(0, 2, "A"), (1, 1, "A"), (3, 4, "A"), (-1, 1, "A"), (0, 1, "")])
def test_impossible_spans(bad):
    bad = Span(*bad)
    with pytest.raises(ValueError, match="expected") as error:
        from_spans([Span(1, 3, "B"), bad], 3, Scheme.IOB2)
    assert str(bad) in str(error.value)
