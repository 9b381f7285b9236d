"""What Triton makes of the convolutions' kernels for a GPU that this machine may not have: compiled, not run."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from toys import needs_triton

HOPPER = 90
WIDTHS = ((3, 20, 1), (20, 20, 1), (20, 40, 2), (40, 40, 1), (40, 80, 2), (80, 80, 1), (80, 160, 2), (160, 160, 1))
# of the network's convolutions: channels in and out, stride


def launched() -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """Every kernel that the network's convolutions launch, forward, back and in inference, with its arguments."""
    import torch

    from samc.engine.kernels import convolution

    found: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    convolution.launch_kernel = lambda kernel, grid, *arguments, **options: found.append((kernel, arguments, options))
    starts = torch.tensor([0, 2, 4], dtype=torch.int32)
    for cin, cout, stride in WIDTHS:
        side = 32 * 20 // cout * stride
        x = torch.zeros(4, cin, side, side).contiguous(memory_format=torch.channels_last)
        y = torch.zeros(4, cout, side // stride, side // stride).contiguous(memory_format=torch.channels_last)
        layer = torch.zeros(cout, cin, 3, 3)
        (weights,) = convolution.split([layer], convolution.turned_places([layer]), torch.float32)
        convolution.convolve(x, weights, stride, 1)
        convolution.convolve(x, weights, stride, 1, convolution.After(torch.nn.BatchNorm2d(cout), y, True))
        if cin > 3:
            convolution.convolve_back(y, weights, x, stride, 1)
        convolution.weight_gradients(x, y, starts, layer.shape, stride, 1, torch.zeros(2, layer.numel()))
    return found


def compiled(kernel: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> str:
    """The kernel in Triton's own language for GPUs, after all that it does to loops."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kinds = {torch.float32: "*fp32", torch.int32: "*i32"}
    signature, constants, attributes = {}, {}, {}
    for place, (parameter, value) in enumerate(zip(kernel.params, arguments, strict=True)):
        if isinstance(value, torch.Tensor):
            signature[parameter.name] = kinds[value.dtype]
            attributes[(place,)] = [["tt.divisibility", 16]]
        elif parameter.is_constexpr:
            signature[parameter.name], constants[(place,)] = "constexpr", value
        else:
            signature[parameter.name] = "i32"
    source = ASTSource(kernel, signature, constants, attributes)
    return triton.compile(source, target=GPUTarget("cuda", HOPPER, 32), options=options).asm["ttgir"]


def left_under_way(text: str) -> int:
    """Products that a loop begins and does not wait for before it goes on."""
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if "scf.for" in line), None)
    if first is None:
        return 0
    last = next(number for number, line in enumerate(lines) if number > first and "scf.yield" in line)
    loop = lines[first:last]
    begun = [line.split("=")[0].strip() for line in loop if "ttng.warp_group_dot " in line]
    waits = [line for line in loop if "ttng.warp_group_dot_wait" in line and "pendings = 0" in line]
    at_once = any("tt.dot " in line for line in loop)  # by fewer than four warps: nothing to wait for
    assert begun or at_once, "no product in the loop: has Triton's language changed?"
    return sum(not any(f"{name}," in line or f"{name} " in line for line in waits) for name in begun)


@pytest.mark.slow
@needs_triton
def test_no_product_is_under_way_when_its_registers_are_filled_again() -> None:
    # in a process of its own: here kernels are for Triton's interpreter
    free = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run([sys.executable, __file__], env=free, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert {name for name, _ in found} == {"forward_kernel", "strided_back_kernel", "weight_kernel"}
    assert [kernel for kernel in found if kernel[1]] == []


if __name__ == "__main__":
    kernels = {json.dumps([k.__name__, str(a[-20:]), o], default=str): (k, a, o) for k, a, o in launched()}
    print(json.dumps([[k.__name__, left_under_way(compiled(k, a, o))] for k, a, o in kernels.values()]))
