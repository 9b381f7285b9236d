"""Compiling the kernels that a network needs, all at once: each takes half a second, and cores are idle meanwhile."""

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from samc.engine.kernels.launch import only_compile
from samc.engine.program import IMAGES, Conv, Program

if TYPE_CHECKING:
    from samc.engine.cuda import Folding


class Survey(NamedTuple):
    """One layer, with its images, of each kind that needs kernels of its own."""

    convs: dict[tuple, tuple[nn.Conv2d, Tensor]]
    norms: dict[int, tuple[nn.BatchNorm2d, Tensor]]
    fused: dict[tuple, tuple[tuple, nn.BatchNorm2d, Tensor | None, bool]]
    # a convolution's kind with the batch norm, residual and ReLU that follow it


def survey(program: Program, x: Tensor) -> Survey:
    """What passes through a program's layers; batch norm is left out, it changes no shape."""
    found, values = Survey({}, {}, {}), {IMAGES: x}
    kind: tuple = ()
    for number, operation in enumerate(program.operations, start=1):
        x = values[number] = values[operation.source]
        if isinstance(operation, Conv):
            layer = operation.layer
            kind = tuple(layer.weight.shape), layer.stride, tuple(x.shape)
            found.convs[kind] = layer, x
            values[number] = F.conv2d(x, layer.weight, stride=layer.stride, padding=layer.padding)
        else:
            residual = None if operation.residual is None else values[operation.residual]
            found.norms[x.shape[1]] = operation.layer, x
            found.fused[kind, residual is None, operation.relu] = kind, operation.layer, residual, operation.relu
    return found


@torch.no_grad()
def warm_up(folding: "Folding", shape: tuple[int, ...], dtype: torch.dtype | None, device: torch.device) -> None:
    """Compile every kernel of gradients, or of inference, for two images, many at a time; nothing is computed."""
    zeros = torch.zeros(2, *shape, device=device).contiguous(memory_format=torch.channels_last)
    kinds = survey(folding.program, zeros)
    jobs = inference_jobs(folding, kinds) if dtype is None else gradient_jobs(folding, kinds, dtype)
    workers = min(len(jobs), os.cpu_count() or 1)
    with one_at_a_time(), ThreadPoolExecutor(workers, initializer=only_compile) as pool:
        for compiled in [pool.submit(job) for job in jobs]:
            compiled.result()


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Processes that start together need the same kernels: the first compiles them, the others find them on disk."""
    import fcntl  # noqa: PLC0415  (where there is no such thing, Triton is not either)

    with open(os.path.join(tempfile.gettempdir(), f"samc-kernels-{os.getuid()}"), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def inference_jobs(folding: "Folding", kinds: Survey) -> list[Callable[[], Any]]:
    weights, jobs = folding.weights(torch.float32, back=False), list[Callable[[], Any]]()
    for kind, norm, residual, relu in kinds.fused.values():
        layer, image = kinds.convs[kind]
        after = folding.convolution.After(norm, residual, relu)
        how = layer.stride[0], layer.padding[0]
        jobs.append(partial(folding.convolution.convolve, image, weights[layer], *how, after))
    return jobs


def gradient_jobs(folding: "Folding", kinds: Survey, dtype: torch.dtype) -> list[Callable[[], Any]]:
    weights, jobs = folding.weights(dtype), list[Callable[[], Any]]()
    starts = torch.tensor([0, 2], dtype=torch.int32, device=folding.turned.device)
    for layer, image in kinds.convs.values():
        jobs += conv_jobs(folding, layer, image.to(dtype), weights[layer], starts)
    for norm, image in kinds.norms.values():
        jobs.append(partial(norm_job, folding, norm, image.to(dtype), starts))
    return jobs


def conv_jobs(folding: "Folding", layer: nn.Conv2d, x: Tensor, weights: Any, starts: Tensor) -> list[Callable[[], Any]]:
    convolution, how = folding.convolution, (layer.stride[0], layer.padding[0])
    y = torch.zeros_like(F.conv2d(x, layer.weight.to(x.dtype), stride=layer.stride, padding=layer.padding))
    grads = torch.empty(1, layer.weight.numel(), device=x.device)
    return [
        partial(convolution.convolve, x, weights, *how),
        partial(convolution.convolve_back, y, weights, x, *how),
        partial(convolution.weight_gradients, x, y, starts, layer.weight.shape, *how, grads),
    ]


def norm_job(folding: "Folding", layer: nn.BatchNorm2d, x: Tensor, starts: Tensor) -> None:
    batch_norm, (weight, bias) = folding.batch_norm, (layer.weight, layer.bias)
    y, mean, _, deviation = batch_norm.normalise(x, None, weight, bias, layer.eps, starts, True)
    batch_norm.normalise_back(y, x, y, weight, bias, mean, deviation, starts, True, False)
