"""Data from Python: arrays, Datasets and DataLoaders become tasks, and a run on any of them is the same run."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

import samc
from samc.errors import ConfigError, DataError
from samc.learners.contract import StepStats
from samc.protocol import run
from samc.streams import Stream, Task, split_synthetic, stream_of
from samc.streams.loader import LoaderTask
from samc.streams.pixels import Normalisation
from samc.streams.task import ArrayTask, generator
from toys import coloured_squares, random_batch

MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.5)


def normalised(x: torch.Tensor) -> torch.Tensor:
    mean, std = (torch.tensor(part)[:, None, None] for part in (MEAN, STD))
    return (x / 255 - mean) / std


class Pairs(TorchDataset):
    """A Dataset of samples as they are given."""

    def __init__(self, *samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


class Flow(IterableDataset):
    """The same, without a length."""

    def __init__(self, *samples):
        self.samples = samples

    def __iter__(self):
        return iter(self.samples)


class Listener:
    """A learner that writes down what it was shown, and always answers with a task's first class."""

    def __init__(self, **attributes):
        self.seen, self.tested, self.classes = [], [], {}
        vars(self).update(attributes)

    def declare(self, task, classes):
        self.classes[task] = tuple(classes)

    def begin_task(self, task):
        self.task = task

    def observe(self, x, y, task):
        self.seen.append((x, y, task))
        return StepStats(torch.tensor(0.0))

    def end_task(self, task):
        """Learns nothing from it."""

    def predict(self, x, task):
        self.tested.append((x, task))
        return torch.full((len(x),), self.classes[task][0])

    def memory_report(self):
        return {"bytes": 0, "images_per_task": [], "accounting": "bytes"}

    def seconds(self):
        return {}

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        """Has none."""


def finetuned(stream, **settings):
    """What a run on a stream ends with: its record and every number of the network."""
    learner = samc.Finetune(6, (3, 12, 12), lr=0.05, seed=3)
    record = run(stream, learner, **settings)
    values = learner.model.state_dict().values()
    return record, torch.cat([value.flatten().double() for value in values if isinstance(value, torch.Tensor)])


def loader_of(task: ArrayTask, batch_size: int = 10, epochs: int = 1) -> DataLoader:
    """A DataLoader that gives the very batches of a task, in its order, epoch after epoch."""

    class Order:
        epoch = 0

        def __iter__(self):
            order = torch.randperm(len(task.x), generator=generator(task.seed, task.id, self.epoch % epochs))
            self.epoch += 1
            return iter(order.split(batch_size))

        def __len__(self):
            return task.steps(batch_size)

    return DataLoader(TensorDataset(task.x, task.y), batch_sampler=Order())


@pytest.mark.slow
@pytest.mark.parametrize("as_floats", [False, True])
def test_a_run_on_loaders_is_the_run_on_the_same_batches_bit_for_bit(as_floats):
    stream = coloured_squares(per_class=11)
    expected, weights = finetuned(stream)

    def view(x, y):
        return (x.contiguous() / 255 if as_floats else x.contiguous()), y  # as a collate function would lay it out

    class Viewed:
        def __init__(self, loader):
            self.loader = loader

        def __iter__(self):
            return (view(x, y) for x, y in self.loader)

    loaders = []
    for task in stream:
        test = DataLoader(TensorDataset(task.test_x, task.test_y), batch_size=7)
        loaders.append((Viewed(loader_of(task)), Viewed(test)))
    record, same = finetuned(loaders, batch_size=99)  # the loader's own size counts
    assert torch.equal(same, weights)
    assert record.accuracy_matrix == expected.accuracy_matrix
    differing = {key for key in expected.fingerprint if expected.fingerprint[key] != record.fingerprint[key]}
    assert differing == {"stream", "source"}
    assert record.fingerprint["batch_size"] == 10
    assert record.fingerprint["stream"] == "your data"
    assert record.fingerprint["source"].startswith("own data, batches from data loaders, sha1 of the test images ")


def test_epochs_of_a_loader_follow_each_other():
    stream = coloured_squares(tasks=1, per_class=9)
    _, weights = finetuned(stream, n_epochs=3)
    loader = loader_of(stream[0], epochs=3)
    # this order counts its epochs; every pass but those of learning is spared it: classes and test images are given
    test = DataLoader(TensorDataset(stream[0].test_x, stream[0].test_y))
    task = Task.from_loader(loader, test, classes=(0, 1))
    loader.batch_sampler.epoch = 0
    record, same = finetuned([task], n_epochs=3)
    assert torch.equal(same, weights)
    assert record.fingerprint["training_images"] == [18]
    assert record.fingerprint["epochs"] == 3


def test_a_shuffling_loader_gives_what_it_would_have_given_without_us():
    x, y = random_batch(20, classes=(0, 1))

    def shuffled():
        return DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True, generator=torch.Generator().manual_seed(5))

    plain = shuffled()
    expected = [labels.tolist() for _ in range(2) for _, labels in plain]
    learner = Listener()
    run([shuffled()], learner, n_epochs=2)
    assert [labels.tolist() for _, labels, _ in learner.seen] == expected
    torch.manual_seed(1)
    before = torch.get_rng_state()
    task = Task.from_loader(DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True))
    assert len(task.x) == 20
    assert torch.equal(torch.get_rng_state(), before)


def test_a_loader_is_never_held_whole_by_steps_or_tests_without_test_images():
    x, y = random_batch(20, classes=(0, 1))
    learner = Listener()
    record = run([DataLoader(TensorDataset(x, y), batch_size=6)], learner)
    assert "collected" not in vars(learner.task)
    assert [len(images) for images, _ in learner.tested] == [6, 6, 6, 2] * 2
    zeros = float((y == 0).double().mean())
    assert record.accuracy_matrix == [[zeros], [zeros]]
    assert record.fingerprint["source"] == "own data, batches from data loaders, tested on the training images"
    assert (record.fingerprint["training_images"], record.fingerprint["test_images"]) == ([20], [20])


def test_a_loaders_images_are_collected_once_when_somebody_asks_and_freed_after_the_task():
    x, y = random_batch(20, classes=(0, 1))
    passes = []

    class Counted(DataLoader):
        def __iter__(self):
            passes.append(1)
            return super().__iter__()

    class Asking(Listener):
        def end_task(self, task):
            for _ in range(3):
                assert torch.equal(task.x, x)
                assert torch.equal(task.y, y)
            assert task.x.dtype == torch.uint8
            assert task.x.is_contiguous(memory_format=torch.channels_last)
            self.passes = len(passes)

    learner = Asking()
    run([(Counted(TensorDataset(x / 255, y), batch_size=6), DataLoader(TensorDataset(x, y)))], learner)
    assert learner.passes == 3  # the classes, the epoch, the images
    assert not {"collected", "x", "y"} & set(vars(learner.task))
    assert torch.equal(learner.tested[0][0], x)


@pytest.mark.slow
@pytest.mark.parametrize("method", [samc.EWC, samc.ICaRL, samc.ER])
def test_methods_that_look_back_at_a_task_learn_from_loaders(method):
    stream = coloured_squares(tasks=2, per_class=11)
    pairs = [[(task.x / 255, task.y), (task.test_x / 255, task.test_y)] for task in stream]
    loaders = [tuple(DataLoader(TensorDataset(*part), batch_size=10) for part in pair) for pair in pairs]
    record = run(loaders, method(4, (3, 12, 12)))
    assert record.fingerprint["training_images"] == [22, 22]
    if method is samc.ICaRL:
        # as a task of the same batches, whose images are the same bytes: herding chooses the same ones

        class InOrder(ArrayTask):
            def batches(self, batch_size, epochs=1):
                return zip(self.x.split(batch_size), self.y.split(batch_size), strict=True)

        tasks = [InOrder(task.id, task.classes, task.x, task.y, task.test_x, task.test_y) for task in stream]
        same = run(tasks, method(4, (3, 12, 12)))
        assert same.accuracy_matrix == record.accuracy_matrix
        assert same.memory == record.memory


def test_normalised_batches_reach_the_learner_as_they_are_and_the_memory_as_bytes():
    x, y = random_batch(20, classes=(0, 1))
    train = DataLoader(TensorDataset(normalised(x), y), batch_size=20)

    class Asking(Listener):
        def end_task(self, task):
            self.x = task.x

    learner = Asking(mean=torch.tensor(MEAN), std=list(STD))
    record = run([(train, train)], learner)
    assert torch.equal(learner.seen[0][0], normalised(x))
    assert torch.equal(learner.x, x)
    assert torch.equal(learner.tested[0][0], x)
    assert record.fingerprint["normalisation"] == "(pixels / 255 - [0.5, 0.4, 0.3]) / [0.25, 0.2, 0.5]"


def test_the_remedy_for_normalised_images_is_named():
    x, y = random_batch(20, classes=(0, 1))
    loader = DataLoader(TensorDataset(normalised(x), y), batch_size=20)
    low, high = normalised(x).aminmax()
    message = (
        rf"^task 0's training images are uint8 from 0 to 255 or floats from 0 to 1, got floats from {low:.3g} to "
        rf"{high:.3g}; if they are normalised, give the learner \(or the task\) their mean= and std=$"
    )
    for item in (loader, loader.dataset, (normalised(x), y)):
        with pytest.raises(DataError, match=message):
            run([item], Listener())
    with pytest.raises(DataError, match=r"once \(pixels / 255 - \[0\.5\]\) / \[0\.9\] is undone, where 0 to 1 was"):
        Task.from_arrays(normalised(x), y, mean=0.5, std=0.9)
    plain = DataLoader(TensorDataset(x / 255, y), batch_size=20)
    for item in (plain, plain.dataset, (x / 255, y)):
        with pytest.raises(DataError, match="are floats from 0 to 1, but mean and std were given for normalised ones"):
            run([item], Listener(mean=MEAN, std=STD))


def test_a_loader_and_a_learner_must_mean_the_same_by_a_float():
    x, y = random_batch(20, classes=(0, 1))
    one, other = {"mean": MEAN, "std": STD}, {"mean": (0.5,), "std": (0.5,)}
    task = Task.from_loader(DataLoader(TensorDataset(normalised(x), y), batch_size=20), **one)
    for attributes in ({}, other):
        with pytest.raises(ConfigError, match="give both the same mean= and std=, or load uint8"):
            run([task], Listener(**attributes))
    run([task], Listener(**one))
    in_bytes = Task.from_loader(DataLoader(TensorDataset(x, y), batch_size=20))
    run(stream_of([in_bytes]), Listener(**one))  # bytes are bytes, whatever floats would be


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        (0.5, None, "mean and std come together"),
        (0.5, 0.0, "std above 0"),
        ((0.5, 0.5), (1, 1), "one value or one per channel"),
        ((0.5, 0.5, 0.5), 1, "one value or one per channel"),
        ("grey", 1, "mean and std are numbers"),
        (float("nan"), 1, "one value or one per channel"),
    ],
)
def test_normalisations_that_cannot_be(mean, std, message):
    with pytest.raises(ConfigError, match=message):
        Normalisation.of(mean, std)


def test_arrays_and_tensors_of_every_layout_are_the_same_task():
    x, y = random_batch(9, (3, 7, 5))
    expected = Task.from_arrays(x, y)
    rows = x.permute(0, 2, 3, 1).numpy()
    read_only = rows.copy()
    read_only.flags.writeable = False
    for images, labels in [
        (x.numpy(), y.numpy()),
        (rows, y.int()),
        (rows[:, ::-1][:, ::-1], y.tolist()),
        (read_only, y.numpy().astype(np.uint8)),
        (x.float() / 255, y),
        (x.double().numpy() / 255, y),
        (x.half() / 255, y),
    ]:
        task = Task.from_arrays(images, labels)
        assert torch.equal(task.x, expected.x)
        assert torch.equal(task.y, expected.y)
        assert task.x.stride() == expected.x.stride() == (105, 1, 15, 3)
        assert (task.x.dtype, task.y.dtype) == (torch.uint8, torch.int64)
    restored = Task.from_arrays(normalised(x), y, mean=MEAN, std=STD)
    assert torch.equal(restored.x, x)
    grey = Task.from_arrays(x[:, 0], y, x[:2, :1], y[:2])
    assert torch.equal(grey.x, x[:, :1])
    assert grey.image_shape == (1, 7, 5)
    assert grey.has_test
    assert not expected.has_test
    assert torch.equal(expected.test_x, x)


def test_every_byte_survives_being_a_float_and_being_normalised():
    values = torch.arange(256, dtype=torch.uint8).repeat(3, 1).view(1, 3, 16, 16)
    for images in (values / 255, values.double() / 255, values.half() / 255):
        assert torch.equal(Task.from_arrays(images, [0]).x, values)
    assert torch.equal(Task.from_arrays(normalised(values), [0], mean=MEAN, std=STD).x, values)


def test_datasets_of_every_kind_of_image_are_the_same_task():
    x, y = random_batch(6, (3, 7, 5))
    expected = Task.from_arrays(x, y)
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in x]
    for images, labels in [
        (x, y),
        (x / 255, y.tolist()),
        (x.numpy(), y.numpy()),
        (x.permute(0, 2, 3, 1), y.tolist()),
        (pictures, y.tolist()),
    ]:
        pairs = list(zip(images, labels, strict=True))
        named = [{"pixel_values": image, "labels": label, "id": 7} for image, label in pairs]
        for dataset in (Pairs(*pairs), Flow(*pairs), Pairs(*named)):
            task = Task.from_dataset(dataset)
            assert torch.equal(task.x, expected.x)
            assert torch.equal(task.y, expected.y)
            assert task.classes == expected.classes
    grey = Pairs(*((picture.convert("L"), 0) for picture in pictures))
    assert Task.from_dataset(grey).image_shape == (1, 7, 5)
    clear = Pairs(*((picture.convert("RGBA"), 0) for picture in pictures))
    assert torch.equal(Task.from_dataset(clear).x, x)
    back = Task.from_dataset(Pairs(*zip(normalised(x), y, strict=True)), mean=MEAN, std=STD)
    assert torch.equal(back.x, x)


def test_a_large_dataset_is_read_in_pieces(monkeypatch):
    monkeypatch.setattr("samc.streams.samples.READ_AT_ONCE", 4)
    x, y = random_batch(10)
    task = Task.from_dataset(TensorDataset(x, y), TensorDataset(x[:8], y[:8]))
    assert torch.equal(task.x, x)
    assert torch.equal(task.test_x, x[:8])


@pytest.mark.slow
def test_datasets_arrays_and_tasks_make_one_run():
    stream = coloured_squares(per_class=11, seed=3)
    expected, weights = finetuned(stream)
    datasets = [(TensorDataset(task.x, task.y), TensorDataset(task.test_x, task.test_y)) for task in stream]
    arrays = [(task.x.numpy(), task.y.numpy(), task.test_x.numpy(), task.test_y.numpy()) for task in stream]
    sources = set()
    for items in (datasets, arrays, list(stream), [Task.from_arrays(*parts, seed=3) for parts in arrays]):
        record, same = finetuned(items)
        assert torch.equal(same, weights)
        assert record.accuracy_matrix == expected.accuracy_matrix
        sources.add(record.fingerprint["source"])
    (source,) = sources
    assert source.startswith("own data, sha1 ")
    changed = [(x.copy(), y, *tests) for x, y, *tests in arrays]
    changed[1][0][0, 0, 0, 0] ^= 1
    assert stream_of(changed).source != source


def test_batches_may_be_pairs_or_dicts_of_tensors_or_arrays():
    x, y = random_batch(6)
    for batch in (
        (x, y),
        [x.numpy(), y.numpy()],
        {"image": x, "label": y},
        {"x": x.permute(0, 2, 3, 1), "y": y.tolist()},
        {"pixel_values": x.numpy(), "labels": y, "mask": None},
    ):
        learner = Listener()
        run([DataLoader([batch], batch_size=None, collate_fn=lambda batch: batch)], learner)
        images, labels, task = learner.seen[0]
        assert torch.equal(images, x)
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(labels, y)
        assert task == 0


X, Y = random_batch(6)
EXPECTED = r"; expected pairs \(image, label\), or dicts with one of image, x, pixel_values, img and one of label"


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (X, r"training images come as one Tensor of \(6, 3, 12, 12\)" + EXPECTED),
        ((X, Y, Y), "come as a tuple of 3" + EXPECTED),
        ({"images": X, "label": Y}, "come as a dict with 'images', 'label'" + EXPECTED),
        ("text", "come as a str" + EXPECTED),
        (([1, 2], Y), "training images are tensors or numpy arrays; got a list of 2"),
        ((X, Y[:5]), r"labels are one whole number per image, from 0; got int64 \(5,\) for 6 images"),
        ((X, Y.float()), r"labels are one whole number per image, from 0; got float32 \(6,\) for 6 images"),
        ((X, Y.bool()), r"got bool \(6,\) for 6 images"),
        ((X, ["cat"] * 6), r"got <U3 \(6,\) for 6 images"),
        ((X, [[0], [0, 1]]), "got a list of 2 for 6 images"),
        ((X, None), "got a NoneType for 6 images"),
        ((X, Y - 1), "labels number the classes 0, 1, 2, ...; got -1 to 0; renumber them"),
        ((X, Y + 10**15), "got 1000000000000000 to 1000000000000001; renumber them"),
        ((X.int(), Y), "are uint8 from 0 to 255 or floats from 0 to 1; got int32"),
        ((X.numpy().astype(np.int64), Y), "are uint8 from 0 to 255 or floats from 0 to 1; got int64"),
        ((X[:, :2], Y), r"\(n, 1 or 3, height, width\), .* or \(n, height, width\); got \(6, 2, 12, 12\)"),
        ((X[0, 0], Y), r"got \(12, 12\)"),
        ((X / 0, Y), "hold values that are no numbers"),
        ((X.float() + float("nan"), Y), "hold values that are no numbers"),
    ],
)
def test_batches_that_cannot_be_learnt_from_are_one_line(batch, message):
    with pytest.raises(DataError, match=message) as caught:
        run([DataLoader([batch], batch_size=None, collate_fn=lambda batch: batch)], Listener())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "the stream has no task; give a list with one item per task: a Task, a Dataset, a DataLoader"),
        ("split-synthetic", r"open one by name with open_stream\('split-synthetic'\)"),
        (DataLoader(TensorDataset(X, Y)), "put the DataLoader into a list"),
        (TensorDataset(X, Y), "put the TensorDataset into a list"),
        (Task.from_arrays(X, Y), "put the ArrayTask into a list"),
        ([X, Y], r"item 0 of the stream is one Tensor of \(6, 3, 12, 12\); expected a Task, a Dataset, a DataLoader"),
        ([(X, Y, X)], "item 0 of the stream is a tuple of 3; expected"),
        ([None], "item 0 of the stream is a NoneType; expected"),
        ([stream_of([(X, Y)])], "item 0 of the stream is a Stream; expected"),
        (
            [(TensorDataset(X, Y), DataLoader(TensorDataset(X, Y)))],
            "item 0 of the stream pairs TensorDataset and DataLoader; give two Datasets or two DataLoaders",
        ),
        ([iter(DataLoader(TensorDataset(X, Y)))], "which cannot be gone through again .*; give a DataLoader"),
        ([TensorDataset(X[:0], Y[:0])], "task 0's training images are none: the TensorDataset is empty"),
        ([DataLoader(TensorDataset(X[:0], Y[:0]))], "task 0's training images are none: its DataLoader gave no batch"),
        ([(X, Y), (X[..., :8], Y)], "tasks 0 and 1 differ in image size: 3x12x12 and 3x12x8; bring them to one size"),
        ([(X, Y, X[..., :8], Y)], "task 0's test and training images differ in size: 3x12x8 and 3x12x12"),
        ([(X, Y * 0, X, Y)], "task 0: class 1 is in its test images but not in its training images; add training"),
        (
            [tuple(DataLoader(TensorDataset(X, labels)) for labels in (Y * 0, Y))],
            "task 0: class 1 is in its test images but not in its training images; add training",
        ),
        (
            [tuple(DataLoader(TensorDataset(images, Y)) for images in (X, X[..., :8]))],
            "task 0's test images differ in size: 3x12x12 and 3x12x8; bring them to one size first",
        ),
        ([Pairs((X[0], 0), (X[0, :, :8], 0))], "differ in size: 3x12x12 and 3x8x12; .* in the Dataset's transform"),
        ([Pairs((Image.new("I;16", (4, 4)), 0))], "have more than 8 bits per pixel"),
        ([Pairs((X[0], "cat"))], r"labels are one whole number per image, from 0; got <U3 \(1,\) for 1 images"),
    ],
)
def test_streams_that_cannot_be_made(items, message):
    with pytest.raises(DataError, match=message):
        stream_of(items)


def test_half_of_a_test_set_and_labels_beyond_the_classes():
    with pytest.raises(DataError, match="only one of test_x and test_y is there; give both, or neither"):
        Task.from_arrays(X, Y, test_x=X)
    with pytest.raises(DataError, match=r"task 0 has labels \[1\], which are not among its classes \[0, 2\]"):
        Task.from_arrays(X, Y, classes=(0, 2))
    assert Task.from_arrays(X, Y, classes=(1, 0)).classes == (1, 0)
    with pytest.raises(DataError, match="class_names has 1 names for 2 classes; name every class"):
        stream_of([(X, Y)], class_names=["cat"])


def test_a_stream_of_your_data():
    stream = stream_of([(X, Y), (X, Y + 4), (X, Y)])
    assert (stream.name, stream.num_classes, stream.class_names) == ("your data", 6, ("0", "1", "2", "3", "4", "5"))
    assert stream.task_classes == ((0, 1), (4, 5), (0, 1))
    assert [task.id for task in stream] == [0, 1, 2]
    assert stream.source.startswith("own data, tested on the training images, sha1 ")
    named = stream_of([(X, Y, X, Y), (X, Y)], name="pets", class_names=("cat", "dog", "bird"))
    assert (named.name, named.num_classes, named.class_names) == ("pets", 3, ("cat", "dog", "bird"))
    assert "own data, tasks 1: tested on the training images" in named.source
    assert stream_of(named) is named


def test_tasks_keep_ids_that_differ_and_are_numbered_where_they_do_not():
    first, later = Task.from_arrays(X, Y), Task.from_arrays(X, Y, id=7)
    assert [task.id for task in stream_of([first, first])] == [0, 1]
    assert first.id == 0
    assert [task.id for task in stream_of([later])] == [7]
    learner = Listener()
    record = run([later], learner)
    assert {task for _, _, task in learner.seen} == {7}
    assert len(record.accuracy_matrix) == 2
    loader = Task.from_loader(DataLoader(TensorDataset(X, Y)))
    renumbered = stream_of([first, loader])
    assert [task.id for task in renumbered] == [0, 1]
    assert isinstance(renumbered[1], LoaderTask)


def test_the_seed_of_the_learner_orders_the_batches_of_datasets_and_arrays():
    orders = []
    for seed in (0, 0, 1):
        learner = Listener(seed=seed)
        run([(X, torch.arange(6))], learner, batch_size=2)
        orders.append(torch.cat([y for _, y, _ in learner.seen]).tolist())
    assert orders[0] == orders[1] != orders[2]


def test_classes_that_are_given_spare_the_pass_that_finds_them():
    passes = []

    class Batches:
        def __iter__(self):
            passes.append(0)
            for batch in ((X, Y * 0), (X, Y)):
                passes[-1] += 1
                yield batch

        def __len__(self):
            return 2

    assert Task.from_loader(Batches()).classes == (0, 1)
    assert Task.from_loader(Batches(), classes=(0, 1)).steps(10, epochs=3) == 6
    assert passes == [2, 1]


def test_what_a_loader_says_later_is_checked_too():
    odd = [(X, Y), (X[..., :8], Y)]
    task = Task.from_loader(DataLoader(odd, batch_size=None, collate_fn=lambda batch: batch), classes=(0, 1))
    with pytest.raises(DataError, match="task 0's training images differ in size: 3x12x12 and 3x12x8"):
        list(task.batches(10))
    beyond = [(X / 255, Y), (X / 100, Y)]
    task = Task.from_loader(DataLoader(beyond, batch_size=None, collate_fn=lambda batch: batch), classes=(0, 1))
    with pytest.raises(DataError, match="if they are normalised, give the learner"):
        list(task.batches(10))


def test_loaders_of_one_stream_may_differ_in_batch_size():
    record = run([DataLoader(TensorDataset(X, Y), batch_size=size) for size in (2, 4)] + [(X, Y)], Listener())
    assert record.fingerprint["batch_size"] == [2, 4, 10]
    assert record.fingerprint["source"].startswith("own data, some batches from data loaders, tested on the training")


def test_a_loader_with_worker_processes():
    x, y = random_batch(12)
    learner = Listener()
    record = run([DataLoader(TensorDataset(x, y), batch_size=5, num_workers=1)], learner)
    assert torch.equal(torch.cat([images for images, _, _ in learner.seen]), x)
    assert record.fingerprint["training_images"] == [12]


def test_reprs_are_short():
    x, y = random_batch(2500, (3, 8, 8), classes=range(15, 20))
    task = Task.from_arrays(x, y, x[:500], y[:500], id=3)
    assert repr(task) == "Task(3: classes 15-19, 2,500 training and 500 test images of 3x8x8)"
    assert repr(Task.from_arrays(X, Y * 0)) == "Task(0: class 0, 6 training images of 3x12x12, tested on them too)"
    loader = DataLoader(TensorDataset(X, Y))
    assert repr(Task.from_loader(loader)) == (
        "Task(0: classes 0-1, images of 3x12x12 from a DataLoader, tested on them too)"
    )
    assert repr(Task.from_loader(loader, loader, classes=(1, 0, 7))) == (
        "Task(0: classes 1, 0, 7, images of 3x12x12 from a DataLoader, test images from another)"
    )
    many = Task.from_arrays(X, Y, classes=range(0, 20, 1)[::-1])
    assert "classes 19, 18, 17, 16, 15, 14, ... (20 of them)," in repr(many)
    assert repr(split_synthetic(train_per_class=1, test_per_class=1)) == (
        "Stream(split-synthetic: 5 tasks, 20 classes, 3x32x32)"
    )
    assert repr(Stream("one", (task,), 20, (), "made")) == "Stream(one: 1 task, 20 classes, 3x8x8)"
    record = run([(X, Y)], Listener())
    assert repr(record) == f"RunRecord(listener on your data: ACC {100 * record.acc:.1f} %, BWT 0.0, 0 bytes)"


def test_the_network_is_in_the_fingerprint_unless_it_is_the_papers():
    assert "backbone" not in run([(X, Y)], Listener()).fingerprint
    assert "backbone" not in run([(X, Y)], Listener(backbone_name="reduced-resnet18")).fingerprint
    record = run([(X, Y)], Listener(backbone_name="vit-tiny"))
    assert record.fingerprint["backbone"] == "vit-tiny"
    assert record.fingerprint["normalisation"] == "pixels / 255"


class TestCut:
    """One Dataset of all classes, cut into tasks."""

    @pytest.fixture
    def parts(self):
        x = torch.arange(40, dtype=torch.uint8)[:, None, None, None].expand(40, 3, 6, 6)
        return TensorDataset(x, torch.arange(40) % 4), TensorDataset(x[:8] + 100, torch.arange(8) % 4)

    def test_a_dataset_and_its_test_are_cut_by_class(self, parts):
        stream = stream_of(parts, n_tasks=2, class_order=[3, 0, 1, 2], seed=5, name="mine")
        assert (stream.name, stream.task_classes) == ("mine", ((3, 0), (1, 2)))
        assert stream[0].x[:, 0, 0, 0].tolist() == [row for row in range(40) if row % 4 in (0, 3)]
        assert stream[1].test_x[:, 0, 0, 0].tolist() == [101, 102, 105, 106]
        assert {task.seed for task in stream} == {5}
        record = samc.run(stream, samc.ER(image_shape=(3, 6, 6), backbone="mlp"))
        assert record.fingerprint["training_images"] == [20, 20]

    def test_arrays_are_cut_alike_and_without_a_test_every_fifth_image_is_one(self, parts):
        (x, y), (test_x, test_y) = (dataset.tensors for dataset in parts)
        alike = stream_of((x.numpy(), y.numpy(), test_x, test_y), n_tasks=2)
        for one, other in zip(alike, stream_of(parts, n_tasks=2), strict=True):
            assert torch.equal(one.x, other.x)
            assert torch.equal(one.test_x, other.test_x)
        alone = stream_of(parts[0], classes_per_task=2, samples_per_task=3)
        assert [(len(task.x), len(task.test_x)) for task in alone] == [(3, 4), (3, 4)]

    def test_names_are_given_or_those_of_the_dataset_and_labels_may_have_gaps(self, parts):
        x, y = parts[0].tensors
        dataset = TensorDataset(x, 10 * y)
        assert stream_of(dataset, n_tasks=2).class_names == ("0", "10", "20", "30")
        dataset.classes = [f"number {label}" for label in range(31)]
        assert stream_of(dataset, n_tasks=2).class_names == ("number 0", "number 10", "number 20", "number 30")
        named = stream_of(parts[0], n_tasks=2, class_names=["a", "b", "c", "d"])
        assert named.class_names == ("a", "b", "c", "d")
        with pytest.raises(DataError, match="class_names has 2 names, and label 3 none"):
            stream_of(parts[0], n_tasks=2, class_names=["a", "b"])

    def test_normalised_images_are_turned_back(self, parts):
        x, y = parts[0].tensors
        dataset = TensorDataset((x / 255 - 0.5) / 0.25, y)
        stream = stream_of(dataset, n_tasks=1, mean=0.5, std=0.25)
        assert stream[0].x[:, 0, 0, 0].tolist() == [row for row in range(40) if row % 20 < 16]

    def test_what_cannot_be_cut_is_one_line(self, parts):
        with pytest.raises(DataError, match=r"put the TensorDataset into a list, or have it cut: n_tasks=5"):
            stream_of(parts[0])
        for strange in ([parts[0]] * 3, DataLoader(parts[0]), "mnist", [1, 2]):
            with pytest.raises(DataError, match="what is cut into tasks is one Dataset"):
                stream_of(strange, n_tasks=2)
        with pytest.raises(ConfigError, match="can be cut into 1 to 4 tasks"):
            stream_of(parts[0], n_tasks=9)


class Endless(TorchDataset):
    """More samples than any machine holds; counts those that were looked at."""

    def __init__(self, count=None):
        self.count, self.read = count, 0

    def __len__(self):
        if self.count is None:
            raise TypeError("nobody knows")
        return self.count

    def __getitem__(self, index):
        self.read += 1
        return torch.zeros(3, 8, 8), index % 4


@pytest.mark.parametrize(
    ("count", "read", "message"),
    [
        (2**62, 1, r"your data's training images, 4,611,686,018,427,387,904 of 3x8x8, fill this machine; take fewer"),
        (None, 1001, r"your data's training images, more than 1,000 of 3x8x8, fill this machine; take fewer"),
    ],
)
def test_more_images_than_the_machine_holds_are_refused_before_they_fill_it(count, read, message, monkeypatch):
    monkeypatch.setattr("samc.streams.samples.physical_memory", lambda: 2 * 1000 * 3 * 8 * 8)
    dataset = Endless(count)
    with pytest.raises(DataError, match=message):
        stream_of(dataset, n_tasks=2)
    assert dataset.read == read
