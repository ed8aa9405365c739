"""Arrays between the host and one device of PyTorch: sent, fetched, and what fits there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kernelweave._core.checks import shown
from kernelweave._core.types import Array, Places
from kernelweave.stacks.resources import available_bytes

SINGLE = float(torch.finfo(torch.float32).eps)
KINDS = {np.dtype(np.float64): torch.float64, np.dtype(np.float32): torch.float32}


def device_of(name: Any) -> torch.device:
    """The device of this name; where there is none, the error says what PyTorch sees."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise ValueError(
            f"device must be 'cpu', 'cuda', 'cuda:1' or 'mps', found {shown(name)}"
        ) from None
    if device.type == "cuda" and not (device.index or 0) < torch.cuda.device_count():
        build = "with" if torch.version.cuda else "without"
        raise ValueError(
            f"device={name!r}: PyTorch {torch.__version__}, built {build} CUDA, sees "
            f"{torch.cuda.device_count()} CUDA devices; use one that is there, or device='cpu'"
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError(f"device={name!r}: PyTorch {torch.__version__} sees no such device")
    return device


def fine_device(device: torch.device) -> torch.device:
    """Where float64 is computed: there, or on the host where the device has none."""
    return torch.device("cpu") if device.type == "mps" else device


def sent(x: Any, device: torch.device, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """An array of the host on the device, in one piece."""
    return torch.tensor(np.ascontiguousarray(x), dtype=dtype, device=device)


def numbers(places: Places, device: torch.device) -> torch.Tensor:
    """Numbers of rows on the device."""
    return sent(places, device, torch.int64)


def fetched(x: torch.Tensor) -> Array:
    """A tensor as a new array of float64."""
    return np.array(x.cpu().numpy(), dtype=float, order="C")


def free_bytes(device: torch.device) -> float:
    """Bytes that can still be allocated there; those that PyTorch holds unused count."""
    if device.type != "cuda":
        found = available_bytes()
        return np.inf if found is None else float(found)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(torch.cuda.mem_get_info(device)[0] + unused)
