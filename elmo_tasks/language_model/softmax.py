"""
Output layers: from a vector to a distribution over many classes, and the loss that trains it.

Classes are ordered by falling frequency. All layers compute in the precision of their parameters, also under
autocast, and take vectors of any precision.
"""

import math
from abc import abstractmethod
from typing import Any

import torch
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import PositiveFloat, PositiveInt
from elmo_tasks.elmo.inference.training_products import Products, product, weight_gradient

ROWS_OF_LOGITS = 256
"""The number of rows whose logits are in memory together."""
LOGITS_AT_ONCE = 1 << 22
"""The number of logits that are in memory together where no gradient is wanted."""
LOGITS_ON_GPU = 1 << 26
"""The same for training on a GPU, which takes longer to begin a computation than to do it."""


class Softmax(Registrable, nn.Module):
    """A distribution over the classes. *Shape:* `vectors` `(rows, dim)`, `targets` `(rows,)`; in nats."""

    exact_rows: int

    def loss(
        self, vectors: torch.Tensor, targets: torch.Tensor, products: Products | None = None
    ) -> torch.Tensor:
        """Computes the loss, `()`, summed over rows; exact in eval mode, in float32 without `products`."""
        with torch.autocast(vectors.device.type, enabled=False):
            return self._loss(self._own_precision(vectors), targets, products or Products())

    @torch.no_grad()
    def exact(self, vectors: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """*Shape:* the log probability of each target and the most probable class, `(rows,)` each."""
        with torch.autocast(vectors.device.type, enabled=False):
            chunks = zip(
                self._own_precision(vectors).split(self.exact_rows),
                targets.split(self.exact_rows),
                strict=True,
            )
            scores, best = zip(*(self._exact(*chunk) for chunk in chunks), strict=True)
        return torch.cat(scores), torch.cat(best)

    @abstractmethod
    def _loss(self, vectors: torch.Tensor, targets: torch.Tensor, products: Products) -> torch.Tensor:
        """See `loss`."""

    @abstractmethod
    def _exact(self, vectors: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See `exact`."""

    def _own_precision(self, vectors: torch.Tensor) -> torch.Tensor:
        return vectors.to(next(self.parameters()).dtype)


@Softmax.register("full")
class FullSoftmax(StrictParams, Softmax):
    """
    `softmax(weight vector + bias)`. The gradients are computed together with the loss, some rows at a time,
    so that the logits of all rows are never in memory.

    *Shape:* `weight` `(num_classes, dim)`, `bias` `(num_classes,)`.
    """

    def __init__(self, *, num_classes: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_classes, dim) * dim**-0.5)
        self.bias = nn.Parameter(torch.zeros(num_classes))
        self.exact_rows = ROWS_OF_LOGITS

    def _loss(self, vectors: torch.Tensor, targets: torch.Tensor, products: Products) -> torch.Tensor:
        if not torch.is_grad_enabled():
            return -self.exact(vectors, targets)[0].sum()
        # (rows, 1)
        mask = vectors.new_full((len(vectors), 1), -math.inf)
        return SoftmaxLoss.apply(products, vectors, self.weight, self.bias, None, targets.unsqueeze(1), mask)

    def _exact(self, vectors: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # All (rows,). The classes are split rather than the rows: the weights are read once for all rows.
        total, top = vectors.new_full((2, len(vectors)), -math.inf).unbind()
        true, best = torch.zeros_like(total), torch.zeros_like(targets)
        classes_at_once = max(1, LOGITS_AT_ONCE // ROWS_OF_LOGITS)
        for start in range(0, len(self.weight), classes_at_once):
            weight, bias = (part[start : start + classes_at_once] for part in (self.weight, self.bias))
            # (rows, classes)
            logits = product(vectors, weight, bias)
            total = torch.logaddexp(total, logits.logsumexp(dim=1))
            column = (targets - start).clamp(0, len(weight) - 1)
            here = column + start == targets
            true = torch.where(here, logits.gather(1, column.unsqueeze(1)).squeeze(1), true)
            highest, where = logits.max(dim=1)
            best = torch.where(highest > top, where + start, best)
            top = torch.maximum(highest, top)
        return true - total, best


@Softmax.register("sampled")
class SampledSoftmax(FullSoftmax):
    """
    A full softmax that is trained with the target and a sample of the other classes (Jean et al. 2015,
    arXiv:1412.2007), as TensorFlow's `sampled_softmax_loss` with `log_uniform_candidate_sampler` does it.

    # Parameters

    num_samples : the distinct classes of a sample, which all rows of a call share; less than `num_classes`.
    """

    def __init__(self, *, num_classes: int, dim: int, num_samples: PositiveInt = 4096) -> None:
        if num_samples >= num_classes:
            raise ConfigurationError(
                f"num_samples is {num_samples}, and there are only {num_classes} classes; set it to less"
            )
        super().__init__(num_classes=num_classes, dim=dim)
        self.num_samples = num_samples

    def sample(self) -> tuple[torch.Tensor, int]:
        """
        Draws classes until there are `num_samples` distinct ones; class k has the probability
        `log((k + 2) / (k + 1)) / log(num_classes + 1)`.

        *Shape:* the distinct classes in ascending order, `(num_samples,)`, and the number of draws.
        """
        draws = self._draw(2 * self.num_samples)
        classes, inverse = draws.unique(return_inverse=True)
        while len(classes) < self.num_samples:
            draws = torch.cat([draws, self._draw(len(draws))])
            classes, inverse = draws.unique(return_inverse=True)
        indices = torch.arange(len(draws), device=draws.device)
        # (classes,): the first draw of each class
        first = torch.full_like(classes, len(draws)).scatter_reduce_(0, inverse, indices, "amin")
        last = first.sort().values[self.num_samples - 1]
        return classes[first <= last], int(last) + 1

    def log_expected_counts(self, classes: torch.Tensor, num_draws: int) -> torch.Tensor:
        """Returns the log of the probability that each class is drawn. *Shape:* as `classes`."""
        probabilities = torch.log1p(1 / (classes.double() + 1)) / math.log1p(len(self.weight))
        return (-torch.expm1(num_draws * torch.log1p(-probabilities))).log()

    def _loss(self, vectors: torch.Tensor, targets: torch.Tensor, products: Products) -> torch.Tensor:
        if not self.training:
            return super()._loss(vectors, targets, products)
        samples, num_draws = self.sample()
        sizes = [len(samples), len(targets)]
        # (samples + rows,): one lookup for both, since its gradient is as large as the weight
        classes = torch.cat([samples, targets])
        sample_weight, true_weight = F.embedding(classes, self.weight).split(sizes)
        corrected = self.bias[classes] - self.log_expected_counts(classes, num_draws).to(self.bias.dtype)
        sample_bias, true_bias = corrected.split(sizes)
        # (rows, 1)
        true_logits = ((vectors * true_weight).sum(dim=1) + true_bias).unsqueeze(1)
        indices = torch.searchsorted(samples, targets).clamp(max=len(samples) - 1).unsqueeze(1)
        hit = samples[indices] == targets.unsqueeze(1)
        mask = torch.zeros_like(true_logits).masked_fill(hit, -math.inf)
        return SoftmaxLoss.apply(products, vectors, sample_weight, sample_bias, true_logits, indices, mask)

    def _draw(self, num_draws: int) -> torch.Tensor:
        """Draws classes. *Shape:* `(num_draws,)`."""
        # Single precision cannot distinguish the rare ones of a million classes.
        uniform = torch.rand(num_draws, dtype=torch.float64, device=self.weight.device)
        classes = (uniform * math.log1p(len(self.weight))).exp().long() - 1
        return classes.clamp(max=len(self.weight) - 1)


@Softmax.register("adaptive")
class AdaptiveSoftmax(StrictParams, Softmax):
    """
    A softmax over the frequent classes, and clusters of rarer classes with smaller vectors (Grave et al.
    2017, arXiv:1609.04309): `torch.nn.AdaptiveLogSoftmaxWithLoss`.

    # Parameters

    cutoffs : the first class of each cluster, ascending, from 1 to `num_classes - 1`.
    div_value : vectors of cluster i, counted from 1, have `dim / div_value**i` numbers, at least one.
    """

    def __init__(
        self, *, num_classes: int, dim: int, cutoffs: list[PositiveInt], div_value: PositiveFloat = 4.0
    ) -> None:
        problem = ""
        if cutoffs != sorted(set(cutoffs)) or not cutoffs or cutoffs[-1] >= num_classes:
            problem = f"cutoffs is {cutoffs}, which are not ascending numbers below {num_classes}"
        elif div_value ** len(cutoffs) > dim:
            problem = f"div_value is {div_value}: with dim {dim}, the vectors of the last cluster are empty"
        if problem:
            raise ConfigurationError(problem)
        super().__init__()
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(dim, num_classes, cutoffs, div_value=div_value)
        self.exact_rows = max(1, LOGITS_AT_ONCE // num_classes)

    def _loss(self, vectors: torch.Tensor, targets: torch.Tensor, products: Products) -> torch.Tensor:
        loss = -self.softmax(vectors, targets).output.sum()
        if is_distributed():
            # Workers exchange the gradients of all parameters, also of a cluster without targets.
            loss = loss + sum(weight.sum() * 0 for weight in self.softmax.tail.parameters())
        return loss

    def _exact(self, vectors: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.softmax(vectors, targets).output, self.softmax.predict(vectors)


class SoftmaxLoss(torch.autograd.Function):
    """
    The sum over the rows of `logsumexp(logits of the true class and of all others) - true logit`, with its
    gradients.

    `apply(products, vectors, weight, bias, true_logits, indices, mask)`: the others are the candidates; one
    candidate of each row may be masked. *Shape:* `vectors` `(rows, dim)`, `weight` `(candidates, dim)`,
    `bias` `(candidates,)`; `true_logits` `(rows, 1)`, or `None` if the true class is the candidate at
    `indices`; `indices` `(rows, 1)`: a candidate, to whose logit `mask` `(rows, 1)`, 0 or -inf, is added.
    """

    @staticmethod
    def forward(
        ctx: Any,
        products: Products,
        vectors: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        true_logits: torch.Tensor | None,
        indices: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        gradients = [
            torch.zeros_like(tensor) if needed and tensor is not None else None
            for tensor, needed in zip(
                (vectors, weight, bias, true_logits), ctx.needs_input_grad[1:], strict=False
            )
        ]
        grad_vectors, grad_weight, grad_bias, grad_true_logits = gradients
        # (dim, candidates), as the product writes it: a sum of transposed views would take longer
        grad_weight_t = None if grad_weight is None else vectors.new_zeros(weight.shape[::-1])
        losses = vectors.new_empty(len(vectors), 1)
        rounded, rounded_weight = (part.to(products.dtype(part)) for part in (vectors, weight))
        at_once = max(ROWS_OF_LOGITS, LOGITS_ON_GPU // len(weight)) if vectors.is_cuda else ROWS_OF_LOGITS
        for start in range(0, len(vectors), at_once):
            rows = slice(start, start + at_once)
            # (rows, candidates), which become the gradients times `total`
            if rounded.dtype == bias.dtype:
                logits = product(rounded[rows], rounded_weight, bias)
            else:
                # The bias may be large, and is not rounded.
                logits = product(rounded[rows], rounded_weight).to(bias.dtype).add_(bias)
            # (rows, 1)
            true = logits.gather(1, indices[rows]) if true_logits is None else true_logits[rows]
            logits.scatter_add_(1, indices[rows], mask[rows])
            top = torch.maximum(logits.amax(dim=1, keepdim=True), true)
            sum_of_others = logits.sub_(top).exp_().sum(dim=1, keepdim=True)
            total = sum_of_others + (true - top).exp_()
            losses[rows] = total.log() + top - true
            if true_logits is None:
                logits.scatter_(1, indices[rows], -sum_of_others)
            scaled = logits.to(rounded.dtype)
            if grad_vectors is not None:
                torch.div(product(scaled, rounded_weight.t()), total, out=grad_vectors[rows])
            if grad_weight_t is not None:
                grad_weight_t += weight_gradient((vectors[rows] / total).to(scaled.dtype), scaled)
            if grad_bias is not None:
                grad_bias += torch.mv(logits.t(), 1 / total.squeeze(1))
            if grad_true_logits is not None:
                torch.div(sum_of_others, -total, out=grad_true_logits[rows])
        if grad_weight is not None and grad_weight_t is not None:
            grad_weight.copy_(grad_weight_t.t())
        ctx.save_for_backward(*gradients)
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scaled = (None if gradient is None else gradient * scale for gradient in ctx.saved_tensors)
        return None, *scaled, None, None
