"""What a model reads, as OpenAPI says it."""

from typing import Any

from pydantic import create_model

from elmo_tasks.predictors.json_lines import JsonLinesPredictor


def request_schema(predictor: JsonLinesPredictor) -> dict[str, Any]:
    """The JSON schema of one input in any of the predictor's forms, or of a list of inputs."""
    optional: dict[str, Any] = {name: (kind | None, None) for name, kind in predictor.optional_fields.items()}
    forms = []
    for form in predictor.forms:
        fields: dict[str, Any] = {name: (kind, ...) for name, kind in form.items()}
        forms.append(create_model(" and ".join(form), **fields, **optional))
    one = {"anyOf": [form.model_json_schema() for form in forms]}
    return {"anyOf": [*one["anyOf"], {"type": "array", "items": one, "title": "several inputs"}]}
