"""How much of a JPEG's scan is picture: Huffman codes counted block by block, as a decoder reads them, pixels aside.

Pictures cannot tell: blocks beyond the edge, and values that saturate, look the same whatever their bits are.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

BASELINE, TABLES, SCAN = 0xC0, 0xC4, 0xDA
# markers of a header's segments: size and components, Huffman tables, and which component uses which table
MARKER = re.compile(b"\xff[^\0]")
CODE_BITS = 16
# of the longest code
BLOCK_VALUES = 64
SKIPPED_ZEROS = 15

Codes = list[tuple[int, int]]
# by the next 16 bits: how many of them are a code, and its symbol; no bits where there is no such code


@dataclass(frozen=True)
class Scan:
    """The blocks of a picture, in the order in which they are stored: the tables of their first and other values."""

    units: int
    blocks: tuple[tuple[Codes, Codes], ...]


def has_other_bytes(header: bytes, content: bytes) -> bool:
    """Whether a scan has bytes that are no picture, or is cut short; a few bits that fill its last byte are ones."""
    if MARKER.search(content) or content.endswith(b"\xff"):
        return True
    bits = content.replace(b"\xff\0", b"\xff")
    used = picture_bits(parse_header(header), bits)
    if used is None or not 0 <= (left := 8 * len(bits) - used) < 8:
        return True
    return left > 0 and bits[-1] & ((1 << left) - 1) != (1 << left) - 1


def picture_bits(scan: Scan, bits: bytes) -> int | None:
    """The bits that the blocks take, which may be more than there are; None where they are no codes."""
    position, end, padded = 0, 8 * len(bits), bits + bytes(4)
    for _ in range(scan.units):
        for first, others in scan.blocks:
            codes, place = first, 0
            while place < BLOCK_VALUES:
                if position >= end:
                    return None
                byte, offset = divmod(position, 8)
                window = int.from_bytes(padded[byte : byte + 4], "big") >> (CODE_BITS - offset) & 0xFFFF
                length, symbol = codes[window]
                if not length:
                    return None
                zeros, size = divmod(symbol, 16)
                position += length + size
                if place and not size and zeros != SKIPPED_ZEROS:
                    break
                place += zeros + 1 if place else 1
                codes = others
    return position


@lru_cache(maxsize=16)
def parse_header(header: bytes) -> Scan:
    """The tables and blocks of a baseline JPEG's header, as OpenCV writes it."""
    tables: dict[int, Codes] = {}
    height = width = 0
    sampling: dict[int, tuple[int, int]] = {}
    start = 2
    while True:
        marker, length = header[start + 1], int.from_bytes(header[start + 2 : start + 4], "big")
        segment = header[start + 4 : start + 2 + length]
        if marker == TABLES:
            tables |= huffman_tables(segment)
        elif marker == BASELINE:
            height, width = (int.from_bytes(segment[place : place + 2], "big") for place in (1, 3))
            triples = [segment[place : place + 3] for place in range(6, len(segment), 3)]
            sampling = {component: divmod(factors, 16) for component, factors, _ in triples}
        elif marker == SCAN:
            used = {segment[1 + 2 * n]: divmod(segment[2 + 2 * n], 16) for n in range(segment[0])}
            break
        start += 2 + length
    if len(sampling) == 1:  # one component is stored block by block, whatever its factors
        sampling = dict.fromkeys(sampling, (1, 1))
    across, down = (8 * max(factors[axis] for factors in sampling.values()) for axis in (0, 1))
    blocks = []
    for component, (columns, rows) in sampling.items():
        first, others = used[component]
        blocks += [(tables[first], tables[16 + others])] * (columns * rows)
    return Scan(-(-width // across) * -(-height // down), tuple(blocks))


def huffman_tables(segment: bytes) -> dict[int, Codes]:
    """The tables of a segment, by class (16 for other values than the first) and number."""
    tables = {}
    while segment:
        name, counts = segment[0], segment[1:17]
        symbols = segment[17 : 17 + sum(counts)]
        codes: Codes = []
        number = 0
        for length, count in enumerate(counts, start=1):
            for symbol in symbols[number : number + count]:
                codes += [(length, symbol)] * (1 << (CODE_BITS - length))
            number += count
        tables[name] = codes + [(0, 0)] * ((1 << CODE_BITS) - len(codes))
        segment = segment[17 + sum(counts) :]
    return tables
