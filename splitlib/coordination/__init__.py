"""Distribute splits to many readers while files are being listed and filters are arriving.

``prefetch`` enumerates splits in a thread, ahead of the readers. The ``coordinator`` hands these
splits to readers, in an order that one of the ``assigners`` chooses. ``checkpoint`` serializes the
coordinator's state, so that another process can continue.
"""

from splitlib.coordination.assigners import (
    FifoAssigner,
    LargestFirstAssigner,
    LocalityAssigner,
    SplitAssigner,
)
from splitlib.coordination.coordinator import (
    AssignedSplit,
    DynamicFileSplitEnumerator,
    NoMoreSplits,
    RequestIgnored,
    WaitForSplits,
)

__all__ = [
    "AssignedSplit",
    "DynamicFileSplitEnumerator",
    "FifoAssigner",
    "LargestFirstAssigner",
    "LocalityAssigner",
    "NoMoreSplits",
    "RequestIgnored",
    "SplitAssigner",
    "WaitForSplits",
]
