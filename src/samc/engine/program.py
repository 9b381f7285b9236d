"""A network as a list of convolutions and batch norms: what the fast ways run, if it says all that the network does.

`compile_program` is the one function that decides. A network that it does not know down to every layer, attribute and
flag has no program, and takes the plain way (plain.py).
"""

from collections.abc import Iterator
from typing import NamedTuple

from torch import nn

from samc.models.classifier import Classifier
from samc.models.heads import Heads
from samc.models.resnet import BatchNorm, Block, ReducedResNet18

IMAGES = 0
# the number of the value that goes in; the result of operation i is number i + 1
TRACEABLE = (ReducedResNet18, Block)
# whose forward pass takes a Tracer
KNOWN = (*TRACEABLE, nn.Sequential, nn.Conv2d, BatchNorm, nn.BatchNorm2d)
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Conv(NamedTuple):
    """A convolution of a value."""

    layer: nn.Conv2d
    source: int


class Norm(NamedTuple):
    """A batch norm of a value, the sum with another, and a ReLU."""

    layer: nn.BatchNorm2d
    source: int
    residual: int | None
    relu: bool


class Program(NamedTuple):
    """Operations in their order; `last_use[i]` has the values that nobody needs after operation i."""

    operations: tuple[Conv | Norm, ...]
    last_use: tuple[tuple[int, ...], ...]
    convs: list[nn.Conv2d]
    norms: list[nn.BatchNorm2d]


class Value(NamedTuple):
    """A number that stands for a tensor; whatever else a network does with it than pass it on fails."""

    number: int


class Tracer:
    """Layers that only write down what they are asked to do."""

    def __init__(self) -> None:
        self.operations: list[Conv | Norm] = []

    def conv(self, layer: nn.Conv2d, x: Value) -> Value:
        return self.note(Conv(layer, x.number))

    def norm(self, layer: nn.BatchNorm2d, x: Value, residual: Value | None = None, relu: bool = True) -> Value:
        return self.note(Norm(layer, x.number, None if residual is None else residual.number, relu))

    def note(self, operation: Conv | Norm) -> Value:
        self.operations.append(operation)
        return Value(len(self.operations))


def compile_program(model: Classifier) -> tuple[Program | None, str]:
    """The network's program; or none, and the first thing that the fast ways would not treat as torch does."""
    for reason in strange_things(model):
        return None, reason
    tracer = Tracer()
    model.backbone.forward(Value(IMAGES), tracer)
    operations = tuple(tracer.operations)
    for reason in gaps(model, operations):
        return None, reason
    last: dict[int, int] = {}
    for number, operation in enumerate(operations):
        for value in operation[1:3]:
            if value is not None:
                last[int(value)] = number
    last_use = tuple(
        tuple(value for value, user in last.items() if user == number) for number in range(len(operations))
    )
    convs = [operation.layer for operation in operations if isinstance(operation, Conv)]
    norms = [operation.layer for operation in operations if isinstance(operation, Norm)]
    return Program(operations, last_use, convs, norms), ""


def strange_things(model: Classifier) -> Iterator[str]:
    yield from strange_ends(model)
    for name, module in model.backbone.named_modules(remove_duplicate=False):
        where = name or "it"
        if type(module) not in (KNOWN if name else TRACEABLE):
            yield f"{where} is {type(module).__name__}"
        elif is_altered(module):
            yield f"{where} has a hook or a forward of its own"
        elif (isinstance(module, nn.Conv2d) and (reason := strange_conv(module))) or (
            isinstance(module, nn.BatchNorm2d) and (reason := strange_norm(module))
        ):
            yield f"{where} has {reason}"
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            yield f"{name} is frozen"
        elif parameter.dtype.itemsize != 4:
            yield f"{name} is {parameter.dtype}"


def strange_ends(model: Classifier) -> Iterator[str]:
    """What is not as the fast ways have it around the backbone: the classifier itself, and its heads."""
    if type(model) is not Classifier:
        yield f"the classifier is {type(model).__name__}"
    if type(model.heads) is not Heads:
        yield f"its heads are {type(model.heads).__name__}"
    elif type(model.heads.linear) is not nn.Linear:
        yield f"its heads are made of {type(model.heads.linear).__name__}"
    elif any(map(is_altered, (model, model.heads, model.heads.linear))):
        yield "the classifier has a hook or a forward of its own"


def is_altered(module: nn.Module) -> bool:
    """Whether calling it does something else than its class says."""
    return "forward" in vars(module) or any(getattr(module, hooks) for hooks in HOOKS)


def strange_conv(layer: nn.Conv2d) -> str:
    """Kernels are made for sides of 1 and 3 and strides of 1 and 2, with the padding that keeps a picture's size."""
    side = layer.kernel_size[0]
    if layer.bias is not None:
        return "a bias"
    for name, known in (("dilation", (1, 1)), ("groups", 1), ("padding_mode", "zeros")):
        if getattr(layer, name) != known:
            return f"{name} {getattr(layer, name)}"
    if layer.kernel_size not in ((1, 1), (3, 3)):
        return f"kernel_size {layer.kernel_size}"
    if layer.stride not in ((1, 1), (2, 2)):
        return f"stride {layer.stride}"
    return "" if layer.padding == (side // 2, side // 2) else f"padding {layer.padding}"


def strange_norm(layer: nn.BatchNorm2d) -> str:
    if not (layer.affine and layer.track_running_stats):
        return "no weights or no running statistics"
    return "momentum None" if layer.momentum is None else ""


def gaps(model: Classifier, operations: tuple[Conv | Norm, ...]) -> Iterator[str]:
    """What the operations do not say of a network, or say twice."""
    layers = [operation.layer for operation in operations]
    held = [module for module in model.backbone.modules() if isinstance(module, nn.Conv2d | nn.BatchNorm2d)]
    if {id(layer) for layer in layers} != {id(module) for module in held} or len(layers) != len(held):
        yield "a layer of it is used twice, or not at all"
    parameters = list(model.named_parameters(remove_duplicate=False))
    if len({id(parameter) for _, parameter in parameters}) != len(parameters):
        yield "two of its layers share a parameter"
    known = {id(parameter) for layer in (*layers, model.heads.linear) for parameter in layer.parameters()}
    for name, parameter in parameters:
        if id(parameter) not in known:
            yield f"{name} is in no layer"
    norms = [operation.layer for operation in operations if isinstance(operation, Norm)]
    if len({(norm.momentum, norm.eps) for norm in norms}) > 1:
        yield "its batch norms differ in momentum or eps"
    # a convolution's result goes into one batch norm and nowhere else, so that the two can be one kernel
    sources = [value for operation in operations for value in operation[1:3] if value is not None]
    for number, operation in enumerate(operations, start=1):
        following = operations[number] if number < len(operations) else None
        if isinstance(operation, Conv) and not (
            isinstance(following, Norm) and following.source == number and sources.count(number) == 1
        ):
            yield "a convolution is not followed by its batch norm"
