"""Inside Avalanche's loop, with its loggers and metrics: our memory, our steps, and the same accuracies as ours."""

import copy
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import samc
from avalanche_makers import WithHeads, benchmark_of, learn, network, strategy_of
from samc.errors import ConfigError, DataError
from samc.models.classifier import Batch, Wanted
from samc.streams.pixels import Normalisation
from toys import coloured_squares

# isort: split
from avalanche.benchmarks import benchmark_from_datasets, split_online_stream, task_incremental_benchmark
from avalanche.benchmarks.utils import AvalancheDataset
from avalanche.models import IncrementalClassifier
from avalanche.training.plugins import ReplayPlugin
from avalanche.training.storage_policy import ExemplarsBuffer

from samc.avalanche import CompressedBuffer, CompressedReplayPlugin, SAMCPlugin, from_avalanche
from samc.avalanche.model import StrategyModel

pytestmark = pytest.mark.filterwarnings("ignore")
# Avalanche's own

PARTS = {
    "average": 0.9,
    "augment": "none",
    "replay_size": 8,
    "replay_weight": 1.0,
    "replay_current": True,
    "distil": 0.0,
}
CONE = {"replay": "gem", "average": 0.0, "augment": "none", "distil": 0.0, "replay_size": 0}


def loaders(stream):
    """The same batches as Avalanche's, in the same order."""

    def loader(x, y, size):
        return DataLoader(TensorDataset(x.float() / 255, y), batch_size=size)

    return [(loader(task.x, task.y, 10), loader(task.test_x, task.test_y, 100)) for task in stream]


def conv_classifier(outputs=6):
    torch.manual_seed(0)
    return nn.Sequential(network(), nn.Linear(288, outputs))


class TestSAMCPlugin:
    @pytest.mark.parametrize(
        "settings",
        [
            {"memory_bytes": "6KB", "codec": "jpeg:50", **PARTS},
            {"memory_bytes": "9KB", "codec": "raw", **PARTS, "augment": "flip"},
            {"buffer_size": 3, "codec": "raw", **CONE},
            {"memory_bytes": "2KB/task", "codec": "cam", "completion": "telea", **CONE},
            {
                "memory_bytes": "2KB/task",
                "codec": "bitmask",
                "completion": "autoencoder",
                "autoencoder_steps": 2,
                **PARTS,
            },
        ],
        ids=["er-jpeg", "er-flips", "gem", "gem-saliency", "er-autoencoder"],
    )
    def test_accuracies_and_weights_are_those_of_our_own_loop(self, settings):
        stream = coloured_squares(tasks=3, per_class=20)
        torch.manual_seed(0)
        learner = samc.SAMC(
            6, (3, 12, 12), model=network(), task_classes=stream.task_classes, lr=0.05, seed=1, **settings
        )
        # saliency of a whole model is taken at the pixels, as that of a network that gives a vector
        plugin = SAMCPlugin(num_classes=6, seed=1, **settings)
        strategy = strategy_of(WithHeads(learner), plugin)
        rows = learn(strategy, benchmark_of(stream, task_labels=True))
        record = samc.run(loaders(stream), learner)
        assert rows == record.accuracy_matrix[1:]
        assert rows[-1] != rows[0]
        for name, tensor in learner.model.state_dict().items():
            if isinstance(tensor, torch.Tensor):
                assert torch.allclose(strategy.model.inner.state_dict()[name], tensor, atol=1e-5), name
        assert plugin.memory_report()["images_per_task"] == record.memory["images_per_task"]
        assert plugin.memory_report()["memory_bytes"] <= 9000 + 3 * 3 * 433

    @pytest.mark.parametrize("batch_classes", ["seen", "task", "batch"])
    def test_so_they_are_where_no_task_is_told(self, batch_classes):
        """One head, old classes held to the average, and ER-ACE's loss too; classes that have not come are masked."""
        stream = coloured_squares(tasks=3, per_class=20)
        settings = {"memory_bytes": "6KB", "codec": "jpeg:50", **PARTS, "distil": 1.0, "batch_classes": batch_classes}
        torch.manual_seed(0)
        learner = samc.SAMC(6, (3, 12, 12), model=network(), lr=0.05, seed=1, scenario="class", **settings)
        plugin = SAMCPlugin(num_classes=6, seed=1, **settings)
        model = nn.Sequential(copy.deepcopy(learner.model.backbone), IncrementalClassifier(288, 6))
        model[1].classifier.load_state_dict(learner.model.heads.linear.state_dict())
        rows = learn(strategy_of(model, plugin), benchmark_of(stream))
        record = samc.run(loaders(stream), learner)
        assert rows == record.accuracy_matrix[1:]
        assert rows[-1] != rows[0]
        for one, other in zip(model[0].parameters(), learner.model.backbone.parameters(), strict=True):
            assert torch.allclose(one, other, atol=1e-5)
        assert torch.allclose(model[1].classifier.weight, learner.model.heads.linear.weight, atol=1e-5)
        assert torch.equal(plugin.learner.predict(stream[0].test_x / 255), learner.predict(stream[0].test_x))

    def test_loggers_and_metrics_are_avalanches_own(self):
        stream = coloured_squares(tasks=2, per_class=20)
        strategy = strategy_of(conv_classifier(4), SAMCPlugin(memory_bytes="6KB", **PARTS))
        rows = learn(strategy, benchmark_of(stream))
        text = strategy.log.getvalue()
        assert text.count("-- >> Start of training phase << --") == 2
        assert "Top1_Acc_MB/train_phase/train_stream/Task000" in text
        assert "Loss_MB/train_phase/train_stream/Task000" in text
        assert f"Top1_Acc_Exp/eval_phase/test_stream/Task000/Exp000 = {rows[-1][0]:.4f}" in text

    def test_the_optimizer_takes_the_step_and_the_strategys_own_pass_leaves_no_trace(self):
        """With momentum, against a loop by hand: one step per batch, statistics moved once per step."""
        stream, own = coloured_squares(tasks=1, per_class=20), conv_classifier(2)
        settings = {"memory_bytes": "1KB", "codec": "raw", **PARTS, "average": 0.0, "replay_current": False}
        strategy = strategy_of(conv_classifier(2), SAMCPlugin(**settings))
        strategy.optimizer = torch.optim.SGD(strategy.model.parameters(), lr=0.05, momentum=0.9)
        strategy.train(benchmark_of(stream).train_stream[0], shuffle=False)
        optimizer = torch.optim.SGD(own.parameters(), lr=0.05, momentum=0.9)
        for x, y in loaders(stream)[0][0]:
            optimizer.zero_grad()
            nn.functional.cross_entropy(own(x), y).backward()
            optimizer.step()
        for name, tensor in own.state_dict().items():
            assert torch.allclose(strategy.model.state_dict()[name].float(), tensor.float(), atol=1e-6), name

    def test_what_is_evaluated_is_the_average_and_what_learns_comes_back(self):
        stream = coloured_squares(tasks=1, per_class=20)
        plugin = SAMCPlugin(memory_bytes="6KB", **PARTS)
        strategy = strategy_of(conv_classifier(2), plugin)
        learning = strategy.model
        benchmark = benchmark_of(stream)
        strategy.train(benchmark.train_stream[0])
        with torch.no_grad():
            for parameter in plugin.learner.average.model.parameters():
                parameter.zero_()  # an average that answers class 0 to everything
        found = strategy.eval(benchmark.test_stream)
        assert found["Top1_Acc_Exp/eval_phase/test_stream/Task000/Exp000"] == 0.5
        assert strategy.model is learning

    def test_a_classifier_that_grows_in_training_and_in_evaluation(self):
        """The average's rows of old classes stay as they were; those of new classes begin with the model's."""
        stream = coloured_squares(tasks=3, per_class=10)
        torch.manual_seed(0)
        plugin = SAMCPlugin(memory_bytes="6KB", **{**PARTS, "distil": 1.0})
        strategy = strategy_of(nn.Sequential(network(), IncrementalClassifier(288, 1)), plugin)
        benchmark = benchmark_of(stream)
        sizes, kept = [], []
        for experience in benchmark.train_stream:
            before = (
                plugin.learner and plugin.learner.average.model.state_dict()["backbone.1.classifier.weight"].clone()
            )
            plugin_begins = plugin.before_training_exp

            def begins(strategy, before=before, plugin_begins=plugin_begins, **more):
                plugin_begins(strategy, **more)
                if before is not None:
                    now = plugin.learner.average.model.state_dict()["backbone.1.classifier.weight"]
                    new = strategy.model[1].classifier.weight[len(before) :]
                    kept.append(torch.equal(now[: len(before)], before) and torch.equal(now[len(before) :], new))

            plugin.before_training_exp = begins
            strategy.train(experience)
            plugin.before_training_exp = plugin_begins
            strategy.eval(benchmark.test_stream)
            sizes.append(tuple(plugin.learner.average.model.backbone[1].classifier.weight.shape))
        assert sizes == [(2, 288), (4, 288), (6, 288)]
        assert kept == [True, True]
        assert learn(strategy, benchmark)[-1] == [1.0, 1.0, 1.0]

    @pytest.mark.parametrize("lr", [0.01, 100.0])
    def test_old_outputs_are_held_to_the_averages_by_hand(self, lr):
        """By their weights, and by less at the larger rate, where a step of the model's last layer would overshoot."""
        model = StrategyModel(conv_classifier(3), nn.CrossEntropyLoss(), (3, 12, 12), None)
        x, y, tasks = torch.rand(4, 3, 12, 12), torch.tensor([0, 1, 2, 2]), torch.tensor([0, 0, 1, 1])
        wanted, weights = torch.rand(4, 3), torch.tensor([0.5, 0.5])  # of two classes that were seen before the third
        shares = torch.full((4,), 0.25)
        model.eval()
        outputs, given = model.backbone(x), model.backbone[:-1](x)
        products = torch.tensor([[1 + float(one @ other) for one in given] for other in given])
        weight = min(0.5, 4 / (lr * float(products.square().sum().sqrt())))
        assert (weight == 0.5) == (lr == 0.01)
        by_hand = nn.functional.cross_entropy(outputs, y)
        by_hand = by_hand + (weight * (outputs - wanted)[:, :2].square()).sum(1).mean()
        held = Wanted(wanted, weights, torch.tensor(lr))
        assert torch.allclose(model.loss(x, y, tasks[:, None], shares, held), by_hand)

    def test_a_head_of_another_kind_is_held_by_its_weights_alone(self):
        class Nearest(nn.Module):
            def forward(self, x):
                return -x.mean((2, 3)).abs()

        model = StrategyModel(Nearest(), nn.CrossEntropyLoss(), (3, 12, 12), None)
        x, y, wanted = torch.rand(4, 3, 12, 12), torch.tensor([0, 1, 2, 2]), torch.rand(4, 3)
        table, shares = torch.zeros(4, 1, dtype=torch.long), torch.full((4,), 0.25)
        held = Wanted(wanted, torch.tensor([0.5, 0.5]), torch.tensor(100.0))
        away = (0.5 * (model.backbone(x) - wanted)[:, :2].square()).sum(1).mean()
        assert torch.allclose(model.loss(x, y, table, shares, held) - model.loss(x, y, table, shares), away)

    def test_what_a_step_can_follow_is_of_the_strategys_rate(self):
        stream = coloured_squares(tasks=2, per_class=20)
        plugin = SAMCPlugin(memory_bytes="6KB", **{**PARTS, "distil": 1.0})
        strategy = strategy_of(conv_classifier(4), plugin)
        benchmark = benchmark_of(stream)
        strategy.train(benchmark.train_stream[0])
        strategy.optimizer.param_groups[0]["lr"] = 0.25
        strategy.train(benchmark.train_stream[1])
        assert float(plugin.learner.held().lr) == 0.25

    def test_a_loss_that_is_confined_to_some_classes_by_hand(self):
        model = StrategyModel(conv_classifier(4), nn.CrossEntropyLoss(), (3, 12, 12), None).eval()
        x, y, outputs = torch.rand(2, 3, 12, 12), torch.tensor([0, 2]), None
        with torch.no_grad():
            outputs = model.backbone(x)
        among = torch.tensor([[True, True, False], [True, True, True]])  # of three classes that have been seen
        batches = [Batch(x[:1], y[:1], 0, among[:1]), Batch(x[1:], y[1:], 1)]
        found = model.loss_by_task(x, batches, torch.tensor([1.0, 10.0]))
        first, second = -outputs[0, :2].log_softmax(0)[0], -outputs[1, :3].log_softmax(0)[2]
        assert torch.allclose(found, first + 10 * second)

    def test_an_online_stream_without_boundaries_is_one_task(self):
        stream = coloured_squares(tasks=2, per_class=20)
        benchmark = benchmark_of(stream)
        for told, groups in ((False, [0]), (True, [0, 1])):
            parts = PARTS if told else {name: value for name, value in PARTS.items() if name != "replay_current"}
            plugin = SAMCPlugin(memory_bytes="20KB", codec="raw", **parts)
            strategy = strategy_of(conv_classifier(4), plugin)
            strategy.train(split_online_stream(benchmark.train_stream, 10, access_task_boundaries=told, seed=0))
            assert plugin.learner.settings.boundaries == ("told" if told else "hidden")
            assert plugin.memory.tasks == groups
            assert sum(plugin.memory.images_per_task.values()) == 46  # of 434 bytes with their labels

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"lr": 0.1}, "the strategy's optimizer has it"),
            ({"backbone": "mlp"}, "the strategy's model has it"),
            ({"boundaries": "hidden"}, "the benchmark has it"),
            ({"treshold": 0.5}, "did you mean --threshold"),
            ({"threshold": 1.0}, "threshold is in"),
        ],
    )
    def test_settings_that_are_none_are_refused_at_once(self, settings, message):
        with pytest.raises(ConfigError, match=message):
            SAMCPlugin(**settings)

    def test_what_it_cannot_learn_from_is_one_line(self):
        stream = coloured_squares(tasks=1, per_class=10)
        bright = [task_of_floats(task.x.float() / 100) for task in stream]
        strategy = strategy_of(conv_classifier(2), SAMCPlugin(memory_bytes="6KB", **PARTS))
        with pytest.raises(DataError, match="mean= and std="):
            strategy.train(benchmark_from_datasets(train=bright).train_stream[0])
        learner = samc.SAMC(2, (3, 12, 12), model=network())
        learner.declare(0, (0, 1))
        strategy = strategy_of(WithHeads(learner), SAMCPlugin(memory_bytes="6KB", **{**PARTS, "distil": 1.0}))
        with pytest.raises(ConfigError, match="distil holds the outputs of old tasks"):
            strategy.train(benchmark_of(stream, task_labels=True).train_stream[0])
        strategy = strategy_of(conv_classifier(2), SAMCPlugin(memory_bytes="6KB", scenario="task", **PARTS))
        with pytest.raises(ConfigError, match="does not go with a model that has one head"):
            strategy.train(benchmark_of(stream).train_stream[0])
        strategy = strategy_of(
            conv_classifier(2), SAMCPlugin(memory_bytes="6KB", **PARTS), criterion=lambda a, b: a.sum()
        )
        with pytest.raises(ConfigError, match="CrossEntropyLoss"):
            strategy.train(benchmark_of(stream).train_stream[0])

    def test_normalised_images_are_stored_as_pixels(self):
        stream, mean, std = coloured_squares(tasks=1, per_class=10), (0.4, 0.5, 0.6), (0.2, 0.3, 0.2)
        normalised = Normalisation.of(mean, std).apply(stream[0].x.float() / 255)
        plugin = SAMCPlugin(memory_bytes="20KB", codec="raw", mean=mean, std=std, **PARTS)
        strategy = strategy_of(conv_classifier(2), plugin)
        strategy.train(benchmark_from_datasets(train=[task_of_floats(normalised)]).train_stream[0], shuffle=False)
        assert np.array_equal(plugin.memory.recall(0)[0], stream[0].x.numpy())


def task_of_floats(x):
    return experience_data(x, torch.tensor([0, 1] * (len(x) // 2)))


def experience_data(x, y):
    return AvalancheDataset([TensorDataset(x, y)]).update_data_attribute("targets", y.tolist())


class Everything(ExemplarsBuffer):
    """Avalanche's way of a storage policy: the images themselves, all of them."""

    def post_adapt(self, agent, exp):
        self.buffer = self.buffer.concat(exp.dataset) if len(self.buffer) else exp.dataset

    def update(self, strategy, **kwargs):  # which would say at each call that it is going to be renamed
        self.post_adapt(strategy, strategy.experience)

    def resize(self, strategy, new_size):
        raise NotImplementedError


class TestCompressedReplayPlugin:
    @pytest.mark.parametrize("task_labels", [False, True])
    def test_raw_images_in_a_large_budget_are_avalanches_own_replay_to_the_last_digit_of_its_log(self, task_labels):
        benchmark, logs = benchmark_of(coloured_squares(tasks=3, per_class=20), task_labels), []
        for plugin in (ReplayPlugin(10**6, storage_policy=Everything(10**6)), CompressedReplayPlugin("1MB", "raw")):
            strategy = strategy_of(conv_classifier(), plugin)
            learn(strategy, benchmark, shuffle=True)
            logs.append(strategy.log.getvalue())
        assert logs[0] == logs[1]
        assert len(set(re.findall(r"Loss_MB.* = (.*)", logs[0]))) == 3

    def test_bytes_stay_under_the_budget_and_experiences_share_it(self):
        benchmark = benchmark_of(coloured_squares(tasks=3, per_class=20))
        plugin = CompressedReplayPlugin("6KB", "jpeg:50", num_classes=6)
        strategy = strategy_of(conv_classifier(), plugin)
        for number, experience in enumerate(benchmark.train_stream, start=1):
            strategy.train(experience)
            assert plugin.memory.tasks == list(range(number))
            assert plugin.memory.nbytes <= 6000
            assert all(held.cost <= 6000 // number for held in plugin.memory.by_task.values())
        assert plugin.memory.nbytes > 5000
        plugin.storage_policy.resize(strategy, 3000)
        assert 2000 < plugin.memory.nbytes <= 3000

    def test_what_comes_back_is_normalised_transformed_and_has_its_label_and_task(self):
        stream, mean, std = coloured_squares(tasks=2, per_class=10), (0.4, 0.5, 0.6), (0.2, 0.3, 0.2)
        known = Normalisation.of(mean, std)
        parts = [experience_data(known.apply(task.x.float() / 255), task.y) for task in stream]
        benchmark = task_incremental_benchmark(benchmark_from_datasets(train=parts))
        buffer = CompressedBuffer("1MB", "raw", mean=mean, std=std, transform=lambda x: x.flip(2))
        assert len(buffer.buffer) == 0
        for experience in benchmark.train_stream:
            buffer.post_adapt(None, experience)
        assert len(buffer.buffer) == 40
        assert buffer.buffer.targets.uniques == {0, 1, 2, 3}
        for place in (0, 25):
            task, row = divmod(place, 20)
            x, y, label = buffer.buffer[place]
            assert torch.allclose(x, known.apply(stream[task].x[row].flip(2).float() / 255), atol=1e-6)
            assert (y, label) == (stream[task].y[row], task)

    def test_an_online_stream_without_boundaries_is_one_sample(self):
        benchmark = benchmark_of(coloured_squares(tasks=2, per_class=20))
        plugin = CompressedReplayPlugin("9KB", "raw")
        strategy_of(conv_classifier(4), plugin).train(split_online_stream(benchmark.train_stream, 10, seed=0))
        assert plugin.memory.images_per_task == {0: 20}
        assert plugin.memory.by_task[0].offered == 80
        assert len(set(plugin.storage_policy.buffer.targets)) > 2  # of both experiences

    def test_mistakes_are_one_line(self):
        with pytest.raises(ConfigError, match="memory-bytes is like"):
            CompressedReplayPlugin("much")
        experience = benchmark_of(coloured_squares(tasks=1, per_class=10)).train_stream[0]
        with pytest.raises(ConfigError, match="use SAMCPlugin"):
            CompressedBuffer("9KB", "cam").post_adapt(None, experience)
        with pytest.raises(ConfigError, match="cannot hold one image"):
            CompressedBuffer("100", "raw").post_adapt(None, experience)


class TestFromAvalanche:
    def test_a_stream_there_and_back_is_the_same(self):
        stream = coloured_squares(tasks=3, per_class=10)
        for task_labels in (False, True):
            found = from_avalanche(benchmark_of(stream, task_labels), name="toy")
            assert (found.name, found.task_classes) == ("toy", stream.task_classes)
            for one, other in zip(found, stream, strict=True):
                for name in ("x", "y", "test_x", "test_y"):
                    assert torch.equal(getattr(one, name), getattr(other, name))
        assert samc.from_avalanche is from_avalanche

    def test_labels_that_start_anew_in_each_task_are_numbered_through(self):
        stream = coloured_squares(tasks=3, per_class=10)
        found = from_avalanche(benchmark_of(stream, task_labels=True, class_ids_from_zero_in_each_exp=True))
        assert found.task_classes == stream.task_classes

    def test_the_same_classes_in_every_experience_stay_the_same_and_one_test_set_serves_all(self):
        stream = coloured_squares(tasks=2, per_class=10)
        trains = [experience_data(task.x, task.y - 2 * task.id) for task in stream]
        found = from_avalanche(benchmark_from_datasets(train=trains, test=trains[:1]))
        assert found.task_classes == ((0, 1), (0, 1))
        assert torch.equal(found[1].x, stream[1].x)
        assert torch.equal(found[1].test_x, stream[0].x)

    def test_a_benchmark_that_is_no_stream_is_one_line(self):
        stream = coloured_squares(tasks=3, per_class=10)
        trains = [experience_data(task.x, task.y) for task in stream]
        with pytest.raises(DataError, match="3 experiences to learn and 2 to test"):
            from_avalanche(benchmark_from_datasets(train=trains, test=trains[:2]))
        with pytest.raises(DataError, match="no Avalanche benchmark"):
            from_avalanche([1, 2])


def test_without_avalanche_one_line_says_how_to_get_it(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[:2] == ["samc", "avalanche"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "avalanche", None)
    with pytest.raises(ConfigError, match=r"^avalanche is not installed; pip install 'samc\[avalanche\]'$"):
        samc.from_avalanche  # noqa: B018


def test_the_page_runs():
    page = (Path(samc.__file__).parents[2] / "docs" / "avalanche.md").read_text()
    blocks, found = re.findall(r"^```python\n(.*?)^```$", page, flags=re.M | re.S), {}
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "avalanche.md", "exec"), found)
    assert found["plugin"].memory.images_per_task == {0: 40, 1: 40}
    assert len(found["record"].accuracy_matrix) == 3


def test_a_star_import_does_not_ask_for_avalanche(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[:2] == ["samc", "avalanche"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "avalanche", None)
    assert "from_avalanche" not in samc.__all__
    assert [name for name in samc.__all__ if getattr(samc, name) is None] == []
