"""Number formats of torch itself: 64, 16 and bfloat16 throughout, and mixed precision by autocast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from lt_core.batch import map_batch
from lt_core.errors import ConfigError, did_you_mean, warn
from lt_core.precision import Precision

__all__ = ["Mixed", "ScaledMixed", "TruePrecision", "bf16_mixed", "bf16_true", "double", "half_true"]

_TRUE = {"64-true": torch.float64, "32-true": torch.float32, "16-true": torch.float16, "bf16-true": torch.bfloat16}


class TruePrecision(Precision):
    """Parameters, inputs and arithmetic in one format.

    Args:
        name: ``"64-true"``, ``"32-true"``, ``"16-true"`` or ``"bf16-true"``.
        precision: Lightning's name for it.
    """

    def __init__(self, name: str = "16-true", *, precision: str | None = None) -> None:
        name = precision or name
        if name not in _TRUE:
            hint = did_you_mean(name, _TRUE)
            raise ConfigError(f"TruePrecision({name!r}): expected one of {', '.join(_TRUE)}.{hint}", code="LT730")
        self.name, self.dtype = name, _TRUE[name]

    def open(self, device: torch.device) -> None:
        _tell_emulated(device, self.dtype)

    def convert_module(self, module: nn.Module) -> nn.Module:
        module._apply(self._lt_convert)  # type: ignore[no-untyped-call]  # module.to() would make complex ones real
        return module

    def init_context(self) -> AbstractContextManager[Any]:
        return _default_dtype(self.dtype)

    def convert_input(self, batch: Any) -> Any:
        return map_batch(self._lt_convert, batch)

    def wrap_step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``step`` with this format as torch's default, for the tensors that it makes."""
        return _with_default_dtype(self.dtype, step)

    def leave_step(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``call`` with the default format that there is now."""
        return _with_default_dtype(torch.get_default_dtype(), call)

    def _lt_convert(self, item: Any) -> Any:
        return item.to(self.dtype) if isinstance(item, Tensor) and item.is_floating_point() else item


class Mixed(Precision):
    """Parameters in 32 bits, the step under autocast.

    Args:
        dtype: autocast's; ``"bf16-mixed"``, Lightning's spelling, is bfloat16.
        device: Lightning's argument; the strategy says the device.
        scaler: Lightning's argument, for ``"16-mixed"``, which is :class:`ScaledMixed`.
        precision: Lightning's name for ``dtype``.

    Attributes:
        caches: whether a weight that a step uses twice is cast once, as by ``torch.autocast``; its two gradients are
            then added in 16 bits. False before a run: each use casts it, and they are added in 32.

    Raises:
        ConfigError: for another name, or ``"16-mixed"``.
    """

    name = "bf16-mixed"
    caches = True

    def __init__(
        self,
        dtype: torch.dtype | str = torch.bfloat16,
        device: Any = None,
        scaler: Any = None,
        *,
        precision: str | None = None,
    ) -> None:
        asked = precision or dtype
        if scaler is not None or not (isinstance(asked, torch.dtype) or asked == "bf16-mixed"):
            raise ConfigError(
                f"MixedPrecision({asked!r}): expected 'bf16-mixed' or a torch.dtype, and no scaler. For float16 write "
                "Trainer(precision='16-mixed'), or plugins=[lt.plugins.ScaledMixed(scaler)] with a scaler of your own.",
                code="LT730",
            )
        self.dtype = self.compute_dtype = asked if isinstance(asked, torch.dtype) else torch.bfloat16
        self._lt_device_type = "cuda" if torch.cuda.device_count() else "cpu"

    def open(self, device: torch.device) -> None:
        self._lt_device_type = device.type
        _tell_emulated(device, self.dtype)

    def wrap_step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        region = partial(torch.autocast, self._lt_device_type, dtype=self.dtype, cache_enabled=self.caches)
        context = region()

        def autocast_step(*args: Any, **kwargs: Any) -> Any:
            # torch.compile would compile anew for each other context, and this one is made again with each plan
            with region() if torch.compiler.is_compiling() else context:
                return step(*args, **kwargs)

        return autocast_step

    def leave_step(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``call`` made without autocast; cast weights are forgotten, as at the end of a region of autocast."""

        def call_outside(*args: Any, **kwargs: Any) -> Any:
            device_type = self._lt_device_type
            entered = torch.is_autocast_enabled(device_type)
            torch.set_autocast_enabled(device_type, False)
            try:
                return call(*args, **kwargs)
            finally:
                torch.clear_autocast_cache()
                torch.set_autocast_enabled(device_type, entered)

        return call_outside


class ScaledMixed(Mixed):
    """Float16 under autocast; the loss is scaled so that small gradients do not vanish, and overflowing steps skipped.

    Args:
        scaler: in place of a ``torch.amp.GradScaler`` with its defaults.

    Its state holds the scale and the scaler's counts of steps; a resume goes on with them.
    """

    name = "16-mixed"
    scales = True

    def __init__(self, scaler: GradScaler | None = None) -> None:
        super().__init__(torch.float16)
        self._scaler = scaler
        self._state: dict[str, Any] | None = None
        self._stand_ins: dict[int, _StandIn] = {}
        self._unscaled: set[int] = set()
        self._stepped = False

    def open(self, device: torch.device) -> None:
        super().open(device)
        self._finish_step()
        # what an exception left between unscale and step, and the optimizers of an earlier run
        self._stand_ins.clear()
        self._unscaled.clear()
        if self._scaler is not None:
            self._scaler._per_optimizer_states.clear()

    @property
    def scaler(self) -> GradScaler:
        """The scaler, made for the device at its first use."""
        if self._scaler is None:
            self._scaler = GradScaler(self._lt_device_type)
        if self._state is not None:
            self._scaler.load_state_dict(self._state)
            self._state = None
        return self._scaler

    def scale_loss(self, loss: Tensor) -> Tensor:
        self._finish_step()
        for number in self._unscaled:  # of an optimizer_step that took none: the scaler waits for it, but it is over
            if not _has_gradients(stand_in := self._stand_ins[number]):
                self.scaler._per_optimizer_states.pop(id(stand_in))  # has no public name: update() counts a step
        self._unscaled.clear()
        scaled: Tensor = self.scaler.scale(loss)
        return scaled

    def unscale(self, optimizer: Optimizer) -> None:
        if id(optimizer) not in self._unscaled and _has_gradients(optimizer):
            self._unscaled.add(id(optimizer))
            self.scaler.unscale_(self._stand_in(optimizer))  # type: ignore[arg-type]

    def step(self, optimizer: Optimizer, take_step: Callable[[], bool]) -> bool:
        if not _has_gradients(optimizer):
            return take_step()
        stand_in = self._stand_in(optimizer)
        stand_in.take_step = take_step
        self._stepped = True
        return bool(self.scaler.step(stand_in))  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, Any]:
        self._finish_step()
        return self.scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._state = state or None

    def _finish_step(self) -> None:
        """Adapt the scale once all optimizers of a window have stepped: the next loss, or a save, shows it."""
        if self._stepped:
            self._stepped = False
            self._unscaled.clear()
            self.scaler.update()

    def _stand_in(self, optimizer: Optimizer) -> _StandIn:
        return self._stand_ins.setdefault(id(optimizer), _StandIn(optimizer))


class _StandIn:
    """The optimizer as the scaler sees it: its step is the strategy's, which may say "not yet"."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self.take_step: Callable[[], bool] = lambda: True

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self._optimizer.param_groups

    def step(self) -> bool:
        return self.take_step()


def _tell_emulated(device: torch.device, dtype: torch.dtype) -> None:
    """Warn of a GPU that computes bfloat16 as 32 bits and more, which torch does without a word."""
    if dtype is not torch.bfloat16 or device.type != "cuda" or not torch.cuda.is_available():
        return
    if not torch.cuda.is_bf16_supported(including_emulation=False):
        warn(
            f"{torch.cuda.get_device_name(device)} emulates bfloat16, which takes longer than 32 bits. Take "
            "precision='16-mixed', or leave precision out.",
            code="LT736",
        )


def _has_gradients(optimizer: Optimizer | _StandIn) -> bool:
    return any(param.grad is not None for group in optimizer.param_groups for param in group["params"])


def _with_default_dtype(dtype: torch.dtype, call: Callable[..., Any]) -> Callable[..., Any]:
    def in_dtype(*args: Any, **kwargs: Any) -> Any:
        with _default_dtype(dtype):
            return call(*args, **kwargs)

    return in_dtype


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def double() -> TruePrecision:
    """Return 64 bits throughout."""
    return TruePrecision("64-true")


def half_true() -> TruePrecision:
    """Return 16 bits throughout; nothing is scaled."""
    return TruePrecision("16-true")


def bf16_true() -> TruePrecision:
    """Return bfloat16 throughout."""
    return TruePrecision("bf16-true")


def bf16_mixed() -> Mixed:
    """Return bfloat16 under autocast."""
    return Mixed()
