"""Prepares the fork server of the tests: it evaluates two configs, and freezes the imported objects."""

import gc
from typing import Any

from allennlp.common import params

from elmo_tasks.common.files import bundled

evaluate_file = params.evaluate_file
CONFIGS = [str(bundled(f"training_configs/{name}.jsonnet").resolve()) for name in ("ner_elmo", "bilm_words")]
JSON = {path: evaluate_file(path) for path in CONFIGS}
"""The JSON of the configs that most commands train. They read no environment variables."""


def evaluate_once(path: str, **options: Any) -> str:
    """Returns the JSON of a config. Jsonnet takes a fifth of the time of a short training."""
    return JSON.get(path) or evaluate_file(path, **options)


params.evaluate_file = evaluate_once
# Otherwise the garbage collector of each fork visits all these objects, and copies their memory pages.
gc.freeze()
