"""Hand-written answers of each task, so that the page can be tested in a browser without models."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from allennlp.common import JsonDict

from elmo_tasks.common.files import bundled
from elmo_tasks.data.reader import join_words
from elmo_tasks.elmo.model.scalar_mix import ScalarMix
from elmo_tasks.evaluation.mixes import LearnedMix
from elmo_tasks.page.app import Page
from elmo_tasks.page.tabs import PREDICATES_FIELD, Field, Tab
from elmo_tasks.page.words import WordsInContext, read_corpus
from elmo_tasks.serving.answers import Limits, Query
from elmo_tasks.serving.models import ServedModel
from elmo_tasks.vectors.encoder import BiLmEncoder
from tests.elmo.files import frozen, random_bilm
from tests.serving.clients import running

NER = "Angela Merkel met Barack Obama in Berlin on Thursday."
SRL = (
    "After a long summer the two brothers who own the bakery near the old harbour sold their first house to "
    "a young family from the north, because it had become too small."
)
COREF = (
    "Ana took her keys from the table of the old man who had let her the room.\nHe smiled, and the man's dog "
    "followed them to the door."
)
PASSAGE = (
    "The market clock of Weyhill has only one hand. It was made in 1721 by the blacksmith Jonas Pell, who "
    "saw no need for minutes."
)
PREMISE, HYPOTHESIS = "Two children are playing football in a muddy park", "Some kids are outdoors"
SST = "A warm and funny film, beautifully acted."
TOPIC = "The striker scored twice in the last ten minutes, and the home team won the cup."


def _tokens(text: str) -> list[str]:
    return text.replace(",", " ,").replace(".", " .").replace("'s", " 's").split()


def _arguments(words: dict[str, str]) -> list[dict[str, Any]]:
    """Returns arguments by the words of their spans, which are in `SRL`."""
    tokens = _tokens(SRL)
    arguments = []
    for label, text in words.items():
        part = text.split()
        start = next(i for i in range(len(tokens)) if tokens[i : i + len(part)] == part)
        arguments.append({"label": label, "text": text, "spans": [[start, start + len(part)]]})
    return arguments


def _attention(rows: list[str], columns: list[str]) -> list[list[float]]:
    scores = [[2.0 ** (-abs(i - 2 * j)) for j in range(len(columns))] for i in range(len(rows))]
    return [[score / sum(row) for score in row] for row in scores]


def _shares(tokens: list[str]) -> list[float]:
    return [(1 + i % 4) / sum(1 + j % 4 for j in range(len(tokens))) for i in range(len(tokens))]


_PREMISE, _HYPOTHESIS = PREMISE.split(), HYPOTHESIS.split()
_PLACES = {
    "Angela Merkel": ("PER", 0, 0.998),
    "Barack Obama": ("PER", 18, 0.871),
    "Berlin": ("LOC", 34, 0.56),
}
CONTENTS = {
    "ner": {"sentence": NER},
    "srl": {"sentence": SRL},
    "coref": {"document": COREF},
    "squad": {"passage": PASSAGE, "question": "Who made the clock?"},
    "snli": {"premise": PREMISE, "hypothesis": HYPOTHESIS},
    "sst": {"sentence": SST},
    "classification": {"sentence": TOPIC},
}
"""An example of each task."""
RESULTS: dict[str, dict[str, Any]] = {
    "ner": {
        "tokens": _tokens(NER),
        "entities": [
            {"text": text, "type": kind, "char_start": start, "char_end": start + len(text), "probability": p}
            for text, (kind, start, p) in _PLACES.items()
        ],
    },
    "srl": {
        "tokens": _tokens(SRL),
        "predicates": [
            {
                "predicate": "own",
                "arguments": _arguments({"ARG0": "the two brothers", "R-ARG0": "who", "V": "own"})
                + _arguments({"ARG1": "the bakery near the old harbour"}),
            },
            {
                "predicate": "sold",
                "arguments": _arguments(
                    {
                        "ARGM-TMP": "After a long summer",
                        "ARG0": "the two brothers who own the bakery near the old harbour",
                        "V": "sold",
                        "ARG1": "their first house",
                        "ARG2": "to a young family from the north",
                        "ARGM-CAU": "because it had become too small",
                    }
                ),
            },
        ],
    },
    "coref": {
        "tokens": _tokens(COREF),
        "clusters": [
            [[0, 0], [2, 2], [14, 14], [27, 27]],
            [[7, 16], [18, 18], [22, 24]],
            [[22, 25], [27, 27]],
        ],
        "resolved": COREF.replace("her keys", "Ana's keys").replace("He smiled", "the old man smiled"),
    },
    "squad": {
        "answer": "the blacksmith Jonas Pell",
        "char_start": 70,
        "char_end": 95,
        "probability": 0.74,
        "n_best": [
            {"text": "the blacksmith Jonas Pell", "probability": 0.74},
            {"text": "Jonas Pell", "probability": 0.2},
            {"text": "the blacksmith Jonas Pell, who saw no need for minutes", "probability": 0.05},
        ],
    },
    "snli": {
        "label": "entailment",
        "probabilities": {"entailment": 0.91, "contradiction": 0.02, "neutral": 0.07},
        "premise_tokens": _PREMISE,
        "hypothesis_tokens": _HYPOTHESIS,
        "premise_to_hypothesis": _attention(_PREMISE, _HYPOTHESIS),
        "hypothesis_to_premise": _attention(_HYPOTHESIS, _PREMISE),
    },
    "sst": {
        "tokens": _tokens(SST),
        "label": "4",
        "probabilities": {"0": 0.01, "1": 0.01, "2": 0.08, "3": 0.3, "4": 0.6},
        "attention": _shares(_tokens(SST)),
    },
    "classification": {
        "label": "Sports",
        "probabilities": {"World": 0.01, "Sports": 0.97, "Business": 0.01, "Sci/Tech": 0.01},
    },
}
EXPLAINED = {"ner": 3, "classification": 1, "sst": 1, "snli": 1, "coref": 2}
"""The number of explained predictions of the tasks that can be explained."""


def canned_tab(task: str) -> Tab:
    """Returns the tab of a task, with one example."""
    mix = ScalarMix(num_layers=3, dim=2).requires_grad_(False)
    mix.scores.copy_(torch.tensor([0.30, 0.33, 0.37]).log())
    fields = [
        Field(name, name.capitalize(), 6 if name in ("document", "passage") else 2) for name in CONTENTS[task]
    ]
    return Tab(
        name=task if task != "classification" else "topics",
        task=task,
        fields=(*fields, *([PREDICATES_FIELD] if task == "srl" else [])),
        examples=[CONTENTS[task]],
        card=f"{task} in English text; trained on 12,000 sentences of two corpora; on dev data F1 74.0",
        mixes=[LearnedMix(task, name, mix, None) for name in ("input", "output")],  # type: ignore[arg-type]
        explains=task in EXPLAINED,
        tokenize=lambda text: join_words(_tokens(text)),
    )


def canned_model(task: str, limits: Limits) -> ServedModel:
    """Returns a model that answers each input with the answer to the example."""

    async def answer(queries: list[Query]) -> list[str]:
        return [
            json.dumps(_explained(task) if explain else _result(task, content))
            for content, explain in queries
        ]

    return ServedModel(answer=answer, description="", schema={}, limits=limits)  # type: ignore[arg-type]


def _result(task: str, content: JsonDict) -> JsonDict:
    """Returns the answer to the example; if the task finds spans, those in any other text."""
    if task not in ("srl", "coref", "squad") or content == CONTENTS[task]:
        return RESULTS[task]
    text = next(iter(content.values()))
    tokens = _tokens(text)
    if task == "srl":
        arguments = [{"label": label, "spans": [[i, i + 1]]} for i, label in enumerate(("ARG0", "V", "ARG1"))]
        return {"tokens": tokens, "predicates": [{"predicate": tokens[1], "arguments": arguments}]}
    if task == "coref":
        return {"tokens": tokens, "clusters": [[[0, 2], [2, 2]]], "resolved": text}
    span = {"char_start": 0, "char_end": len(text), "probability": 1.0}
    return {"answer": text, **span, "n_best": [{"text": text, "probability": 1.0}]}


def _explained(task: str) -> JsonDict:
    texts = [{"tokens": _tokens(text), "shares": _shares(_tokens(text))} for text in CONTENTS[task].values()]
    return {"result": RESULTS[task], "explanations": [texts] * EXPLAINED[task]}


@contextmanager
def canned_service() -> Iterator[str]:
    """Gives the address of a page with all tasks, and a tab of ELMo with random weights."""
    limits = Limits(max_tokens=150)
    tabs = [canned_tab(task) for task in RESULTS]
    models = {tab.name: canned_model(tab.task, limits) for tab in tabs}
    words = WordsInContext(
        encoder=BiLmEncoder(bilm=frozen(random_bilm()), mixes={}),
        corpus=read_corpus(bundled("fixtures/evaluation/corpus.txt")),
    )
    with running(models, limits, extend=lambda app: Page(app, tabs=tabs, limits=limits, words=words)) as url:
        yield url
