"""The interface of connectors has the names and arguments that its version promises."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import splitlib
from splitlib import errors, model, spi
from splitlib.registry import connector_class
from tests.conformance.memory_connectors import PlainConnector

ROOT = Path(__file__).parents[2]
PROMISED = Path(__file__).with_name(f"spi_v{spi.VERSION}.txt")
# Connectors receive a predicate. Its other methods are the engine's.
OF_PREDICATE = {"keys", "match"}


def interface() -> Iterator[str]:
    """Yield a line for each name of ``splitlib.spi``, with its arguments."""
    for name in spi.__all__:
        value = getattr(spi, name)
        if not isinstance(value, type):
            is_function = inspect.isfunction(value)
            yield f"{name}{inspect.signature(value) if is_function else _constant(value)}"
        elif issubclass(value, Exception):
            yield f"{name}({', '.join(base.__name__ for base in value.__mro__[1:-3])})"
        elif value is spi.Predicate:
            yield from (f"{name}.{each}" for each in sorted(OF_PREDICATE))
        else:
            yield from _members(name, value)


def _members(name: str, kind: type) -> Iterator[str]:
    if kind.__module__ == model.__name__ and not getattr(kind, "_is_protocol", False):
        fields = getattr(kind, "_fields", None)  # of a named tuple
        yield f"{name}{inspect.signature(kind) if fields is None else fields}"
    for each, member in sorted(vars(kind).items()):
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and (not each.startswith("_") or each == "__call__"):
            yield f"{name}.{each}{inspect.signature(function)}"
        elif isinstance(member, property):
            yield f"{name}.{each}"
    if kind is spi.Connector:
        yield from (f"{name}.{each}: {of}" for each, of in sorted(kind.__annotations__.items()))


def _constant(value: Any) -> str:
    return f" = {str(value).replace(chr(10), ', ') if isinstance(value, pa.Schema) else value!r}"


def test_the_interface_is_the_promised_one() -> None:
    promised, there = PROMISED.read_text("utf-8").splitlines(), list(interface())
    changed = [line for line in promised if line not in there]
    assert not changed, "connectors that use these names break: keep them, or raise spi.VERSION"
    assert there == promised, f"add the new lines to {PROMISED.name}"


def test_a_changed_argument_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def list_files(self: object, partitions: object) -> None: ...

    monkeypatch.setattr(spi.Connector, "list_files", list_files)
    promised = PROMISED.read_text("utf-8").splitlines()
    [changed] = [line for line in promised if line not in set(interface())]
    assert changed.startswith("Connector.list_files(self, partitions: 'PartitionBatch', predicate")


def test_what_a_connector_needs_is_in_one_module() -> None:
    """Errors of the engine, of filters and of settings are not raised by connectors."""
    others = {"ConnectorNotFound", "ConnectorNotInstalled", "FileChanged", "InvalidCheckpoint"}
    others |= {"InvalidFilter", "LocationNotAllowed", "NonDeterministicDimension"}
    others |= {"SplitlibError", "TooManyPartitions"}
    assert set(errors.__all__) - set(spi.__all__) == others
    every = vars(model).items()
    ours = {name for name, each in every if getattr(each, "__module__", "") == model.__name__}
    assert ours - set(spi.__all__) == {"FileSplit"}


@pytest.mark.parametrize(("version", "newer"), [(0, "the package of 'dated'"), (2, "splitlib")])
def test_a_connector_for_another_version_is_refused(version: int, newer: str) -> None:
    class Dated(PlainConnector):
        spi_version = version

    splitlib.register("dated", Dated)
    found = rf"needs version {version} of splitlib\.spi.*version 1.*newer release of {newer}"
    with pytest.raises(splitlib.ConnectorNotInstalled, match=found):
        connector_class("dated")
