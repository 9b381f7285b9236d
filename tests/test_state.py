"""A nested state comes back as it was, type by type and bit by bit, or not at all."""

import hashlib
import math
import struct
from collections import OrderedDict

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samc.errors import DataError
from samc.state import load_state, pack, save_state, unpack

KINDS = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.uint16,
)


@st.composite
def tensors(draw):
    kind, shape = draw(st.sampled_from(KINDS)), draw(st.lists(st.integers(0, 3), max_size=3))
    content = draw(st.binary(min_size=8 * math.prod(shape), max_size=8 * math.prod(shape)))
    wide = torch.frombuffer(bytearray(content or b"\0" * 8), dtype=torch.int64)[: math.prod(shape)].reshape(shape)
    return (wide & 1).bool() if kind is torch.bool else wide.to(kind)


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(["<f4", ">f8", "|u1", "<u2", "|b1", "<c8", "<U3"])))
    count = draw(st.integers(0, 4))
    return np.arange(count).astype(dtype).reshape(draw(st.sampled_from([(count,), (1, count), (count, 1)])))


keys = st.text(max_size=8) | st.integers() | st.booleans() | st.none() | st.tuples(st.integers(), st.text(max_size=3))
leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=30)
    | tensors() | arrays()
)  # fmt: skip
states = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4).map(OrderedDict)
    ),
    max_leaves=12,
)


def same(a, b):  # noqa: PLR0911
    """Equal in value and type; NaN is NaN, and −0.0 is not 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        bits = (a.contiguous().flatten().view(torch.uint8).tolist() if a.numel() else [] for a in (a, b))
        return a.dtype == b.dtype and a.shape == b.shape and len({tuple(some) for some in bits}) == 1
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, dict):
        return len(a) == len(b) and all(
            same(*pair)
            for one, other in zip(a.items(), b.items(), strict=True)
            for pair in zip(one, other, strict=True)
        )
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(*pair) for pair in zip(a, b, strict=True))
    return a == b


@given(states)
def test_a_state_comes_back_as_it_was(state):
    assert same(unpack(*pack(state)), state)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(states)
def test_a_file_gives_back_what_was_written(tmp_path, state):
    save_state(tmp_path / "file", "thing", state, replace=True)
    assert same(load_state(tmp_path / "file", "thing")[0], state)


def test_tensors_that_share_memory_or_lie_otherwise_come_back_apart():
    base = torch.arange(24.0).reshape(1, 2, 3, 4)
    state = [base, base, base[:, :1], base.contiguous(memory_format=torch.channels_last), torch.nn.Parameter(base)]
    found = unpack(*pack(state))
    assert all(torch.equal(*pair) for pair in zip(found, state, strict=True))


@pytest.mark.parametrize("value", [{1, 2}, object(), np.float32(1), np.array([{}]), 1j])
def test_what_it_does_not_know_is_named(value):
    with pytest.raises(TypeError, match=r"a state holds numbers, .*; \.a\.0 is a"):
        pack({"a": [value]})


def test_every_single_byte_counts(tmp_path):
    path = tmp_path / "file"
    save_state(path, "thing", {"sha256": '"sha256":"', "x": torch.arange(3), 0: b"abc"}, replace=False)
    content = path.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="is damaged"):
            load_state(path, "thing")
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match="is damaged"):
            load_state(path, "thing")
    path.write_bytes(content + b"\0")
    with pytest.raises(DataError, match="is damaged"):
        load_state(path, "thing")


def resealed(content):
    """A file with its checksum made anew, as somebody would who changed it on purpose."""
    place = content.index(rb"\"sha256\":\"") + 13
    zeroed = content[:place] + b"0" * 64 + content[place + 64 :]
    return content[:place] + hashlib.sha256(zeroed).hexdigest().encode() + content[place + 64 :]


def test_another_format_another_kind_and_no_file_are_refused(tmp_path):
    path = tmp_path / "file"
    save_state(path, "thing", [1], replace=False)
    with pytest.raises(DataError, match=r"is a thing, not a learner; give the path of a learner"):
        load_state(path, "learner")
    with pytest.raises(DataError, match="is not there"):
        load_state(tmp_path / "none", "thing")
    path.write_bytes(resealed(path.read_bytes().replace(rb"\"format\":1", rb"\"format\":9")))
    with pytest.raises(DataError, match=r"has format 9, written by samc .*this is samc .*, which reads format 1"):
        load_state(path, "thing")


def test_a_structure_that_asks_for_what_is_not_there_is_refused(tmp_path):
    path = tmp_path / "file"
    save_state(path, "thing", [b"abc"], replace=False)
    for old, new in ((rb"{\"bytes\":3}", rb"{\"bytes\":4}"), (rb"{\"bytes\":3}", rb"{\"bxtes\":3}")):
        save_state(path, "thing", [b"abc"], replace=True)
        path.write_bytes(resealed(path.read_bytes().replace(old, new)))
        with pytest.raises(DataError, match="is damaged"):
            load_state(path, "thing")


def test_the_same_state_is_the_same_file(tmp_path):
    for name in ("a", "b"):
        save_state(tmp_path / name, "thing", {"x": torch.ones(2), "y": [torch.zeros(3), b"1"]}, replace=False)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
