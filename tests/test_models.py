"""The networks: sizes that the papers state, any size of image, and heads that see their own classes only."""

import pytest
import torch

from samc.errors import ConfigError
from samc.models import InpaintingAutoencoder
from toys import reduced


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def test_reduced_resnet_has_the_published_number_of_parameters():
    assert parameters(reduced(100)) == 1_109_240


def test_autoencoder_has_the_layers_that_the_paper_describes():
    # conv 4x4: 3→8→16→32 with bias, a batch norm each; back 32→16→8→3
    down = (3 * 8 + 8 * 16 + 16 * 32) * 16 + (8 + 16 + 32) * 3
    up = (32 * 16 + 16 * 8 + 8 * 3) * 16 + 16 + 8 + 3
    assert parameters(InpaintingAutoencoder(3)) == down + up


@pytest.mark.parametrize("side", [1, 7, 8, 28, 32, 84])
@pytest.mark.parametrize("channels", [1, 3])
def test_any_size_of_image_and_a_batch_of_one(side, channels):
    x = torch.rand(1, channels, side, side)
    model = reduced(6, channels, side)
    model.heads.assign(0, (1, 4))
    assert model(x, 0).shape == (1, 2)
    painted = InpaintingAutoencoder(channels).eval()(x).detach()
    assert painted.shape == x.shape
    assert 0 <= float(painted.min()) <= float(painted.max()) <= 1


def test_features_of_a_32_pixel_image_are_4_by_4():
    assert reduced(10, side=32).features(torch.rand(2, 3, 32, 32)).shape == (2, 160, 4, 4)


def test_a_residual_autoencoder_starts_as_the_picture_it_is_given():
    x = torch.rand(4, 3, 20, 20)
    assert torch.equal(InpaintingAutoencoder(3, residual=True)(x), x)


def test_a_head_is_its_tasks_rows_of_the_one_linear_layer():
    model = reduced(8).eval()
    model.heads.assign(0, (2, 3, 4))
    model.heads.assign(1, (7, 0))
    x = torch.rand(3, 3, 12, 12)
    everything = model.heads.linear(model.features(x).mean((2, 3)))
    torch.testing.assert_close(model(x, 0), everything[:, 2:5])
    torch.testing.assert_close(model(x, 1), everything[:, [0, 7]])
    assert model.heads.positions(torch.tensor([7, 0, 7]), 1).tolist() == [1, 0, 1]


def test_a_class_that_the_network_does_not_have_is_refused():
    with pytest.raises(ConfigError, match=r"task 2 has classes \(3, 9\), the network only 0 to 7"):
        reduced(8).heads.assign(2, (3, 9))


def test_same_seed_same_network_and_the_global_random_state_is_untouched():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, second, other = (reduced(4, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.heads.linear.weight, other.heads.linear.weight)


def test_heads_travel_with_the_state():
    model = reduced(4)
    model.heads.assign(1, (2, 3))
    fresh = reduced(4, seed=1)
    fresh.load_state_dict(model.state_dict())
    assert fresh.heads.task_classes == {1: (2, 3)}
