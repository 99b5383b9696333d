"""The setting of one run, drawn from its seed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.table import Table
from tests.simulation.connector import Abilities, connector_class
from tests.simulation.faults import Faults
from tests.simulation.history import History
from tests.simulation.scheduler import Fiber, Scheduler
from tests.simulation.table_model import TableModel

CONNECTOR, TABLE = "simulated", "db.t"


@dataclass(slots=True)
class Setting:
    """The table, connector, configuration and random numbers of one run."""

    random: Random
    scheduler: Scheduler
    history: History
    config: SplitConfig
    abilities: Abilities
    model: TableModel
    faults: Faults
    ahead: int
    """Number of splits that a coordinator enumerates before readers request them."""
    scans: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    """Event set at the end of the run, when hanging calls continue."""
    _fibers: list[Fiber] = field(default_factory=list)

    @classmethod
    def drawn(cls, random: Random, scheduler: Scheduler, history: History) -> Setting:
        """Return a random setting."""
        call_deadline = random.choice([0, 2.0, 2.0, 10.0])
        enumeration_deadline = random.choice([0, 5.0, 30.0, 30.0])
        config = SplitConfig(
            filter_wait_seconds=random.choice([0, 0, 1.0, 5.0]),
            listing_threads=random.choice([1, 2, 3, 4]),
            target_split_bytes=random.choice([10, 10, 1000]),
            max_partitions=random.choice([2, *[1000] * 9]),
            missing_partition=random.choice(["error", "skip"]),
            retry_attempts=random.choice([1, 2, 3, 5]),
            retry_max_seconds=random.choice([0.2, 30.0]),
            call_deadline_seconds=call_deadline,
            enumeration_deadline_seconds=enumeration_deadline,
        )
        abilities = Abilities(
            details=random.random() < 0.5,
            identity=random.random() < 0.7,
            hosts=random.random() < 0.4,
            statistics=random.random() < 0.4,
            per_listing=random.choice([1, 1, 2, 3]),
            per_batch=random.choice([1, 2, 3, 10]),
            per_page=random.choice([0, 0, 2, 4, 100]),
            files_each=random.choice([0.0, 1.0, 2.5]),
            by_name=random.random() < 0.3,
        )
        bounded = bool(call_deadline or enumeration_deadline)
        return cls(
            random,
            scheduler,
            history,
            config,
            abilities,
            TableModel(random, history, random.choice([2, 5, 9, 9])),
            Faults(random, call_deadline, may_hang=bounded),
            ahead=random.choice([2, 4, 1000]),
        )

    def enumerator(self) -> tuple[int, DynamicFileEnumerator]:
        """Create an enumerator for a new scan, and return the scan's number and the enumerator."""
        self.scans += 1
        connector = connector_class(self.abilities)(
            self.model,
            self.faults,
            self.history,
            self.abilities,
            scan=self.scans,
            sleep=self.scheduler.sleep,
            hang=self.over.wait,
        )
        table = Table(TABLE, CONNECTOR, connector, self.config)
        return self.scans, DynamicFileEnumerator(table, self.config)

    def start(self, name: str, work: Callable[[], object]) -> None:
        """Start a thread of the scenario, for which :meth:`join` waits."""
        self._fibers.append(self.scheduler.spawn(name, work))

    def join(self) -> None:
        """Wait until all started threads have ended."""
        while any(not fiber.done for fiber in self._fibers):
            fiber = next(fiber for fiber in self._fibers if not fiber.done)
            self.scheduler.block(fiber)

    def sleep_up_to(self, seconds: float) -> None:
        """Sleep for a random time, which may be zero."""
        self.scheduler.sleep(self.random.choice([0, 0.01, 0.3, 1]) * self.random.random() * seconds)
