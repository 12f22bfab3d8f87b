from elmo_tasks.page.templates import answered, arguments, mentions, named

PLACE = {"char_start": 3, "char_end": 5, "probability": 0.256}


def test_characters():
    mark = {"start": 3, "end": 5, "number": "0.26"}
    assert list(named([{"type": "PER", **PLACE}])) == [{"label": "PER", **mark}]
    assert list(answered(PLACE)) == [{"label": "answer", **mark}]
    assert list(answered({"char_start": None})) == []


def test_spans_end_behind_their_last_token():
    assert list(
        arguments([{"label": "ARG1", "spans": [[0, 1], [3, 5]]}, {"label": "V", "spans": [[2, 3]]}])
    ) == [
        (0, 1, "ARG1"),
        (3, 5, "ARG1"),
        (2, 3, "V"),
    ]
    assert list(mentions([[[0, 0]], [[1, 2], [4, 4]]])) == [(0, 1, "0"), (1, 3, "1"), (4, 5, "1")]
