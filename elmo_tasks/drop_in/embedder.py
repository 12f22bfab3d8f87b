"""What `allennlp.commands.elmo` was until AllenNLP 1.0, for code that imports it."""

from types import SimpleNamespace
from typing import Any

from elmo_tasks import embedding
from elmo_tasks.elmo.files import DEFAULT_OPTIONS as DEFAULT_OPTIONS_FILE
from elmo_tasks.elmo.files import DEFAULT_WEIGHTS as DEFAULT_WEIGHT_FILE

__all__ = ["DEFAULT_OPTIONS_FILE", "DEFAULT_WEIGHT_FILE", "ElmoEmbedder"]


class ElmoEmbedder(embedding.ElmoEmbedder):
    """Ours, with the attribute of AllenNLP's that other packages use. No state is carried between calls."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        # A flair model that is loaded moves the biLM and its state to its device
        self.bilm._elmo_lstm = SimpleNamespace(_states=())  # type: ignore[assignment]
        self.elmo_bilm = self.bilm
