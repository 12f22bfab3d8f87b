"""What the process does from which all commands are forked, when it has imported everything."""

import gc
from typing import Any

from allennlp.common import params

from elmo_tasks.common.files import bundled

stock = params.evaluate_file
CONFIGS = [str(bundled(f"training_configs/{name}.jsonnet").resolve()) for name in ("ner_elmo", "bilm_words")]
JSON = {path: stock(path) for path in CONFIGS}
"""The configs that most commands train. Jsonnet takes a fifth of the time of a short training."""


def evaluate(path: str, **options: Any) -> str:
    return JSON.get(path) or stock(path, **options)


params.evaluate_file = evaluate
# Later garbage collections of a fork would look through all of this, and copy the memory that it stands on.
gc.freeze()
