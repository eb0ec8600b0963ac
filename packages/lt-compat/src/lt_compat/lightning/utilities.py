"""Small utilities that packages import from Lightning's internals, for which lt itself has no use.

Only :mod:`lt_compat.install` answers with them.
"""

from __future__ import annotations

import csv
import gc
import inspect
import os
import pickle
import re
import warnings
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import IO, Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.utils.data import IterableDataset

from lt_compat.lightning.rank_zero import rank_zero_deprecation, rank_zero_info, rank_zero_warn
from lt_compat.lightning.trainer_views import AcceleratorConnector
from lt_core import interface, plugins
from lt_core.batch import batch_size_of, move_to_device
from lt_core.callback import Callback
from lt_core.checkpoint import CheckpointIO
from lt_core.data import DataSource
from lt_core.errors import LtWarning
from lt_core.hparams import plain_hparams
from lt_core.module import LightningModule
from lt_core.plugins import install_hint

_IMPORTED = {*globals()}

_AcceleratorConnector = AcceleratorConnector
_PATH = str | os.PathLike[str]
_DEVICE = torch.device | str | int
_MAP_LOCATION_TYPE = _DEVICE | Callable[..., Any] | dict[Any, Any] | None
_EVALUATE_OUTPUT = list[dict[str, float]]
_PREDICT_OUTPUT = list[Any] | list[list[Any]]
_METRIC = Tensor | float
EPOCH_OUTPUT = list[Any]
SIGTERMException = SystemExit
"""The exception that ends a script after a signal; here Python's own."""
LRSchedulerTypeTuple = (LRScheduler, ReduceLROnPlateau)


# ---- gradients -------------------------------------------------------------------------------------------------------


def grad_norm(module: nn.Module, norm_type: float | int | str, group_separator: str = "/") -> dict[str, Tensor]:
    """Return the norms of the gradients as tensors; see :func:`lt.utilities.grad_norm`."""
    norms = import_module("lt_profilers").grad_norm(module, norm_type, group_separator)
    return {name: torch.tensor(norm) for name, norm in norms.items()}


# ---- data ------------------------------------------------------------------------------------------------------------


def apply_to_collection(
    data: Any, dtype: type | tuple[type, ...], function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Return ``data`` with ``function`` applied to everything of the given types; containers keep their types.

    Args:
        data: any nesting.
        dtype: the types to change.
        function: gets each of them, then ``args`` and ``kwargs``.
        args: for the function.
        kwargs: for the function; ``wrong_dtype``, ``include_none`` and ``allow_frozen`` are taken out.
    """
    wrong = kwargs.pop("wrong_dtype", None)
    with_none = kwargs.pop("include_none", True)
    kwargs.pop("allow_frozen", None)

    def apply(item: Any) -> Any:
        if isinstance(item, dtype) and not (wrong is not None and isinstance(item, wrong)):
            return function(item, *args, **kwargs)
        if isinstance(item, dict):
            found = {key: apply(value) for key, value in item.items()}
            return {key: value for key, value in found.items() if with_none or value is not None}
        if isinstance(item, tuple) and hasattr(item, "_fields"):
            return type(item)(*map(apply, item))
        if isinstance(item, list | tuple):
            return type(item)(value for value in map(apply, item) if with_none or value is not None)
        return item

    return apply(data)


def data_loader(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that returns a loader, which was decorated before 1.0."""
    return function


def extract_batch_size(batch: Any) -> int:
    """Return how many samples a batch has."""
    return batch_size_of(batch)


def has_len(dataloader: Any) -> bool:
    """Return whether a loader knows how many batches it has."""
    try:
        return len(dataloader) >= 0
    except (TypeError, NotImplementedError):
        return False


def has_len_all_ranks(
    dataloader: Any, strategy: Any = None, allow_zero_length_dataloader_with_multiple_devices: bool = False
) -> bool:
    """Return whether a loader knows how many batches it has; ranks may have different numbers of them here."""
    return has_len(dataloader)


def sized_len(dataloader: Any) -> int | None:
    """Return how many batches a loader has, or None where it does not know."""
    return len(dataloader) if has_len(dataloader) else None


def has_iterable_dataset(dataloader: Any) -> bool:
    """Return whether a loader reads a data set without positions."""
    return isinstance(getattr(dataloader, "dataset", None), IterableDataset)


def suggested_max_num_workers(local_world_size: int = 1) -> int:
    """Return a number of loader workers that leaves each process a core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // local_world_size - 1)


# ---- gradients and memory --------------------------------------------------------------------------------------------


def garbage_collection_cuda() -> None:
    """Collect garbage, and empty CUDA's cache."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def is_oom_error(exception: BaseException) -> bool:
    """Return whether an exception says that a device has no memory left."""
    return isinstance(exception, torch.OutOfMemoryError) or "out of memory" in str(exception)


def is_cuda_out_of_memory(exception: BaseException) -> bool:
    """Return whether an exception says that a GPU has no memory left."""
    return isinstance(exception, torch.OutOfMemoryError)


def is_cudnn_snafu(exception: BaseException) -> bool:
    """Return whether cuDNN failed as it does where a GPU has no memory left."""
    return isinstance(exception, RuntimeError) and "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED." in str(exception)


def is_out_of_cpu_memory(exception: BaseException) -> bool:
    """Return whether an exception says that the machine has no memory left."""
    return isinstance(exception, RuntimeError) and "DefaultCPUAllocator: can't allocate memory" in str(exception)


def recursive_detach(in_dict: Any, to_cpu: bool = False) -> Any:
    """Return ``in_dict`` with its tensors detached, and on the CPU if asked for."""
    return apply_to_collection(in_dict, Tensor, lambda t: t.detach().cpu() if to_cpu else t.detach())


# ---- classes and functions -------------------------------------------------------------------------------------------


def get_init_args(frame: FrameType) -> dict[str, Any]:
    """Return the arguments of the ``__init__`` that runs in ``frame``, without ``self``."""
    names, _, extra, values = inspect.getargvalues(frame)
    found = {name: values[name] for name in names[1:]}
    return {**found, **(values.get(extra or "") or {})}


def is_param_in_hook_signature(
    hook_fx: Callable[..., Any], param: str, explicit: bool = False, min_args: int | None = None
) -> bool:
    """Return whether a hook takes an argument: by its name, or also by ``*args`` or enough others."""
    spec = inspect.getfullargspec(getattr(hook_fx, "__wrapped__", hook_fx))
    named = param in (*spec.args, *spec.kwonlyargs)
    if explicit or named:
        return named
    count = len([name for name in spec.args if name != "self"])
    return spec.varargs is not None or (min_args is not None and count >= min_args)


def is_picklable(obj: object) -> bool:
    """Return whether an object can be sent to another process."""
    try:
        pickle.dumps(obj)
    except (pickle.PickleError, AttributeError, RuntimeError, TypeError):
        return False
    return True


def rank_prefixed_message(message: str, rank: int | None) -> str:
    """Return a message that begins with the rank, where there is one."""
    return message if rank is None else f"[rank: {rank}] {message}"


def lightning_hasattr(model: Any, attribute: str) -> bool:
    """Return whether a module, its hyperparameters or its datamodule have an attribute."""
    with suppress(AttributeError):
        return _holder(model, attribute) is not None
    return False


def lightning_getattr(model: Any, attribute: str) -> Any:
    """Return an attribute of a module, its hyperparameters or its datamodule."""
    holder = _holder(model, attribute)
    return holder[attribute] if isinstance(holder, dict) else getattr(holder, attribute)


def lightning_setattr(model: Any, attribute: str, value: Any) -> None:
    """Set an attribute wherever :func:`lightning_getattr` finds it."""
    holder = _holder(model, attribute)
    if isinstance(holder, dict):
        holder[attribute] = value
    else:
        setattr(holder, attribute, value)


def _holder(model: Any, attribute: str) -> Any:
    candidates = [model, getattr(model, "hparams", {})]
    if isinstance(model, LightningModule) and model._trainer is not None:
        candidates.append(model.trainer.datamodule)
    for candidate in candidates:
        if attribute in candidate if isinstance(candidate, dict) else hasattr(candidate, attribute):
            return candidate
    raise AttributeError(f"{type(model).__name__} and its hparams have no {attribute!r}.")


def is_overridden(method_name: str, instance: object = None, parent: type | None = None) -> bool:
    """Return whether an object overrides the method of this name of ``parent`` (default: lt's base)."""
    bases = (LightningModule, DataSource, Callback)
    base = parent or next((kind for kind in bases if isinstance(instance, kind)), None)
    if base is None:
        raise ValueError(f"is_overridden({method_name!r}, ...) expected a module, a datamodule or a callback.")
    return interface.is_overridden(instance, method_name, base)


def auto_move_data(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method of a module so that the tensors among its arguments are moved to the module's device."""

    @wraps(function)
    def moved(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = move_to_device((args, kwargs), self.device)
        return function(self, *args, **kwargs)

    return moved


def find_usable_cuda_devices(num_devices: int = -1) -> list[int]:
    """Return the indices of GPUs that there are.

    Raises:
        ValueError: when more are asked for.
    """
    there = list(range(torch.cuda.device_count()))
    if num_devices > len(there):
        raise ValueError(f"{num_devices} GPUs are asked for, {len(there)} are here.")
    return there if num_devices == -1 else there[:num_devices]


# ---- models ----------------------------------------------------------------------------------------------------------


def get_torchvision_model(model_name: str, **kwargs: Any) -> nn.Module:
    """Return a model of torchvision by its name, made with ``kwargs``."""
    return import_module("torchvision.models").get_model(model_name, **kwargs)  # type: ignore[no-any-return]


def find_shared_parameters(module: nn.Module) -> list[list[str]]:
    """Return the names of each parameter that a module holds in several places."""
    names: dict[int, list[str]] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for name, parameter in part._parameters.items():
            if parameter is not None:
                names.setdefault(id(parameter), []).append(f"{prefix}.{name}" if prefix else name)
    return [places for places in names.values() if len(places) > 1]


def set_shared_parameters(module: nn.Module, shared_params: list[list[str]]) -> nn.Module:
    """Have the places that :func:`find_shared_parameters` named share one parameter again; return the module."""
    for first, *others in shared_params:
        shared = module.get_parameter(first)
        for place in others:
            path, _, name = place.rpartition(".")
            setattr(module.get_submodule(path), name, shared)
    return module


# ---- warnings --------------------------------------------------------------------------------------------------------


class WarningCache(set[str]):
    """Gives each message once."""

    def warn(self, message: str, stacklevel: int = 5, **kwargs: Any) -> None:
        """Warn, if this message is new."""
        if message not in self:
            self.add(message)
            rank_zero_warn(message, stacklevel=stacklevel, **kwargs)

    def deprecation(self, message: str, stacklevel: int = 6, **kwargs: Any) -> None:
        """Warn that something is old, if this message is new."""
        if message not in self:
            self.add(message)
            rank_zero_deprecation(message, stacklevel=stacklevel, **kwargs)

    def info(self, message: str, stacklevel: int = 5, **kwargs: Any) -> None:
        """Log a message, if it is new."""
        if message not in self:
            self.add(message)
            rank_zero_info(message, **kwargs)


def disable_possible_user_warnings(module: str = "") -> None:
    """Show none of the warnings that name a possible mistake."""
    warnings.filterwarnings("ignore", module=module, category=LtWarning)


# ---- files -----------------------------------------------------------------------------------------------------------


def get_filesystem(path: str | os.PathLike[str], **kwargs: Any) -> Any:
    """Return fsspec's file system for a path or URL."""
    core = import_module("fsspec.core")
    return core.url_to_fs(str(path), **kwargs)[0]


def load(path_or_url: str | os.PathLike[str] | IO[bytes], map_location: Any = None, **options: Any) -> dict[str, Any]:
    """Return the contents of a checkpoint file; plain data only."""
    return CheckpointIO().load_checkpoint(path_or_url, map_location)


_load = pl_load = load


def save_hparams_to_yaml(config_yaml: str | os.PathLike[str], hparams: Any, use_omegaconf: bool = True) -> None:
    """Write hyperparameters as YAML; values that are no plain data as text.

    Raises:
        ModuleNotFoundError: PyYAML is not installed; says how to install it.
    """
    if find_spec("yaml") is None:
        raise ModuleNotFoundError(f"{config_yaml} is to be YAML, which PyYAML writes: {install_hint('pyyaml')}")
    plain = plain_hparams(vars(hparams) if isinstance(hparams, Namespace) else hparams)
    Path(config_yaml).write_text(import_module("yaml").safe_dump(plain, sort_keys=False), encoding="utf-8")


def load_hparams_from_yaml(config_yaml: str | os.PathLike[str], use_omegaconf: bool = True) -> Any:
    """Return the hyperparameters in a YAML file, as omegaconf's ``DictConfig`` where that is installed."""
    plain = plugins.load("defaults", "read_hparams")(config_yaml)
    return import_module("omegaconf").OmegaConf.create(plain) if use_omegaconf and find_spec("omegaconf") else plain


def load_hparams_from_tags_csv(tags_csv: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the hyperparameters in a CSV file of names and values."""
    return plugins.load("defaults", "read_hparams")(tags_csv)  # type: ignore[no-any-return]


def save_hparams_to_tags_csv(tags_csv: str | os.PathLike[str], hparams: Any) -> None:
    """Write hyperparameters as a CSV file of names and values."""
    given = vars(hparams) if isinstance(hparams, Namespace) else hparams
    with Path(tags_csv).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("key", "value"), *given.items()])


# ---- installed packages ----------------------------------------------------------------------------------------------


def __getattr__(name: str) -> bool:
    """Answer flags such as ``_RICH_AVAILABLE`` and ``_TORCH_GREATER_EQUAL_2_1``."""
    if match := _AVAILABLE.fullmatch(name):
        return find_spec(match[1].lower()) is not None
    if match := _TORCH_IS_NEWER.fullmatch(name):
        here = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
        return here >= (int(match[1]), int(match[2]))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_AVAILABLE = re.compile(r"_([A-Z]\w*)_AVAILABLE")
_TORCH_IS_NEWER = re.compile(r"_TORCH_GREATER_EQUAL_(\d+)_(\d+)(?:_\d+)?")


def answers(name: str) -> bool:
    """Return whether this module has an answer for a name of Lightning."""
    here = name in globals() and name not in _IMPORTED
    return here or bool(_AVAILABLE.fullmatch(name) or _TORCH_IS_NEWER.fullmatch(name))
