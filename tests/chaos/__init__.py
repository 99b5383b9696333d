"""Fault tests on real servers and disks, run with ``make chaos``.

Each run must end before its deadline, with the right splits or with an error that names the
connector and the table. A cell of the matrix is a fault, a table and a stage of the enumeration.

- ``cells`` is the matrix. ``subjects``, ``tables`` and ``servers`` are the tested tables.
- ``proxies`` change the servers' answers as defined in ``treatments``.
- ``lying_filesystem`` does the same for the local disk.
- ``runs`` makes and judges one run, and ``measure`` makes many runs.
- ``restarts`` kills servers, and ``processes`` kills or interrupts processes that use splitlib.
- ``results`` writes the table of results.
"""
