"""What to suggest to somebody who misspelt a name."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], *, similarity: float = 0.6) -> str | None:
    """The known name that is spelt most like ``name``, in whatever case; None if none is close.

    Args:
        name: As it was given.
        known: The names that exist.
        similarity: How much alike the two must be at least, from 0 to 1.
    """
    # imported here: only mistakes need it, and every import of splitlib would pay for it
    from difflib import get_close_matches

    by_lower_case = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), by_lower_case, n=1, cutoff=similarity)
    return by_lower_case[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "it has") -> str:
    """A hint for an unknown name: the nearest known one, or all of them after ``otherwise``."""
    known = list(known)
    close = nearest(name, known)
    return f"did you mean {close!r}?" if close else f"{otherwise} {', '.join(known)}."
