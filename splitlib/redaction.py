"""Credentials are kept out of whatever is shown, raised, logged or stored.

Some are credentials by the form of the text that they stand in. Others were passed as options under
names such as ``secret``, and a library may put them into its own messages.
"""

from __future__ import annotations

import logging
import re
import threading
import traceback
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

_MASK: Final = "***"
# What may stand before the "@" of a URI. A password may hold "@", which the last one of the
# authority ends; or "/", but a port and a slash after it are host and path. Its length is bounded,
# so that a long text takes no longer than it should.
_USERINFO: Final = re.compile(
    r"(?<=//)(?:[^/@\s]+@(?:[^/@\s]*@)*|[^/@\s:]*:(?!\d{1,5}/)[^@\s]{1,1024}@)"
)
# The same without a scheme: a user, a colon, a password.
_NO_SCHEME: Final = re.compile(
    r"(?<![^\s'\"(=,\[{])[^\s'\"/:@(=,\[{]+:(?!/|\d{1,5}/)(?:(?!//)[^\s@]){1,1024}@"
)
# Of these, what stands there is a container of a storage account, and no credential.
_CONTAINER: Final = re.compile(r"\b(?:abfss?|wasbs?)://[^/@:\s]+@", re.IGNORECASE)
_LOGIN: Final = re.compile(r"^([A-Za-z][\w+.-]*://)[^/@]*:[^/@]*@")
_NAMES: Final = r"sig|pass|pwd|token|secret|credential|key|auth"
_PARAMETER: Final = re.compile(
    rf"([?&;][\w.%-]*(?:{_NAMES})[\w.%-]*=|\b(?:AccountKey|SharedAccess\w+|password|pwd)=)"
    r"[^&;\s\"'#]+",
    re.IGNORECASE,
)
# Not what says how to sign, or where: "rest.signing-region", "auth.type".
_SECRET_NAME: Final = re.compile(
    rf"(?!.*(?:type|region|name|enabled|signer|endpoint|ur[il])$).*(?:{_NAMES}|connection.?string)",
    re.IGNORECASE,
)
_SHORTEST, _MOST = 4, 1000

_known: OrderedDict[str, None] = OrderedDict()
_lock = threading.Lock()


def without_credentials(text: str) -> str:
    """``text`` without what its form shows to be credentials; depends on nothing else."""
    text = _USERINFO.sub(_masked_userinfo, text)
    text = _NO_SCHEME.sub(f"{_MASK}@", text)
    return _PARAMETER.sub(rf"\1{_MASK}", text)


def without_login(path: str) -> str:
    """A path without the user and password of its URI; two files never become one."""
    return _LOGIN.sub(r"\1", path, count=1)


def redact(text: str) -> str:
    """``text`` without what looks like a credential, or was told to :func:`remember`."""
    text = without_credentials(text)
    with _lock:
        known = list(_known)
    for secret in sorted(known, key=len, reverse=True):  # one may begin another
        text = text.replace(secret, _MASK)
    return text


def remember(name: str, options: Mapping[str, Any]) -> None:
    """Keep the credentials in a table's name and its options out of all texts from now on."""
    for secret in {*_in_text(name), *_in_options(options)}:
        if len(secret) >= _SHORTEST and secret.lower() not in ("true", "false", "none"):
            with _lock:
                _known[secret] = None
                _known.move_to_end(secret)
                if len(_known) > _MOST:
                    _known.popitem(last=False)


def redact_causes(error: BaseException) -> None:
    """Replace what ``error`` was raised from by stand-ins, where its text tells a secret.

    A stand-in has the name, the redacted text and the traceback of what it stands for.
    """
    _redact_links(error, {})


def show(instance: Any) -> str:
    """The representation of a dataclass, redacted."""
    shown = (f"{f.name}={getattr(instance, f.name)!r}" for f in fields(instance) if f.repr)
    return redact(f"{type(instance).__qualname__}({', '.join(shown)})")


def get_logger(name: str) -> logging.Logger:
    """A logger whose records, tracebacks too, are redacted."""
    logger = logging.getLogger(name)
    if _redact_record not in logger.filters:
        logger.addFilter(_redact_record)
    return logger


def _redact_record(record: logging.LogRecord) -> bool:
    record.msg, record.args = redact(record.getMessage()), ()
    if record.exc_info:
        record.exc_text = redact("".join(traceback.format_exception(*record.exc_info)).rstrip())
        record.exc_info = None
    return True


def _masked_userinfo(match: re.Match[str]) -> str:
    text = match.string[: match.end()]
    container = any(found.end() == match.end() for found in _CONTAINER.finditer(text))
    return match[0] if container else f"{_MASK}@"


def _in_text(text: str) -> Iterator[str]:
    for pattern in (_USERINFO, _NO_SCHEME):
        for match in pattern.finditer(text):
            if _masked_userinfo(match) != match[0]:
                yield match[0].removesuffix("@").partition(":")[2]
    for parameter in _PARAMETER.finditer(text):
        yield parameter[0].removeprefix(parameter[1])


def _in_options(options: Mapping[str, Any], secret: bool = False) -> Iterator[str]:
    for key, value in options.items():
        named = secret or _SECRET_NAME.search(str(key)) is not None
        match value:
            case Mapping():
                yield from _in_options(value, named)
            case str() if named:
                yield value
            case str():
                yield from _in_text(value)


def _redact_links(error: BaseException, safe: dict[int, BaseException]) -> None:
    """Replace the errors that ``error`` was raised from.

    Args:
        error: Whose causes may tell a secret.
        safe: What is shown for an error, by its identity.
    """
    safe[id(error)] = error
    quiet = error.__suppress_context__  # which setting a cause changes
    for link in ("__cause__", "__context__"):
        linked = getattr(error, link)
        if linked is None:
            continue
        if id(linked) not in safe:
            told = safe[id(linked)] = _told_safely(linked)
            _redact_links(told, safe)
        # past classes whose instances refuse to be changed, as thrift's do
        BaseException.__setattr__(error, link, safe[id(linked)])
    BaseException.__setattr__(error, "__suppress_context__", quiet)


def _told_safely(error: BaseException) -> BaseException:
    text = str(error)
    told = "".join([text, repr(error), *getattr(error, "__notes__", ())])
    if redact(told) == told:
        return error
    names = {"__module__": type(error).__module__, "__qualname__": type(error).__qualname__}
    safe: Exception = type(type(error).__name__, (Exception,), names)(redact(text))
    safe.__cause__, safe.__context__ = error.__cause__, error.__context__
    safe.__suppress_context__ = error.__suppress_context__
    return safe.with_traceback(error.__traceback__)
