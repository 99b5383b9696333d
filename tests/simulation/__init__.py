"""Deterministic simulation of splitlib's threads, clock and table, all drawn from one seed.

- ``scheduler`` runs one thread at a time and has a virtual clock.
- ``primitives`` replaces :mod:`threading` and :mod:`time` with simulated versions.
- ``table_model`` and ``faults`` simulate the catalog and storage, read through ``connector``.
- ``network`` simulates a Hive metastore behind sockets.
- ``enumerating``, ``coordinating`` and ``metastore`` are the scenarios.
- ``checks`` reads the ``history`` of a run and reports violations.
- ``planted_bugs`` are bugs that the checks must find.

Run it with ``python -m tests.simulation``.
"""
