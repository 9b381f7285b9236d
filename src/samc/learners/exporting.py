"""A learner's network for other runtimes, as ONNX or TorchScript: images to the logits of all heads' classes."""

import copy
import io
import json
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from samc.errors import ConfigError
from samc.files import write_output
from samc.learners.base import NetworkLearner
from samc.models import Classifier

KEY = "samc"
# under which a file says what its columns are: the class of each, and its task where each task has a head
OPSET = 18


class Answers(nn.Module):
    """The network that answers, with every head: columns are tasks in order, each with its own classes."""

    def __init__(self, model: Classifier):
        super().__init__()
        self.model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
        self.heads = sorted(model.heads.choices)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k"]:
        pooled = self.model.pooled(self.model.features(x))
        return torch.cat([self.model.heads(pooled, head) for head in self.heads], 1)

    @property
    def columns(self) -> list[dict[str, int]]:
        heads = self.model.heads
        if heads.shared:
            return [{"class": label} for label in heads.seen]
        return [{"task": task, "class": label} for task in self.heads for label in heads.choices[task]]


def export(learner: NetworkLearner, path: str | Path) -> Path:
    """Write the network that answers to a file, ONNX (.onnx) or TorchScript (.pt); one that is there is left alone."""
    path = Path(path)
    if path.suffix not in WRITERS:
        raise ConfigError(f"an exported network's file ends in {' or '.join(WRITERS)}, got {path}")
    answers, x = answers_of(learner), torch.rand(2, *learner.image_shape)
    answers(x)  # what heads make once is there before anything is traced
    content = WRITERS[path.suffix](answers, x)
    write_output(path, content, replace=False, taken="choose another name or remove it")
    return path


def answers_of(learner: NetworkLearner) -> Answers:
    if type(learner).scores is not NetworkLearner.scores:
        name = type(learner).__name__
        raise ConfigError(f"{name} answers by what it remembers, not by its network alone; use samc predict for it")
    if not any(learner.model.heads.choices.values()):
        raise ConfigError("the learner has seen no task yet; there is nothing to export")
    return Answers(learner.answering.model)


def as_torchscript(answers: Answers, x: Tensor) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it is old: that is what small devices have
        traced: Any = torch.jit.trace(answers, x, check_trace=False)  # the check takes longer than the trace
        torch.jit.save(traced, buffer, _extra_files={f"{KEY}.json": json.dumps(answers.columns).encode()})
    return buffer.getvalue()


def as_onnx(answers: Answers, x: Tensor) -> bytes:
    if not find_spec("onnxscript"):
        raise ConfigError("ONNX needs two packages more: pip install 'samc[onnx]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about itself
        program: Any = torch.onnx.export(
            answers, (x,), input_names=["images"], output_names=["logits"], opset_version=OPSET, dynamo=True,
            dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), external_data=False, verbose=False,
        )  # fmt: skip
    model = program.model_proto
    model.metadata_props.add(key=KEY, value=json.dumps(answers.columns))
    return model.SerializeToString()


WRITERS = {".onnx": as_onnx, ".pt": as_torchscript}
