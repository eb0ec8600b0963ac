"""How a run reads its loaders: their feeds, and the way of a batch to the device."""

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from lt_core import plugins
from lt_core.data import Feed, each_loader, length_of, make_feed
from lt_core.errors import ConfigError, DataError, HookError, warn
from lt_core.interface import is_overridden
from lt_core.precision import Precision
from lt_core.seed import seed_of_environment
from lt_core.states import Stage
from lt_core.strategy import Shard, Strategy
from lt_loops.arguments.limits import Limits, limited
from lt_loops.arguments.problems import shown
from lt_loops.run.job import Owner
from lt_loops.setup.hooks import adapted
from lt_loops.setup.loaders import check_loader, checked_loaders


def eval_limits(limits: Limits, kind: str, feeds: list[Feed]) -> list[int | float]:
    """Return how many batches are read of each feed of ``validate``, ``test`` or ``predict``."""
    name = Stage(kind).limit
    return [limited(feed.num_batches, getattr(limits, name), name) for feed in feeds]


def samples_of_batch(loaders: Any) -> int | None:
    """Return the samples in a batch of a rank; None if unknown, and for several loaders."""
    found = [] if isinstance(loaders, Mapping) else each_loader(loaders)
    if len(found) != 1:
        return None
    of = (found[0], getattr(found[0], "batch_sampler", None))
    size = next(filter(None, (getattr(one, "batch_size", None) for one in of)), None)
    return size if isinstance(size, int) else None


def batches_per_step(samples: int, loaders: Any, strategy: Strategy) -> int:
    """Return how many batches of a rank make an optimizer step of so many samples of all ranks (``global_batch_size``).

    Raises:
        ConfigError: for no multiple of a batch, or batches of unknown size.
    """
    size = samples_of_batch(loaders)
    if size is None:
        raise ConfigError(
            f"global_batch_size={samples}: expected one DataLoader with a batch_size, received {shown(loaders)}, of "
            "which nobody knows how many samples a batch has. Write accumulate_grad_batches, in batches.",
            code="LT762",
        )
    if strategy.capabilities.owns_accumulation:
        raise ConfigError(
            f"global_batch_size={samples} and strategy={strategy.name!r}, which accumulates by itself: expected the "
            "number of batches in its own configuration. Write it there, and leave global_batch_size out.",
            code="LT764",
        )
    ranks = strategy.data_shard.count
    batches, rest = divmod(samples, size * ranks)
    if rest or not batches:
        near = " or ".join(str(number * size * ranks) for number in (batches, batches + 1) if number)
        fits = next((n for n in range(min(size, samples), 0, -1) if samples % (n * ranks) == 0), None)
        raise ConfigError(
            f"global_batch_size={samples}: expected a multiple of {size * ranks}, which is batch_size={size} of the "
            f"loader on {ranks} rank{'s' * (ranks > 1)}. Take global_batch_size={near}, or "
            f"{f'batch_size={fits}' if fits else 'another number of ranks'}.",
            code="LT761",
        )
    return batches


class Feeds(Owner):
    """Makes the feeds of a run: of the user's loaders, for this rank's share, with the way of a batch to the device."""

    _seed: int | None = None

    def agree_on_seed(self) -> None:
        """Read the data in the order of rank 0's seed, as users may seed each rank otherwise; all ranks call this."""
        if self._strategy.world_size > 1:
            self._seed = self._strategy.broadcast(seed_of_environment() or 0)

    def are_outdated(self, kind: str) -> bool:
        """Return whether the loaders of ``kind`` must be asked for again in this epoch."""
        every = self._settings.reload_dataloaders_every_n_epochs
        return 0 < every <= self._position.epoch - self._job.loaders.epochs.get(kind, 0)

    def train(self, *, by_seed: bool = False) -> Feed:
        """Return the feed of the training loader or loaders; ``by_seed``: on one rank in the order that several have.

        Raises:
            DataError: when there is none, or it is empty.
        """
        loaders = self._job.loaders.as_first_asked("train", self._position)
        several = self._strategy.data_shard.count > 1
        if loaders is None:
            raise DataError(
                "fit has nothing to train on: pass train_dataloaders=, a datamodule, or define train_dataloader in the "
                "module.",
                code="LT403",
            )
        check_loader(loaders, "train")
        if self._settings.overfit_batches:
            loaders = _in_order(loaders)
        if plugins.find("data", "feed") is None and (len(each_loader(loaders)) > 1 or isinstance(loaders, Mapping)):
            raise ConfigError(
                f"Training on several loaders at once comes with lt-data: {plugins.install_hint('lt-data')}",
                code="LT104",
            )
        feed = self._made(
            "fit",
            loaders,
            gather=self._strategy.gather_objects if several else None,  # tensor-parallel ranks share
            by_seed=by_seed and not several,
        )
        if feed.num_batches == 0:
            raise DataError(
                "The training loader is empty (0 batches). Is the dataset empty, or smaller than one batch with "
                "drop_last=True?",
                code="LT404",
            )
        feed.stops_at_length = self._job.policy.stops_at_length
        feed.timed = True  # the end of training reports the waiting
        return feed

    def evaluation(self, kind: str) -> list[Feed]:
        strategy = self._strategy
        loaders = checked_loaders(self._job.loaders.as_first_asked(kind, self._position), kind)
        if self._settings.overfit_batches and kind == "validate":
            loaders = [_in_order(loader) for loader in loaders]
        _warn_of_empty(loaders, kind)
        capable, several = strategy.capabilities, strategy.data_shard.count > 1
        stand_ins = capable.evaluation_needs_all_ranks or capable.forward_needs_all_ranks
        more = {"gather": strategy.gather_objects if several else None, "stand_ins": stand_ins}
        made = [self._made(kind, one, index, **more) for index, one in enumerate(loaders)]
        overfit = kind == "validate" and self._settings.limit_val_batches and self._settings.overfit_batches
        for feed in made if overfit else ():  # an error names the user's argument
            limited(feed.num_batches, overfit, "overfit_batches")
        return made

    def _made(self, stage: str, loader: Any, dataloader_idx: int = 0, **more: Any) -> Feed:
        return make_feed(
            loader,
            stage=stage,
            shard=self._strategy.data_shard if self._settings.use_distributed_sampler else Shard(),
            seed=(seed_of_environment() or 0) if self._seed is None else self._seed,
            transfer=self._transfer(dataloader_idx),
            **more,
        )

    def _transfer(self, dataloader_idx: int) -> Callable[[Any], Any] | None:
        """Return the transfer of a batch to the device, with the user's hooks; None if there is nothing to do.

        The hooks are the datamodule's where it defines them, else the module's.
        """
        strategy, precision = self._strategy, self._job.parts.precision
        before, move, after = (self._transfer_hook(name, dataloader_idx) for name in _TRANSFER_HOOKS)
        stays = strategy.device.type == "cpu" and not is_overridden(strategy, "to_device", Strategy)
        convert = precision.convert_input if is_overridden(precision, "convert_input", Precision) else None
        # hooks on the host, the copy, the number format, hooks on the device
        stages = [*filter(None, (before, move or (None if stays else strategy.to_device), convert, after))]
        if len(stages) < 2:
            return stages[0] if stages else None
        return partial(_in_turn, stages)

    def _transfer_hook(self, name: str, dataloader_idx: int) -> Callable[[Any], Any] | None:
        """Return a hook as a stage of the transfer; one without ``return batch`` is an error."""
        if (owner := self._job.loaders.owner_of(name)) is None:
            return None
        hook = adapted(getattr(owner, name), name, self._job.policy)
        device = (self._strategy.device,) if name == "transfer_batch_to_device" else ()

        def stage(batch: Any) -> Any:
            changed = hook(batch, *device, dataloader_idx)
            if changed is None and batch is not None:
                raise HookError(f"{name} returned None; expected the batch. End it with: return batch.", code="LT217")
            return changed

        return stage


_TRANSFER_HOOKS = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")


def _in_turn(stages: list[Callable[[Any], Any]], batch: Any) -> Any:
    for stage in stages:
        batch = stage(batch)
    return batch


def _warn_of_empty(loaders: list[Any], kind: str) -> None:
    """Warn of loaders without a batch: their metrics will be missing, their predictions an empty list."""
    for index, loader in enumerate(loaders):
        if length_of(loader) == 0:
            which = f"{Stage(kind).noun} loader" + (f" {index}" if len(loaders) > 1 else "")
            warn(
                f"The {which} is empty (0 batches). Is the dataset empty, or smaller than one batch with "
                "drop_last=True?",
                code="LT408",
            )


def _in_order(loaders: Any) -> Any:
    """Return loaders, in the nest in which they came, reading their samples in order where they shuffle; warns of it.

    The user's loaders stay as they are. Those with a sampler of the user's own are left alone, and that is said.
    """
    if type(loaders) is dict:
        return {name: _in_order(loader) for name, loader in loaders.items()}
    if type(loaders) in (list, tuple):
        return type(loaders)(_in_order(loader) for loader in loaders)
    if not isinstance(loaders, DataLoader) or isinstance(loaders.dataset, IterableDataset):
        return loaders
    batches = loaders.batch_sampler
    # samples are chosen by the sampler, a plain batch sampler's own, or the user's batch sampler
    chosen: Any = batches.sampler if type(batches) is BatchSampler else batches or loaders.sampler
    if type(chosen) is RandomSampler:
        warn(
            "overfit_batches reads the same batches in every epoch, and this loader shuffles: it is read with "
            "shuffle=False. Pass such a loader, or limit_train_batches=... for other batches each time.",
            code="LT406",
        )
        ordered = copy.copy(loaders)
        sampler = SequentialSampler(loaders.dataset)  # type: ignore[arg-type]
        # DataLoader refuses to have these set after it is made
        ordered.__dict__.update(sampler=sampler, _iterator=None)
        if isinstance(batches, BatchSampler):
            ordered.__dict__["batch_sampler"] = BatchSampler(sampler, batches.batch_size, batches.drop_last)
        return ordered
    if type(chosen) is not SequentialSampler:
        warn(
            f"overfit_batches reads the same batches in every epoch, and this loader has a {type(chosen).__name__} of "
            "its own, which is used as it is: where it chooses other samples in each epoch, the batches differ. Pass a "
            "loader with shuffle=False and without a sampler.",
            code="LT416",
        )
    return loaders
