"""The values of `load` in a notebook: the page's short answers, which bring its style with them."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from allennlp.common import JsonDict
from markupsafe import Markup

from elmo_tasks.common.colours import STYLE
from elmo_tasks.page.templates import template
from elmo_tasks.pipeline.results import Answer, Clusters, Entities, Predicates

MOST = 20
"""The values of a list that are shown."""


class _Tab(NamedTuple):
    """As much of a tab of the page as a short answer needs."""

    colours: Mapping[str, int]
    sentences: Mapping[int, tuple[int, int]]

    def sentence_of(self, text: str, predicate: JsonDict) -> tuple[int, int]:
        return self.sentences[predicate["char_start"]]


def to_html(values: Sequence[Any]) -> str:
    """Returns the HTML of values with their contexts, of the first `MOST` if there are more."""
    answers = [
        {
            "content": value.context.texts,
            "tab": _Tab(value.context.colours, getattr(value, "sentences", {})),
            **_answer(value),
        }
        for value in values[:MOST]
    ]
    return template("notebook.html").render(
        answers=answers, others=len(values) - len(answers), style=_style()
    )


@cache
def _style() -> Markup:
    """Returns the style sheet as rules that are nested in one, so that they hold within a value alone."""
    style = STYLE.read_text(encoding="utf-8")
    return Markup(style.replace(":root {", "& {").replace("body {", "& {"))


def _answer(value: Any) -> JsonDict:
    """Returns the template of a value, and its result as the template reads it."""
    if isinstance(value, Entities):
        return {"template": "ner", "result": {"entities": list(map(_span, value))}}
    if isinstance(value, Predicates):
        return {"template": "srl", "result": {"predicates": list(map(_predicate, value))}}
    if isinstance(value, Clusters):
        return {"template": "coref", "result": {"mentions": [list(map(_span, cluster)) for cluster in value]}}
    if isinstance(value, Answer):
        return {"template": "squad", "result": _span(value)}
    return {"template": "labels", "result": value._asdict()}


def _span(part: Any) -> JsonDict:
    return {**part._asdict(), "char_start": part.start, "char_end": part.end}


def _predicate(predicate: Any) -> JsonDict:
    arguments = [{"label": label, "char_spans": spans} for label, _, spans in predicate.arguments]
    return {**_span(predicate), "predicate": predicate.text, "arguments": arguments}
