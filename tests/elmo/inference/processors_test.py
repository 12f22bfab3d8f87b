"""The encoder's tests with the instructions of other processors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from elmo_tasks.common.packed_weights import has_onednn, onednn_has_bfloat16
from elmo_tasks.elmo.inference.training_products import _onednn_dtypes, trains_in_bfloat16
from tests.conftest import environment

PROCESSORS = [("default", "SSE41"), ("avx2", "AVX2"), ("", "AVX512_CORE")]
"""PyTorch's and oneDNN's names of what they may use."""
TESTS = [
    "inference/contract_test.py::test_not_a_bit_depends_on_the_batch",
    "inference/contract_test.py::test_nor_with_sizes_that_fill_no_vectors",
    "inference/contract_test.py::test_nor_with_enough_values_for_many_threads",
    "inference/contract_test.py::test_published_sizes",
    "inference/contract_test.py::test_a_text_goes_on_with_the_same_bits_alone_and_beside_others",
    "inference/frozen_bilm_test.py::test_equals_the_model",
    "inference/frozen_bilm_test.py::test_bfloat16_is_near",
    "inference/frozen_bilm_test.py::test_bfloat16_where_there_is_none",
    "inference/frozen_bilm_test.py::test_state_dict_is_that_of_the_model_bit_by_bit",
    "inference/cpu_lstm_test.py",
    "inference/packed_weights_test.py",
    "inference/processors_test.py::test_what_this_processor_has",
    "inference/trained_bilm_test.py::test_values_and_gradients_are_those_of_the_model",
    "inference/trained_bilm_test.py::test_gradients_in_float32_are_near_the_models",
    "inference/trained_bilm_test.py::test_after_a_step_its_vectors_are_the_new_ones",
]
FOLDER = Path(__file__).parents[1]


def has(capability: str) -> bool:
    """Whether this processor, as it is, has what PyTorch calls so."""
    order = ["default", "avx2", "avx512"]
    # Without a limit in the environment
    found = torch.backends.cpu.get_cpu_capability().lower()
    return found in order and order.index(found) >= order.index(capability or "avx512")


@pytest.mark.slow
@pytest.mark.skipif("ONEDNN_MAX_CPU_ISA" in os.environ, reason="imitates another processor already")
@pytest.mark.parametrize(("capability", "isa"), PROCESSORS)
def test_on_another_processor(capability, isa):
    if not has(capability):
        pytest.skip("this processor has less")
    limits = {"ONEDNN_MAX_CPU_ISA": isa} | ({"ATEN_CPU_CAPABILITY": capability} if capability else {})
    # With two threads each direction of the LSTM has one, and other operations compute as with four.
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "-k", "not threads2"]
    command = [sys.executable, "-m", "pytest", *arguments, *(str(FOLDER / test) for test in TESTS)]
    done = subprocess.run(command, env=environment() | limits, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif("ONEDNN_MAX_CPU_ISA" not in os.environ, reason="of the processors that are imitated")
def test_what_this_processor_has():
    isa = os.environ["ONEDNN_MAX_CPU_ISA"]
    capability = torch.backends.cpu.get_cpu_capability()
    assert has_onednn()
    assert capability == {"SSE41": "DEFAULT", "AVX2": "AVX2", "AVX512_CORE": "AVX512"}[isa]
    assert onednn_has_bfloat16() == (isa == "AVX512_CORE")
    if isa != "AVX512_CORE":
        assert not _onednn_dtypes()
        assert not trains_in_bfloat16()
