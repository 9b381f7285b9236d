"""A strategy's model in the place of a learner's network: whole, with its own classifier, under its own criterion."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from avalanche.models import avalanche_forward
from avalanche.models.utils import is_multi_task_module
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from samc.errors import ConfigError
from samc.models import Classifier, Heads
from samc.models.classifier import Batch, Wanted, confined, described
from samc.streams.pixels import Normalisation


class Outputs(Heads):
    """The heads of a model that has its own: which classes a task has shown; labels are columns of its outputs."""

    def build(self, count: int) -> None:
        self.count = count
        self.linear = nn.Identity()  # type: ignore[assignment]

    @property
    def num_classes(self) -> int:
        return self.count

    def grow(self, count: int) -> None:
        self.count = count
        self.changed()

    def positions(self, y: Int64[Tensor, "b"], task: int) -> Int64[Tensor, "b"]:
        return y


class StrategyModel(Classifier):
    """Features are the images as the model takes them: it wants to know each image's task in its forward pass.

    A task is an experience here, and `task_labels` says which of Avalanche's task labels it has.
    """

    def __init__(
        self, model: nn.Module, criterion: Any, image_shape: tuple[int, int, int], normalisation: Normalisation | None
    ):
        found = described(torch.empty(1, 1), image_shape, None)  # a vector: saliency is taken at the pixels
        values = (normalisation.mean, normalisation.std) if normalisation else ()
        super().__init__(model, Outputs(found.width, None, shared=not is_multi_task_module(model)), found, *values)
        self.criterion = by_image(criterion)
        self.task_labels: dict[int, int] = {}

    def features(self, x: Float[Tensor, "b c h w"], **layers: Any) -> Float[Tensor, "b c h w"]:
        return self.normalised(x.contiguous())

    def pooled(self, features: Float[Tensor, "b c h w"]) -> Float[Tensor, "b n"]:
        """All outputs, of a model that knows no tasks."""
        return self.backbone(features)

    def outputs(self, features: Float[Tensor, "b c h w"], tasks: Int64[Tensor, "b"]) -> Float[Tensor, "b n"]:
        labels = tasks
        for task, label in self.task_labels.items():
            labels = torch.where(tasks == task, label, labels)
        return avalanche_forward(self.backbone, features, labels)

    def logits(self, features: Float[Tensor, "b c h w"], task: int) -> Float[Tensor, "b n"]:
        return self.outputs(features, torch.full((len(features),), task, device=features.device))

    def joined(self, batches: Sequence[Batch]) -> tuple[Tensor, Tensor, Tensor]:
        """Images, labels, and a table: each image's task, and then, by class, whether its loss is kept from it."""
        x, y = torch.cat([batch.x for batch in batches]), torch.cat([batch.y for batch in batches])
        tasks, among = torch.cat([batch.tasks for batch in batches]), confined(batches)
        return x, y, torch.cat([tasks[:, None], (~among).long()], 1) if among is not None else tasks[:, None]

    def loss(
        self,
        features: Float[Tensor, "b c h w"],
        y: Int64[Tensor, "b"],
        table: Int64[Tensor, "b k"],
        shares: Float[Tensor, "b"],
        held: Wanted | None = None,
    ) -> Float[Tensor, ""]:
        """The criterion of each image, times its share, summed; and old outputs held, as in every classifier."""
        with inputs_of_linear_layers(self.backbone) as given:
            outputs = self.outputs(features, table[:, 0])
        kept_from = F.pad(table[:, 1:].bool(), (0, outputs.shape[1] - table.shape[1] + 1), value=table.shape[1] > 1)
        loss = (self.criterion(outputs.masked_fill(kept_from, -torch.inf), y) * shares).sum()
        if held is None:
            return loss
        # of the classes that have been seen
        held = held._replace(weights=F.pad(held.weights, (0, outputs.shape[1] - len(held.weights))))
        for layer, inputs in given[-1:]:
            if layer.out_features == outputs.shape[1] and inputs.ndim == 2:
                return loss + held.distance(outputs, inputs)
        return loss + held.distance_by(held.weights, outputs)  # of another kind of head no step's reach is known

    def loss_by_task(
        self,
        features: Float[Tensor, "b c h w"],
        batches: Sequence[Batch],
        shares: Float[Tensor, "b"],
        held: Wanted | None = None,
    ) -> Float[Tensor, ""]:
        _, y, table = self.joined(batches)
        return self.loss(features, y, table, shares, held)

    @property
    def knows_tasks(self) -> bool:
        return is_multi_task_module(self.backbone)


@contextmanager
def inputs_of_linear_layers(model: nn.Module) -> Iterator[list[tuple[nn.Linear, Tensor]]]:
    """What each linear layer is given while the model is asked, in the order of their calls: the last is its head."""
    given: list[tuple[nn.Linear, Tensor]] = []
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    hooks = [layer.register_forward_hook(lambda layer, inputs, _: given.append((layer, inputs[0]))) for layer in layers]
    try:
        yield given
    finally:
        for hook in hooks:
            hook.remove()


def by_image(criterion: Any) -> Any:
    """The criterion with a loss for each image, and not their mean."""
    if getattr(criterion, "reduction", None) != "mean":
        kind = type(criterion).__name__
        raise ConfigError(f"SAMCPlugin weighs each image's loss, which {kind} does not give; use CrossEntropyLoss()")
    alone = copy.copy(criterion)
    alone.reduction = "none"
    return alone
