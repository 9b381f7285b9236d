"""Changes that a careless hand, a bad disk or a stranger makes to files, drawn from a seed."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

STRANGE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 50.0, -0.5, 1e-300, 1e300, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30,
    "", "x", "nan", "\x1b[2Jgone", "a" * 3000, "é中\u202e", [], {}, [[]], [None], [0], {"a": 1}, [1, "x", None],
    [[0.5, 0.5], [0.5]], {"bytes": {}},
)  # fmt: skip
# what a value of a JSON file becomes
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


def changed_json(content: Any, rng: random.Random) -> bytes:
    """The text of a JSON file with one to three values replaced, left out, doubled or moved; or damaged as bytes."""
    content = copy.deepcopy(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        # by depth first: one of few parts is as likely as one of many entries
        every = list(places(content))
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
            case 3:
                holder[path[-1]] = f"@{rng.choice(RAW)}@"
            case _:
                holder[path[-1]] = copy.deepcopy(rng.choice(STRANGE))
    text = json.dumps(content)
    for raw in RAW:
        text = text.replace(json.dumps(f"@{raw}@"), raw)
    data = text.encode()
    return changed_bytes(data, rng) if rng.random() < 0.1 else data


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
