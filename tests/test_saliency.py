"""Grad-CAM against a plain computation of its definition, and what it must not touch."""

import copy

import pytest
import torch
from torch.nn import functional as F

from networks import SHAPE as NETWORK_SHAPE
from networks import make
from samc.engine import Engine
from samc.models import Classifier, Heads, in_mode, probe
from samc.saliency import as_bytes, byte_maps, saliency_map
from toys import Replaying, reduced


def grad_cam(model, x, y, task, target="label"):
    """The package's coarse map, enlarged and stretched to [0, 1] in floating point; a flat one is zero."""
    coarse = saliency_map(model, x, y, task, target)
    maps = F.interpolate(coarse[:, None], size=x.shape[2:], mode="bilinear", align_corners=False)[:, 0]
    low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
    return torch.where(high > low, (maps - low) / (high - low).clamp_min(torch.finfo(maps.dtype).tiny), 0.0)


def trained_a_little(seed=0):
    """A network whose running statistics are not the initial ones."""
    model = reduced(6, side=32, seed=seed)
    model.heads.assign(0, (0, 1, 2))
    model.heads.assign(1, (3, 4, 5))
    for _ in range(3):
        model(torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(seed)), 0)
    return model


def by_definition(model, image, row):
    """One image, one class: the paper's appendix, with a hook on the last block and backward() on a copy."""
    model = copy.deepcopy(model).eval()
    kept = {}
    model.backbone.blocks[-1].register_forward_hook(lambda _, __, output: kept.update(a=output))
    pooled = model.features(image[None]).mean((2, 3))
    kept["a"].retain_grad()
    (pooled @ model.heads.linear.weight[row] + model.heads.linear.bias[row]).sum().backward()
    activations, grads = kept["a"][0].detach(), kept["a"].grad[0]
    cam = torch.zeros(activations.shape[1:])
    for a, grad in zip(activations, grads, strict=True):
        cam += grad.mean() * a
    cam = F.interpolate(cam.clamp_min(0)[None, None], image.shape[1:], mode="bilinear", align_corners=False)[0, 0]
    return (cam - cam.min()) / (cam.max() - cam.min()) if cam.max() > cam.min() else torch.zeros_like(cam)


@pytest.mark.parametrize(("height", "width"), [(32, 32), (20, 44)])
def test_equals_the_definition(height, width, generator):
    model = trained_a_little()
    x = torch.rand(6, 3, height, width, generator=generator)
    y = torch.tensor([3, 4, 5, 3, 4, 5])
    maps = grad_cam(model, x, y, task=1)
    for image, label, found in zip(x, y, maps, strict=True):
        torch.testing.assert_close(found, by_definition(model, image, int(label)), atol=1e-4, rtol=1e-4)


def test_in_train_mode_it_sees_the_batch_as_learning_does_and_statistics_move_once(generator):
    model = trained_a_little()
    x, y = torch.rand(6, 3, 16, 16, generator=generator), torch.tensor([3, 4, 5, 3, 4, 5])
    other = copy.deepcopy(model).train()
    features = other.features(x)
    rows = other.heads.linear.weight[y]  # the gradient of a score of a linear head on pooled features
    expected = F.relu((rows[:, :, None, None] * features).sum(1)) / features[0, 0].numel()
    model.eval()
    found = saliency_map(model, x, y, 1, "label", "train")
    torch.testing.assert_close(found, expected.detach(), atol=1e-6, rtol=1e-4)
    assert not model.training
    for (name, mine), theirs in zip(model.named_buffers(), other.buffers(), strict=True):
        assert torch.equal(mine, theirs), name


def test_in_batch_mode_maps_are_those_of_train_mode_and_statistics_stay_to_the_bit(generator):
    model = trained_a_little()
    with torch.no_grad():
        model.backbone.stem[1].running_mean[0] = -0.0  # a sum with zero would lose its sign
    x, y = torch.rand(6, 3, 16, 16, generator=generator), torch.tensor([3, 4, 5, 3, 4, 5])
    other, before = copy.deepcopy(model), bits(model)
    assert len(before) == 3 * 20
    found = saliency_map(model, x, y, 1, "label", "batch")
    assert torch.equal(found, saliency_map(other, x, y, 1, "label", "train"))
    assert not torch.equal(found, saliency_map(model, x, y, 1, "label", "eval"))
    assert bits(model) == before != bits(other)


def bits(model):
    return [buffer.numpy().tobytes() for buffer in model.buffers()]


@pytest.mark.parametrize("name", ["biases", "reduced, momentum None", "flattened"])
def test_statistics_of_any_network_are_put_back_in_batch_mode_in_a_recording_too(name, generator):
    backbone = make(name)
    found = probe(backbone, NETWORK_SHAPE)
    model = Classifier(backbone, Heads(found.width, 2), found)
    model.heads.assign(0, (0, 1))
    engine = Engine(model)
    if name != "reduced, momentum None":  # which looks at the count of batches on the host
        engine.graphs = Replaying()
    before = bits(model)
    for _ in range(5):
        x, y = torch.rand(4, *NETWORK_SHAPE, generator=generator), torch.tensor([0, 1, 1, 0])
        how = {"task": 0, "target": "predicted"}
        (maps,) = engine.recorded(byte_maps, x, y, model=model, mode="batch", **how)
        assert torch.equal(maps, byte_maps(x, y, model=copy.deepcopy(model), mode="train", **how)[0])
        assert bits(model) == before
    assert not engine.graphs.active or [tape.replays for tape in engine.graphs.tapes] == [2]


def test_in_batch_mode_statistics_come_back_from_a_failure_too():
    model = trained_a_little()
    before = bits(model)
    with pytest.raises(RuntimeError, match="channels"), in_mode(model, "batch"):
        [model(torch.rand(2, channels, 32, 32), 0) for channels in (3, 4)]
    assert bits(model) == before


def test_predicted_explains_the_class_that_the_model_would_choose(generator):
    model = trained_a_little()
    x = torch.rand(5, 3, 32, 32, generator=generator)
    predicted = copy.deepcopy(model).eval()(x, 0).argmax(1)
    wrong = (predicted + 1) % 3
    assert torch.equal(grad_cam(model, x, wrong, 0, "predicted"), grad_cam(model, x, predicted, 0, "label"))
    assert not torch.equal(grad_cam(model, x, wrong, 0, "label"), grad_cam(model, x, predicted, 0, "label"))


@pytest.mark.parametrize("training", [True, False])
def test_leaves_the_model_as_found(training, generator):
    model = trained_a_little().train(training)
    model.backbone.blocks[2].eval()  # a part may have a mode of its own
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    before = copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    grad_cam(model, torch.rand(4, 3, 32, 32, generator=generator), torch.tensor([0, 1, 2, 0]), 0)
    after = model.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before if not k.endswith("_extra_state"))
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(p.grad, torch.ones_like(p)) and p.requires_grad for p in model.parameters())
    assert not any(module._forward_hooks or module._backward_hooks for module in model.modules())


def test_works_where_gradients_are_switched_off(generator):
    model = trained_a_little()
    x, y = torch.rand(2, 3, 32, 32, generator=generator), torch.tensor([0, 1])
    expected = grad_cam(model, x, y, 0)
    with torch.no_grad():
        found = grad_cam(model, x, y, 0)
    assert torch.equal(found, expected)
    assert not found.requires_grad


def test_one_image_is_explained_as_it_is_in_a_batch(generator):
    model = trained_a_little()
    x, y = torch.rand(4, 3, 32, 32, generator=generator), torch.tensor([0, 1, 2, 1])
    torch.testing.assert_close(grad_cam(model, x[2:3], y[2:3], 0)[0], grad_cam(model, x, y, 0)[2], atol=1e-5, rtol=1e-4)


def test_a_map_that_nothing_speaks_for_is_zero_not_nan(generator):
    model = trained_a_little()
    with torch.no_grad():
        model.heads.linear.weight[1] = -1.0  # features are not negative, so every weight speaks against class 1
    maps = grad_cam(model, torch.rand(2, 3, 32, 32, generator=generator), torch.tensor([1, 1]), 0)
    assert torch.equal(maps, torch.zeros_like(maps))


def test_maps_as_bytes_have_their_highest_value_at_255():
    maps = torch.tensor([[[0.0, 2.0], [4.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]], [[float("nan")] * 2] * 2])
    assert as_bytes(maps).tolist() == [[[0, 128], [255, 64]], [[0, 0], [0, 0]], [[0, 0], [0, 0]]]
