"""Confirm with one more request that a listing by obstore or s3fs is complete.

obstore accepts any XML as a listing, and botocore, which s3fs uses, any XML except errors. If a
proxy responds with an XML page, both return an empty listing. obstore also does not show whether a
page is the last one. So one more request of s3fs confirms the end of a listing, and its response
must have the fields of a listing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from splitlib.errors import SourceError, SourceUnavailable

KEYS_PER_PAGE = 1000
"""Maximum number of keys in a page of S3."""


def confirm_end(fs: Any, bucket: str, directory: str, after: str = "") -> None:
    """Check that a directory has no objects after a key.

    Args:
        fs: Filesystem of the bucket. Nothing is checked unless this is s3fs.
        bucket: Name of the bucket.
        directory: Path without trailing slash; '' is the bucket itself.
        after: The key. By default, the key of the directory's marker object, which sorts first.

    Raises:
        SourceError: if the bucket does not exist.
        SourceUnavailable: if there are more objects, or the response is not a listing.
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


def no_next_page(location: str) -> SourceError:
    """Return the error for a truncated listing without a new token for the next page."""
    return SourceError(
        f"The store returned a truncated listing of {location!r} without a new token for the rest.",
        hint="report this to the operator of the store.",
    )


def no_listing(location: str) -> SourceUnavailable:
    """Return the error for a response that is not a listing."""
    return SourceUnavailable(
        f"The response to a list request for {location!r} is not a listing.",
        hint="check endpoint_url, and whether a proxy responds instead of the store.",
    )


def _answer(fs: Any, bucket: str, **parameters: Any) -> Mapping[str, Any]:
    """Send a list request, and return the response if it has the fields of a listing."""
    try:
        answer: Mapping[str, Any] = fs.call_s3("list_objects_v2", Bucket=bucket, **parameters)
    except FileNotFoundError as error:
        raise SourceError(f"There is no bucket {bucket!r}.") from error
    if "IsTruncated" not in answer:  # S3 always sends it
        raise no_listing(f"s3://{bucket}")
    return answer
