import copy
import gzip
import json
import re

import pytest

from elmo_tasks.common.files import bundled
from elmo_tasks.data.input_files import InputError
from elmo_tasks.squad.dataset import Answer, read_datasets

PASSAGE = "Ada kept 14 bees \u2013 and one cat."
CONTENT = {
    "version": "1.1",
    "data": [
        {
            "title": "Bees",
            "paragraphs": [
                {
                    "context": PASSAGE,
                    "qas": [
                        {
                            "id": "q1",
                            "question": "How many bees?",
                            "answers": [
                                {"text": "14", "answer_start": 9},
                                {"text": "14 bees", "answer_start": 9},
                            ],
                        },
                        {"id": "q2", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]},
                    ],
                }
            ],
        }
    ],
}
QUESTION = ("data", 0, "paragraphs", 0, "qas", 1)
WHERE = "article 1 (Bees), paragraph 1, question 2 (q2)"
REMOVED = object()


def changed(path, value):
    content = copy.deepcopy(CONTENT)
    place = content
    for key in path[:-1]:
        place = place[key]
    if value is REMOVED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return content


def read(tmp_path, content, **options):
    file = tmp_path / "data.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return list(read_datasets(str(tmp_path), **options))


def test_content(tmp_path):
    (dataset,) = read(tmp_path, CONTENT)
    assert (dataset.path, dataset.version) == (tmp_path / "data.json", "1.1")
    (paragraph,) = dataset.paragraphs
    assert paragraph.passage == PASSAGE
    assert [question.id for question in paragraph.questions] == ["q1", "q2"]
    assert paragraph.questions[0].answers == [Answer("14", 9), Answer("14 bees", 9)]


def test_files_of_a_folder_and_gzip(tmp_path):
    text = json.dumps(CONTENT, indent=1).replace("q1", "q3").replace("q2", "q4")
    (tmp_path / "more").write_bytes(gzip.compress(text.encode()))
    assert [dataset.path.name for dataset in read(tmp_path, CONTENT)] == ["data.json", "more"]


def test_questions_without_an_answer(tmp_path):
    impossible = {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True}
    (dataset,) = read(tmp_path, changed(QUESTION, impossible))
    assert dataset.paragraphs[0].questions[1].answers == []
    (fixture,) = read_datasets(str(bundled("fixtures/squad/unanswerable.json")))
    assert {bool(q.answers) for p in fixture.paragraphs for q in p.questions} == {True, False}


def test_answers_that_are_not_wanted_may_be_missing_or_wrong(tmp_path):
    (dataset,) = read(tmp_path, changed((*QUESTION, "answers"), REMOVED), answers=False)
    assert dataset.paragraphs[0].questions[1].answers is None


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("data",), REMOVED, "data.json: found no 'data', expected 'data': a list"),
        (("data",), {}, "data.json: found 'data': {}, expected a list"),
        (("data", 0), "x", 'data.json, article 1: found "x", expected an object'),
        (("data",), [], "data.json: found no question, expected at least one"),
        (("data", 0, "title"), REMOVED, None),
        (
            ("data", 0, "paragraphs", 0, "context"),
            REMOVED,
            "paragraph 1: found no 'context', expected 'context': a",
        ),
        (
            ("data", 0, "paragraphs", 0, "context"),
            " \n",
            "paragraph 1: found an empty 'context', expected a text",
        ),
        ((*QUESTION, "id"), 7, "question 2 (7): found 'id': 7, expected a string"),
        ((*QUESTION, "id"), "q1", "found the id 'q1' of "),
        ((*QUESTION, "question"), REMOVED, f"{WHERE}: found no 'question', expected 'question': a string"),
        ((*QUESTION, "answers"), REMOVED, f"{WHERE}: found no 'answers', expected 'answers': a list"),
        (
            (*QUESTION, "answers"),
            [],
            f"{WHERE}: found 0 answers and 'is_impossible': false, expected an answer, or",
        ),
        ((*QUESTION, "is_impossible"), True, f"{WHERE}: found 1 answers and 'is_impossible': true"),
        ((*QUESTION, "answers", 0, "answer_start"), REMOVED, f"{WHERE}, answer 1: found no 'answer_start'"),
        (
            (*QUESTION, "answers", 0, "answer_start"),
            "0",
            "found 'answer_start': \"0\", expected a whole number",
        ),
        (
            (*QUESTION, "answers", 0, "answer_start"),
            True,
            "found 'answer_start': true, expected a whole number",
        ),
        (
            (*QUESTION, "answers", 0, "answer_start"),
            5,
            f'{WHERE}: found "ept" at answer_start 5, expected the answer "Ada", which is at 0',
        ),
        (
            (*QUESTION, "answers", 0, "answer_start"),
            -3,
            'found "" at answer_start -3, expected the answer "Ada"',
        ),
        (
            (*QUESTION, "answers", 0, "text"),
            "ada",
            'found "Ada" at answer_start 0, expected the answer "ada", which is not in the passage',
        ),
    ],
)
def test_what_is_wrong_and_where(tmp_path, path, value, message):
    content = changed(path, value)
    if message is None:
        assert read(tmp_path, content)
        return
    with pytest.raises(InputError, match=re.escape(str(tmp_path / "data.json"))) as error:
        read(tmp_path, content)
    assert message in str(error.value)


def test_broken_json_and_other_json(tmp_path):
    text = json.dumps(CONTENT, indent=1)
    with pytest.raises(InputError, match=r"data.json, line 3: found no JSON \(Expecting .* column \d+\)"):
        read(tmp_path, text.replace('"data": [', '"data" ['))
    with pytest.raises(InputError, match=r"data.json: found \[1\], expected an object"):
        read(tmp_path, "[1]")


def test_an_id_of_another_file(tmp_path):
    (tmp_path / "copy.json").write_text(json.dumps(CONTENT))
    with pytest.raises(InputError, match=r"data.json.*found the id 'q1' of .*copy.json, article 1"):
        read(tmp_path, CONTENT)
