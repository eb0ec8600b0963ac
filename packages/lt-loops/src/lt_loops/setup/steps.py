"""The step of another package that trains a run: chosen by an argument, a strategy or a parameter's name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from lt_core import plugins
from lt_core.errors import PluginError
from lt_core.module import LightningModule
from lt_core.step import Step
from lt_core.strategy import Strategy
from lt_loops.arguments.limits import Limits
from lt_loops.arguments.table import Settings
from lt_loops.setup.optimizers import Optimization
from lt_loops.setup.parts import step_of


def find_step(
    settings: Settings, limits: Limits, strategy: Strategy, module: LightningModule, made: Optimization
) -> tuple[str, Step | None]:
    """Return the origin of a run's step, and the step; None for lt's own.

    Raises:
        PluginError: for one that is not installed.
        ConfigError: where two fit.
    """
    chosen = list(asked_steps(settings, limits, strategy))
    parameters = inspect.signature(module.training_step).parameters
    named = [name for name in parameters if f"parameter.{name}" in plugins.names("steps")]
    chosen += [(f"training_step({name})", step_of(f"parameter.{name}")) for name in named]
    found = [(asked, step) for asked, step in chosen if step.fits(module, made.optimizers, made.names)]
    if len(found) > 1:
        raise found[0][1].refusal(found[0][0], [f"{asked} asks for another step" for asked, _ in found[1:]])
    return found[0] if found else ("", None)


def asked_steps(settings: Settings, limits: Limits, strategy: Strategy) -> Iterator[tuple[str, Step]]:
    """Yield the steps that arguments and the strategy ask for, each with its origin.

    Raises:
        PluginError: for one that is not installed.
    """
    for name in sorted({*plugins.names("steps"), *plugins.BROUGHT_BY["steps"]}):
        kind, _, rest = name.partition(".")
        argument, _, value = rest.partition(".")
        asked = getattr(limits, argument, getattr(settings, argument, None)) if kind == "setting" else None
        if asked == value if value else asked:
            if name not in plugins.names("steps"):
                package = plugins.BROUGHT_BY["steps"][name]
                text = f"{argument}={asked!r} comes with {package}: {plugins.install_hint(package)}"
                raise PluginError(text, code="LT101")
            yield f"{argument}={asked!r}", step_of(name)
    for asked, step in (("step", settings.step), (f"strategy={strategy.name!r}", getattr(strategy, "step", None))):
        if step is not None:
            yield (f"step={step!r}" if asked == "step" else asked), step_of(step)
