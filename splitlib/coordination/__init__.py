"""Distribute splits to many readers while the listing runs and filters arrive.

``prefetch`` enumerates ahead in a thread, the ``coordinator`` receives its splits, one of the
``assigners`` chooses which reader gets which split, and a ``checkpoint`` holds unread splits.
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
