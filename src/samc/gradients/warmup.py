"""Compiling the kernels that a network needs, all at once: each takes half a second, and cores are idle meanwhile."""

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from samc.gradients.starting import only_compile

if TYPE_CHECKING:
    from samc.gradients.fold import Folding


class Survey:
    """Layers that only note what passes through them; batch norm is left out, it changes no shape."""

    def __init__(self) -> None:
        self.convolutions: dict[tuple, tuple[nn.Conv2d, Tensor]] = {}
        self.normalisations: dict[int, tuple[nn.BatchNorm2d, Tensor]] = {}
        self.steady: dict[tuple, tuple[tuple, nn.BatchNorm2d, Tensor | None, bool]] = {}
        self.last: tuple = ()

    def convolve(self, layer: nn.Conv2d, x: Tensor) -> Tensor:
        self.last = tuple(layer.weight.shape), layer.stride, tuple(x.shape)
        self.convolutions[self.last] = layer, x
        return F.conv2d(x, layer.weight, stride=layer.stride, padding=layer.padding)

    def normalise(self, layer: nn.BatchNorm2d, x: Tensor, beside: Tensor | None = None, rectify: bool = True) -> Tensor:
        self.normalisations[x.shape[1]] = layer, x
        self.steady[self.last, beside is None, rectify] = self.last, layer, beside, rectify
        return x


@torch.no_grad()
def warm_up(folding: "Folding", shape: tuple[int, ...], kind: torch.dtype | None, device: torch.device) -> None:
    """Compile every kernel of gradients, or of a look, for two images, many at a time; nothing is computed."""
    survey = Survey()
    zeros = torch.zeros(2, *shape, device=device).contiguous(memory_format=torch.channels_last)
    folding.model.features(zeros, survey)
    jobs = looking_jobs(folding, survey) if kind is None else gradient_jobs(folding, survey, kind)
    workers = min(len(jobs), os.cpu_count() or 1)
    with one_at_a_time(), ThreadPoolExecutor(workers, initializer=only_compile) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Processes that start together need the same kernels: the first compiles them, the others find them on disk."""
    import fcntl  # noqa: PLC0415  (where there is no such thing, Triton is not either)

    with open(os.path.join(tempfile.gettempdir(), f"samc-kernels-{os.getuid()}"), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def looking_jobs(folding: "Folding", survey: Survey) -> list[Callable[[], Any]]:
    weights, jobs = folding.weights(torch.float32, back=False), list[Callable[[], Any]]()
    for key, norm, beside, rectify in survey.steady.values():
        layer, image = survey.convolutions[key]
        after = folding.convolution.After(norm, beside, rectify)
        how = layer.stride[0], layer.padding[0]
        jobs.append(partial(folding.convolution.convolve, image, weights[layer], *how, after))
    return jobs


def gradient_jobs(folding: "Folding", survey: Survey, kind: torch.dtype) -> list[Callable[[], Any]]:
    weights, jobs = folding.weights(kind), list[Callable[[], Any]]()
    starts = torch.tensor([0, 2], dtype=torch.int32, device=folding.turned.device)
    for layer, image in survey.convolutions.values():
        jobs += convolution_jobs(folding, layer, image.to(kind), weights[layer], starts)
    for norm, image in survey.normalisations.values():
        jobs.append(partial(normalisation_job, folding, norm, image.to(kind), starts))
    return jobs


def convolution_jobs(
    folding: "Folding", layer: nn.Conv2d, x: Tensor, weights: Any, starts: Tensor
) -> list[Callable[[], Any]]:
    convolution, how = folding.convolution, (layer.stride[0], layer.padding[0])
    y = torch.zeros_like(F.conv2d(x, layer.weight.to(x.dtype), stride=layer.stride, padding=layer.padding))
    slopes = torch.empty(1, layer.weight.numel(), device=x.device)
    return [
        partial(convolution.convolve, x, weights, *how),
        partial(convolution.convolve_back, y, weights, x, *how),
        partial(convolution.weight_gradients, x, y, starts, layer.weight.shape, *how, slopes),
    ]


def normalisation_job(folding: "Folding", layer: nn.BatchNorm2d, x: Tensor, starts: Tensor) -> None:
    normalisation, (weight, bias) = folding.normalisation, (layer.weight, layer.bias)
    y, mean, _, deviation = normalisation.normalise(x, None, weight, bias, layer.eps, starts, True)
    normalisation.normalise_back(y, x, y, weight, bias, mean, deviation, starts, True, False)
