"""Limit the size of responses that PyIceberg receives from a REST catalog."""

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
"""Maximum size of a response, in bytes. It may hold the metadata of all snapshots of a table."""
_PIECE: Final = 1 << 16


def loaded(name: str | None, properties: Mapping[str, Any]) -> Catalog:
    """Load a catalog like ``pyiceberg.catalog.load_catalog``, with limits for REST catalogs."""
    config = getattr(pyiceberg.catalog, "_ENV_CONFIG", None) or Config()
    name_or_default = name or config.get_default_catalog_name()
    known = config.get_catalog_config(name_or_default)
    merged: dict[str, Any] = merge_config(known or {}, dict(properties))
    if "py-catalog-impl" not in properties and _is_rest(name_or_default, merged):
        return LimitedRestCatalog(name_or_default, **merged)
    return load_catalog(name, **properties)


def _is_rest(name: str, properties: Mapping[str, Any]) -> bool:
    if not isinstance(properties.get("uri"), str):
        return False  # PyIceberg raises the error
    kind = properties.get("type")
    if not kind:
        return infer_catalog_type(name, dict(properties)) is CatalogType.REST
    return isinstance(kind, str) and kind.lower() == CatalogType.REST.value


class LimitedRestCatalog(RestCatalog):
    """A REST catalog that limits the size of responses."""

    def _config_headers(self, session: Session) -> None:
        # PyIceberg calls this method first with a new session. Right after it, a token may be
        # requested, so the limit must be set here.
        _limit(session)
        super()._config_headers(session)

    def _create_session(self) -> Session:
        session = super()._create_session()
        # For catalogs with signed requests, the base class has mounted another adapter.
        _limit(session)
        return session


class _LimitedAdapter(BaseAdapter):
    """Sends requests with another adapter, and limits the size of every response.

    The responses of redirects are limited too.
    """

    def __init__(self, behind: BaseAdapter) -> None:
        super().__init__()
        self._behind = behind

    def send(
        self, request: PreparedRequest, stream: bool = False, *more: Any, **named: Any
    ) -> Response:
        """Send a request and receive the whole response.

        Raises:
            SourceError: if the response is too large.
        """
        response = self._behind.send(request, True, *more, **named)
        found = bytearray()
        with response:
            for piece in response.iter_content(_PIECE):
                found += piece
                if len(found) > MOST_BYTES:
                    raise SourceError(
                        f"The response of the catalog has more than {MOST_BYTES} bytes.",
                        hint="check its uri, and whether a proxy responds instead of it.",
                    )
        response._content = bytes(found)
        return response

    def close(self) -> None:
        """Close the other adapter."""
        self._behind.close()


def _limit(session: Session) -> None:
    for prefix, adapter in list(session.adapters.items()):
        if not isinstance(adapter, _LimitedAdapter):
            session.mount(prefix, _LimitedAdapter(adapter))
