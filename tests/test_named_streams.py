"""MNIST, Tiny ImageNet and CORe50 from files as their authors made them: small ones, byte by byte in their formats."""

import gzip
import hashlib
import zipfile
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch

import samc
from data_makers import core50_files, listing, make_mnist, put, tiny_imagenet_files, zipped
from samc.errors import ConfigError, DataError
from samc.streams import open_stream, tiny_imagenet, trees
from samc.streams.core50 import load_core50
from samc.streams.fetch import ARCHIVES, fetch
from samc.streams.images import PROGRESS
from samc.streams.mnist import load_mnist
from samc.streams.tiny_imagenet import load_tiny_imagenet

TINY, CORE50 = "tiny-imagenet/tiny-imagenet-200.zip", "core50/core50_128x128.zip"


class TestMnist:
    @pytest.mark.parametrize("gz", [True, False])
    def test_images_come_as_they_are_in_the_files(self, tmp_path, monkeypatch, gz):
        pixels = make_mnist(tmp_path, monkeypatch, gz=gz)
        found = load_mnist(tmp_path)
        assert np.array_equal(found.x[..., 0], pixels)
        assert found.y.tolist() == [i % 10 for i in range(40)]
        assert found.test_x.shape == (20, 28, 28, 1)
        assert found.source.endswith("checksums verified" if gz else "unpacked, structure checked")

    def test_torchvisions_folder_is_read_too(self, tmp_path, monkeypatch):
        make_mnist(tmp_path, monkeypatch)
        (tmp_path / "MNIST").mkdir()
        (tmp_path / "mnist").rename(tmp_path / "MNIST" / "raw")
        assert len(load_mnist(tmp_path).y) == 40

    def test_split_mnist_has_five_tasks_of_two_grey_digits_that_every_kind_of_learner_takes(
        self, tmp_path, monkeypatch
    ):
        make_mnist(tmp_path, monkeypatch)
        stream = open_stream("split-mnist", data_dir=tmp_path)
        assert stream.task_classes == ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
        assert stream.image_shape == (1, 28, 28)
        for learner in (
            samc.SAMC(image_shape=(1, 28, 28), preset="paper", autoencoder="stream", autoencoder_steps=1),
            samc.SAMC(image_shape=(1, 28, 28), memory_bytes="300/task"),
            samc.GEM(image_shape=(1, 28, 28), backbone="mlp"),
        ):
            record = samc.run(stream.tasks[:2], learner)
            assert record.memory["memory_bytes"] > 0
            assert len(record.accuracy_matrix) == 3

    def test_permuted_mnist_has_all_digits_in_every_task_in_an_order_of_its_own(self, tmp_path, monkeypatch):
        pixels = make_mnist(tmp_path, monkeypatch)
        stream = open_stream("permuted-mnist", data_dir=tmp_path, seed=3)
        assert stream.task_classes == (tuple(range(10)),) * 10
        flat = [task.x.flatten(1) for task in stream]
        plain = torch.from_numpy(pixels).flatten(1)
        for task in flat:
            assert not torch.equal(task, plain)
            assert torch.equal(task.sort(1).values, plain.sort(1).values)
        columns = [tuple(task[0].tolist()) for task in flat]
        assert len(set(columns)) == 10
        # one order for all images of a task, test images too
        order = [flat[0].T.tolist().index(column) for column in plain.T.tolist()]
        assert torch.equal(flat[0][:, order], plain)
        again = open_stream("permuted-mnist", data_dir=tmp_path, seed=3, n_tasks=3, samples_per_task=4)
        assert [len(task.x) for task in again] == [4, 4, 4]
        other = open_stream("permuted-mnist", data_dir=tmp_path, seed=4)
        assert not torch.equal(other[0].x, stream[0].x)

    def test_damaged_files_are_one_line(self, tmp_path, monkeypatch):
        make_mnist(tmp_path, monkeypatch)
        path = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + b"?")
        with pytest.raises(DataError, match=r"is damaged: md5 .*samc data fetch mnist"):
            load_mnist(tmp_path)

        def trusted(content):
            monkeypatch.setitem(samc.streams.mnist.DIGESTS, path.name, hashlib.md5(content).hexdigest())
            path.write_bytes(content)

        trusted(whole[:20])
        with pytest.raises(DataError, match="cannot be unpacked"):
            load_mnist(tmp_path)
        trusted(gzip.compress(gzip.decompress(whole)[:-1]))
        with pytest.raises(DataError, match="is no labels-idx1-ubyte of 20 images"):
            load_mnist(tmp_path)
        trusted(gzip.compress(gzip.decompress(whole)[:-1] + b"\x0b"))
        with pytest.raises(DataError, match="has the label 11"):
            load_mnist(tmp_path)
        path.unlink()
        with pytest.raises(DataError, match="t10k-labels-idx1-ubyte is not there"):
            load_mnist(tmp_path)
        with pytest.raises(DataError, match=r"mnist is not in .*samc data fetch mnist"):
            load_mnist(tmp_path / "elsewhere")


class TestTinyImagenet:
    def test_the_archive_and_its_folder_are_read_alike(self, tmp_path, monkeypatch):
        files = tiny_imagenet_files(monkeypatch)
        put(tmp_path / "a", TINY, zipped(files))
        for name, content in files.items():
            put(tmp_path / "b", name, content)
        one, other = (load_tiny_imagenet(tmp_path / folder) for folder in "ab")
        assert np.array_equal(one.x, other.x)
        assert np.array_equal(one.test_x, other.test_x)
        assert one.x.shape == (120, 64, 64, 3)
        assert one.x[:, 0, 0, 0].tolist() == [6 * label + number for label in range(40) for number in range(3)]
        assert one.test_y.tolist() == [label for label in range(40) for _ in range(2)]
        assert one.class_names[0] == "n10000000"
        assert listing(tmp_path / "a") == ["tiny-imagenet", TINY]

    def test_the_stream_has_twenty_classes_per_task(self, tmp_path, monkeypatch):
        put(tmp_path, TINY, zipped(tiny_imagenet_files(monkeypatch)))
        stream = open_stream("split-tiny-imagenet", data_dir=tmp_path)
        assert stream.task_classes == (tuple(range(20)), tuple(range(20, 40)))

    def test_who_watches_is_told_how_many_images_have_been_read(self, tmp_path, monkeypatch):
        put(tmp_path, TINY, zipped(tiny_imagenet_files(monkeypatch)))
        seen = []
        token = PROGRESS.set(lambda done, total: seen.append((done, total)))
        load_tiny_imagenet(tmp_path)
        PROGRESS.reset(token)
        assert seen[-1] == (80, 80)
        assert (120, 120) in seen

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda files: files.pop("tiny-imagenet-200/wnids.txt"), "has no wnids.txt"),
            (lambda files: files.update({"tiny-imagenet-200/wnids.txt": b"n1 n2"}), "names 2 classes"),
            (
                lambda files: files.pop(next(name for name in files if "/train/" in name)),
                "2 training images of n10000000",
            ),
            (lambda files: files.pop("tiny-imagenet-200/val/images/val_3.JPEG"), "names 'val_3.JPEG'"),
            (lambda files: files.update({"tiny-imagenet-200/val/images/val_3.JPEG": b"?"}), "as an image"),
        ],
    )
    def test_an_archive_that_is_not_whole_is_one_line(self, tmp_path, monkeypatch, change, message):
        files = tiny_imagenet_files(monkeypatch)
        change(files)
        put(tmp_path, TINY, zipped(files))
        with pytest.raises(DataError, match=message):
            load_tiny_imagenet(tmp_path)

    def test_a_damaged_archive_is_one_line(self, tmp_path, monkeypatch):
        whole = zipped(tiny_imagenet_files(monkeypatch))
        path = put(tmp_path, TINY, whole[: len(whole) // 2])
        with pytest.raises(DataError, match="is not a whole zip archive"):
            load_tiny_imagenet(tmp_path)
        at = whole.index(b"JFIF") + 40  # within the first picture
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(DataError, match=r"is damaged .*samc data fetch tiny-imagenet"):
            load_tiny_imagenet(tmp_path)
        monkeypatch.setattr(trees, "MOST_BYTES", 100)
        path.write_bytes(whole)
        with pytest.raises(DataError, match="too large for an image"):
            load_tiny_imagenet(tmp_path)
        with pytest.raises(DataError, match="tiny-imagenet is not in"):
            load_tiny_imagenet(tmp_path / "elsewhere")

    def test_members_outside_of_the_archives_folder_are_no_files_of_it(self, tmp_path):
        path = tmp_path / "strange.zip"
        path.write_bytes(zipped({"top/a": b"", "../b": b"", "other/c": b"", "/d": b""}))
        with closing(trees.ZipTree(path, "top", "fetch it")) as tree:
            assert tree.names == {"a"}


class TestCore50:
    @pytest.fixture
    def data_dir(self, tmp_path):
        put(tmp_path, CORE50, zipped(core50_files()))
        return tmp_path

    def test_new_instances_are_ten_categories_in_eight_sessions(self, data_dir):
        stream = open_stream("core50", data_dir=data_dir)
        assert stream.class_names[0] == "plug adapter"
        assert stream.task_classes == (tuple(range(10)),) * 8
        assert [task.x[:, 0].unique().tolist() for task in stream] == [[s] for s in (1, 2, 4, 5, 6, 8, 9, 11)]
        for task in stream:
            assert torch.equal(task.y, (task.x[:, 1, 0, 0].long() - 1) // 5)
            assert torch.equal(task.test_y, (task.test_x[:, 1, 0, 0].long() - 1) // 5)
        # the test sessions are dealt out: none twice, none left
        tests = torch.cat([task.test_x[:, :, 0, 0] for task in stream])
        assert len(tests.unique(dim=0)) == len(tests) == 3 * 50 * 2
        assert set(tests[:, 0].tolist()) == {3, 7, 10}
        assert max(len(task.test_y) for task in stream) - min(len(task.test_y) for task in stream) <= 10

    def test_new_classes_are_fifty_objects_in_nine_tasks(self, data_dir):
        stream = open_stream("core50-nc", data_dir=data_dir)
        assert stream.task_classes[0] == tuple(range(0, 50, 5))
        assert stream.task_classes[1] == (1, 6, 11, 16, 21)
        assert stream.task_classes[2] == (26, 31, 36, 41, 46)
        assert stream.task_classes[8] == (29, 34, 39, 44, 49)
        assert sorted(label for classes in stream.task_classes for label in classes) == list(range(50))
        for task in stream:
            assert set(task.x[:, 0, 0, 0].tolist()) == {1, 2, 4, 5, 6, 8, 9, 11}
            assert set(task.test_x[:, 0, 0, 0].tolist()) == {3, 7, 10}
            assert torch.equal(task.y, task.x[:, 1, 0, 0].long() - 1)
        assert stream.class_names[49] == "remote control 5"

    def test_another_order_is_the_seeds_and_the_first_of_the_new_classes_stay_first(self, data_dir):
        plain, one, other, again = (
            open_stream("core50-nc", data_dir=data_dir, class_order=order, seed=seed).task_classes
            for order, seed in (("natural", 0), ("shuffled", 1), ("shuffled", 2), ("shuffled", 1))
        )
        assert one == again != other
        assert one[0] == other[0] == plain[0]
        assert sorted(one) == sorted(other) == sorted(plain)
        sessions = [
            tuple(
                int(task.x[0, 0, 0, 0])
                for task in open_stream("core50", data_dir=data_dir, class_order="shuffled", seed=seed)
            )
            for seed in (1, 2)
        ]
        assert sessions[0] != sessions[1]
        assert sorted(sessions[0]) == sorted(sessions[1]) == [1, 2, 4, 5, 6, 8, 9, 11]
        with pytest.raises(ConfigError, match="class-order is natural, or shuffled"):
            open_stream("core50", data_dir=data_dir, class_order="3,1,2")

    def test_images_are_made_smaller_than_the_files_have_them(self, data_dir):
        assert open_stream("core50", data_dir=data_dir).image_shape == (3, 32, 32)
        assert open_stream("core50", data_dir=data_dir, image_size=8).image_shape == (3, 8, 8)

    def test_held_out_images_and_fewer_tasks(self, tmp_path):
        put(tmp_path, CORE50, zipped(core50_files(frames=10)))
        stream = open_stream("core50-nc", data_dir=tmp_path, image_size=4, n_tasks=2, tested_on="held-out")
        assert len(stream) == 2
        assert len(stream[1].test_y) == 5 * 8
        assert set(stream[1].test_x[:, 0, 0, 0].tolist()) <= {1, 2, 4, 5, 6, 8, 9, 11}

    def test_sessions_and_permutations_are_domains_and_new_classes_are_not(self, data_dir, monkeypatch):
        make_mnist(data_dir, monkeypatch)
        for name in ("core50", "permuted-mnist"):
            stream = open_stream(name, data_dir=data_dir, n_tasks=2)
            learner = samc.ER(image_shape=stream.image_shape, backbone="mlp", scenario="domain", memory_bytes="60KB")
            record = samc.run(stream, learner)
            assert record.fingerprint["scenario"] == "domain"
        stream = open_stream("core50-nc", data_dir=data_dir, n_tasks=2)
        with pytest.raises(ConfigError, match="every task has the same classes"):
            samc.run(stream, samc.ER(image_shape=(3, 32, 32), scenario="domain"))
        record = samc.run(stream, samc.ER(image_shape=(3, 32, 32), backbone="mlp", scenario="class"))
        assert record.fingerprint["scenario"] == "class"
        with pytest.raises(ConfigError, match="leave rotated- out"):
            open_stream("rotated-core50", data_dir=data_dir)

    def test_a_session_that_is_missing_is_one_line(self, tmp_path):
        files = {name: content for name, content in core50_files(1).items() if "/s7/o31/" not in name}
        put(tmp_path, CORE50, zipped(files))
        with pytest.raises(DataError, match=r"no frame of s7/o31/; run `samc data fetch core50`"):
            load_core50(tmp_path)


class TestFetching:
    def test_mnist_is_four_files(self, tmp_path, monkeypatch):
        make_mnist(tmp_path / "mirror", monkeypatch)
        files = {path.name: path for path in (tmp_path / "mirror" / "mnist").iterdir()}
        archive = ARCHIVES["mnist"]
        trusted = replace(archive, md5=samc.streams.mnist.DIGESTS[archive.file_name], more=tuple(
            replace(file, md5=samc.streams.mnist.DIGESTS[file.file_name]) for file in archive.more
        ))  # fmt: skip
        monkeypatch.setitem(ARCHIVES, "mnist", trusted)
        url = (tmp_path / "mirror" / "mnist").as_uri()
        assert fetch("mnist", tmp_path / "data", url=url) == tmp_path / "data" / "mnist"
        assert listing(tmp_path / "data") == ["mnist", *sorted(f"mnist/{name}" for name in files)]
        assert len(load_mnist(tmp_path / "data").y) == 40
        files["t10k-labels-idx1-ubyte.gz"].write_bytes(b"another")
        assert fetch("mnist", tmp_path / "data", url=url) == tmp_path / "data" / "mnist"  # there already
        with pytest.raises(DataError, match=r"gave another file than t10k-labels.*put it into .*other/mnist"):
            fetch("mnist", tmp_path / "other", url=url)
        assert listing(tmp_path / "other") == []

    @pytest.mark.parametrize("name", ["tiny-imagenet", "core50"])
    def test_a_zip_archive_stays_one(self, tmp_path, monkeypatch, name):
        body = zipped({f"{name}/a": b"1"})
        path = put(tmp_path, "mirror.zip", body)
        archive = replace(ARCHIVES[name], md5=hashlib.md5(body).hexdigest())
        monkeypatch.setitem(ARCHIVES, name, archive)
        for _ in range(2):  # fetched, and then there already
            fetch(name, tmp_path / "data", url=path.as_uri())
            assert listing(tmp_path / "data") == [name, f"{name}/{archive.file_name}"]
            path.write_bytes(b"")
        found = tmp_path / "data" / name / archive.file_name
        with zipfile.ZipFile(found) as packed:
            assert packed.namelist() == [f"{name}/a"]
        path.write_bytes(body)
        found.write_bytes(b"damaged")
        fetch(name, tmp_path / "data", url=path.as_uri())
        assert found.read_bytes() == body


def test_the_official_files_are_named_with_md5_and_size():
    for name in ("mnist", "tiny-imagenet", "core50"):
        for file in ARCHIVES[name].files:
            assert len(file.md5) == 32
            assert file.nbytes > 4000
    assert (tiny_imagenet.CLASSES, tiny_imagenet.PER_CLASS, tiny_imagenet.TEST_PER_CLASS) == (200, 500, 50)
