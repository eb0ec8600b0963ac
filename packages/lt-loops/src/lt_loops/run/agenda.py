"""The next batch at which the loop checks for due work.

Each owner says in ``next_due`` when that can be at the earliest: never too late, maybe too early. ``Run.look_ahead``
takes the least. At that boundary, and at one that was asked for before it, ``after_batch`` asks each owner whether
something is due.
"""

from lt_loops.state.position import NEVER, Position


class Agenda:
    """The next batch at which something is due: all that a step looks at.

    Attributes:
        position: where the run stands.
        num_batches: training batches of this epoch on this rank, limits applied; ``inf`` where unknown.
        window: micro-batches for one optimizer step.
        group: training batches that the device is given together (``steps_per_execution``).
        due: number of batches done at which the loop checks: a row, a validation, an epoch's end or a limit is due.
        asked: the loop must check after this very batch.
        most_steps: optimizer steps that a batch, or a window of them, may take; ``NEVER`` where nobody knows.
        full: a window counts as a full one whatever it has, as Lightning has it.
    """

    def __init__(self, position: Position, group: int, *, full: bool = False) -> None:
        self.position, self.group, self.full = position, group, full
        self.window = self.most_steps = 1
        self.num_batches: int | float = float("inf")
        self.due, self.asked = NEVER, False

    def request_check(self) -> None:
        """Have the loop check after this batch; may be called from another thread, or a signal's handler."""
        self.asked = True

    def batch_of_step(self, step: int) -> int:
        """Return the number of batches done in this epoch when ``step`` can be reached at the earliest."""
        position = self.position
        windows = -(-max(step - position.step, 0) // self.most_steps)
        return position.batch + windows * self.window - position.micro

    def batch_of_next(self, every: int) -> int:
        """Like :meth:`batch_of_step`, for the next multiple of ``every``."""
        return self.batch_of_step((self.position.step // every + 1) * every)

    def at_end(self) -> bool:
        return self.position.exhausted or self.position.batch >= self.num_batches
