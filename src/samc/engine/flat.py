"""A network's gradients and parameters as flat vectors; frozen parameters are no part of them."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that learn, in the order of every flat vector."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def gradients_into(views: Mapping[Tensor, Tensor], model: nn.Module, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """The gradient of any loss, each parameter's written into its view; the loss detached."""
    parameters = trainable(model)
    grads = torch.autograd.grad(loss, parameters, materialize_grads=True)
    torch._foreach_copy_([views[parameter] for parameter in parameters], list(grads))
    return loss.detach()


def flat_gradient(model: nn.Module, loss: Float[Tensor, ""]) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
    """The gradient of any loss as one vector, and the loss detached; zero where a parameter has no part in it."""
    grads = torch.autograd.grad(loss, trainable(model), materialize_grads=True)
    return torch.cat([grad.flatten() for grad in grads]), loss.detach()


@torch.no_grad()
def flat_parameters(model: nn.Module) -> Float[Tensor, "p"]:
    """A copy of all parameters as one vector, in the order of the gradients."""
    return torch.cat([parameter.flatten() for parameter in trainable(model)])


def padded(vector: Float[Tensor, "p"], sizes: Sequence[int], model: nn.Module) -> Float[Tensor, "q"]:
    """A flat vector from before some parameters grew: each of them gets zeros for what is new, at its end."""
    now = [parameter.numel() for parameter in trainable(model)]
    pairs = zip(vector.split(list(sizes)), now, strict=True)
    return torch.cat([torch.cat([part, part.new_zeros(size - len(part))]) for part, size in pairs])
