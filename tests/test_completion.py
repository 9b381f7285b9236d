"""Completion: kept pixels never change, the rules are OpenCV's, and the autoencoder learns when it is told to."""

import copy

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from samc.completion import COMPLETIONS, RULES, Completion, parse_completion, unchanged
from samc.errors import ConfigError
from samc.models import InpaintingAutoencoder


def pictures(count, shape=(3, 16, 16), share=0.4, seed=0):
    """Smooth images, so that neighbours tell something about dropped pixels; and random masks."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[: shape[1], : shape[2]]
    waves = rng.uniform(0, 0.4, (count, shape[0], 2, 1, 1))
    x = 127 + 120 * np.sin(
        waves[:, :, 0] * rows + waves[:, :, 1] * columns + rng.uniform(0, 6, (count, shape[0], 1, 1))
    )
    return x.astype(np.uint8), rng.random((count, *shape[1:])) < share


def completion(name, channels=3):
    rule, learnt = parse_completion(name)
    return Completion(rule, InpaintingAutoencoder(channels) if learnt else None)


@pytest.mark.parametrize("name", COMPLETIONS)
@given(
    shape=st.tuples(st.sampled_from([1, 3]), st.integers(1, 18), st.integers(1, 18)),
    share=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
    count=st.integers(0, 3),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=25, deadline=None)
def test_kept_pixels_are_copied_through(name, shape, share, count, seed):
    images, masks = pictures(count, shape, share, seed)
    completed = completion(name, shape[0])(images * masks[:, None], masks).numpy()
    assert completed.shape == images.shape
    assert np.isfinite(completed).all()
    assert ((completed >= 0) & (completed <= 1)).all()
    kept = np.broadcast_to(masks[:, None], images.shape)
    np.testing.assert_array_equal((completed[kept] * 255).round(), images[kept])


@pytest.mark.parametrize(("name", "flag"), [("telea", cv2.INPAINT_TELEA), ("navier-stokes", cv2.INPAINT_NS)])
@pytest.mark.parametrize("channels", [1, 3])
def test_rules_are_opencvs(name, flag, channels):
    images, masks = pictures(4, (channels, 16, 20))
    for image, mask, filled in zip(images, masks, RULES[name](images * masks[:, None], masks), strict=True):
        picture = np.ascontiguousarray((image * mask).transpose(1, 2, 0))
        expected = cv2.inpaint(picture, 255 * (~mask).astype(np.uint8), 3, flag).reshape(picture.shape)
        np.testing.assert_array_equal(filled, expected.transpose(2, 0, 1))


@pytest.mark.parametrize("name", ["telea", "navier-stokes"])
def test_a_rule_comes_nearer_to_the_truth_than_zeros(name):
    images, masks = pictures(6)
    error = {rule: np.abs(RULES[rule](images, masks).astype(float) - images).mean() for rule in ("zero", name)}
    assert error[name] < 0.2 * error["zero"]


def test_dropped_pixels_do_not_leak_into_the_completion():
    images, masks = pictures(3)
    other = np.where(masks[:, None], images, 255 - images)
    for name in COMPLETIONS:
        assert torch.equal(
            Completion(parse_completion(name)[0], InpaintingAutoencoder(3, seed=1))(images, masks),
            Completion(parse_completion(name)[0], InpaintingAutoencoder(3, seed=1))(other, masks),
        )


def truth(images):
    return torch.from_numpy(images).float() / 255


@pytest.mark.slow
@pytest.mark.parametrize(("residual", "lr"), [(False, 3.0), (True, 1.0)])
def test_the_autoencoder_learns_to_complete(residual, lr):
    images, masks = pictures(200, share=0.3)
    held, held_masks = pictures(40, share=0.3, seed=1)
    completion = Completion(RULES["zero"], InpaintingAutoencoder(3, residual=residual))

    def error():
        dropped = np.broadcast_to(~held_masks[:, None], held.shape)
        return float(((completion(held, held_masks).numpy() - held / 255) ** 2)[dropped].mean())

    before = error()
    coarse, _ = completion.coarse(images, masks)
    parts = [(coarse[i::20], truth(images[i::20])) for i in range(20)]
    losses = [float(completion.learn(*part, lr)[0]) for _ in range(20) for part in parts]
    assert np.mean(losses[-20:]) < 0.75 * losses[0]
    assert error() < 0.75 * before


def test_completing_changes_nothing_in_the_autoencoder():
    images, masks = pictures(5)
    completion = Completion(RULES["telea"], InpaintingAutoencoder(3))
    completion.learn(completion.coarse(images, masks)[0], truth(images), lr=0.1)
    before = copy.deepcopy(completion.autoencoder.state_dict())
    first, second = completion(images, masks), completion(images, masks)
    assert torch.equal(first, second)
    assert all(torch.equal(before[k], v) for k, v in completion.autoencoder.state_dict().items())


def test_one_learning_step_is_plain_sgd():
    images, masks = pictures(4)
    ours, theirs = InpaintingAutoencoder(3, seed=2), InpaintingAutoencoder(3, seed=2)
    coarse = truth(RULES["telea"](images, masks))
    Completion(RULES["telea"], ours).learn(coarse, truth(images), lr=0.3)
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.3)
    ((theirs(coarse) - truth(images)) ** 2).mean().backward()
    optimiser.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_what_has_not_changed_is_not_filled_again(monkeypatch):
    calls = []

    def rule(images, masks):
        calls.append(len(images))
        return RULES["telea"](images, masks)

    complete, (images, masks) = Completion(rule), pictures(4)
    first = complete(images, masks)
    assert torch.equal(complete(images.copy(), masks.copy()), first)
    assert calls == [4]
    assert complete.cache.nbytes == images.nbytes
    other = masks.copy()
    other[0, 0, 0] ^= True
    assert torch.equal(complete(images, other), Completion(RULES["telea"])(images, other))
    assert calls == [4, 4]
    monkeypatch.setattr("samc.completion.rule_cache.MAX_BYTES", images.nbytes)
    complete(images[:2], masks[:2])
    assert len(complete.cache.results) == 1


def test_unchanged_is_for_memories_that_know_every_pixel():
    images, masks = pictures(3)
    np.testing.assert_array_equal(Completion(unchanged)(images, masks).numpy(), truth(images))


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown completion 'talea': did you mean 'telea'\? known: zero, telea"):
        parse_completion("talea")
