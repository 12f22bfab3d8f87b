"""Devices by name or index."""

import argparse

import torch

from elmo_tasks.common.errors import ElmoError

Device = str | int | torch.device | None
"""A name of PyTorch's, its `torch.device`, or the index of a GPU; -1 and `None` are the CPU."""
_DEVICE_NAMES = "cpu, cuda, cuda:1 or the like, the number of a GPU, or -1 for the CPU"


def device_name(device: Device) -> str:
    """Returns PyTorch's name of a device, such as `cuda:0` for the index 0; the device need not exist."""
    name = "cpu" if device in (None, -1, "-1") else str(device)
    return f"cuda:{name}" if name.isdecimal() else name


def chosen_device(device: Device, *, option: str) -> torch.device:
    """
    Returns a device that is there.

    # Raises
    `ElmoError`, with the name of the `option`: there is no such device.
    """
    try:
        chosen = torch.device(device_name(device))
        if chosen.type == "meta":
            raise RuntimeError("it computes nothing")
        torch.empty(0, device=chosen)
    # PyTorch raises any of these for a device that is not there.
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise ElmoError(
            f"{device} cannot be used ({reason})", key=option, remedy=f"use {_DEVICE_NAMES}"
        ) from error
    return chosen


def gpu_index(device: Device, *, option: str = "cuda_device") -> int:
    """
    Returns the index by which AllenNLP knows a device: -1 for the CPU; the GPU need not exist.

    # Raises
    `ElmoError`: it is neither the CPU nor a GPU with CUDA.
    """
    kind, _, index = device_name(device).partition(":")
    if kind not in ("cpu", "cuda") or not (index or "0").isdecimal():
        raise ElmoError(f"{device!r} is not a device", key=option, remedy=f"use {_DEVICE_NAMES}")
    return -1 if kind == "cpu" else int(index or 0)


def read_gpu(text: str) -> int:
    """Reads the value of an option, see `gpu_index`."""
    try:
        return gpu_index(text)
    except ElmoError as error:
        raise argparse.ArgumentTypeError(f"{error.what}; {error.remedy}") from error
