"""Replicas that train by themselves for a round of steps and meet at its end, by torchft's LocalSGD and DiLoCo."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torchft import local_sgd

from lt_core.errors import ConfigError, LtError
from lt_core.precision import Precision
from lt_core.strategy import Capabilities
from lt_torchft.strategy import BehindError, FaultTolerant, Turn, as_tensor

__all__ = ["DiLoCo", "LocalSGD"]


class _Round:
    """The Manager as torchft's algorithm sees it: its members were agreed on when the round began.

    Attributes:
        parts: for each of the algorithm's states the functions that load and save it.
    """

    def __init__(self, strategy: FaultTolerant) -> None:
        self.strategy, self.manager = strategy, strategy.manager
        self.parts: dict[str, tuple[Callable[[Any], None], Callable[[], Any]]] = {}
        self._lt_asked: list[Tensor] = []

    def allreduce(self, tensor: Tensor, should_quantize: bool = False) -> _Round:
        """Note the tensor: all of them are averaged together, in :meth:`wait`."""
        self._lt_asked.append(tensor)
        return self

    def wait(self) -> None:
        """Average the noted values."""
        tensors, self._lt_asked = self._lt_asked, []
        self.strategy.average(tensors)

    def start_quorum(self) -> None:
        """Do nothing: see the class."""

    def register_state_dict_fn(self, key: str, load: Callable[[Any], None], save: Callable[[], Any]) -> None:
        self.parts[key] = load, save

    def __getattr__(self, name: str) -> Any:
        return getattr(self.manager, name)


class _InRounds(FaultTolerant):
    """Agrees on who takes part before each round; a round in which one died is gone through again without it."""

    capabilities = Capabilities(synchronous=False)

    def __init__(self, *args: Any, every: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if every < 1:
            raise ConfigError(
                f"{type(self).__name__}(every={every}): expected the steps of a round, 1 or more.", code="TORCHFT9"
            )
        self.every = every
        self._algorithm: Any = None
        self._lt_round: _Round | None = None
        self._start: bytes | None = None

    @abstractmethod
    def make_algorithm(self, manager: Any, module: nn.Module, optimizer: Optimizer) -> Any:
        """Return torchft's context manager, whose hooks at the optimizer count steps and exchange after ``every``."""

    @property
    def step_of_round(self) -> int:
        """How many steps of the round this replica has taken."""
        return 0 if self._algorithm is None else int(self._algorithm._local_step)

    def setup(
        self, module: nn.Module, make_optimizers: Callable[[], list[Optimizer]] | None, precision: Precision
    ) -> tuple[nn.Module, list[Optimizer]]:
        module, optimizers = super().setup(module, make_optimizers, precision)
        if optimizers:
            self._leave_algorithm()
            self._lt_round = _Round(self)
            self._algorithm = self.make_algorithm(self._lt_round, module, optimizers[0])
            self._algorithm.__enter__()
        return module, optimizers

    def close(self, error: BaseException | None = None) -> None:
        self._leave_algorithm()
        super().close(error)

    def _leave_algorithm(self) -> None:
        if self._algorithm is not None:
            self._algorithm.__exit__(None, None, None)

    def begin_step(self) -> Turn:
        begins = self._turn is None
        turn = super().begin_step()
        if begins and self.save is not None:
            self._start = self.save().read_bytes()
        first = turn.first * self.every + self.step_of_round * self.manager.num_participants()
        return Turn(first, first + turn.mine - turn.first)

    def reduce_gradients(self, params: Any) -> None:
        """Leave them as they are: replicas meet at the end of the round."""
        self.begin_step()  # with data of another kind than Dealt it begins here

    def optimizer_step(self, optimizer: Optimizer, closure: Callable[[], Any] | None = None) -> bool:
        """Take a step of this replica, and after the round's last one meet the others.

        Raises:
            BehindError: one of them died; :func:`lt_torchft.fit` goes back to where the round began.
        """
        self.run_closure(optimizer, closure)
        self.begin_step()
        before = self.manager.current_step()
        optimizer.step()
        if self.step_of_round or self._algorithm is None:
            return True
        self._turn = None
        if self.manager.current_step() > before:
            return True
        self.dropped += self.every
        if self._start is None:
            raise LtError("Train by lt_torchft.fit: it goes back to where a dropped round began.", code="TORCHFT4")
        self.received = as_tensor(self._start)
        error = BehindError("A replica died in this round. lt_torchft.fit goes back to its beginning.", code="TORCHFT5")
        error.own = True
        raise error

    def state_dict(self) -> dict[str, Any]:
        """Return the place within the round, and the algorithm's state: DiLoCo's outer optimizer and weights."""
        parts = {} if self._lt_round is None else {key: save() for key, (_, save) in self._lt_round.parts.items()}
        return {"replicas": super().state_dict(), "step_of_round": self.step_of_round, "algorithm": parts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not state or self._lt_round is None:
            return
        super().load_state_dict(state["replicas"])
        self._algorithm._local_step = state["step_of_round"]
        for key, (load, _) in self._lt_round.parts.items():
            load(state["algorithm"][key])

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_algorithm": None, "_lt_round": None, "_start": None}


class LocalSGD(_InRounds):
    """Replicas train by themselves; after each ``every`` steps their weights are averaged (torchft's LocalSGD).

    Optimizers' states and buffers stay each replica's own.

    Args:
        every: steps of a round.
        args: those of :class:`FaultTolerant`, like ``kwargs``.
    """

    name = "torchft-local"

    def __init__(self, *args: Any, every: int = 100, **kwargs: Any) -> None:
        super().__init__(*args, every=every, **kwargs)

    def make_algorithm(self, manager: Any, module: nn.Module, optimizer: Optimizer) -> Any:
        return local_sgd.LocalSGD(manager, module, optimizer, self.every)


class DiLoCo(_InRounds):
    """Replicas train by themselves; after each ``every`` steps an outer optimizer takes a step (torchft's DiLoCo).

    Its gradient is how far the replicas went from where the round began, on average. Source:
    https://arxiv.org/abs/2311.08105. Optimizers' states and buffers stay each replica's own.

    Args:
        every: steps of a round.
        outer: makes the outer optimizer over the module's parameters.
        args: those of :class:`FaultTolerant`, like ``kwargs``.
    """

    name = "torchft-diloco"

    def __init__(
        self,
        *args: Any,
        every: int = 100,
        outer: Callable[[list[nn.Parameter]], Optimizer] = partial(SGD, lr=0.7, momentum=0.9, nesterov=True),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, every=every, **kwargs)
        self.outer = outer

    def make_algorithm(self, manager: Any, module: nn.Module, optimizer: Optimizer) -> Any:
        outer = self.outer(list(module.parameters()))
        return local_sgd.DiLoCo(manager, [module], optimizer, outer, self.every, backup_device=self.device)
