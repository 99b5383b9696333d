"""Calls of catalogs and storages, which may fail, hang or have to be made again.

``retry`` makes a call again while its source is unavailable; ``calls`` holds the deadline of one
call; ``workers`` are threads that can be left behind; ``bounded_calls`` puts them together.
"""
