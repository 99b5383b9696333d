"""Calls of catalogs and storages, which may fail, hang or need a retry.

``retry`` repeats a call while its source is unavailable; ``calls`` holds the deadline of one call;
``workers`` are threads that can be abandoned; ``pace`` limits parallel calls when a source
throttles; ``bounded_calls`` combines them.
"""
