"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], *, similarity: float = 0.6) -> str | None:
    """Return the known name most similar to ``name``, ignoring case; None if none is close.

    Args:
        name: The name as the user wrote it.
        known: The names that exist.
        similarity: Minimum similarity of the two names, from 0 to 1.
    """
    # Imported here so that importing splitlib stays fast: only error messages need it.
    from difflib import get_close_matches

    by_lower_case = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), by_lower_case, n=1, cutoff=similarity)
    return by_lower_case[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "available:") -> str:
    """Return a hint for an unknown name: the nearest known one, or a list of all."""
    known = list(known)
    close = nearest(name, known)
    return f"did you mean {close!r}?" if close else f"{otherwise} {', '.join(known)}."
