"""The bidirectional language model of Peters et al. 2018, section 3.1, which trains a biLM."""

import json
import logging
import math
from typing import Any, Optional

import torch
from allennlp.common import Lazy, Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models import Model
from torch.nn import functional as F

from elmo_tasks.common.errors import FilePath
from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Name, NonNegativeInt, Probability
from elmo_tasks.elmo import BiLmOptions, LstmState, TrainedBiLm
from elmo_tasks.elmo.files import local_file, read_options, read_softmax
from elmo_tasks.elmo.inference.layout import PackedSteps
from elmo_tasks.elmo.inference.training_products import trains_in_bfloat16
from elmo_tasks.elmo.model.characters import BEGIN_SENTENCE, END_SENTENCE, UNKNOWN
from elmo_tasks.elmo.model.encoders import WordEncoder
from elmo_tasks.elmo.model.options import CharacterOptions
from elmo_tasks.elmo.token_embedder import archived_state
from elmo_tasks.language_model.bptt_batch import NAMESPACE, Block, pad_streams
from elmo_tasks.language_model.metric import FrequentWords, Perplexity
from elmo_tasks.language_model.softmax import FullSoftmax, Softmax
from elmo_tasks.vectors.files import take_vectors

logger = logging.getLogger(__name__)

_OPTIONS = "options"
MANY_UNKNOWN = 0.2
"""The share of unknown words from which on a perplexity says little."""
TRAINING_TARGETS = 32
"""Targets of a block and direction that training metrics count, since all words are scored for each."""


@Model.register("elmo_bilm")
class BiLmModel(StrictParams, Model):
    """
    A forward and a backward LSTM language model that share the token layer and the softmax.

    The state of a stream is carried from block to block, without gradients: truncated back-propagation
    through time. A class is the index of a word in the vocabulary minus 1, since padding has no class.

    # Parameters

    vocab : the words that are predicted and, for word input, read; the OOV token is `<UNK>`.
    options : the sizes of a new biLM, in the layout of `options.json`; `n_tokens_vocab` may be left out.
    softmax : `full`, `sampled` or `adaptive`.
    dropout : the dropout rate of the inputs of each LSTM layer and of the softmax.
    options_file : in place of `options`: path, URL or `hf://` name of an official `options.json`.
    weight_file : path, URL or `hf://` name of official weights to start from, with `options_file`. If they
        hold a softmax, or the vectors of words, `vocab` must have the same words in the same order
        (`elmo_words`). If they hold no softmax, a new one is made, with a warning. An archive needs none of
        these files.
    softmax_file : path, URL or `hf://` name of a file with the softmax of `weight_file`, `softmax/W` and
        `softmax/b`, which bilm-tf's authors published apart from the other weights.
    input_vectors : path or URL of a file of word vectors, the initial ones of a new biLM that reads words, of
        `projection_dim` numbers each (see `take_vectors`). An archive does not need it.
    frequent_words : the number of most frequent words among which evaluations count confusions, in both
        directions (`FrequentWords`); 0: none.
    precision : of the matrix products of training, `float32` or the faster `bfloat16`. Weights, sums and
        everything else are in float32 in both, and so are evaluations.

    # Raises
    `ConfigurationError`: a `precision` that this processor does not have; neither or both of `options` and
    `options_file`; a biLM of Unicode characters; weights that do not fit `softmax` or `vocab`; and all errors
    of reading the files. In `forward`: the reader's `input` differs from the biLM's.
    """

    default_predictor = "elmo_bilm"
    softmax_is_new: bool
    """True if the biLM came with trained weights, and the softmax did not."""

    def __init__(
        self,
        *,
        vocab: Vocabulary,
        options: Optional[dict[str, Any]] = None,
        softmax: Lazy[Softmax],
        dropout: Probability = 0.0,
        options_file: Optional[Name] = None,
        weight_file: Optional[Name] = None,
        softmax_file: Optional[Name] = None,
        input_vectors: Optional[Name] = None,
        frequent_words: NonNegativeInt = 0,
        precision: Name = "float32",
    ) -> None:
        super().__init__(vocab)
        for key, file, needed, other in (
            ("weight_file", weight_file, "options_file", options_file),
            ("softmax_file", softmax_file, "weight_file", weight_file),
        ):
            if file is not None and other is None:
                raise ConfigurationError(f"`{key}` ({file}) requires `{needed}`")
        words = words_by_class(vocab)
        if (options is None) == (options_file is None):
            raise ConfigurationError("set either `options` or `options_file`")
        block = {**(options or {}), "n_tokens_vocab": len(words)}
        sizes = (
            read_options(options_file)
            if options_file
            else BiLmOptions.from_json(block, where="model.options")
        )
        if isinstance(sizes.tokens, CharacterOptions) and sizes.tokens.dictionaries is not None:
            raise ConfigurationError(
                f"{options_file or 'options'}: a biLM of Unicode characters (ELMoForManyLangs) can be "
                "trained with a task, but not as a language model"
            )
        self.bilm = TrainedBiLm(options=sizes, precision=precision)
        if isinstance(self.bilm.token_encoder, WordEncoder):
            if weight_file is not None:
                self._check_same_words("the vectors of words", weight_file)
            self.bilm.token_encoder.set_vocabulary(words)
        self.num_classes = len(words)
        self._unknown_class = words.index(UNKNOWN)
        for boundary in (BEGIN_SENTENCE, END_SENTENCE):
            if boundary not in words:
                logger.warning(
                    "The vocabulary has no %s, which counts as an unknown word, and `allennlp elmo export` "
                    "writes no softmax. Count the words of the text, or take the words of a biLM.",
                    boundary,
                )
        self._warned_of_unknown = False
        if (counts := (vocab._retained_counter or {}).get(NAMESPACE)) is not None:
            ids = vocab.get_token_to_index_vocabulary(NAMESPACE)
            unknown = sum(count for word, count in counts.items() if word not in ids)
            self._warn_of_unknown(unknown / max(1, sum(counts.values())))
        self.softmax = softmax.construct(num_classes=self.num_classes, dim=self.bilm.options.projection_dim)
        self.softmax_is_new = False
        if weight_file is not None:
            self._start_from(weight_file, softmax_file)
        if input_vectors is not None:
            if not isinstance(self.bilm.token_encoder, WordEncoder):
                raise ConfigurationError(
                    f"`input_vectors` ({input_vectors}) requires a biLM that reads words"
                )
            take_vectors(self.bilm.token_encoder.embedding, words, input_vectors)
        self.dropout = dropout
        self.perplexity, self.training_perplexity = Perplexity(), Perplexity()
        self.metric = FrequentWords(words, frequent_words) if frequent_words else None
        # The last state of the streams, by training or evaluation and by the process that made the blocks
        self._states: dict[tuple[bool, int], LstmState] = {}

    def forward(self, block: Block) -> dict[str, torch.Tensor]:
        """
        Computes the loss of a block: the mean over steps and directions, in nats. Evaluation also returns the
        `log_probabilities` of the targets, `(1, 2, steps)`, forward and backward, the streams end to end.
        """
        lengths = block["lengths"]
        if not int(lengths.sum()):
            # A worker without text takes part in the update, but not in the mean of an evaluation.
            if not self.training:
                return {}
            return {"loss": sum(weight.sum() * 0 for weight in self.parameters() if weight.requires_grad)}
        fixed_shape = self._has_fixed_shape(lengths.device)
        block, real = pad_streams(block) if fixed_shape else (block, None)
        steps = PackedSteps.of(block["lengths"])
        positions, rows = steps.positions[0], steps.rows[0]
        # (2 steps, projection_dim), (2 steps,): forward, then backward
        outputs = torch.cat(self._outputs(block, steps, fixed_shape))
        targets = block["targets"][:, positions].flatten()
        if real is not None:
            real_rows = real[positions].repeat(2).nonzero().squeeze(1)
            outputs, targets = outputs.index_select(0, real_rows), targets[real_rows]
        if self.training:
            outputs = F.dropout(outputs, self.dropout)
            self._count_some(outputs.detach(), targets)
            return {"loss": self.softmax.loss(outputs, targets, self.bilm.products) / len(targets)}
        # (2 steps,) twice
        scores, predicted = self.softmax.exact(outputs, targets)
        if self.metric is not None:
            self.metric(predicted, targets)
        # (2, steps) twice
        scores, targets = scores.view(2, -1), targets.view(2, -1)
        self.perplexity(scores, predicted.view(2, -1) == targets, targets == self._unknown_class)
        return {"loss": -scores.mean(), "log_probabilities": scores[:, rows].unsqueeze(0)}

    def _has_fixed_shape(self, device: torch.device) -> bool:
        """Returns whether blocks are padded to one shape, so that a GPU can record their training."""
        return self.training and device.type == "cuda"

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        """In training they count some targets of each block, with dropout; in evaluation all targets."""
        metrics = (self.training_perplexity if self.training else self.perplexity).get_metric(reset)
        if reset:
            self._warn_of_unknown(metrics.get("unknown_words", 0.0))
        words = self.metric.get_metric(reset) if self.metric is not None and not self.training else {}
        return metrics | words

    def _warn_of_unknown(self, share: float) -> None:
        if share > MANY_UNKNOWN and not self._warned_of_unknown:
            self._warned_of_unknown = True
            logger.warning(
                "%.0f%% of the words are not among the %s of the vocabulary, and count as one word, so the "
                "perplexity says little. Use a larger vocabulary (max_vocab_size, min_count), or count the "
                "words of this text.",
                100 * share,
                f"{self.num_classes:,}",
            )

    def extend_embedder_vocab(self, embedding_sources_mapping: dict[str, str] | None = None) -> None:
        """AllenNLP's hook for new words, which a biLM cannot take: a `ConfigurationError`."""
        if (num_words := len(words_by_class(self.vocab))) != self.num_classes:
            raise ConfigurationError(
                f"the vocabulary has {num_words:,} words, but the softmax was trained with "
                f"{self.num_classes:,} words"
            )

    def _start_from(self, weight_file: str, softmax_file: str | None) -> None:
        with local_file(weight_file) as path:
            self.bilm.load_weights(path)
        source = softmax_file or weight_file
        softmax = read_softmax(source, self.bilm.options)
        if softmax is None and softmax_file is None:
            self.softmax_is_new = True
            logger.warning(
                "%s holds no softmax: a new, random one is made, and perplexities mean nothing until it is "
                "trained (see elmo_softmax_first)",
                weight_file,
            )
            return
        self._check_same_words("a softmax over words", source)
        if softmax is None:
            problem = "lacks the datasets softmax/W and softmax/b"
        elif not isinstance(self.softmax, FullSoftmax):
            problem = "holds a full softmax, so the type of `softmax` must be full or sampled"
        elif len(softmax[1]) != self.num_classes:
            problem = (
                f"holds a softmax over {len(softmax[1]):,} words, but the vocabulary has "
                f"{self.num_classes:,}; use the words that it was trained with (vocabulary elmo_words)"
            )
        else:
            with torch.no_grad():
                self.softmax.weight.copy_(softmax[0])
                self.softmax.bias.copy_(softmax[1])
            return
        raise ConfigurationError(f"{source} {problem}")

    def _check_same_words(self, content: str, weight_file: str) -> None:
        """Rejects words counted from a text: even if they are as many, their order differs."""
        if self.vocab._retained_counter:
            raise ConfigurationError(
                f"{weight_file} holds {content}, but the words are counted from the text; use the words that "
                "it was trained with (vocabulary elmo_words)"
            )

    @classmethod
    def _load(
        cls, config: Params, serialization_dir: FilePath, weights_file: FilePath | None, cuda_device: int
    ) -> Model:
        """AllenNLP's hook for loading an archive, which needs no file that the model started from."""
        block = config["model"]
        if block.get("precision") == "bfloat16" and not trains_in_bfloat16():
            # Only training uses it.
            block.pop("precision")
        block.pop("input_vectors", None)
        if block.pop("options_file", None) is not None:
            block.pop("weight_file", None)
            block.pop("softmax_file", None)
            state = archived_state(serialization_dir, weights_file)
            block["options"] = json.loads(state["_extra_state"][_OPTIONS])
        return super()._load(config, serialization_dir, weights_file, cuda_device)

    def _outputs(
        self, block: Block, steps: PackedSteps, fixed_shape: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """*Shape:* the output of the last layer, forward and backward, `(steps, projection_dim)`, packed."""
        encoder = self.bilm.token_encoder
        if block["words"].shape[1:] != encoder.bos_eos_ids.shape[1:]:
            expected = "words" if isinstance(encoder, WordEncoder) else "characters"
            raise ConfigurationError(
                f'the biLM reads {expected}; set "input": "{expected}" in dataset_reader and in '
                "validation_dataset_reader"
            )
        vectors, index = self.bilm.token_vectors(block["words"])
        # (2, steps)
        inputs = index[block["inputs"][:, steps.positions[0]]]
        source = self.training, int(block["process"])
        layers, state = self.bilm.run_layers(
            (F.embedding(inputs[0], vectors), F.embedding(inputs[1], vectors)),
            steps,
            self._state(source, block["fresh"]),
            self.dropout if self.training else 0.0,
            fixed_shape,
        )
        self._states[source] = LstmState(*(part.detach() for part in state))
        return layers[-1]

    def _state(self, source: tuple[bool, int], fresh: torch.Tensor) -> LstmState:
        previous = self._states.get(source)
        if previous is None or previous.hidden.size(2) != len(fresh) or bool(fresh.all()):
            return self.bilm.initial_state(len(fresh))
        continues = (~fresh).view(-1, 1)
        # States from a checkpoint are on the CPU.
        return LstmState(*(part.to(continues.device) * continues for part in previous))

    def _count_some(self, outputs: torch.Tensor, targets: torch.Tensor) -> None:
        """Counts evenly spaced targets. *Shape:* `(2 steps, projection_dim)`, `(2 steps,)`."""
        stride = math.ceil(len(targets) / (2 * TRAINING_TARGETS))
        # (2, counted), (2 counted, projection_dim)
        counted = targets.view(2, -1)[:, ::stride]
        vectors = outputs.view(2, -1, outputs.size(1))[:, ::stride].flatten(0, 1)
        scores, predicted = self.softmax.exact(vectors, counted.flatten())
        self.training_perplexity(
            scores.view_as(counted), predicted.view_as(counted) == counted, counted == self._unknown_class
        )

    def get_extra_state(self) -> dict[str, Any]:
        """PyTorch's hook for the options, and the states of this process's training streams."""
        return {_OPTIONS: json.dumps(self.bilm.options.to_json())} | {
            f"{process} {name}": part.cpu()
            for (training, process), state in self._states.items()
            if training
            for name, part in state._asdict().items()
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        for process in {int(key.split()[0]) for key in state if key != _OPTIONS}:
            # Older checkpoints call the cell memory.
            cell = "cell" if f"{process} cell" in state else "memory"
            self._states[True, process] = LstmState(state[f"{process} hidden"], state[f"{process} {cell}"])


def words_by_class(vocab: Vocabulary) -> list[str]:
    """Returns the word of each class; `<UNK>` for unknown words, whatever the vocabulary calls them."""
    words = vocab.get_index_to_token_vocabulary(NAMESPACE)
    names = (words[index] for index in range(1, len(words)))
    return [UNKNOWN if name == vocab._oov_token else name for name in names]
