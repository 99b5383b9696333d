"""Faults on real things: each run has the right splits or an error that says where, in time.

``make chaos`` runs all cells of a matrix: a fault, what it strikes, and at which stage of an
enumeration. ``cells`` is the matrix; ``subjects``, ``tables`` and ``servers`` are what is struck.
``proxies`` stand in front of the servers and do to answers what ``treatments`` say, and
``lying_filesystem`` does the same on the local disk. ``runs`` makes one run and judges it,
``measure`` many; ``restarts`` and ``processes`` end whole processes; ``results`` writes the table.
"""
