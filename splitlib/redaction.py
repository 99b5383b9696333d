"""Keep credentials out of output, errors, logs and stored data.

Some credentials are recognized by their form, such as the password in a URI. Others are the values
of options with names such as ``secret``. These values are remembered, because other libraries may
quote them in their error messages.
"""

from __future__ import annotations

import json
import logging
import operator
import os
import re
import threading
import traceback
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

_MASK: Final = "***"
# The user part of a URI, before the "@". A password may contain "@", so the match ends at the last
# "@" before the path. A password may also contain "/", but text such as "host:9083/" is a host with
# its port. The length is bounded to keep matching fast on long text.
_USERINFO: Final = re.compile(
    r"(?<=//)(?:[^/@\s]+@(?:[^/@\s]*@)*|[^/@\s:]*:(?!\d{1,5}/)[^@\s]{1,1024}@)"
)
# User, colon and password in a URI without a scheme.
_NO_SCHEME: Final = re.compile(
    r"(?<![^\s'\"(=,\[{])[^\s'\"/:@(=,\[{]+:(?!/|\d{1,5}/)(?:(?!//)[^\s@]){1,1024}@"
)
# In these URIs, the user part is the container in a storage account, not a credential.
_CONTAINER: Final = re.compile(r"\b(?:abfss?|wasbs?)://[^/@:\s]+@", re.IGNORECASE)
_LOGIN: Final = re.compile(r"^([A-Za-z][\w+.-]*://)[^/@]*:[^/@]*@")
# A login whose password contains "/". Text such as "host:9083/" or "host:9083,host" has no login.
_LOGIN_WITH_SLASH: Final = re.compile(
    r"^([A-Za-z][\w+.-]*://)[^/@\s:]*:(?!\d{1,5}[/,])[^@\s]{1,1024}@"
)
_NAMES: Final = r"sig|pass|pwd|token|secret|credential|key|auth"
_PARAMETER: Final = re.compile(
    rf"([?&;][\w.%-]*(?:{_NAMES})[\w.%-]*=|\b(?:AccountKey|SharedAccess\w+|password|pwd)=)"
    r"[^&;\s\"'#]+",
    re.IGNORECASE,
)
# Matches names of options that hold a secret, but not of options that configure signing, such as
# "rest.signing-region" or "auth.type".
_SECRET_NAME: Final = re.compile(
    rf"(?!.*(?:type|region|name|enabled|signer|endpoint|ur[il])$).*(?:{_NAMES}|connection.?string)",
    re.IGNORECASE,
)
# Harmless values of options that usually hold a secret. The last five are login methods that gcsfs
# accepts as the option ``token``.
_NO_SECRETS: Final = frozenset(
    ("true", "false", "none", "anon", "browser", "cache", "cloud", "google_default")
)
_SHORTEST, _MOST = 4, 1000
_ESCAPE: Final = re.compile("%[0-9A-F]{2}")
_quoted: Final = partial(quote, safe="")
_json: Final = partial(json.dumps, ensure_ascii=False)

_known: OrderedDict[str, None] = OrderedDict()
_lock = threading.Lock()
# Another thread may hold the lock during a fork. The child process does not have this thread, which
# would never release the lock there. So the child gets a new lock.
os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))


def without_credentials(text: str) -> str:
    """Mask everything that has the form of a credential, without using remembered secrets."""
    text = _USERINFO.sub(_masked_userinfo, text)
    text = _NO_SCHEME.sub(f"{_MASK}@", text)
    return _PARAMETER.sub(rf"\1{_MASK}", text)


def without_login(path: str) -> str:
    """Remove the user and password from the URI ``path``, and leave the rest unchanged."""
    return _LOGIN.sub(r"\1", path, count=1)


def redact_path(path: str) -> str:
    """Remove the login in a file's URI and mask secrets in its query. Leave the rest unchanged.

    Names of directories stay as they are, so that the path still leads to the file. :func:`redact`
    would also mask a directory such as ``pwd=1``, or a directory whose name contains a secret.
    """
    if path.startswith(("/", "file:")):
        return path
    path = _LOGIN_WITH_SLASH.sub(r"\1", without_login(path), count=1)
    path, mark, query = path.partition("?")
    return path + _PARAMETER.sub(rf"\1{_MASK}", mark + query)


def redact(text: str) -> str:
    """Mask everything that has the form of a credential or was passed to :func:`remember`."""
    text = without_credentials(text)
    with _lock:
        known = list(_known)
    for secret in sorted(known, key=len, reverse=True):  # One secret may contain another.
        text = text.replace(secret, _MASK)
    return text


def remember(name: str, options: Mapping[str, Any]) -> None:
    """Remember the credentials in a table's name and options; :func:`redact` masks them later."""
    given = {*_in_text(name), *_in_options(options)}
    for secret in set().union(*map(_spellings, given)):
        if len(secret) >= _SHORTEST and secret.lower() not in _NO_SECRETS:
            with _lock:
                _known[secret] = None
                _known.move_to_end(secret)
                if len(_known) > _MOST:
                    _known.popitem(last=False)


def redact_causes(error: BaseException) -> None:
    """Replace every direct or indirect cause of ``error`` whose text contains a secret.

    Each replacement has the class name and traceback of the original, and the redacted text.
    """
    _redact_links(error, {})


def show(instance: Any) -> str:
    """Return the redacted ``repr`` of a dataclass instance."""
    shown = (f"{f.name}={getattr(instance, f.name)!r}" for f in fields(instance) if f.repr)
    return redact(f"{type(instance).__qualname__}({', '.join(shown)})")


def get_logger(name: str) -> logging.Logger:
    """Return the logger for a module's package. It redacts log records, including tracebacks.

    Args:
        name: ``__name__`` of the module.
    """
    logger = logging.getLogger(name.rpartition(".")[0] or name)
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


def _spellings(secret: str) -> set[str]:
    """Return the forms that a secret can have in messages, such as escaped or percent-encoded."""
    plain = {secret, secret.strip(), unquote(secret.strip())}
    # In "id:secret", servers may quote the second part alone.
    plain |= {text.partition(":")[2] for text in plain}
    encoded = {encode(text) for text in plain for encode in (quote, quote_plus, _quoted)}
    lower = {_ESCAPE.sub(lambda found: found[0].lower(), text) for text in encoded}
    escaped = {escape(text)[1:-1] for text in plain for escape in (repr, ascii, json.dumps, _json)}
    return plain | encoded | lower | escaped


def _in_options(options: Mapping[str, Any], secret: bool = False) -> Iterator[str]:
    for key, value in options.items():
        named = secret or _SECRET_NAME.search(str(key)) is not None
        match value:
            case Mapping():
                yield from _in_options(value, named)
            case list() | tuple():
                yield from _in_options({str(i): part for i, part in enumerate(value)}, named)
            case bytes() if named:
                yield value.decode(errors="replace")
            case str() if named:
                yield value
            case str():
                yield from _in_text(value)


def _redact_links(error: BaseException, safe: dict[int, BaseException]) -> None:
    """Replace every cause and context of ``error`` whose text contains a secret.

    Args:
        error: The error to change.
        safe: Replacements made so far, by the ``id`` of the original error.
    """
    safe[id(error)] = error
    if notes := getattr(error, "__notes__", None):
        BaseException.__setattr__(error, "__notes__", [redact(str(note)) for note in notes])
    quiet = error.__suppress_context__  # Keep this flag, because assigning __cause__ sets it.
    for link in ("__cause__", "__context__"):
        linked = getattr(error, link)
        if linked is not None:
            # Thrift's error classes override __setattr__ to reject changes.
            BaseException.__setattr__(error, link, _replacement(linked, safe))
    BaseException.__setattr__(error, "__suppress_context__", quiet)


def _replacement(error: BaseException, safe: dict[int, BaseException]) -> BaseException:
    if id(error) not in safe:
        copied = safe[id(error)] = _redacted(error, safe)
        _redact_links(copied, safe)
    return safe[id(error)]


def _redacted(error: BaseException, safe: dict[int, BaseException]) -> BaseException:
    """Return ``error``, or a copy with redacted text if its text contains a secret."""
    text = error.message if isinstance(error, BaseExceptionGroup) else str(error)
    copied: BaseException
    if isinstance(error, BaseExceptionGroup):
        safe[id(error)] = error  # if one of its parts refers to the group
        parts = [_replacement(part, safe) for part in error.exceptions]
        if redact(text) == text and all(map(operator.is_, parts, error.exceptions)):
            return error
        copied = BaseExceptionGroup(redact(text), parts)
    else:
        texts = "".join([text, repr(error), *getattr(error, "__notes__", ())])
        if redact(texts) == texts:
            return error
        names = {"__module__": type(error).__module__, "__qualname__": type(error).__qualname__}
        copied = type(type(error).__name__, (Exception,), names)(redact(text))
    copied.__cause__, copied.__context__ = error.__cause__, error.__context__
    copied.__suppress_context__ = error.__suppress_context__
    return copied.with_traceback(error.__traceback__)
