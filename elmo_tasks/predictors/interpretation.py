"""
What AllenNLP's saliency interpreters and attackers (`allennlp.interpret`) need of a predictor.

Which words a prediction rests on, by AllenNLP's saliency interpreters.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Field, Instance, TextFieldTensors, Token
from allennlp.data.fields import LabelField, MetadataField, TextField
from allennlp.interpret.saliency_interpreters import SaliencyInterpreter
from allennlp.nn.util import get_text_field_mask, move_to_device
from allennlp.predictors import Predictor
from torch import nn
from torch.nn import functional as F

from elmo_tasks.data.fields import Metadata
from elmo_tasks.data.reader import text_fields
from elmo_tasks.elmo.indexers import ELMO_INDEXER
from elmo_tasks.elmo.model import BiLm
from elmo_tasks.predictors.json_lines import JsonLinesPredictor


# ==== predictors.interpretation
class TextVectors(nn.Module):
    """
    Where interpreters look at a model and change what it reads: called with the vectors of each text,
    `(1, tokens, dim)`, it returns them.
    """

    def __init__(self, of_words: Callable[[TextFieldTensors], torch.Tensor]) -> None:
        super().__init__()
        self._of_words = of_words

    def forward(self, read: torch.Tensor | TextFieldTensors) -> torch.Tensor:
        """Returns the vectors of words, as `Hotflip` has them."""
        return read if isinstance(read, torch.Tensor) else self._of_words(read)


class InterpretablePredictor(JsonLinesPredictor):
    """
    Base class of the predictors whose models can be explained. Gradients are those of the loss by the vectors
    that the model reads, `[x; ELMo]`, and `[x; ELMo; ELMo]` where ELMo is also placed at the output: the part
    of ELMo counts, whether it is fine-tuned or not. AllenNLP's `grad_input_1` is that of the last of
    `texts`.

    A task says of which instance the loss is that of the prediction (`predictions_to_labeled_instances`), and
    what is known of a text that an attacker has changed (`metadata_of`).
    """

    through_elmo = False
    """
    Whether gradients go through ELMo: then they are by `[x; t]`, where `t` is the biLM's vector of the word
    by itself, of its characters. So what a word does to the vectors of others counts for it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._layer = TextVectors(self._vectors_of_words)

    def texts(self, instance: Instance) -> list[list[str]]:
        """The words of each text that the model reads, in the order in which it does."""
        return [words_of(text) for field in instance.fields.values() for text in text_fields(field)]

    def metadata_of(self, instance: Instance) -> Metadata:
        """What the instance knows beside tensors, as its texts and labels are now."""
        raise NotImplementedError

    def get_interpretable_layer(self) -> nn.Module:
        return self._layer

    def get_interpretable_text_field_embedder(self) -> nn.Module:
        return self._layer

    def get_gradients(self, instances: list[Instance]) -> tuple[dict[str, Any], dict[str, Any]]:
        """
        See `Predictor.get_gradients`.

        # Raises
        `ConfigurationError`: the model is an ensemble.
        """
        for instance in instances:
            instance.fields["metadata"] = MetadataField(self.metadata_of(instance))
        with self._seen_by_layer():
            return super().get_gradients(instances)

    @contextmanager
    def _seen_by_layer(self) -> Iterator[None]:
        """The vectors of all texts pass through the layer, and the readable output has the loss."""
        model = self._model
        readable = model.make_output_human_readable
        own = self._reading() | {
            "make_output_human_readable": lambda outputs: {**readable(outputs), "loss": outputs["loss"]}
        }
        for name, method in own.items():
            setattr(model, name, method)
        try:
            yield
        finally:
            for name in own:
                delattr(model, name)

    def _reading(self) -> dict[str, Callable[..., Any]]:
        """Methods of the model that read texts, by their names, and what stands for them meanwhile."""
        embed = getattr(self._model, "embed", None)
        if embed is None:
            raise ConfigurationError(
                f"found a model of the class {type(self._model).__name__}, expected a single model of a task"
            )
        if self._reads_words:
            return {"embed": partial(self._embed_words, embed, self._plain_bilm())}
        return {"embed": partial(self._embed, embed)}

    def look(self, texts: list[torch.Tensor]) -> list[torch.Tensor]:
        """Texts, `(tokens, dim)`, as the layer returns them; interpreters change what they get in place."""
        return [self._layer(text.unsqueeze(0).clone()).squeeze(0) for text in texts]

    @property
    def _reads_words(self) -> bool:
        elmo = self._model.elmo
        return self.through_elmo and elmo is not None and elmo.bilm is not None

    def _embed(self, embed: Callable[..., Any], tokens: TextFieldTensors) -> tuple[torch.Tensor, Any]:
        vectors, elmo = embed(tokens)
        if elmo.output is None:
            return self._seen(tokens, vectors)[0], elmo
        vectors, output = self._seen(tokens, vectors, elmo.output)
        return vectors, elmo._replace(output=output)

    def _plain_bilm(self) -> BiLm:
        """The biLM in plain PyTorch, whose parts can be hooked; those of the engine cannot."""
        in_use = self._model.elmo.bilm
        weights = in_use.state_dict()
        bilm = BiLm(options=in_use.options).to(next(iter(weights.values())).device)
        bilm.load_state_dict(weights)
        return bilm.requires_grad_(False)

    def _embed_words(
        self, embed: Callable[..., Any], bilm: BiLm, tokens: TextFieldTensors
    ) -> tuple[torch.Tensor, Any]:
        """With a biLM that goes on from the vectors of words that the layer returns."""
        model, in_use = self._model, self._model.elmo.bilm
        ids = tokens[ELMO_INDEXER][bilm.reads]
        vectors, words = self._seen(tokens, *self._vectors_and_words(tokens, bilm))

        def within_marks(module: nn.Module, inputs: Any, marked: torch.Tensor) -> torch.Tensor:
            first, inner, last = marked.unflatten(0, (len(ids), -1)).split([1, ids.shape[1], 1], dim=1)
            inner = torch.where(bilm.token_encoder.present(ids).unsqueeze(2), words, inner)
            return torch.cat([first, inner, last], dim=1).flatten(0, 1)

        hooks = (
            model.text_field_embedder.register_forward_hook(lambda *_: vectors),
            bilm.token_encoder.register_forward_hook(within_marks),
        )
        model.elmo.bilm = bilm
        try:
            return embed(tokens)
        finally:
            model.elmo.bilm = in_use
            for hook in hooks:
                hook.remove()

    def _vectors_and_words(self, tokens: TextFieldTensors, bilm: BiLm) -> list[torch.Tensor]:
        """*Shape:* `x` `(batch, tokens, dim)`, and the biLM's vectors of the words by themselves."""
        ids = tokens[ELMO_INDEXER][bilm.reads]
        words = bilm.token_encoder(ids.flatten(0, 1)).unflatten(0, ids.shape[:2])
        # Of the biLM nothing is trained: without word vectors beside it there would be no gradient
        words.requires_grad_()
        return [self._model.embed_words(tokens), words]

    def _seen(self, tokens: TextFieldTensors, *parts: torch.Tensor) -> Sequence[torch.Tensor]:
        """Vectors of the same tokens, `(batch, tokens, size)`, after a look at all of them together."""
        lengths = get_text_field_mask(tokens).sum(dim=1).tolist()
        joined = torch.cat(parts, dim=2)
        rows = self.look([row[:length] for row, length in zip(joined, lengths, strict=True)])
        joined = torch.stack([F.pad(row, (0, 0, 0, joined.shape[1] - len(row))) for row in rows])
        return joined.split([part.shape[2] for part in parts], dim=2)

    def _vectors_of_words(self, indexed: TextFieldTensors) -> torch.Tensor:
        """*Shape:* ids of words, `(1, words)`, to the vectors of each as a text, `(1, words, dim)`."""
        (ids,) = indexed["tokens"]["tokens"].tolist()
        reader, vocab = self._dataset_reader, self._model.vocab
        words = [
            Instance({"text": TextField([Token(vocab.get_token_from_index(word))], reader.token_indexers)})
            for word in ids
        ]
        batch = Batch(words)
        batch.index_instances(vocab)
        tokens = move_to_device(batch.as_tensor_dict(), self.cuda_device)["text"]
        seen: list[torch.Tensor] = []
        hook = self._layer.register_forward_hook(lambda module, inputs, output: seen.append(output))
        try:
            with torch.no_grad():
                self._reading()["embed"](tokens)
        finally:
            hook.remove()
        return torch.cat(seen, dim=1)

    def _with_label(self, instance: Instance, label: str) -> list[Instance]:
        """The instance of a class, which AllenNLP can compare with others."""
        index = self._model.vocab.get_token_index(label, "labels")
        return [labelled(instance, label=LabelField(index, skip_indexing=True))]


class _Text(TextField):
    """The text of a labelled instance: attackers change it, and compare it by its words."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextField) and words_of(self) == words_of(other)


def labelled(instance: Instance, **labels: Field) -> Instance:
    """A copy with labels. Its texts are its own, since readers keep theirs for other instances."""
    texts = {
        name: _Text(list(field.tokens), field._token_indexers)
        for name, field in instance.fields.items()
        if isinstance(field, TextField)
    }
    return Instance({**instance.fields, **texts, **labels})


def words_of(field: TextField) -> list[str]:
    """The words of a text field."""
    return [token.text or "" for token in field.tokens]


# ==== predictors.explanations
# AllenNLP's simple gradient multiplies by the vector of the first word alone; so it is not the default.
METHODS = ("integrated-gradient", "simple-gradient", "smooth-gradient")


class Explainer:
    """
    # Parameters

    predictor : one that `can_explain`.
    method : one of `METHODS`.
    """

    def __init__(self, predictor: InterpretablePredictor, method: str = METHODS[0]) -> None:
        self._predictor = predictor
        self._interpreter = SaliencyInterpreter.by_name(method)(predictor)

    def __call__(self, json_dict: JsonDict) -> dict[str, Any]:
        """
        Returns of an input an object: `result`, as `allennlp predict` has it; and `explanations`, of each
        prediction a list with an object for each text that the model reads: its `tokens` and their `shares`,
        which add up to 1. There are none of an input without words.

        # Raises
        `ConfigurationError`: an input that the predictor cannot read.
        """
        result = self._predictor.predict_json(json_dict)
        content = self._predictor.read(json_dict)
        if self._predictor.empty_result(content) is not None:
            return {"result": result, "explanations": []}
        texts = self._predictor.texts(self._predictor.to_instance(content))
        return {"result": result, "explanations": self._explanations(json_dict, texts)}

    def _explanations(self, json_dict: JsonDict, texts: list[list[str]]) -> list[list[dict[str, Any]]]:
        return [
            [
                {"tokens": words, "shares": [_finite(share) for share in gradients[f"grad_input_{number}"]]}
                # AllenNLP counts the texts from the last one
                for number, words in zip(range(len(texts), 0, -1), texts, strict=True)
            ]
            for gradients in self._interpreter.saliency_interpret_from_json(json_dict).values()
        ]


def can_explain(predictor: Predictor) -> bool:
    """Not that of a task without explanations, and not an ensemble's."""
    explains = type(predictor).predictions_to_labeled_instances
    return explains is not Predictor.predictions_to_labeled_instances and hasattr(predictor._model, "embed")


def _finite(share: float) -> float:
    """0 where all gradients of a text are, so that they have no shares."""
    return share if math.isfinite(share) else 0.0
