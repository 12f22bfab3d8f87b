"""Fixtures of the tests of ELMo's model and engine."""

import logging

import pytest
import torch

from tests.elmo.files import make_block


@pytest.fixture
def files(tmp_path):
    return make_block(tmp_path / "bilm")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kept"


@pytest.fixture
def warnings(caplog):
    """The warnings so far, as one text."""
    return lambda: "\n".join(r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING)


@pytest.fixture(params=[1, 2, 4], ids="threads{}".format)
def threads(request):
    """Sets the number of threads of each operation for a test."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)
