"""What a model reads, as OpenAPI says it."""

from typing import Any, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict  # which pydantic wants before Python 3.12

from elmo_tasks.predictors.json_lines import JsonLinesPredictor


def request_schema(predictor: JsonLinesPredictor) -> dict[str, Any]:
    """The JSON schema of one input in any of the predictor's forms, or of a list of inputs."""
    optional: dict[str, Any] = {name: NotRequired[kind] for name, kind in predictor.optional_fields.items()}
    forms = []
    for form in predictor.forms:
        fields: Any = TypedDict(" and ".join(form), {**form, **optional})  # type: ignore[misc]
        forms.append(TypeAdapter(fields).json_schema())
    one = {"anyOf": forms}
    return {"anyOf": [*forms, {"type": "array", "items": one, "title": "several inputs"}]}
