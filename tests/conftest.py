"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# Machines differ in speed, and shared ones from minute to minute: time proves nothing here.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
