"""Positions in deletion vectors: the numbers of any bitmap; damaged and oversized ones fail."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from splitlib.arrow.deletion_vectors import positions_of

ARRAY = [*range(0, 100, 7)]
BITS = [*range(0, 2**16, 3)]
RUNS = [*range(10), *range(50, 2**16)]


def in_containers(*kinds):
    """Return the numbers of a bitmap. Each container covers a range of 65,536 numbers."""
    return [number + (place << 16) for place, kind in enumerate(kinds) for number in kind]


def bitmap_of(numbers, runs):
    bitmap = BitMap64(numbers)
    if runs:
        bitmap.run_optimize()
    return bitmap.serialize()


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("kinds", [[ARRAY], [BITS], [RUNS], [RUNS, ARRAY, BITS]])
def test_containers(kinds, runs):
    numbers = in_containers(*kinds)
    assert positions_of(bitmap_of(numbers, runs), len(numbers)).tolist() == numbers


@pytest.mark.parametrize(("expected", "size"), [(None, 1 << 23), (1 << 28, 1 << 27)])
def test_few_bytes_do_not_become_gigabytes(expected, size):
    """Bitmaps with too many numbers are refused. Four bytes can stand for 65,536 numbers."""
    bitmap = BitMap64()
    for start in range(0, expected or 2 * size, 1 << 16):
        bitmap.add_range(start, start + (1 << 16))
    bitmap.run_optimize()
    with pytest.raises(ValueError, match=f"more than the limit of {size}"):
        positions_of(bitmap.serialize(), expected)


@pytest.mark.parametrize("numbers", [[], [0], [2**16 - 1], [2**32 + 5, 2**33], [2**63 - 1]])
def test_few_numbers_far_apart(numbers):
    data = bitmap_of(numbers, False)
    assert positions_of(data, None).tolist() == numbers
    for wrong in (len(numbers) + 1, len(numbers) - 1):
        with pytest.raises(ValueError, match=f"has {len(numbers)} numbers, not {wrong}"):
            positions_of(data, wrong)


def test_a_number_of_64_bits_is_refused():
    with pytest.raises(ValueError, match="more than 63 bits"):
        positions_of(bitmap_of([2**63], False), 1)


@pytest.mark.parametrize("kinds", [[ARRAY], [RUNS, ARRAY, ARRAY, ARRAY]])
def test_a_bitmap_cut_anywhere_is_refused(kinds):
    data = bitmap_of(in_containers(*kinds), True)
    for size in range(len(data)):
        with pytest.raises(ValueError, match=r"Could not deserialize|is empty"):
            positions_of(data[:size], None)


def changed(numbers, at, new, runs=False):
    data = bytearray(bitmap_of(numbers, runs))
    data[at : at + len(new)] = new
    return bytes(data)


COOKIE, COUNT, HIGH, NUMBERS = 12, 16, 20, 28


@pytest.mark.parametrize(
    "data",
    [
        changed([1, 2], COOKIE, b"\x00"),
        changed([1, 2], COUNT, b"\x01\x00\x01\x00"),
        # numbers or containers that do not ascend
        changed([1, 2], NUMBERS, b"\x02\x00\x01\x00"),
        changed([1, 2], NUMBERS, b"\x02\x00\x02\x00"),
        changed([1, 2**16], HIGH + 4, b"\x00\x00"),
        # a bitmap of 65,536 bits with more bits than its header claims
        changed([*BITS], NUMBERS, b"\xff"),
        # two runs that overlap; each is a start and its length minus one
        changed([*RUNS], COOKIE + 5 + 4 + 2 + 4, b"\x05", runs=True),
    ],
)
def test_damaged_bitmaps_are_refused(data):
    with pytest.raises(ValueError, match=r"bitmap|roaring|deserialize|valid"):
        positions_of(data, None)
