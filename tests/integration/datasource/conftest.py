"""Tests of the data source, which Spark 3.5 cannot have."""

from __future__ import annotations

from tests.support.abilities import IGNORED

collect_ignore_glob = IGNORED
