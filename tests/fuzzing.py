"""Changes that a careless hand, a bad disk or a stranger makes to files, drawn from a seed."""

import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from samc.state import DIGEST, KEY, NO_DIGEST
from samc.tensor_files import LENGTH_BYTES

STRANGE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 50.0, -0.5, 1e-300, 1e300, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30,
    "", "x", "NaN", "\x1b[2Jgone", "a" * 3000, "é中\u202e", [], {}, [[]], [None], [0], {"a": 1}, [1, "x", None],
    [[0.5, 0.5], [0.5]], {"bytes": {}},
)  # fmt: skip
# what a value of a JSON file becomes; a number that is none is written nan, so that no text is
RAW = ("NaN", "Infinity", "-Infinity", "1" + "0" * 400, "1e999", "1" + "0" * 5000, "[" * 2000, '"', "", "nul")
# what cannot be written by json.dumps: it replaces a value in the text


def places(content: Any, path: tuple = ()) -> Iterator[tuple]:
    """The path of every value within names and lists."""
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(len(content)):
            yield (*path, key)
            yield from places(content[key], (*path, key))


def parent(content: Any, path: tuple) -> Any:
    for key in path[:-1]:
        content = content[key]
    return content


def change(content: Any, rng: random.Random, raw: bool = False) -> None:
    """Replace, leave out, double or move one to three values of names and lists; with `raw` also by what JSON lacks."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        # by depth first: one of few parts is as likely as one of many entries
        every = list(places(content))
        if not every:
            return
        depth = rng.choice(sorted({len(path) for path in every}))
        path = rng.choice([path for path in every if len(path) == depth])
        holder = parent(content, path)
        match rng.randrange(6):
            case 0:
                del holder[path[-1]]
            case 1 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[path[-1]]))
            case 2:
                other = rng.choice(every)
                holder[path[-1]] = copy.deepcopy(parent(content, other)[other[-1]])
            case 3 if raw:
                holder[path[-1]] = f"@{rng.choice(RAW)}@"
            case _:
                holder[path[-1]] = copy.deepcopy(rng.choice(STRANGE))


def changed_json(content: Any, rng: random.Random) -> bytes:
    """The text of a JSON file with changed values; or damaged as bytes."""
    content = copy.deepcopy(content)
    change(content, rng, raw=True)
    text = json.dumps(content)
    for raw in RAW:
        text = text.replace(json.dumps(f"@{raw}@"), raw)
    data = text.encode()
    return changed_bytes(data, rng) if rng.random() < 0.1 else data


def changed_state(content: bytes, change: Callable[[Any], Any]) -> bytes:
    """The file of a state whose structure somebody has changed, with a checksum that fits."""
    end = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    header = json.loads(content[LENGTH_BYTES:end])
    fields = json.loads(header["__metadata__"][KEY])
    change(fields["state"])
    fields["sha256"] = NO_DIGEST.decode()
    header["__metadata__"][KEY] = json.dumps(fields, separators=(",", ":"))
    text = json.dumps(header, separators=(",", ":")).encode()
    text = text.ljust(-(-len(text) // LENGTH_BYTES) * LENGTH_BYTES)
    made = bytearray(len(text).to_bytes(LENGTH_BYTES, "little") + text + content[end:])
    place = made.index(DIGEST) + len(DIGEST)
    made[place : place + len(NO_DIGEST)] = hashlib.sha256(made).hexdigest().encode()
    return bytes(made)


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flipped, cut, grown, or with a piece replaced by zeros, ones, or another piece."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        if not content:
            break
        start = rng.choice((rng.randrange(len(content)), rng.randrange(min(len(content), 400))))
        length = rng.choice((1, 2, 4, 8, 64, len(content) // 4 + 1))
        match rng.randrange(6):
            case 0:
                content[start] ^= 1 << rng.randrange(8)
            case 1:
                del content[start : start + length]
            case 2:
                content[start:start] = rng.randbytes(length)
            case 3:
                content[start : start + length] = rng.choice((b"\0", b"\xff")) * len(content[start : start + length])
            case 4:
                other = rng.randrange(len(content))
                content[start : start + length] = content[other : other + length]
            case 5:
                content[start:] = b""
    return bytes(content)
