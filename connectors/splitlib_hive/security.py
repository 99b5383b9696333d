"""Secured connections to a metastore: TLS, Kerberos, and HTTP with a token.

:func:`security_of` parses the options. The transports are layers between Thrift's buffer and the
connection's socket. They send and receive only through this socket, so its deadline and size limit
also apply to them.
"""

from __future__ import annotations

import getpass
import io
import os
import re
import ssl
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import Any, Final, NamedTuple

from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportBase, TTransportException

from splitlib.errors import AccessDenied, ConfigError, ConnectorNotInstalled, SourceError
from splitlib.redaction import redact
from splitlib.spi import flag

OPTIONS: Final = frozenset(
    {"tls", "tls_ca", "tls_certificate", "tls_key", "kerberos_principal", "token"}
)
_HOST: Final = "_HOST"
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
# Header of Thrift's SASL messages: a status, and the length of the body.
_MESSAGE: Final = struct.Struct(">BI")
_START, _OK, _COMPLETE = 1, 2, 5
_FRAME: Final = struct.Struct(">i")
# Maximum size of a SASL message. The ticket of a user in many groups has about 64 kB.
MOST_MESSAGE: Final = 1 << 20
_MOST_ERROR: Final = 2000
# Security layers in RFC 4752, in the order of preference: none, integrity, confidentiality.
_LAYERS: Final = (1, 2, 4)


class Address(NamedTuple):
    """A metastore's host and port, and its scheme and path if it uses HTTP."""

    host: str
    port: int
    scheme: str = "thrift"
    path: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}{self.path}"


@dataclass(frozen=True)
class Security:
    """How connections to a metastore are secured.

    Attributes:
        tls: TLS context, or None for connections without TLS.
        principal: Kerberos principal of the metastore, such as ``hive/_HOST@EXAMPLE.COM``, or None
            for connections without Kerberos.
        token: Bearer token for HTTP, or None for connections without a token.
    """

    tls: ssl.SSLContext | None = None
    principal: str | None = None
    token: str | None = field(default=None, repr=False)

    def principal_of(self, host: str) -> str:
        """Return the metastore's principal, with ``_HOST`` replaced by the name of its host."""
        return (self.principal or "").replace(_HOST, host.lower())


def security_of(options: Mapping[str, Any], addresses: Sequence[Address]) -> Security:
    """Parse the connector's security options.

    Raises:
        ConfigError: for options that contradict each other or the addresses, or for an
            unreadable file.
        ConnectorNotInstalled: if Kerberos is requested, but the extra is not installed.
    """
    schemes = {address.scheme for address in addresses}
    if len(schemes) > 1:
        raise ConfigError("The addresses of a metastore must have the same scheme.")
    is_http, is_https = schemes != {"thrift"}, schemes == {"https"}
    given = {name: options[name] for name in OPTIONS if options.get(name) not in (None, "")}
    files = {name: str(given[name]) for name in given if name.startswith("tls_")}
    secured = flag({"tls": is_https or bool(files), **given}, "tls")
    if (files or is_https) and not secured:
        raise ConfigError(
            f"tls is false, but {', '.join(sorted(files)) or 'an https uri'} is given."
        )
    if is_http and secured and not is_https:
        raise ConfigError("TLS is requested for an http uri.", hint="write https://….")
    principal, token = given.get("kerberos_principal"), given.get("token")
    if token is not None and not is_http:
        raise ConfigError(
            "A token is sent over HTTP only.",
            hint="write uri='https://host:port/metastore', or leave the option token out.",
        )
    if token is not None and not _TOKEN.fullmatch(str(token)):
        raise ConfigError(
            "The token has a space, a line break or another character that HTTP does not allow.",
            hint="strip the line break at the end of a token from a file.",
        )
    if principal is not None:
        if is_http:
            raise ConfigError(
                "Kerberos is not supported over HTTP.", hint="use a thrift:// uri or a token."
            )
        _gssapi()
    return Security(
        _tls_context(files) if secured else None,
        None if principal is None else str(principal),
        None if token is None else str(token),
    )


def _tls_context(files: Mapping[str, str]) -> ssl.SSLContext:
    if "tls_key" in files and "tls_certificate" not in files:
        raise ConfigError("tls_key is given without tls_certificate.")
    try:
        context = ssl.create_default_context(cafile=files.get("tls_ca"))
        if "tls_certificate" in files:
            # Without a password argument, OpenSSL would ask for the password on the terminal.
            context.load_cert_chain(files["tls_certificate"], files.get("tls_key"), password="")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"A file in the options {', '.join(sorted(files))} cannot be read: {error}",
            hint="pass PEM files; the key must not be encrypted.",
        ) from None
    return context


def tls_error(error: BaseException) -> ssl.SSLError | None:
    """Return ``error``, or the error that it wraps, if it is a TLS error. Otherwise return None."""
    for each in (error, getattr(error, "inner", None)):
        if isinstance(each, ssl.SSLError) and not isinstance(each, ssl.SSLWantReadError):
            return each
    return None


def refused(address: object, error: ssl.SSLError) -> Exception:
    """Return the error to raise for a failed TLS connection, with a hint for the user."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return SourceError(
            f"The certificate of {address} is not trusted: {error.verify_message}.",
            hint="pass the authority's certificate as tls_ca, and use the host name from the "
            "metastore's certificate.",
        )
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if "alert" in reason or "certificate" in reason:
        return AccessDenied(
            f"{address} refuses the TLS connection: {reason}.",
            hint="pass a certificate that it accepts as tls_certificate and tls_key.",
        )
    return SourceError(
        f"TLS with {address} failed: {reason}.",
        hint="pass tls_certificate and tls_key if it requires a client certificate; leave out the "
        "TLS options if it does not use TLS.",
    )


class HttpTransport(TTransportBase):  # type: ignore[misc]  # thrift is not typed
    """Sends each metastore call as an HTTP POST request, as Hive 4 expects in its HTTP mode.

    Args:
        socket: The connection's socket.
        address: Address of the metastore.
        token: Bearer token, or None to send only the user's name, without authentication.
    """

    def __init__(self, socket: TSocket, address: Address, token: str | None) -> None:
        self._socket, self._path = socket, address.path
        self._connection = HTTPConnection(address.host, address.port)
        # When the server closes the connection, HTTPConnection would open a new connection by
        # itself, and send the token without TLS.
        self._connection.auto_open = 0
        self._response: HTTPResponse | None = None
        self._headers = {"Content-Type": "application/x-thrift", "Accept": "application/x-thrift"}
        if token is None:
            self._headers["x-actor-username"] = _user()
        else:
            self._headers["Authorization"] = f"Bearer {token}"

    def open(self) -> None:  # noqa: D102 - overrides TTransportBase
        self._socket.open()
        self._connection.sock = _HttpSocket(self._socket)

    def close(self) -> None:  # noqa: D102 - as above
        self._connection.close()
        self._socket.close()

    def write(self, data: bytes) -> None:
        """Send a call, and wait for the start of the response.

        Args:
            data: One complete call. Thrift's buffer never splits calls.

        Raises:
            AccessDenied: if the server rejects the token.
            SourceError: if the server does not respond like a metastore.
            TTransportException: for a temporary server error.
        """
        self._connection.request("POST", self._path, data, self._headers)
        response = self._connection.getresponse()
        if response.status == 200:
            self._response = response
            return
        text = redact(response.read(_MOST_ERROR).decode("utf-8", "replace").strip())
        message = f"HTTP {response.status} {response.reason}: {text}".rstrip(": ")
        if response.status in (401, 403):
            raise AccessDenied(f"The metastore rejects the token: {message}.", hint="pass token=….")
        if response.status >= 500 or response.status == 429:
            raise TTransportException(TTransportException.UNKNOWN, message)
        raise SourceError(
            f"The metastore does not accept the call: {message}.",
            hint="check the path of the uri, such as https://host:9083/metastore.",
        )

    def flush(self) -> None:  # noqa: D102 - as above
        pass

    def read(self, size: int) -> bytes:  # noqa: D102 - as above
        data = b"" if self._response is None else self._response.read1(size)
        if not data:
            raise TTransportException(TTransportException.END_OF_FILE, "the response is too short")
        return data


class _HttpSocket:
    """A socket for :mod:`http.client`, with the deadline and size limit of the connection."""

    def __init__(self, socket: TSocket) -> None:
        self._socket = socket

    def sendall(self, data: bytes) -> None:
        self._socket.write(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Received(self._socket))

    def close(self) -> None:
        """Do nothing, because HTTPConnection closes the socket before the response is read."""


class _Received(io.RawIOBase):
    """A file object that reads from a socket."""

    def __init__(self, socket: TSocket) -> None:
        self._socket = socket

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._socket.read(len(buffer))
        except TTransportException as error:
            if error.type != TTransportException.END_OF_FILE:
                raise
            data = b""
        buffer[: len(data)] = data
        return len(data)


class KerberosTransport(TTransportBase):  # type: ignore[misc]  # as above
    """Authenticates with the process's Kerberos ticket, and sends calls in frames.

    The protocol is SASL as in Thrift's Java classes, with the GSSAPI mechanism of RFC 4752.

    Args:
        socket: The connection's socket.
        principal: Principal of the metastore, such as ``hive/host.example.com@EXAMPLE.COM``.
    """

    def __init__(self, socket: TSocket, principal: str) -> None:
        self._socket, self._principal = socket, principal
        self._context: Any = None
        self._layer = _LAYERS[0]
        self._read = io.BytesIO()

    def open(self) -> None:
        """Connect and authenticate.

        Raises:
            AccessDenied: if there is no valid ticket, or the metastore rejects it.
        """
        self._socket.open()
        gssapi = _gssapi()
        try:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
            self._context = gssapi.SecurityContext(name=name, usage="initiate")
            self._negotiate()
        except gssapi.exceptions.GSSError as error:
            raise AccessDenied(
                f"Kerberos authentication with the metastore {self._principal} failed: {error}",
                hint="run kinit, and check the option kerberos_principal.",
            ) from None

    def _negotiate(self) -> None:
        self._send(_START, b"GSSAPI")
        self._send(_OK, self._context.step() or b"")
        while True:
            status, body = self._receive()
            if status == _COMPLETE and self._context.complete:
                return
            if status != _OK:
                text = body.decode("utf-8", "replace") or f"status {status}"
                raise AccessDenied(
                    f"The metastore rejects the Kerberos ticket for {self._principal}: "
                    f"{redact(text)}",
                    hint="check that the option kerberos_principal is the metastore's principal.",
                )
            if self._context.complete:
                self._send(_OK, self._choose_layer(body))
            else:
                self._send(_OK, self._context.step(body) or b"")

    def _choose_layer(self, offer: bytes) -> bytes:
        """Choose the first of ``_LAYERS`` that the server offers, and return the client's reply."""
        offered = self._context.unwrap(offer).message
        for layer in _LAYERS:
            if len(offered) == 4 and offered[0] & layer:
                self._layer = layer
                # The last three bytes of the reply are the maximum frame size, which must be 0
                # without a security layer.
                most = b"\0\0\0" if layer == _LAYERS[0] else b"\xff\xff\xff"
                answer: bytes = self._context.wrap(bytes([layer]) + most, False).message
                return answer
        raise AccessDenied("The metastore offers no SASL security layer that splitlib supports.")

    def _send(self, status: int, body: bytes) -> None:
        self._socket.write(_MESSAGE.pack(status, len(body)) + body)

    def _receive(self) -> tuple[int, bytes]:
        status, size = _MESSAGE.unpack(self._socket.readAll(_MESSAGE.size))
        if size > MOST_MESSAGE:
            raise TTransportException(
                TTransportException.SIZE_LIMIT,
                f"a message of {size} bytes: the metastore may not use Kerberos",
            )
        return status, self._socket.readAll(size)

    def close(self) -> None:  # noqa: D102 - overrides TTransportBase
        self._socket.close()

    def write(self, data: bytes) -> None:  # noqa: D102 - as above
        if self._layer != _LAYERS[0]:
            data = self._context.wrap(data, self._layer == _LAYERS[2]).message
        self._socket.write(_FRAME.pack(len(data)) + data)

    def flush(self) -> None:  # noqa: D102 - as above
        pass

    def read(self, size: int) -> bytes:  # noqa: D102 - as above
        while not (data := self._read.read(size)):
            (length,) = _FRAME.unpack(self._socket.readAll(_FRAME.size))
            if length < 0:
                raise TTransportException(
                    TTransportException.NEGATIVE_SIZE, f"a frame of {length} bytes"
                )
            frame = self._socket.readAll(length)
            if self._layer != _LAYERS[0]:
                frame = self._context.unwrap(frame).message
            self._read = io.BytesIO(frame)
        return data


def _gssapi() -> Any:
    try:
        import gssapi
    except ImportError as error:
        raise ConnectorNotInstalled(
            f"Kerberos needs the package gssapi: {error}",
            hint="run: pip install 'splitlib[kerberos]'",
        ) from None
    return gssapi


def _user() -> str:
    """Return the name of the user, or the user's number if it has no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
