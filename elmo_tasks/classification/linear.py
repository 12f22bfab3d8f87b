"""The linear classifier of sentences and pairs, and its trainer: logistic regression on frozen features."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from allennlp.data import DataLoader, TextFieldTensors
from allennlp.models import Model
from allennlp.models.model import _DEFAULT_WEIGHTS
from allennlp.nn.util import get_text_field_mask, move_to_device
from allennlp.training import Trainer
from allennlp.training.util import evaluate

from elmo_tasks.archives import open_archive
from elmo_tasks.classification.model import TextClassifier, max_of_tokens, mean_of_tokens
from elmo_tasks.classification.reader import ClassifierText
from elmo_tasks.common.machine import chosen_device
from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Name, NonNegativeInt, PositiveFloat, Range
from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.modules.elmo_model import Outputs, Scores
from elmo_tasks.modules.fitted import LinearLayer
from elmo_tasks.modules.layers import pair_features
from elmo_tasks.modules.static_vectors import StaticVectors

if TYPE_CHECKING:
    from elmo_tasks.classification.fitting import CrossValidation, Weights

PREDICTIONS = "cross_validation.jsonl"
"""The file of a run with the texts of the training, and the predictions for them."""


@Model.register("elmo_linear")
class LinearModel(TextClassifier):
    """
    A linear layer over three kinds of features, for some hundreds or thousands of texts: the mean of a text's
    word vectors; if `LinearTrainer` has added a trained sentence encoder, the scores that it gives its
    labels, and its static word vectors; and n-grams (`NgramLayer`). Without an encoder, ELMo's vectors are
    the average of its layers.

    Explanations show the effect of words through ELMo alone, and not through n-grams and static vectors.
    For the parameters see `TextClassifier`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        from elmo_tasks.classification.ngrams import NgramLayer

        word_dim = self.input_dim + self.elmo_output_dim
        # The layers of an encoder, without outputs until there is one
        self.projection, self.label_scores = LinearLayer(word_dim, 0), LinearLayer(0, 0)
        self.static_vectors = StaticVectors()
        self.output = LinearLayer(word_dim * (4 if self.pairs else 1), len(self.labels))
        self.ngrams = NgramLayer(len(self.labels))
        self.initialize()

    def forward(
        self,
        sentence1: TextFieldTensors,
        metadata: list[ClassifierText],
        sentence2: TextFieldTensors | None = None,
        label: torch.Tensor | None = None,
    ) -> Outputs:
        """Classifies texts. *Shape:* `label` `(batch,)`. For the outputs see `Classifier.decode`."""
        return self.decode(self.scores(sentence1, sentence2, metadata), metadata, label)

    def scores(
        self,
        sentence1: TextFieldTensors,
        sentence2: TextFieldTensors | None,
        metadata: list[ClassifierText],
    ) -> Scores:
        """*Shape:* `logits` `(batch, classes)`."""
        vectors = self.all_vectors(sentence1, sentence2, metadata)
        return {"logits": self.output(vectors) + self.ngrams(*sides_of(metadata))}

    def all_vectors(
        self,
        sentence1: TextFieldTensors,
        sentence2: TextFieldTensors | None,
        metadata: list[ClassifierText],
    ) -> torch.Tensor:
        """*Shape:* `(batch, dim)`, see `blocks`."""
        # (batch, sentence_dim), for pairs (batch, 4 sentence_dim)
        vectors = self.vectors(sentence1, sentence2)
        if not self.static_vectors.dim:
            return vectors
        static = [self.static_vectors(side) for side in words_of(metadata)]
        return torch.cat([vectors, pair_features(*static) if self.pairs else static[0]], dim=1)

    def sentence_vectors(self, tokens: TextFieldTensors) -> torch.Tensor:
        """*Shape:* `(batch, word_dim + labels of the encoder)`."""
        mask = get_text_field_mask(tokens)
        # (batch, tokens, word_dim)
        words = self.at_output(*self.embed(tokens))
        mean = mean_of_tokens(words, mask)
        if not len(self.label_scores.weight):
            return mean
        # (batch, size of the encoder's vector)
        vector = max_of_tokens(self.projection(words), mask).relu()
        return torch.cat([mean, self.label_scores(vector)], dim=1)

    @property
    def blocks(self) -> list[tuple[str, int]]:
        """The parts of `all_vectors`, which are scaled apart, and their sizes."""
        copies = 4 if self.pairs else 1
        of_elmo = [
            ("words", self.projection.weight.shape[1]),
            ("label_scores", len(self.label_scores.weight)),
        ]
        return of_elmo * copies + [("static", self.static_vectors.dim)] * copies

    def add_encoder(self, encoder: Any) -> None:
        """
        Takes the mixes of the layers and the weights of an `elmo_sentence` model, whose scores of its labels
        become features. `ConfigurationError`: it has another biLM, or ELMo at other places.
        """
        elmo, bilm = self.elmo, encoder.elmo.bilm
        same = elmo is not None and isinstance(elmo.bilm, FrozenBiLm) and elmo.bilm.digest() == bilm.digest()
        if elmo is None or not same or self.input_dim != encoder.input_dim:
            raise ConfigurationError("sentence_encoder: the encoder has another biLM than the model")
        if elmo.mixes.keys() != encoder.elmo.mixes.keys():
            raise ConfigurationError(
                f"sentence_encoder needs the placement {encoder.elmo.placement!r} of ELMo"
            )
        elmo.mixes.load_state_dict(encoder.elmo.mixes.state_dict())
        self.projection.fill(encoder.projection.weight, encoder.projection.bias)
        heads = [encoder.heads[name][-1] for name in encoder.sentence_heads]
        weight, bias = (torch.cat([getattr(head, name) for head in heads]) for name in ("weight", "bias"))
        self.label_scores.fill(weight, bias)
        self.static_vectors.load_state_dict(encoder.static_vectors.state_dict())

    def fill(self, weights: "Weights") -> None:
        """Takes the weights that a regression has found."""
        self.output.fill(torch.from_numpy(weights.of_vectors), torch.from_numpy(weights.bias))
        self.ngrams.fill(weights.terms, weights.idf, weights.of_ngrams)


def words_of(texts: list[ClassifierText]) -> list[list[list[str]]]:
    """Returns the words of the texts; of pairs, of the first and of the second texts."""
    sides = [[text.sentence1 for text in texts], [text.sentence2 for text in texts if text.sentence2]]
    return [side for side in sides if side]


def sides_of(texts: list[ClassifierText]) -> list[list[str]]:
    """Returns the texts with a blank between their words; of pairs, the first and the second texts."""
    return [[" ".join(words) for words in side] for side in words_of(texts)]


@Trainer.register("elmo_linear")
class LinearTrainer(StrictParams, Trainer):
    """
    Fits an `elmo_linear` model by scikit-learn's logistic regression, in place of epochs. The features are
    computed once. With several labels each class has a regression of its own, and the threshold with the best
    F1 on the folds. The strength of the L2 penalty is the one with the best log loss on stratified folds; the
    model is then fitted on all training data. See `fitting`. There are no checkpoints: a run that was killed
    is fitted again.

    # Parameters

    folds : the number of folds; fewer if no class has that many texts.
    class_weight : the weight of the texts of a class in training: `balanced`, for as much weight of each
        class in all, or a weight by class, 1 for the classes that it lacks; `null`: 1 for all.
    sentence_encoder : a model of the type `elmo_sentence` with the same biLM, such as `elmo:sentence`: a part
        of the features are its scores of the labels that it has learned. It becomes a part of the model. It
        needs the same `placement` of ELMo.
    seed : draws the folds.
    cuda_device : the GPU that computes the features; by default the first one, -1 for the CPU.
    The others come from the other blocks of the config.
    """

    def __init__(
        self,
        *,
        serialization_dir: str,
        model: Model,
        data_loader: DataLoader,
        validation_data_loader: Optional[DataLoader] = None,
        folds: Annotated[int, Range(2)] = 5,
        class_weight: Optional[Union[Literal["balanced"], dict[str, PositiveFloat]]] = None,
        sentence_encoder: Optional[Name] = None,
        seed: NonNegativeInt = 13,
        cuda_device: Optional[Annotated[int, Range(-1)]] = None,
    ) -> None:
        if cuda_device is not None:
            chosen_device(cuda_device, option="cuda_device")
        super().__init__(serialization_dir, cuda_device)
        if not isinstance(model, LinearModel):
            raise ConfigurationError(f"trains a model of type elmo_linear, not a {type(model).__name__}")
        if getattr(data_loader, "max_instances_in_memory", None) is not None:
            raise ConfigurationError("max_instances_in_memory: the regression needs all texts at once")
        self.model = model.to(self.cuda_device)
        self.data_loader = data_loader
        self._validation_data_loader = validation_data_loader
        self.folds = folds
        self.seed = seed
        self.class_weight = class_weight
        self.sentence_encoder = sentence_encoder
        if isinstance(class_weight, dict) and model.several_labels:
            raise ConfigurationError("class_weight: for texts with several labels there is 'balanced' alone")
        if isinstance(class_weight, dict) and (unknown := class_weight.keys() - set(model.labels)):
            names = ", ".join(map(repr, sorted(unknown)))
            raise ConfigurationError(f"class_weight: the data have no class {names}")

    def train(self) -> dict[str, Any]:
        """
        Trains the model, writes its weights, and for each text the prediction by the model of the other folds
        to `PREDICTIONS`. Returns the scores of these predictions, as `cross_validation_`; the standard
        deviations of two over the folds, as `_spread`; the first by a share of the texts, as `_with_25`;
        the number of `folds`; `C` of the regression; and the scores of the validation data, as `validation_`
        and `best_validation_`.
        """
        from elmo_tasks.classification.fitting import Texts, best_thresholds, cross_validate, fit

        if self.sentence_encoder is not None:
            self.model.add_encoder(open_archive(self.sentence_encoder).model)
        self.model.eval()
        vectors, metadata, gold = self._read()
        labels = gold if self.model.several_labels else np.array(self.model.labels)[gold]
        sides = sides_of(metadata)
        texts = Texts.count(vectors, self.model.blocks, sides)
        copies = list(zip(*sides, strict=True))
        names, weight = self.model.labels, self.class_weight
        chosen = cross_validate(texts, labels, names, copies, folds=self.folds, seed=self.seed, weight=weight)
        self.model.fill(fit(texts, labels, names, C=chosen.C, weight=weight))
        if self.model.several_labels:
            self.model.thresholds.copy_(torch.from_numpy(best_thresholds(gold, chosen.probabilities)))
        torch.save(self.model.state_dict(), Path(self._serialization_dir, _DEFAULT_WEIGHTS))
        predicted = self._predicted(chosen.probabilities, gold, chosen)
        self._write(metadata, gold, predicted, chosen.probabilities)
        metrics: dict[str, Any] = {"folds": len(chosen.folds), "C": chosen.C}
        metrics |= {
            f"cross_validation_{name}": value
            for name, value in self._scores_of_folds(predicted, gold, chosen).items()
        }
        if (loader := self._validation_data_loader) is not None:
            loader.set_target_device(self.cuda_device)
            scores = evaluate(self.model, loader, self.cuda_device)
            metrics |= {f"{best}validation_{name}": scores[name] for best in ("", "best_") for name in scores}
        return metrics

    def get_best_weights_path(self) -> Optional[str]:
        """Returns the file, as a path that AllenNLP may join to the folder's; `None` before it is written."""
        path = Path(self._serialization_dir, _DEFAULT_WEIGHTS).absolute()
        return str(path) if path.exists() else None

    @torch.no_grad()
    def _read(self) -> tuple[np.ndarray, list[ClassifierText], np.ndarray]:
        """Returns the vectors, texts and label ids of the data, in their order. *Shape:* `(texts, dim)`."""
        order = {
            id(each["metadata"].metadata): index
            for index, each in enumerate(self.data_loader.iter_instances())
        }
        vectors, metadata, labels = [], [], []
        for batch in Tqdm.tqdm(self.data_loader, desc="features"):
            batch = move_to_device(batch, self.cuda_device)
            texts = batch["metadata"]
            vectors.append(self.model.all_vectors(batch["sentence1"], batch.get("sentence2"), texts).cpu())
            metadata += texts
            self.model.check_labels(batch["label"])
            labels.append(batch["label"].cpu())
        rows = sorted(range(len(metadata)), key=lambda row: order[id(metadata[row])])
        return (
            torch.cat(vectors).numpy()[rows],
            [metadata[row] for row in rows],
            torch.cat(labels).numpy()[rows],
        )

    def _scores_of_folds(
        self, predicted: np.ndarray, gold: np.ndarray, chosen: "CrossValidation"
    ) -> dict[str, float]:
        """Returns all scores, the spread of two of them, and the first by a share of the texts."""
        scores = self._scores(predicted, gold)
        of_folds = [self._scores(predicted[fold], gold[fold]) for fold in chosen.folds]
        first = "micro_f1" if self.model.several_labels else "accuracy"
        for name in (first, "macro_f1"):
            scores[f"{name}_spread"] = float(np.std([of_fold[name] for of_fold in of_folds]))
        for share, probabilities in chosen.curve.items():
            of_share = self._predicted(probabilities, gold, chosen)
            scores[f"{first}_with_{share}"] = self._scores(of_share, gold)[first]
        return scores

    def _predicted(
        self, probabilities: np.ndarray, gold: np.ndarray, chosen: "CrossValidation"
    ) -> np.ndarray:
        """Returns the labels of held-out texts, in the shape of `gold`; several by `labels_of_folds`."""
        from elmo_tasks.classification.fitting import labels_of_folds

        if self.model.several_labels:
            return labels_of_folds(gold, probabilities, chosen.folds)
        return probabilities.argmax(axis=1)

    def _scores(self, predicted: np.ndarray, gold: np.ndarray) -> dict[str, float]:
        """*Shape:* class ids `(texts,)`, or 0 and 1 `(texts, classes)` for several labels."""
        self.model.metric(torch.from_numpy(predicted), torch.from_numpy(gold))
        return self.model.metric.get_metric(reset=True)

    def _write(
        self,
        metadata: list[ClassifierText],
        gold: np.ndarray,
        predicted: np.ndarray,
        probabilities: np.ndarray,
    ) -> None:
        names, several = self.model.labels, self.model.several_labels
        outputs = {"metadata": metadata, "probabilities": torch.from_numpy(probabilities)}
        with open(Path(self._serialization_dir, PREDICTIONS), "w", encoding="utf-8") as file:
            for result, ids, found in zip(self.model.results(outputs), gold, predicted, strict=True):
                record = result.to_json()
                if several:
                    record["labels"] = [names[i] for i in np.flatnonzero(found)]
                    record["gold_labels"] = [names[i] for i in np.flatnonzero(ids)]
                else:
                    record["gold_label"] = names[ids]
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
