import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.machine import chosen_device, device_name, gpu_index

DEVICES = {
    "cpu": -1,
    None: -1,
    -1: -1,
    "-1": -1,
    torch.device("cpu"): -1,
    "cuda": 0,
    0: 0,
    "0": 0,
    "cuda:1": 1,
    1: 1,
    torch.device("cuda", 1): 1,
}


@pytest.mark.parametrize(("device", "number"), DEVICES.items(), ids=map(repr, DEVICES))
def test_names_and_numbers(device, number):
    assert gpu_index(device) == number
    assert torch.device(device_name(device)).type == ("cpu" if number < 0 else "cuda")


@pytest.mark.parametrize("device", [True, 1.5, -2, "gpu", "cuda:x", ""])
def test_what_is_no_device(device):
    with pytest.raises(ElmoError, match=r"^cuda_device: "):
        gpu_index(device)
    with pytest.raises(ElmoError, match=r"^--device: .* cannot be used"):
        chosen_device(device, option="--device")
