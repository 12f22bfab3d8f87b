"""The official JSON, and the instances made of it."""

import copy
import gzip
import json
import logging
from collections import Counter
from functools import partial

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader

from elmo_tasks.data.formats.questions import GoldAnswer, Question, read_good_questions
from elmo_tasks.data.input_files import InputError
from elmo_tasks.squad.reader import NO_SPAN, SquadReader
from tests.errors import mentions
from tests.records import json_lines, parquet
from tests.squad.archives import DEV, UNANSWERABLE

BEES = "Ada kept 14 bees \u2013 and one cat."


def question(id, text, passage, *answers):
    """Returns a question with the first places of its answers in the passage."""
    found = [{"text": each, "answer_start": passage.index(each)} for each in answers]
    return {"id": id, "question": text, "answers": found}


QUESTIONS = [question("q1", "How many bees?", BEES, "14", "14 bees"), question("q2", "Who?", BEES, "Ada")]
CONTENT = {
    "version": "1.1",
    "data": [{"title": "Bees", "paragraphs": [{"context": BEES, "qas": QUESTIONS}]}],
}
PARAGRAPH = ("data", 0, "paragraphs", 0)
QUESTION = (*PARAGRAPH, "qas", 1)
ANSWER = (*QUESTION, "answers", 0)
WHERE = "line 1, record 1 (Bees), paragraph 1, question 2 (q2)"


def changed(path, value):
    content = copy.deepcopy(CONTENT)
    node = content
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return content


def questions(tmp_path, content, **options):
    (tmp_path / "data.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return read_good_questions(str(tmp_path), **options)


def test_content_of_a_folder(tmp_path):
    text = json.dumps(CONTENT, indent=1).replace("q1", "q3").replace("q2", "q4")
    (tmp_path / "more").write_bytes(gzip.compress(text.encode()))
    first, *others = questions(tmp_path, CONTENT)
    assert first == Question(BEES, "q1", "How many bees?", [GoldAnswer("14", 9), GoldAnswer("14 bees", 9)])
    assert [question.id for question in others] == ["q2", "q3", "q4"]


@pytest.mark.parametrize(
    ("question", "options", "answers"),
    [
        ({"id": "q2", "question": "Why?", "answers": [], "is_impossible": True}, {}, []),
        ({"id": "q2", "question": "Who?"}, {"answers": False}, None),
    ],
)
def test_questions_without_answers(tmp_path, question, options, answers):
    assert questions(tmp_path, changed(QUESTION, question), **options)[1].answers == answers


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("data",), None, ""),
        (("data", 0), "x", "line 1, record 1"),
        (PARAGRAPH, {"qas": QUESTIONS}, "record 1 (Bees), paragraph 1"),
        ((*QUESTION, "id"), "q1", "question 2 (q1)"),
        ((*QUESTION, "answers"), [], WHERE),
        ((*ANSWER, "answer_start"), True, f"{WHERE}, answer 1"),
        ((*ANSWER, "text"), "ada", WHERE),
    ],
)
def test_errors_name_the_place(tmp_path, path, value, place):
    with pytest.raises(InputError) as error:
        questions(tmp_path, changed(path, value))
    where = error.value.where
    assert where.startswith(str(tmp_path / "data.json"))
    assert where.endswith(place)


def test_an_id_of_another_file(tmp_path):
    (tmp_path / "copy.json").write_text(json.dumps(CONTENT))
    with pytest.raises(InputError, match=r"data.json.*copy.json, line 1"):
        questions(tmp_path, CONTENT)


PASSAGE = "In 1998\u20132001 Zoë's team-mate won (about) US$300 at St. Ives; it's 5/6 of the pot."


def answer(text: str) -> GoldAnswer:
    return GoldAnswer(text, PASSAGE.index(text))


def instance_of(*texts: str):
    return SquadReader().text_to_instance("How much?", PASSAGE, [answer(text) for text in texts])


def span_of(instance) -> tuple[int, ...]:
    return tuple(instance[name].sequence_index for name in ("span_start", "span_end"))


def test_words_are_split_where_answers_end():
    instance = SquadReader().text_to_instance("Who was it (in the end)?", PASSAGE)
    texts = {name: " ".join(token.text for token in instance[name]) for name in ("passage", "question")}
    assert texts == {
        "passage": "In 1998 \u2013 2001 Zoë 's team - mate won ( about ) US $ 300 at St. Ives ; "
        "it 's 5 / 6 of the pot .",
        "question": "Who was it ( in the end ) ?",
    }
    assert all(PASSAGE[token.idx : token.idx_end] == token.text for token in instance["passage"])
    assert set(instance.fields) == {"passage", "question", "metadata"}
    assert instance["metadata"].metadata.answers is None


@pytest.mark.parametrize(
    "text",
    ["1998", "2001", "mate", "300", "$300", "about", "5", "6 of the pot", "Zoë's team-mate", "St. Ives"],
)
def test_spans_of_answers(text):
    instance = instance_of(text)
    first, last = span_of(instance)
    offsets = instance["metadata"].metadata.passage.offsets
    assert PASSAGE[offsets[first][0] : offsets[last][1]] == text
    assert instance["metadata"].metadata.answers == [text]


def test_answers_off_the_boundaries_serve_evaluation_only():
    """Such an answer is not moved to the token around it; white space around an answer does not count."""
    assert span_of(instance_of(" won ")) == (9, 9)
    instance = instance_of("99")
    assert span_of(instance) == NO_SPAN
    assert instance["metadata"].metadata.answers == ["99"]
    assert span_of(instance_of("99", "mate")) == (8, 8)


@pytest.mark.parametrize(
    ("training_answer", "expected"),
    [("first", {"won"}), ("most_frequent", {"mate"}), ("random", {"won", "mate"})],
)
def test_training_answers(training_answer, expected):
    reader = SquadReader(training_answer=training_answer)
    answers = [answer(text) for text in ("99", "won", "mate", "mate")]
    chosen = Counter()
    for number in range(30):
        first, second = (
            span_of(reader.text_to_instance(f"Question {number}?", PASSAGE, answers)) for _ in range(2)
        )
        assert first == second
        chosen[{8: "mate", 9: "won"}[first[0]]] += 1
    assert set(chosen) == expected


def test_a_file(caplog):
    with caplog.at_level(logging.INFO):
        instances = list(SquadReader().read(DEV))
    assert len(instances) == 16
    assert all(min(span_of(instance)) >= 0 for instance in instances)
    assert instances[0]["metadata"].metadata.id == "dev-001"
    assert len(instances[0]["metadata"].metadata.answers) == 3
    # The passage is tokenised, indexed and kept in memory once.
    assert len({id(instance["passage"]) for instance in instances}) == 4
    assert [instance["metadata"].metadata.paragraph for instance in instances] == [
        instances[4 * paragraph]["metadata"].metadata.paragraph for paragraph in range(4) for _ in range(4)
    ]
    assert [len(each["metadata"].metadata) for each in instances] == [len(i["passage"]) for i in instances]
    assert "4 paragraphs, 16 questions, 0 questions without an answer, 48 answers" in caplog.text


def test_answers_off_the_boundaries_are_counted(tmp_path, caplog):
    texts = [["99", "1998"], ["am"], ["won", "won"]]
    qas = [question(str(i), "?", PASSAGE, *answers) for i, answers in enumerate(texts)]
    content = {"data": [{"paragraphs": [{"context": PASSAGE, "qas": qas}]}]}
    (tmp_path / "data.json").write_text(json.dumps(content))
    with caplog.at_level(logging.INFO):
        assert [span_of(instance)[0] for instance in SquadReader().read(tmp_path)] == [1, -100, 9]
    assert "2 of 5 answers" in caplog.text


def flat(**changes):
    """A record of each question of CONTENT."""
    return [
        question
        | {
            "context": BEES,
            "answers": {key: [each[key] for each in question["answers"]] for key in ("text", "answer_start")},
        }
        | changes
        for question in QUESTIONS
    ]


def detected(answer):
    """Returns an answer as MRQA writes it."""
    start = answer["answer_start"]
    return {"text": answer["text"], "char_spans": [[start, start + len(answer["text"]) - 1]]}


MRQA = [
    {"header": {"dataset": "Bees", "split": "dev"}},
    {
        "context": BEES,
        "qas": [
            {
                "qid": question["id"],
                "question": question["question"],
                "answers": ["Unlisted"],
                "detected_answers": list(map(detected, question["answers"])),
            }
            for question in QUESTIONS
        ],
    },
]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(CONTENT),
        json_lines(*flat()),
        json.dumps(flat(), indent=1),
        json.dumps({"data": flat()}),
        partial(parquet, *flat()),
        json_lines(*MRQA),
        json_lines(*(question | {"context": BEES} for question in QUESTIONS)),
    ],
)
def test_shapes(tmp_path, content):
    (tmp_path / "a").write_bytes(content.encode() if isinstance(content, str) else content())
    assert read_good_questions(str(tmp_path / "a")) == [
        Question(BEES, "q1", "How many bees?", [GoldAnswer("14", 9), GoldAnswer("14 bees", 9)]),
        Question(BEES, "q2", "Who?", [GoldAnswer("Ada", 0)]),
    ]
    (tmp_path / "none").write_text(json_lines(*flat(answers={"text": [], "answer_start": []}, id=None)))
    instances = list(SquadReader(unanswerable=True).read(str(tmp_path / "none")))
    assert [each["metadata"].metadata.answers for each in instances] == [[], []]


def test_whole_numbers_as_ids_and_answers_near_their_position(tmp_path, caplog):
    content = changed((*QUESTION, "id"), 7)
    content["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] = 11
    (tmp_path / "a").write_text(json.dumps(content))
    first, second = SquadReader().read(str(tmp_path / "a"))
    assert second["metadata"].metadata.id == "7"
    assert span_of(first) == (2, 2)
    assert "answers near their answer_start, which is wrong in this file: 1" in caplog.text


def test_bad_questions_are_left_out_and_counted(tmp_path, caplog):
    content = copy.deepcopy(CONTENT)
    (paragraph,) = content["data"][0]["paragraphs"]
    paragraph["qas"] += [
        {"id": "q3", "question": "", "answers": [{"text": "Ada", "answer_start": 0}]},
        {"id": "q4", "question": "?", "answers": [{"text": "Eve", "answer_start": 0}]},
        {"id": "q1", "question": "?", "answers": [{"text": "Ada", "answer_start": 0}]},
        {"question": "?", "answers": [{"text": "Eve", "answer_start": 0}, {"text": "14", "answer_start": 9}]},
        {"id": "q5", "question": "?"},
        5,
        {"id": "q7", "question": "?", "answers": [{"text": "Ada", "answer_start": 0}]},
    ]
    content["data"][0]["paragraphs"] += [
        None,
        {"context": "A", "qas": 7},
        {**paragraph, "qas": [{**paragraph["qas"][0], "id": "q8"}]},
    ]
    content["data"].append({"paragraphs": [{"context": " ", "qas": [{"id": "q6", "question": "?"}]}]})
    (tmp_path / "a").write_text(json.dumps(content))
    instances = list(SquadReader(skip_bad=True).read(str(tmp_path / "a")))
    assert [each["metadata"].metadata.id for each in instances] == ["q1", "q2", None, "q7", "q8"]
    assert [span_of(each) for each in instances] == [(2, 2), (0, 0), (2, 2), (0, 0), (2, 2)]
    assert "9 bad records" in caplog.text
    reader = SquadReader()
    reader.every_record = True
    instances = list(reader.read(str(tmp_path / "a")))
    problems = [getattr(each["metadata"].metadata, "reason", None) for each in instances]
    assert "".join("-+"[problem is None] for problem in problems) == "++-+-++-+--+-"
    assert instances[-1]["metadata"].metadata.ids["id"] == "q6"
    assert "span_start" not in instances[0].fields


CHINESE = "他們在一九九二年去了東京。", ["一九九二年", "東京", "他們"]
KOREAN = "그는 1992년에 도쿄로 갔다.", ["1992년", "도쿄", "그는"]


@pytest.mark.parametrize(
    ("text", "tokenizer", "misfits"),
    [
        (CHINESE, "en", 3),
        (CHINESE, None, 3),
        (CHINESE, "whitespace", 3),
        (CHINESE, "characters", 0),
        (KOREAN, "whitespace", 2),
        (KOREAN, "elmo_syllables", 0),
        ((BEES, ["14", "bees", "14 bees \u2013 and"]), None, 0),
        ((BEES, ["14", "ee"]), None, 1),
    ],
)
def test_answers_on_the_boundaries_of_a_tokenizer(tmp_path, caplog, text, tokenizer, misfits):
    passage, answers = text
    qas = [question(answer, "?", passage, answer) for answer in answers]
    data = {"data": [{"paragraphs": [{"context": passage, "qas": qas}]}]}
    (tmp_path / "a.json").write_text(json.dumps(data))
    reader = DatasetReader.from_params(Params({"type": "elmo_squad", "tokenizer": tokenizer}))
    if misfits == len(answers):
        with pytest.raises(InputError, match=rf"a.json: .*{misfits}"):
            list(reader.read(str(tmp_path / "a.json")))
    else:
        instances = list(reader.read(str(tmp_path / "a.json")))
        assert [span_of(each) for each in instances].count(NO_SPAN) == misfits
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [f"{misfits} of {len(answers)} answers" in message for message in warned] == [True] * bool(misfits)


def test_unanswerable_questions_by_option(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        assert len(list(SquadReader().read(UNANSWERABLE))) == 8
    assert "6 questions left out" in caplog.text
    (warning,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert mentions(warning, UNANSWERABLE, "6")
    caplog.clear()
    instances = list(SquadReader(unanswerable=True).read(UNANSWERABLE))
    assert not caplog.records
    spans = [span_of(each) for each in instances if not each["metadata"].metadata.answers]
    assert (len(instances), spans) == (14, [NO_SPAN] * 6)
    question = {"id": "a", "question": "Why?", "answers": [], "is_impossible": True}
    paragraphs = [{"context": "No answer.", "qas": [question]}]
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"version": "v2.0", "data": [{"paragraphs": paragraphs}]}))
    assert len(list(SquadReader(unanswerable=True).read(path))) == 1
    for nothing_left in (path, [str(path)]):
        with pytest.raises(ConfigurationError, match=r"data.json:"):
            list(SquadReader().read(nothing_left))
