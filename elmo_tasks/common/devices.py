"""Devices by name or number."""

import argparse

import torch

from elmo_tasks.common.errors import ElmoError

Device = str | int | torch.device | None
"""A name of PyTorch's, its `torch.device`, or the number of a GPU; -1 and `None` are the CPU."""
EXPECTED = "cpu, cuda, cuda:1 or the like, the number of a GPU, or -1 for the CPU"


def device_name(device: Device) -> str:
    """Returns PyTorch's name of a device, such as `cuda:0` for the number 0; the device need not exist."""
    name = "cpu" if device in (None, -1, "-1") else str(device)
    return f"cuda:{name}" if name.isdecimal() else name


def chosen_device(device: Device, *, asked: str) -> torch.device:
    """
    Returns a device that is there.

    # Raises
    `ElmoError`, with the option `asked`: there is no such device.
    """
    try:
        chosen = torch.device(device_name(device))
        if chosen.type == "meta":
            raise RuntimeError("it computes nothing")
        torch.empty(0, device=chosen)
    # PyTorch raises any of these for a device that is not there.
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise ElmoError(f"{asked} {device} cannot be used: {reason}; expected {EXPECTED}") from error
    return chosen


def gpu_number(device: Device, *, asked: str = "cuda_device") -> int:
    """
    Returns the number by which AllenNLP knows a device: -1 for the CPU; the GPU need not exist.

    # Raises
    `ElmoError`: it is neither the CPU nor a GPU with CUDA.
    """
    kind, _, number = device_name(device).partition(":")
    if kind not in ("cpu", "cuda") or not (number or "0").isdecimal():
        raise ElmoError(f"{asked} is {device!r}, expected {EXPECTED}")
    return -1 if kind == "cpu" else int(number or 0)


def read_gpu(text: str) -> int:
    """Reads the value of an option, see `gpu_number`."""
    try:
        return gpu_number(text)
    except ElmoError as error:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected {EXPECTED}") from error
