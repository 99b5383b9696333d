"""A metastore client in a forked process."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.connectors.hive.scripted_metastore import client_of, metastore, right


@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child_has_a_connection_of_its_own():
    with metastore() as server:
        client = client_of(server)
        client.get_databases()
        if (child := os.fork()) == 0:
            try:
                os._exit(0 if client.get_tables("default") == ["t", "u"] else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.get_databases() == ["default"]
        assert server.connections == 2
        client.close()


@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child_does_not_wait_for_a_call_of_its_parent():
    received, forked = threading.Event(), threading.Event()

    def slow_at_first(line, before, name, number):
        if before == 0:
            received.set()
            assert forked.wait(60)
        line.sendall(right(name, number))

    with metastore(slow_at_first) as server, ThreadPoolExecutor(1) as calls:
        client = client_of(server)
        running = calls.submit(client.get_databases)
        assert received.wait(60)
        if (child := os.fork()) == 0:
            try:
                os._exit(0 if client.get_tables("default") == ["t", "u"] else 1)
            finally:
                os._exit(2)
        status = os.waitpid(child, 0)[1]
        forked.set()
        assert os.waitstatus_to_exitcode(status) == 0
        assert running.result() == ["default"]
        client.close()
