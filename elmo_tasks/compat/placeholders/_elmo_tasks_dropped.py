"""Substitutes for names that newer packages have dropped, see `_elmo_tasks_stand_ins`."""

import os
import sys

import torch
from allennlp.common.checks import ConfigurationError


class AdamW(torch.optim.AdamW):
    """PyTorch's AdamW with the arguments of the class that transformers dropped in 4.49."""

    def __init__(self, params, *, correct_bias=True, **options):  # type: ignore[no-untyped-def]
        if not correct_bias:
            raise ConfigurationError(
                "trainer.optimizer.correct_bias is false, which PyTorch's AdamW cannot do; "
                "leave it out, or install transformers<4.49"
            )
        super().__init__(params, **options)


def resource_filename(module, name):  # type: ignore[no-untyped-def]
    """Returns the path of a file next to a module, as pkg_resources does, which setuptools dropped in 82."""
    return os.path.join(os.path.dirname(sys.modules[module].__file__), name)
