"""Roaring bitmaps of every container type are decoded as by pyroaring. Broken ones are refused."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from splitlib_iceberg.roaring import numbers_of

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
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 9, 17])
@pytest.mark.parametrize("kinds", [[ARRAY], [BITS], [RUNS], [RUNS, ARRAY, BITS]])
def test_containers(kinds, count, runs):
    """Bitmaps of several containers are decoded. With runs, only four or more have offsets."""
    numbers = in_containers(*(kinds[i % len(kinds)] for i in range(count)))
    assert numbers_of(bitmap_of(numbers, runs), len(numbers)).tolist() == numbers


@pytest.mark.parametrize(("expected", "size"), [(None, 1 << 23), (1 << 28, 1 << 27)])
def test_few_bytes_do_not_become_gigabytes(expected, size):
    """Bitmaps with too many numbers are refused. Four bytes can stand for 65,536 numbers."""
    bitmap = BitMap64()
    for start in range(0, expected or 2 * size, 1 << 16):
        bitmap.add_range(start, start + (1 << 16))
    bitmap.run_optimize()
    with pytest.raises(ValueError, match=f"more than the limit of {size}"):
        numbers_of(bitmap.serialize(), expected)


@pytest.mark.parametrize("size", [4095, 4096, 4097, 2**16])
def test_sizes_at_which_the_kind_changes(size):
    numbers = [*range(0, 2 * size, 2)] if size < 2**15 else [*range(size)]
    for runs in (False, True):
        assert numbers_of(bitmap_of(numbers, runs), size).tolist() == numbers


@pytest.mark.parametrize("numbers", [[], [0], [2**16 - 1], [2**32 + 5, 2**33], [2**63 - 1]])
def test_few_numbers_far_apart(numbers):
    data = bitmap_of(numbers, False)
    assert numbers_of(data, None).tolist() == numbers
    for wrong in (len(numbers) + 1, len(numbers) - 1):
        with pytest.raises(ValueError, match=f"holds {len(numbers)} numbers, not {wrong}"):
            numbers_of(data, wrong)


def test_a_number_of_64_bits_is_refused():
    with pytest.raises(ValueError, match="more than 63 bits"):
        numbers_of(bitmap_of([2**63], False), 1)


@pytest.mark.parametrize("kinds", [[ARRAY], [RUNS, ARRAY, ARRAY, ARRAY]])
def test_a_bitmap_cut_anywhere_is_refused(kinds):
    data = bitmap_of(in_containers(*kinds), True)
    for size in range(len(data)):
        with pytest.raises(ValueError, match="is truncated"):
            numbers_of(data[:size], None)
    with pytest.raises(ValueError, match="follow the bitmap"):
        numbers_of(data + b"\0", None)


def changed(numbers, at, new, runs=False):
    data = bytearray(bitmap_of(numbers, runs))
    data[at : at + len(new)] = new
    return bytes(data)


ONE, COOKIE, COUNT, HIGH, SIZE, NUMBERS = 0, 12, 16, 20, 22, 28


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (changed([1, 2], COOKIE, b"\x00"), "not a roaring bitmap"),
        (changed([1, 2], COUNT, b"\x01\x00\x01\x00"), "cannot have 65537 containers"),
        (changed([1, 2], NUMBERS, b"\x02\x00\x01\x00"), "not in order"),
        (changed([1, 2], NUMBERS, b"\x02\x00\x02\x00"), "not in order"),
        (changed([1, 2**16], HIGH + 4, b"\x00\x00"), "not in order"),
        (changed([*BITS], NUMBERS, b"\xff"), "claimed size"),
        # A container of runs has flags, a header, the number of runs, and each run's start and
        # length minus one.
        (changed([*RUNS], COOKIE + 5 + 4 + 2 + 2, b"\x0a", runs=True), "claimed size"),
        (changed([*RUNS], COOKIE + 5 + 4 + 2 + 4, b"\x33", runs=True), "claimed size"),
    ],
)
def test_what_is_refused(data, says):
    with pytest.raises(ValueError, match=says):
        numbers_of(data, None)
