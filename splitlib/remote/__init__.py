"""Calls to catalogs and storage, which may fail, hang or need a retry.

``calls`` runs calls in worker threads with deadlines. ``pace`` limits the number of parallel calls
while a source throttles. ``retry`` repeats a call while its source is unavailable.
"""
