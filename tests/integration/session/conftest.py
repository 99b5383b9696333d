from __future__ import annotations

import pytest

from tests.integration.session.session_tables import SessionTables


@pytest.fixture(scope="module")
def tables(spark, metastore):
    return SessionTables(spark, metastore)
