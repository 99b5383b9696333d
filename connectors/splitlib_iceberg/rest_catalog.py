"""PyIceberg's REST catalog, whose answers are received within a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyiceberg.catalog
from pyiceberg.catalog import Catalog, CatalogType, infer_catalog_type, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.utils.config import Config, merge_config
from requests import PreparedRequest, Response, Session
from requests.adapters import BaseAdapter

from splitlib.errors import SourceError

MOST_BYTES: Final = 256 << 20
"""The most of one answer, which may hold the metadata of a table with all its snapshots."""
_PIECE: Final = 1 << 16


def loaded(name: str | None, properties: Mapping[str, Any]) -> Catalog:
    """As ``pyiceberg.catalog.load_catalog``, but that REST catalogs have limits."""
    config = getattr(pyiceberg.catalog, "_ENV_CONFIG", None) or Config()
    name_or_default = name or config.get_default_catalog_name()
    known = config.get_catalog_config(name_or_default)
    merged: dict[str, Any] = merge_config(known or {}, dict(properties))
    if "py-catalog-impl" not in properties and _is_rest(name_or_default, merged):
        return LimitedRestCatalog(name_or_default, **merged)
    return load_catalog(name, **properties)


def _is_rest(name: str, properties: Mapping[str, Any]) -> bool:
    if not isinstance(properties.get("uri"), str):
        return False  # the error of it is PyIceberg's
    kind = properties.get("type")
    if not kind:
        return infer_catalog_type(name, dict(properties)) is CatalogType.REST
    return isinstance(kind, str) and kind.lower() == CatalogType.REST.value


class LimitedRestCatalog(RestCatalog):
    """A REST catalog that receives no answer of any size."""

    def _config_headers(self, session: Session) -> None:
        # the first that a new session is given to: tokens may be requested right after it
        _limit(session)
        super()._config_headers(session)

    def _create_session(self) -> Session:
        session = super()._create_session()
        _limit(session)  # what signs requests was mounted since
        return session


class _LimitedAdapter(BaseAdapter):
    """Sends by another adapter, and receives all of an answer, redirects too."""

    def __init__(self, behind: BaseAdapter) -> None:
        super().__init__()
        self._behind = behind

    def send(
        self, request: PreparedRequest, stream: bool = False, *more: Any, **named: Any
    ) -> Response:
        """See ``BaseAdapter``.

        Raises:
            SourceError: if the answer is too large.
        """
        response = self._behind.send(request, True, *more, **named)
        found = bytearray()
        with response:
            for piece in response.iter_content(_PIECE):
                found += piece
                if len(found) > MOST_BYTES:
                    raise SourceError(
                        f"The catalog has answered with more than {MOST_BYTES} bytes.",
                        hint="check its uri, and whether a proxy answers in place of it.",
                    )
        response._content = bytes(found)
        return response

    def close(self) -> None:
        """See ``BaseAdapter``."""
        self._behind.close()


def _limit(session: Session) -> None:
    for prefix, adapter in list(session.adapters.items()):
        if not isinstance(adapter, _LimitedAdapter):
            session.mount(prefix, _LimitedAdapter(adapter))
