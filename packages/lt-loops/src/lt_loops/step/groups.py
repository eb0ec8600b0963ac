"""Several steps as one program, on devices that record operations and run them later, such as XLA's."""

from collections.abc import Callable

from lt_core.errors import ConfigError
from lt_core.interface import is_overridden
from lt_core.ranks import Supervisor
from lt_core.step import Step
from lt_core.strategy import Strategy
from lt_loops.arguments.table import Settings
from lt_loops.run.agenda import Agenda


def check_groups(settings: Settings, strategy: Strategy, step: Step | None) -> None:
    """Refuse to group steps where each operation runs as soon as it is called.

    Raises:
        ConfigError: for a strategy that is not lazy, without a ``step`` that groups batches.
    """
    groups = strategy.capabilities.lazy_execution or (step is not None and step.groups_batches)
    if settings.steps_per_execution == 1 or groups:
        return
    raise ConfigError(
        f"steps_per_execution={settings.steps_per_execution}: on {strategy.device.type} by strategy="
        f"{strategy.name!r} each operation runs when it is called, so there is nothing to group. On a GPU take "
        f"step=GraphSteps({settings.steps_per_execution}) of lt_graphs, else accelerator='xla'; or leave it out.",
        code="LT342",
    )


def batch_done_of(strategy: Strategy, agenda: Agenda | None = None) -> Callable[[str], None] | None:
    """Return the callback for finished batches; None if neither strategy nor supervisor asks for one."""
    watched = is_overridden(strategy.supervisor, "batch_done", Supervisor)
    counted = strategy.supervisor.batch_done if watched else None
    if not is_overridden(strategy, "batch_done", Strategy):
        return counted
    done = strategy.batch_done if agenda is None or agenda.group == 1 else _grouped(strategy, agenda)
    return done if counted is None else lambda phase: (done(phase), counted(phase))[0]


def _grouped(strategy: Strategy, agenda: Agenda) -> Callable[[str], None]:
    """Return ``batch_done`` of groups of batches.

    A group begins only where nothing is due before its end; else each batch is a group, so that two programs at most
    are compiled.
    """
    left = 0

    def batch_done(phase: str) -> None:
        nonlocal left
        if left == 0:
            left = agenda.group if agenda.due - agenda.position.batch + 1 >= agenda.group else 1
        left -= 1
        if left == 0 or agenda.asked:
            left = 0
            strategy.batch_done(phase)

    return batch_done
