"""Fault tests on real servers and disks, run with ``make chaos``.

Each run must end before its deadline, with the right splits or with an error that names the
connector and the table. Each cell of the test matrix combines a table, a stage of its enumeration
and a fault.

- ``cells`` defines the matrix. ``subjects``, ``tables`` and ``servers`` set up the tested tables.
- ``proxies`` change the servers' answers as defined in ``treatments``.
- ``lying_filesystem`` is a local disk that returns wrong results or errors.
- ``runs`` makes one run and checks its result, and ``measure`` makes many runs.
- ``restarts`` kills servers, and ``processes`` kills or interrupts processes that use splitlib.
- ``results`` writes the table of results.
"""
