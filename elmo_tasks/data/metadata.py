"""What an instance knows beside its tensors."""

from dataclasses import fields
from typing import Any

from elmo_tasks.data.tokenization import Words


class Metadata:
    """
    Base class of the dataclasses in the readers' `MetadataField`: no dict or list, which AllenNLP would walk
    through.
    """

    def to_json(self) -> dict[str, Any]:
        """The fields by their names: what `allennlp evaluate --predictions-output-file` writes."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {
            name: value._asdict() if isinstance(value, Words) else value for name, value in values.items()
        }
