"""Whether a listing was seen whole, confirmed with a client that shows what the store answered.

obstore takes any XML for a listing, botocore any XML but an error: the page of a proxy is an empty
one to both. And obstore does not show whether a page said that another one follows. So an end that
no object proves is confirmed by one request more, whose answer has to have the marks of a listing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from splitlib.errors import SourceError, SourceUnavailable

KEYS_PER_PAGE = 1000
"""How many keys a page of S3 holds."""


def confirm_end(fs: Any, bucket: str, directory: str, after: str = "") -> None:
    """Make sure that a directory of a bucket holds nothing after a key.

    Args:
        fs: Its filesystem; where it is not s3fs, this cannot be confirmed.
        bucket: Its name.
        directory: Without a slash at its end; '' is the bucket itself.
        after: The key; the marker of the directory comes before all.

    Raises:
        SourceError: if there is no such bucket.
        SourceUnavailable: if it does, or the answer is no listing.
    """
    if not hasattr(fs, "call_s3"):
        return
    prefix = f"{directory}/" if directory else ""
    after = max(after, prefix)
    more = {"StartAfter": after} if after else {}
    answer = _answer(fs, bucket, Prefix=prefix, MaxKeys=1, **more)
    others = [object_["Key"] for object_ in answer.get("Contents", ())]
    if any(key.encode() > after.encode() for key in others) or answer["IsTruncated"]:
        raise SourceUnavailable(
            f"A listing of s3://{bucket}/{directory} left out {(others or [''])[0]!r}."
        )


def has_whole_pages(fs: Any, bucket: str, directory: str) -> bool:
    """Whether a store fills its pages, as S3 does, before it goes on with another one.

    Raises:
        SourceError: if it goes on, and does not say where; if there is no such bucket.
        SourceUnavailable: if the answer is no listing.
    """
    prefix = f"{directory}/" if directory else ""
    answer = _answer(fs, bucket, Prefix=prefix)
    if not answer["IsTruncated"]:
        return True
    if not answer.get("NextContinuationToken"):
        raise no_next_page(f"s3://{bucket}/{directory}")
    return len(answer.get("Contents", ())) >= KEYS_PER_PAGE


def no_next_page(location: str) -> SourceError:
    """The error of a listing that cannot be seen whole."""
    return SourceError(
        f"The store lists a part of {location!r}, and does not say where the next part begins.",
        hint="report it to who runs the store: the answer is truncated and has no token.",
    )


def _answer(fs: Any, bucket: str, **asked: Any) -> Mapping[str, Any]:
    """What the store answers to a listing, with the marks of one."""
    try:
        answer: Mapping[str, Any] = fs.call_s3("list_objects_v2", Bucket=bucket, **asked)
    except FileNotFoundError as error:
        raise SourceError(f"There is no bucket {bucket!r}.") from error
    if "IsTruncated" not in answer:  # S3 always says it
        raise SourceUnavailable(
            f"The answer to a listing of bucket {bucket!r} is no listing.",
            hint="check endpoint_url, and whether a proxy answers in place of the store.",
        )
    return answer
