"""Deterministic simulation: splitlib's threads, clock and source of a run, all drawn from one seed.

``scheduler`` runs threads one at a time and keeps a virtual clock, ``primitives`` puts it under
:mod:`threading`, ``table_model`` and ``faults`` are the catalog, ``connector`` asks it.
``enumerating`` and ``coordinating`` are who uses splitlib, and ``checks`` reads the ``history`` of
a run. ``planted_bugs`` are bugs that have to be found. Started by ``python -m tests.simulation``.
"""
