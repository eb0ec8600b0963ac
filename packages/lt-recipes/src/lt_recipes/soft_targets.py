"""Callbacks that train on softened targets: mixup, CutMix, label smoothing."""

from __future__ import annotations

from itertools import takewhile
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from lt_core.callback import Callback
from lt_core.errors import ConfigError, ConfigTypeError

if TYPE_CHECKING:
    from lt_core.module import LightningModule
    from lt_core.trainer import TrainerAPI

__all__ = ["CutMix", "LabelSmoothing", "Mixup"]


class _SoftTargets(Callback):
    """Base: turns the targets of a training batch into probabilities of shape (N, num_classes), until the step is done.

    Its random choices follow from seed, epoch, batch and rank alone: a resumed run repeats them.

    Args:
        num_classes: classes of the targets.
        keys: where inputs and targets stand in the batch, a list or a dict.
        seed: of the choice of partners.
    """

    def __init__(self, num_classes: int, keys: tuple[Any, Any] = (0, 1), seed: int = 0) -> None:
        if num_classes < 2:
            raise ConfigError(f"{type(self).__name__}(num_classes={num_classes!r}): expected 2 or more.", code="LT673")
        self.num_classes, self.keys, self.seed = num_classes, keys, seed
        self._lt_puts_back: tuple[Any, ...] = keys
        self._lt_given: dict[Any, Any] = {}

    def soften(self, inputs: Tensor, targets: Tensor, chance: Random) -> tuple[Tensor, Tensor]:
        """Return inputs and targets to train on, from shapes (N, ...) and (N, num_classes)."""
        raise NotImplementedError

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Leave to an earlier recipe the parts that it puts back."""
        before = takewhile(lambda callback: callback is not self, trainer.callbacks)
        theirs = {key for callback in before if isinstance(callback, _SoftTargets) for key in callback.keys}
        self._lt_puts_back = tuple(key for key in self.keys if key not in theirs)

    def on_train_batch_start(self, trainer: TrainerAPI, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Put softened targets into the batch."""
        if not isinstance(batch, (list, dict)):
            raise ConfigTypeError(
                f"{type(self).__name__}: expected a batch that is a list or a dict, which can be changed, got "
                f"{type(batch).__name__}. Return a list from collate_fn.",
                code="LT674",
            )
        at_inputs, at_targets = self.keys
        inputs, targets = batch[at_inputs], batch[at_targets]
        self._lt_given = {key: batch[key] for key in self._lt_puts_back}
        if not targets.is_floating_point():
            targets = one_hot(targets, self.num_classes).to(torch.get_default_dtype())
        chance = Random(f"{self.seed} {trainer.current_epoch} {batch_idx} {trainer.global_rank}")
        batch[at_inputs], batch[at_targets] = self.soften(inputs, targets, chance)

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Put back the loader's batch, which may be its own object."""
        for key, value in self._lt_given.items():
            batch[key] = value
        self._lt_given = {}


class LabelSmoothing(_SoftTargets):
    """Takes a share of each target and spreads it over all classes; training alone, not validation.

    Reference: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision",
    https://arxiv.org/abs/1512.00567. ``training_step`` sees targets of shape (N, num_classes), which
    ``torch.nn.functional.cross_entropy`` takes.

    Args:
        num_classes: classes of the targets.
        smoothing: the share, 0 to 1.
        keys: where inputs and targets stand in the batch, a list or a dict.
    """

    def __init__(self, num_classes: int, smoothing: float = 0.1, keys: tuple[Any, Any] = (0, 1)) -> None:
        super().__init__(num_classes, keys)
        if not 0 <= smoothing <= 1:
            raise ConfigError(f"LabelSmoothing(smoothing={smoothing!r}): expected a share, 0 to 1.", code="LT673")
        self.smoothing = smoothing

    def soften(self, inputs: Tensor, targets: Tensor, chance: Random) -> tuple[Tensor, Tensor]:
        return inputs, targets * (1 - self.smoothing) + self.smoothing / self.num_classes


class Mixup(_SoftTargets):
    """Trains on sums of two samples and of their targets, by a share from the distribution Beta(alpha, alpha).

    Reference: Zhang et al., "mixup: Beyond Empirical Risk Minimization", https://arxiv.org/abs/1710.09412.
    ``training_step`` sees targets of shape (N, num_classes), which ``torch.nn.functional.cross_entropy`` takes.

    Args:
        num_classes: classes of the targets.
        alpha: larger mixes more evenly; the paper has 0.1 to 0.4 for images.
        keys: where inputs and targets stand in the batch, a list or a dict.
        seed: of the choice of partners.
    """

    def __init__(self, num_classes: int, alpha: float = 0.2, keys: tuple[Any, Any] = (0, 1), seed: int = 0) -> None:
        super().__init__(num_classes, keys, seed)
        if not alpha > 0:
            raise ConfigError(f"{type(self).__name__}(alpha={alpha!r}): expected a number above 0.", code="LT673")
        self.alpha = alpha

    def soften(self, inputs: Tensor, targets: Tensor, chance: Random) -> tuple[Tensor, Tensor]:
        share, order = chance.betavariate(self.alpha, self.alpha), _order(inputs, chance)
        inputs, share = self.mix(inputs, inputs[order], share, chance)
        return inputs, share * targets + (1 - share) * targets[order]

    def mix(self, inputs: Tensor, others: Tensor, share: float, chance: Random) -> tuple[Tensor, float]:
        """Return the mixed inputs, and the share of ``inputs`` in them."""
        return share * inputs + (1 - share) * others, share


class CutMix(Mixup):
    """Puts a rectangle of another image into each one; targets are mixed by area.

    Reference: Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable Features",
    https://arxiv.org/abs/1905.04899. Inputs have shape (N, ..., H, W).

    Args:
        num_classes: classes of the targets.
        alpha: of Beta(alpha, alpha), by which the rectangle's area is chosen; the paper has 1.
        keys: where inputs and targets stand in the batch, a list or a dict.
        seed: of the choice of partners.
    """

    def __init__(self, num_classes: int, alpha: float = 1.0, keys: tuple[Any, Any] = (0, 1), seed: int = 0) -> None:
        super().__init__(num_classes, alpha, keys, seed)

    def mix(self, inputs: Tensor, others: Tensor, share: float, chance: Random) -> tuple[Tensor, float]:
        height, width = inputs.shape[-2:]
        half = (1 - share) ** 0.5 / 2
        y, x = chance.randrange(height), chance.randrange(width)
        top, bottom = max(0, round(y - half * height)), min(height, round(y + half * height))
        left, right = max(0, round(x - half * width)), min(width, round(x + half * width))
        mixed = inputs.clone()
        mixed[..., top:bottom, left:right] = others[..., top:bottom, left:right]
        return mixed, 1 - (bottom - top) * (right - left) / (height * width)


def _order(inputs: Tensor, chance: Random) -> Tensor:
    generator = torch.Generator().manual_seed(chance.getrandbits(63))
    return torch.randperm(len(inputs), generator=generator).to(inputs.device)
