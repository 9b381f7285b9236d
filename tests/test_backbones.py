"""Backbones: known sizes and shapes, names that cannot be used, and weights that load whole or not at all."""

import os
import sys
import types

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from samc.errors import ConfigError, DataError
from samc.models import backbones
from samc.models.backbones import BACKBONES, TimmBackbone, build_backbone, describe_features
from samc.models.mlp import MLP
from samc.models.resnet18 import ResNet18
from samc.models.vit import VisionTransformer
from samc.models.weights import load_weights

OWN = ("resnet18", "mlp", "vit-tiny")


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def refused(name, image_shape=(3, 32, 32), error=ConfigError, **settings):
    """The one line with which a name is refused."""
    with pytest.raises(error) as caught:
        build_backbone(name, image_shape, **settings)
    message = str(caught.value)
    assert "\n" not in message
    return message


# -- the registry


@pytest.mark.slow
def test_names():
    assert list(BACKBONES) == ["reduced-resnet18", "resnet18", "mlp", "vit-tiny"]


def test_an_unknown_name_gets_the_nearest_one_and_all():
    assert refused("resnet81") == (
        "unknown backbone 'resnet81': did you mean 'resnet18'? "
        "known: reduced-resnet18, resnet18, mlp, vit-tiny, timm:NAME, package.module:factory"
    )


@pytest.mark.parametrize(
    ("name", "image_shape", "kind", "shape"),
    [
        ("resnet18", (3, 32, 32), "map", (512, 1, 1)),
        ("resnet18", (3, 84, 84), "map", (512, 3, 3)),
        ("resnet18", (1, 28, 28), "map", (512, 1, 1)),
        ("resnet18", (3, 64, 96), "map", (512, 2, 3)),
        ("mlp", (3, 32, 32), "vector", (256,)),
        ("mlp", (3, 84, 84), "vector", (256,)),
        ("mlp", (1, 28, 28), "vector", (256,)),
        ("vit-tiny", (3, 32, 32), "tokens", (64, 192)),
        ("vit-tiny", (3, 84, 84), "tokens", (36, 192)),
        ("vit-tiny", (1, 28, 28), "tokens", (49, 192)),
        ("vit-tiny", (3, 96, 128), "tokens", (48, 192)),
    ],
)
def test_features_have_the_shape_that_the_layers_give(name, image_shape, kind, shape):
    features = build_backbone(name, image_shape)(torch.rand(2, *image_shape))
    assert features.shape == (2, *shape)
    assert describe_features(features) == kind


@pytest.mark.parametrize("name", OWN)
def test_a_batch_of_one_trains(name):
    # 32 pixels leave resnet18 one value per channel, of which batch norm could take no variance
    network = build_backbone(name, (3, 32, 32)).train()
    network(torch.rand(1, 3, 32, 32)).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize("name", OWN)
def test_weights_are_drawn_from_the_callers_seed(name):
    def drawn(seed):
        torch.manual_seed(seed)
        return torch.cat([parameter.flatten() for parameter in build_backbone(name, (3, 16, 16)).parameters()])

    first = drawn(3)
    assert torch.equal(drawn(3), first)
    assert not torch.equal(drawn(4), first)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "lr"), [("resnet18", 0.01), ("mlp", 0.3), ("vit-tiny", 0.003)])
def test_each_network_learns_to_tell_coloured_squares(name, lr):
    generator = torch.Generator().manual_seed(0)
    images = 0.1 * torch.rand(32, 3, 16, 16, generator=generator)
    classes = torch.randint(2, (32,), generator=generator)
    for image, label in zip(images, classes.tolist(), strict=True):
        row, column = torch.randint(8, (2,), generator=generator).tolist()
        image[2 * label, row : row + 8, column : column + 8] += 0.9  # red or blue
    torch.manual_seed(0)
    backbone = build_backbone(name, (3, 16, 16))
    head = nn.Linear(pooled(backbone(images)).shape[1], 2)
    optimiser = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=lr)
    losses = []
    for _ in range(10):
        loss = F.cross_entropy(head(pooled(backbone(images))), classes)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def pooled(features):
    return {"map": lambda: features.mean((2, 3)), "tokens": lambda: features.mean(1), "vector": lambda: features}[
        describe_features(features)
    ]()


@pytest.mark.parametrize("features", [torch.rand(2, 3, 4, 5, 6), torch.rand(2), torch.zeros(2, 3, dtype=torch.int64)])
def test_other_features_are_refused(features):
    with pytest.raises(ConfigError) as caught:
        describe_features(features)
    assert str(caught.value) == (
        f"a network gives a map (b, d, i, j), tokens (b, n, d) or a vector (b, d); got {tuple(features.shape)} of "
        f"{features.dtype}; wrap it in a module whose forward returns one of them"
    )


def test_features_that_are_no_tensor_are_refused():
    with pytest.raises(ConfigError, match=r"or a vector \(b, d\); got tuple; wrap it in a module"):
        describe_features((torch.rand(2, 3),))


# -- resnet18


def test_resnet18_has_torchvisions_parameters_without_its_classifier():
    assert parameters(ResNet18()) == 11_689_512 - (512 * 1000 + 1000) == 11_176_512
    assert parameters(ResNet18(1)) == 11_176_512 - 2 * 64 * 49


def test_resnet18_has_torchvisions_names():
    bn = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    names = ["conv1.weight", *(f"bn1.{part}" for part in bn)]
    for stage in range(1, 5):
        for block in range(2):
            for number in (1, 2):
                names += [f"layer{stage}.{block}.conv{number}.weight"]
                names += [f"layer{stage}.{block}.bn{number}.{part}" for part in bn]
            if stage > 1 and block == 0:
                names += [f"layer{stage}.0.downsample.0.weight"]
                names += [f"layer{stage}.0.downsample.1.{part}" for part in bn]
    assert list(ResNet18().state_dict()) == names


def test_a_block_is_relu_of_residual_plus_two_normalised_convolutions():
    torch.manual_seed(0)
    block = ResNet18().eval().layer2[0]
    for layer in block.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.running_mean)
            nn.init.uniform_(layer.running_var, 0.5, 2)
    x = torch.rand(2, 64, 6, 6)

    def normalised(layer, y):
        mean, variance = layer.running_mean[:, None, None], layer.running_var[:, None, None]
        return (y - mean) / (variance + 1e-5).sqrt()

    residual = normalised(block.downsample[1], F.conv2d(x, block.downsample[0].weight, stride=2))
    inner = normalised(block.bn1, F.conv2d(x, block.conv1.weight, stride=2, padding=1)).clamp(min=0)
    expected = (normalised(block.bn2, F.conv2d(inner, block.conv2.weight, padding=1)) + residual).clamp(min=0)
    torch.testing.assert_close(block(x), expected)


# -- mlp


def test_mlp_has_two_hidden_layers_of_256():
    network = MLP((1, 28, 28))
    assert parameters(network) == 784 * 256 + 256 + 256 * 256 + 256
    first, second = (layer for layer in network.modules() if isinstance(layer, nn.Linear))
    x = torch.rand(3, 1, 28, 28)
    hidden = (x.reshape(3, 784) @ first.weight.T + first.bias).clamp(min=0)
    torch.testing.assert_close(network(x), (hidden @ second.weight.T + second.bias).clamp(min=0))


# -- vit-tiny


def test_vit_tiny_has_the_published_parameters_without_class_token_and_classifier():
    published = 5_717_416  # timm's vit_tiny_patch16_224
    assert parameters(VisionTransformer((3, 224, 224))) == published - 193_000 - 2 * 192


def test_a_token_is_its_patch_in_row_major_order():
    network = VisionTransformer((3, 8, 12), depth=0).eval()
    x = torch.rand(1, 3, 8, 12)
    changed = x.clone()
    changed[:, :, 5, 9] += 1  # second row of patches, third column
    differs = (network(changed) - network(x)).abs().sum(2)[0] > 0
    assert differs.tolist() == [False, False, False, False, False, True]
    assert network.num_prefix_tokens == 0


def test_attention_is_softmax_of_queries_and_keys():
    torch.manual_seed(0)
    attention = VisionTransformer((1, 8, 8), width=6, heads=2, depth=1).blocks[0].attn
    x = torch.rand(1, 4, 6)
    query, key, value = attention.qkv(x)[0].split(6, dim=1)
    heads = []
    for columns in (slice(0, 3), slice(3, 6)):
        share = torch.softmax(query[:, columns] @ key[:, columns].T / 3**0.5, dim=1)
        heads.append(share @ value[:, columns])
    torch.testing.assert_close(attention(x)[0], attention.proj(torch.cat(heads, dim=1)))


@pytest.mark.parametrize(("side", "patch"), [(8, 4), (64, 4), (65, 13), (72, 12), (84, 14), (96, 16), (224, 16)])
def test_the_usual_patch_divides_the_image(side, patch):
    assert VisionTransformer((3, side, side), depth=0).patch_embed.proj.kernel_size == (patch, patch)


@pytest.mark.parametrize(("shape", "patch"), [((3, 30, 32), 4), ((3, 67, 67), 16)])
def test_a_vit_refuses_images_that_no_patch_divides(shape, patch):
    assert refused("vit-tiny", shape) == (
        f"a patch of {patch} pixels does not divide images of {shape[1]}x{shape[2]}; resize or pad them, or choose the "
        "patch in a factory of your own: samc.models.vit.VisionTransformer(image_shape, patch=...)"
    )


def test_a_vit_refuses_heads_that_do_not_divide_its_width_and_images_of_another_size():
    with pytest.raises(ConfigError, match="a width of 192 does not divide among 5 heads; the usual is 64 per head"):
        VisionTransformer((3, 32, 32), heads=5)
    network = VisionTransformer((3, 32, 32), depth=0)
    with pytest.raises(ConfigError, match=r"built for images of shape \(3, 32, 32\), got \(3, 28, 28\); build one"):
        network(torch.rand(1, 3, 28, 28))


# -- timm: a stand-in for the package, which needs torchvision


class FakeNetwork(nn.Module):
    def __init__(self, features, **attributes):
        super().__init__()
        self.linear = nn.Linear(1, 1)
        self.features = features
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward_features(self, x):
        return self.features(x)

    def forward(self, x):
        raise AssertionError("would go through timm's pooling and head")


class FakeTimm(types.ModuleType):
    def __init__(self):
        super().__init__("timm")
        self.made = []
        self.networks = {
            "resnet": lambda: FakeNetwork(lambda x: torch.zeros(len(x), 7, 2, 3)),
            "vit": lambda img_size: FakeNetwork(lambda x: torch.zeros(len(x), 7, 5), num_prefix_tokens=2),
            "cait": lambda img_size: FakeNetwork(
                lambda x: torch.zeros(len(x), 7, 5), cls_token=nn.Parameter(torch.zeros(1, 1, 5))
            ),
            "pit": lambda img_size: FakeNetwork(
                lambda x: torch.arange(8.0).reshape(len(x), 1, -1), cls_token=nn.Parameter(torch.zeros(1, 1, 4))
            ),
            "swin": lambda img_size: FakeNetwork(
                lambda x: torch.arange(2.0 * 2 * 3 * 5).reshape(2, 2, 3, 5), output_fmt="NHWC"
            ),
            "vector": lambda: FakeNetwork(lambda x: torch.zeros(len(x), 9)),
            "crossvit": lambda img_size: FakeNetwork(lambda x: [x, x]),
            "picky": self.picky,
            "odd": self.odd,
        }

    @staticmethod
    def picky(img_size):
        raise AssertionError("input size\n  not supported")

    @staticmethod
    def odd(img_size):
        raise TypeError("cannot add 'int' and 'str'")

    def is_model(self, name):
        return name.split(".")[0] in self.networks

    def list_models(self):
        return list(self.networks)

    def create_model(self, name, *, pretrained, num_classes, in_chans, **settings):
        assert pretrained is False
        assert num_classes == 0
        network = self.networks[name.split(".")[0]](**settings)
        self.made.append((name, in_chans, settings))
        return network


@pytest.fixture
def timm(monkeypatch):
    module = FakeTimm()
    monkeypatch.setitem(sys.modules, "timm", module)
    return module


def test_timm_is_imported_only_where_it_is_asked_for():
    assert not hasattr(backbones, "timm")


@pytest.mark.parametrize(
    ("name", "kind", "shape", "prefix_tokens"),
    [
        ("resnet", "map", (2, 7, 2, 3), 0),
        ("resnet.a1_in1k", "map", (2, 7, 2, 3), 0),
        ("vit", "tokens", (2, 7, 5), 2),
        ("cait", "tokens", (2, 7, 5), 1),
        ("pit", "vector", (2, 4), 1),
        ("swin", "map", (2, 5, 2, 3), 0),
        ("vector", "vector", (2, 9), 0),
    ],
)
def test_timms_features_are_those_before_its_pooling(timm, name, kind, shape, prefix_tokens):
    network = build_backbone(f"timm:{name}", (1, 28, 36))
    features = network(torch.rand(2, 1, 28, 36))
    assert features.shape == shape
    assert describe_features(features) == kind
    assert network.num_prefix_tokens == prefix_tokens
    takes_size = name not in ("resnet", "resnet.a1_in1k", "vector")
    assert timm.made == [(name, 1, {"img_size": (28, 36)} if takes_size else {})]


def test_a_channels_last_map_is_turned_and_class_tokens_alone_are_a_vector(timm):
    x = torch.rand(2, 3, 8, 8)
    turned = build_backbone("timm:swin", (3, 8, 8))(x)
    assert turned[1, :, 0, 2].tolist() == [40, 41, 42, 43, 44]  # ((1·2 + 0)·3 + 2)·5 and what follows
    assert build_backbone("timm:pit", (3, 8, 8))(x).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_list_of_features_is_refused_where_features_are_described(timm):
    with pytest.raises(ConfigError, match="got list"):
        describe_features(build_backbone("timm:crossvit", (3, 8, 8))(torch.rand(2, 3, 8, 8)))


def test_timms_own_refusals_are_one_line(timm):
    assert refused("timm:resnot") == (
        "unknown timm network 'resnot': did you mean 'resnet'? timm.list_models() names them all"
    )
    assert refused("timm:picky", (3, 5, 6)) == (
        "timm cannot build 'picky' for images of shape (3, 5, 6): AssertionError: input size not supported; "
        "choose a network for images of this size"
    )
    assert "TypeError: cannot add 'int' and 'str'" in refused("timm:odd")
    assert timm.made == []


@pytest.mark.parametrize("name", ["", "hf-hub:timm/resnet18", "local-dir:x", "timm/resnet18"])
def test_nothing_is_fetched_through_timm(timm, name):
    assert refused(f"timm:{name}") == (
        f"backbone 'timm:{name}' is not timm:NAME with a name from timm.list_models(), as timm:resnet18"
    )


def test_without_timm_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    assert refused("timm:resnet18").endswith("pip install 'samc[timm]'")


def test_timm_absent_and_timm_broken_are_told_apart(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert refused("timm:resnet18") == "timm is not installed; pip install 'samc[timm]'"
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    assert refused("timm:resnet18") == (
        "timm cannot be imported (operator torchvision::nms does not exist); pip install 'samc[timm]'"
    )


# -- a factory of the user's

MODULE = """
from torch import nn

number = 3

def shaped(image_shape):
    return nn.Conv2d(image_shape[0], image_shape[1], 1)

def plain():
    return nn.Conv2d(3, 4, 1)

class Network(nn.Linear):
    def __init__(self, image_shape):
        super().__init__(2, image_shape[2])

def two(image_shape, width):
    return nn.Conv2d(3, 4, 1)

def late(image_shape):
    from laternetworks import network
    return network()

def failing(image_shape):
    raise KeyError("no\\nsuch thing")

def leaving():
    raise SystemExit("usage: train.py")

def nothing(image_shape):
    pass

def picky(image_shape):
    from samc.errors import ConfigError
    raise ConfigError("images of 32 pixels only; resize them")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current directory with modules of the user's."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ownnetworks.py").write_text(MODULE)
    (tmp_path / "laternetworks.py").write_text("from torch import nn\nnetwork = lambda: nn.Conv2d(5, 6, 1)")
    (tmp_path / "brokennetworks.py").write_text("import a_package_that_is_not_there")
    (tmp_path / "scriptednetworks.py").write_text("import sys\nsys.exit(3)")
    (tmp_path / "ownpackage").mkdir()
    (tmp_path / "ownpackage/__init__.py").write_text("")
    (tmp_path / "ownpackage/inner.py").write_text("from torch import nn\nsmall = nn.Identity")
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("own", "later")):
            del sys.modules[name]


def test_a_factory_is_called_with_the_shape_or_with_nothing(folder):
    path = list(sys.path)
    shaped = build_backbone("ownnetworks:shaped", (3, 8, 9))
    assert (shaped.in_channels, shaped.out_channels) == (3, 8)
    assert build_backbone("ownnetworks:plain", (3, 8, 9)).out_channels == 4
    assert build_backbone("ownnetworks:Network", (3, 8, 9)).out_features == 9
    assert build_backbone("ownnetworks:late", (3, 8, 9)).out_channels == 6
    assert isinstance(build_backbone("ownpackage.inner:small", (3, 8, 9)), nn.Identity)
    assert build_backbone("torch.nn:Identity", (3, 8, 9))(5) == 5
    assert sys.path == path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absentnetworks:small", "no module 'absentnetworks' in {folder} or the environment; run from the folder that "
         "holds it, or install it"),
        ("ownpackage.other:small", "no module 'ownpackage.other' in {folder} or the environment; run from the folder "
         "that holds it, or install it"),
        ("ownnetworks:absent", "module 'ownnetworks' from {folder}/ownnetworks.py has no 'absent'; check the name"),
        ("sys:absent", "module 'sys' from the environment has no 'absent'; check the name"),
        ("ownnetworks:number", "ownnetworks:number is of type int and cannot be called; name a function or a class "
         "that makes a network"),
        ("ownnetworks:two", "backbone ownnetworks:two takes (image_shape, width); a factory takes image_shape "
         "(channels, height, width), or nothing"),
        ("ownnetworks:failing", "backbone ownnetworks:failing raised KeyError: 'no\\nsuch thing'; mend the factory"),
        ("ownnetworks:leaving", "backbone ownnetworks:leaving raised SystemExit: usage: train.py; mend the factory"),
        ("ownnetworks:nothing", "backbone ownnetworks:nothing returned NoneType; a factory returns a torch.nn.Module"),
        ("ownnetworks:picky", "images of 32 pixels only; resize them"),
        ("brokennetworks:small", "module 'brokennetworks' raised ModuleNotFoundError when imported: No module named "
         "'a_package_that_is_not_there'; mend it"),
        ("scriptednetworks:small", "module 'scriptednetworks' raised SystemExit when imported: 3; mend it"),
        ("ownnetworks:", "backbone 'ownnetworks:' is not package.module:factory, as in mynetworks:small"),
        (":small", "backbone ':small' is not package.module:factory, as in mynetworks:small"),
        ("own/networks.py:small", "backbone 'own/networks.py:small' is not package.module:factory, as in "
         "mynetworks:small"),
    ],
)  # fmt: skip
def test_every_mistake_in_a_factory_is_one_line(folder, name, message):
    path = list(sys.path)
    assert refused(name) == message.replace("{folder}", str(folder))
    assert sys.path == path


# -- weights


@pytest.fixture
def small():
    """A network with batch norm; its values are its own."""
    torch.manual_seed(1)
    network = Small()
    network(torch.rand(2, 3, 4, 4))  # so that the running statistics are not the usual ones
    return network


class Small(nn.Module):
    def __init__(self, channels=3):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 4, 1)
        self.bn1 = nn.BatchNorm2d(4)

    def forward(self, x):
        return self.bn1(self.conv1(x))


def write(path, state):
    (save_file if path.suffix == ".safetensors" else torch.save)(state, path)
    return path


def same(network, state):
    return all(torch.equal(value, state[key]) for key, value in network.state_dict().items())


def not_loaded(path, error, network=None):
    """The line with which a file is refused; the network stays as it was."""
    network = Small() if network is None else network
    before = {key: value.clone() for key, value in network.state_dict().items()}
    with pytest.raises(error) as caught:
        load_weights(network, path)
    assert same(network, before)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth"])
def test_weights_come_back_as_they_were_saved(small, tmp_path, suffix):
    path = write(tmp_path / f"weights{suffix}", small.state_dict())
    network = Small()
    assert load_weights(network, path) == ()
    assert same(network, small.state_dict())
    assert load_weights(network, str(path)) == ()


def test_a_backbone_is_built_with_weights(tmp_path):
    path = write(tmp_path / "weights.safetensors", MLP((1, 4, 4)).state_dict())
    first, second = (build_backbone("mlp", (1, 4, 4), weights=path) for _ in range(2))
    assert same(first, second.state_dict())


@pytest.mark.parametrize("name", ["state_dict", "model"])
def test_a_checkpoints_state_dict_is_found(small, tmp_path, name):
    path = write(tmp_path / "weights.pt", {"epoch": 3, "optimizer": {"lr": 0.1}, name: small.state_dict()})
    network = Small()
    assert load_weights(network, path) == ()
    assert same(network, small.state_dict())


@pytest.mark.parametrize("prefix", ["module.", "backbone.", "module.backbone.", "_orig_mod.", "anything.else."])
@pytest.mark.parametrize("head", ["fc.weight", "head.weight", "heads.head.bias", "classifier.0.bias", "linear.bias"])
def test_prefixes_are_taken_off_and_classifiers_are_named(small, tmp_path, prefix, head):
    state = {prefix + key: value for key, value in small.state_dict().items()}
    heads = {prefix + head: torch.rand(2), head: torch.rand(3), prefix.split(".")[0] + "." + head: torch.rand(2)}
    network = Small()
    assert sorted(load_weights(network, write(tmp_path / "weights.pt", state | heads))) == sorted(heads)
    assert same(network, small.state_dict())


def test_a_prefix_of_the_network_itself_is_seen(tmp_path):
    network = nn.Module()
    network.conv1 = nn.Conv2d(3, 4, 1)
    wrapped = TimmBackbone(network)
    state = nn.Conv2d(3, 4, 1).state_dict(prefix="conv1.") | {"fc.bias": torch.zeros(2)}
    assert load_weights(wrapped, write(tmp_path / "weights.pt", state)) == ("fc.bias",)
    assert torch.equal(network.conv1.weight, state["conv1.weight"])
    assert load_weights(wrapped, write(tmp_path / "own.pt", wrapped.state_dict())) == ()


def test_a_classifiers_name_within_the_backbone_is_loaded(tmp_path):
    source, target = (nn.Sequential() for _ in range(2))
    for network in (source, target):
        network.add_module("fc", nn.Linear(2, 2))
    assert load_weights(target, write(tmp_path / "weights.pt", source.state_dict())) == ()
    assert same(target, source.state_dict())


def test_extra_state_is_left_out(small, tmp_path):
    state = dict(small.state_dict()) | {"_extra_state": {"task_classes": {0: (1, 2)}}}
    network = Small()
    assert load_weights(network, write(tmp_path / "weights.pt", state)) == ("_extra_state",)
    assert same(network, small.state_dict())


def test_old_checkpoints_without_batch_norms_counter_load(small, tmp_path):
    state = {key: value for key, value in small.state_dict().items() if "num_batches" not in key}
    network = Small()
    assert load_weights(network, write(tmp_path / "weights.pt", state)) == ()
    assert same(network, dict(state) | {"bn1.num_batches_tracked": torch.tensor(0)})


def test_half_precision_is_loaded_into_single(small, tmp_path):
    state = {key: value.half() if value.is_floating_point() else value for key, value in small.state_dict().items()}
    network = Small()
    load_weights(network, write(tmp_path / "weights.safetensors", state))
    assert same(network, {key: value.float() for key, value in state.items()})


def test_what_does_not_fit_is_counted_and_named(small, tmp_path):
    path = tmp_path / "weights.pt"
    state = small.state_dict()
    start = f"{path} does not fit Small: "
    end = "; give weights of this very network, for this size of image"

    write(path, {key: value for key, value in state.items() if "bias" not in key})
    assert not_loaded(path, ConfigError) == start + "of 6 weights 2 missing (conv1.bias, bn1.bias)" + end

    write(path, Small(1).state_dict())
    assert not_loaded(path, ConfigError) == (
        start + "1 of another shape or type (conv1.weight: (4, 1, 1, 1) in the file, (4, 3, 1, 1) in the network)" + end
    )

    write(path, dict(state) | {"conv1.bias": torch.zeros(4, dtype=torch.int8)})
    assert not_loaded(path, ConfigError) == (
        start + "1 of another shape or type (conv1.bias: torch.int8 in the file, torch.float32 in the network)" + end
    )

    write(path, dict(state) | {f"conv{number}.weight": torch.zeros(1) for number in range(2, 7)})
    assert not_loaded(path, ConfigError) == (
        start + "5 without a place in the network (conv2.weight, conv3.weight, conv4.weight, and 2 more)" + end
    )

    write(path, MLP((1, 2, 2)).state_dict())
    message = not_loaded(path, ConfigError)
    assert "of 6 weights 6 missing (conv1.weight, conv1.bias, bn1.weight, and 3 more), 4 without a place" in message

    write(path, {key: value.to_sparse() for key, value in state.items()})
    assert "7 of another shape or type (conv1.weight: torch.sparse_coo in the file" in not_loaded(path, ConfigError)


def test_two_copies_of_a_network_are_not_chosen_between(small, tmp_path):
    state = {
        f"{prefix}.{key}": value for key, value in small.state_dict().items() for prefix in ("encoder", "momentum")
    }
    assert "7 without a place" in not_loaded(write(tmp_path / "weights.pt", state), ConfigError)


def test_values_that_are_no_numbers_are_refused(small, tmp_path):
    small.bn1.running_var[1] = torch.nan
    path = write(tmp_path / "weights.pt", small.state_dict())
    assert not_loaded(path, DataError) == (
        f"{path} has infinite values or NaN in bn1.running_var; take an earlier checkpoint"
    )


def test_a_network_that_refuses_halfway_stays_as_it_was(small, tmp_path):
    class Refusing(Small):
        def load_state_dict(self, state, *arguments, **settings):
            if not torch.equal(state["conv1.bias"], self.own_bias):
                super().load_state_dict(state)
                raise RuntimeError("not\nthese")
            return super().load_state_dict(state)

    network = Refusing()
    network.own_bias = network.conv1.bias.detach().clone()
    path = write(tmp_path / "weights.pt", small.state_dict())
    assert not_loaded(path, ConfigError, network) == f"Refusing refuses the weights of {path}: not these"


@pytest.mark.parametrize("name", ["absent.pt", "https://example.org/resnet18.pth", "."])
def test_a_file_that_is_not_there_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert not_loaded(name, DataError).endswith(
        "; weights are read from a local file, safetensors or torch's (.pt, .pth), and nothing is downloaded"
    )


def test_a_missing_file_is_refused_by_build_backbone_too(tmp_path):
    assert "there is no file" in refused("mlp", error=DataError, weights=tmp_path / "absent.pt")


@pytest.mark.parametrize("content", [{}, [torch.zeros(2)], {"a": 3}, {3: torch.zeros(2)}, {"model": {"a": 3}}])
def test_a_file_without_a_state_dict_is_refused(tmp_path, content):
    path = write(tmp_path / "weights.pt", content)
    assert not_loaded(path, DataError) == (
        f"{path} holds no state dict (names and their tensors), nor one under 'state_dict' or 'model'; "
        "save one with torch.save(network.state_dict(), path)"
    )


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
@pytest.mark.parametrize("kept", [0, 1, 7, 40, 200, -1])
def test_a_damaged_file_is_refused(small, tmp_path, suffix, kept):
    path = write(tmp_path / f"weights{suffix}", small.state_dict())
    path.write_bytes(path.read_bytes()[:kept])
    message = not_loaded(path, DataError)
    assert message.startswith(f"{path} is ")
    assert "safetensors" in message


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_a_file_of_anything_else_is_refused(tmp_path, suffix):
    path = tmp_path / f"weights{suffix}"
    path.write_text("<html>404: not found</html>")
    assert not_loaded(path, DataError).startswith(f"{path} is ")


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_file_is_not_run(tmp_path, zipped):
    path, trace = tmp_path / "weights.pt", tmp_path / "trace"
    torch.save({"conv1.weight": Malicious(str(trace))}, path, _use_new_zipfile_serialization=zipped)
    assert not_loaded(path, DataError) == (
        f"{path} is damaged, or holds more than tensors, and no code from a file is run; where you trust its source, "
        "load it yourself and save it with torch.save(network.state_dict(), path) or as safetensors"
    )
    assert not trace.exists()
    torch.load(path, weights_only=False)
    assert trace.exists()  # so it would have been


def test_a_whole_pickled_network_is_refused(small, tmp_path):
    assert "no code from a file is run" in not_loaded(write(tmp_path / "weights.pt", small), DataError)


@pytest.mark.parametrize(("suffix", "reader"), [(".pt", "torch.load"), (".safetensors", "load_file")])
def test_a_file_that_may_not_be_read_is_refused(small, tmp_path, monkeypatch, suffix, reader):
    def denied(*arguments, **settings):
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path / f"weights{suffix}", small.state_dict())
    monkeypatch.setattr(f"samc.models.weights.{reader}", denied)
    assert not_loaded(path, DataError) == f"cannot read {path} (Permission denied); check who may read it"
