"""The module `allennlp.commands.elmo` of AllenNLP 0.9, for code that imports it."""

from types import SimpleNamespace

from elmo_tasks import embedding
from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.elmo.files import DEFAULT_OPTIONS as DEFAULT_OPTIONS_FILE
from elmo_tasks.elmo.files import DEFAULT_WEIGHTS as DEFAULT_WEIGHT_FILE

__all__ = ["DEFAULT_OPTIONS_FILE", "DEFAULT_WEIGHT_FILE", "ElmoEmbedder"]


class ElmoEmbedder(embedding.ElmoEmbedder):
    """Our embedder, with the attribute that other packages use. No state is carried between calls."""

    @property
    def elmo_bilm(self) -> FrozenBiLm:
        """The biLM; loading a flair model moves it and its state to a device."""
        self.bilm._elmo_lstm = SimpleNamespace(_states=())  # type: ignore[assignment]
        return self.bilm
