"""Gradients of predictions by their words, for `allennlp.interpret` and explanations."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Field, Instance, TextFieldTensors, Token, Vocabulary
from allennlp.data.fields import LabelField, MetadataField, TextField
from allennlp.nn.util import get_text_field_mask, move_to_device
from allennlp.predictors import Predictor
from torch import nn
from torch.nn import functional as F

from elmo_tasks.data.fields import Metadata
from elmo_tasks.data.reader import texts_of
from elmo_tasks.elmo.model import BiLm
from elmo_tasks.elmo.token_embedder import ELMO_INDEXER


class TextVectors(nn.Module):
    """
    The module at which interpreters observe and change the input of a model. It returns the vectors of a
    text, `(1, tokens, dim)`, unchanged. For `Hotflip`, it turns the ids of words into vectors.
    """

    def __init__(self, vectors_of_words: Callable[[TextFieldTensors], torch.Tensor]) -> None:
        super().__init__()
        self._vectors_of_words = vectors_of_words

    def forward(self, text: torch.Tensor | TextFieldTensors) -> torch.Tensor:
        return text if isinstance(text, torch.Tensor) else self._vectors_of_words(text)


class Gradients:
    """
    The gradients of a predictor's loss by the vectors that its model reads: `[x; ELMo]`, or `[x; ELMo; ELMo]`
    with ELMo at the output too, whether the biLM is frozen or fine-tuned. AllenNLP's `grad_input_1` belongs
    to the last of `texts`.

    A task implements `predictions_to_labeled_instances` of the predictor: instances whose gold label is the
    prediction.
    """

    through_elmo = False
    """
    True if gradients go through ELMo, so that they include the effect of a word on the vectors of others.
    Then they are by `[x; t]`, where `t` is the biLM's token vector of the word, before its context.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor, self._model = predictor, predictor._model
        self.layer = TextVectors(self._vectors_of_words)
        """The layer that interpreters observe."""

    def texts(self, instance: Instance) -> list[list[str]]:
        """Returns the words of each text that the model reads, in the model's order."""
        return list(map(field_words, texts_of([instance])))

    def metadata_of(self, instance: Instance) -> Metadata:
        """Returns the metadata for changed texts: by default, the same class of the texts."""
        return type(instance["metadata"].metadata)(*self.texts(instance))

    def of(self, instances: list[Instance]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Computes `get_gradients`; `ConfigurationError` if the model is an ensemble."""
        for instance in instances:
            instance.fields["metadata"] = MetadataField(self.metadata_of(instance))
        readable = self._model.make_output_human_readable
        methods = self.observed_methods() | {
            "make_output_human_readable": lambda outputs: {**readable(outputs), "loss": outputs["loss"]}
        }
        with _replaced_methods(self._model, methods), warnings.catch_warnings():
            # AllenNLP reads the gradients by such a hook.
            warnings.filterwarnings("ignore", "Using a non-full backward hook", FutureWarning)
            return Predictor.get_gradients(self._predictor, instances)

    def observed_methods(self) -> dict[str, Callable[..., Any]]:
        """Returns, by their names, methods for the model with which it reads all texts through the layer."""
        model = self._model
        embed = getattr(model, "embed", None)
        if embed is None:
            raise ConfigurationError(f"gradients need a single model of a task, not a {type(model).__name__}")
        if self.through_elmo and model.elmo is not None and model.elmo.bilm is not None:
            return {"embed": partial(self._embed_through_elmo, embed, self._plain_bilm())}
        return {"embed": partial(self._embed, embed)}

    def observe(self, texts: list[torch.Tensor]) -> list[torch.Tensor]:
        """Returns texts, `(tokens, dim)`, from the layer; interpreters change its input in place."""
        return [self.layer(text.unsqueeze(0).clone()).squeeze(0) for text in texts]

    def _embed(self, embed: Callable[..., Any], tokens: TextFieldTensors) -> tuple[torch.Tensor, Any]:
        vectors, elmo = embed(tokens)
        if elmo.output is None:
            return self._observed(tokens, vectors)[0], elmo
        vectors, output = self._observed(tokens, vectors, elmo.output)
        return vectors, elmo._replace(output=output)

    def _plain_bilm(self) -> BiLm:
        """Returns the biLM in plain PyTorch, whose parts take hooks."""
        in_use = self._model.elmo.bilm
        weights = in_use.state_dict()
        bilm = BiLm(options=in_use.options).to(next(iter(weights.values())).device)
        bilm.load_state_dict(weights)
        return bilm.requires_grad_(False)

    def _embed_through_elmo(
        self, embed: Callable[..., Any], bilm: BiLm, tokens: TextFieldTensors
    ) -> tuple[torch.Tensor, Any]:
        """Calls `embed` with observed word vectors `x` and token vectors `t`."""
        model, in_use = self._model, self._model.elmo.bilm
        ids = tokens[ELMO_INDEXER][bilm.reads]
        # (batch, tokens, token dim)
        token_vectors = bilm.token_encoder(ids.flatten(0, 1)).unflatten(0, ids.shape[:2])
        # The biLM is frozen: without other word vectors there would be no gradient.
        token_vectors.requires_grad_()
        vectors, token_vectors = self._observed(tokens, model.embed_words(tokens), token_vectors)

        def replace_tokens(module: nn.Module, inputs: Any, with_bos_eos: torch.Tensor) -> torch.Tensor:
            bos, inner, eos = with_bos_eos.unflatten(0, (len(ids), -1)).split([1, ids.shape[1], 1], dim=1)
            inner = torch.where(bilm.token_encoder.present(ids).unsqueeze(2), token_vectors, inner)
            return torch.cat([bos, inner, eos], dim=1).flatten(0, 1)

        hooks = (
            model.text_field_embedder.register_forward_hook(lambda *_: vectors),
            bilm.token_encoder.register_forward_hook(replace_tokens),
        )
        model.elmo.bilm = bilm
        try:
            return embed(tokens)
        finally:
            model.elmo.bilm = in_use
            for hook in hooks:
                hook.remove()

    def _observed(self, tokens: TextFieldTensors, *parts: torch.Tensor) -> Sequence[torch.Tensor]:
        """Passes vectors of the same tokens, `(batch, tokens, size)` each, through the layer."""
        lengths = get_text_field_mask(tokens).sum(dim=1).tolist()
        joined = torch.cat(parts, dim=2)
        rows = self.observe([row[:length] for row, length in zip(joined, lengths, strict=True)])
        joined = torch.stack([F.pad(row, (0, 0, 0, joined.shape[1] - len(row))) for row in rows])
        return joined.split([part.shape[2] for part in parts], dim=2)

    def _vectors_of_words(self, indexed: TextFieldTensors) -> torch.Tensor:
        """*Shape:* ids of words, `(1, words)`, to the vectors of each as a text, `(1, words, dim)`."""
        (ids,) = indexed["tokens"]["tokens"].tolist()
        reader, vocab = self._predictor._dataset_reader, self._model.vocab
        words = [
            Instance({"text": TextField([Token(vocab.get_token_from_index(word))], reader.token_indexers)})
            for word in ids
        ]
        batch = Batch(words)
        batch.index_instances(vocab)
        tokens = move_to_device(batch.as_tensor_dict(), self._predictor.cuda_device)["text"]
        observed: list[torch.Tensor] = []
        hook = self.layer.register_forward_hook(lambda module, inputs, output: observed.append(output))
        try:
            with torch.no_grad():
                self.observed_methods()["embed"](tokens)
        finally:
            hook.remove()
        return torch.cat(observed, dim=1)


@contextmanager
def _replaced_methods(model: nn.Module, methods: dict[str, Callable[..., Any]]) -> Iterator[None]:
    for name, method in methods.items():
        setattr(model, name, method)
    try:
        yield
    finally:
        for name in methods:
            delattr(model, name)


class _ChangedText(TextField):
    """The text of a labelled instance, which attackers change, and compare by its words."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextField) and field_words(self) == field_words(other)


def labelled(instance: Instance, **labels: Field) -> Instance:
    """Returns a copy with labels. Its texts are copies too, since readers share theirs between instances."""
    texts = {
        name: _ChangedText(list(field.tokens), field._token_indexers)
        for name, field in instance.fields.items()
        if isinstance(field, TextField)
    }
    return Instance({**instance.fields, **texts, **labels})


def with_label(instance: Instance, label: str, vocab: Vocabulary) -> Instance:
    index = vocab.get_token_index(label, "labels")
    return labelled(instance, label=LabelField(index, skip_indexing=True))


def field_words(field: TextField) -> list[str]:
    return [token.text or "" for token in field.tokens]
