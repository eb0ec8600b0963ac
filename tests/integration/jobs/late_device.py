"""A device whose work is done late: at a synchronisation, or in another order where no stream waits for another.

It has memory, streams, events, graphs and an allocator of its own, as CUDA has, behind torch's key for devices of other
packages; collectives with ranks that say what this one says; autocast. An operation returns at once, with memory that
holds what lay there before, and is done when somebody waits for its stream; a missing wait is therefore a wrong number,
each time and on any machine.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "late"
aten = torch.ops.aten
_BELOW = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)  # kernels of views and storages touch no memory
_known: dict[Any, Any] = {}  # shapes of results
_SYNCHRONOUS = {  # what returns something that depends on values
    aten.equal.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
}


class Block:
    """Memory of the device, and who has to be done with it before it is given away again."""

    def __init__(self, size: int, pool: list[Block]) -> None:
        self.size, self.pool = size, pool
        self.memory = torch.full((size,), 255, dtype=torch.uint8)  # NaN of each float, -1 of each int
        self.users: set[Stream] = set()
        self.events: list[Event] = []

    def free(self) -> None:
        self.events = [stream.record_event() for stream in self.users]
        self.users = set()
        self.pool.append(self)


class Stream:
    """Work in the order in which it was given.

    Attributes:
        hurries: whether work is done as soon as nothing holds it; otherwise when somebody waits for it.
    """

    def __init__(self, device: Any = None, priority: int = 0, *, hurries: bool | None = None) -> None:
        self.hurries = next(machine.order) if hurries is None else hurries
        self.work: list[Callable[[], None] | Event] = []
        self.done = 0
        self.pools: dict[int, list[Block]] = {}

    def submit(self, work: Callable[[], None] | Event) -> None:
        self.work.append(work)
        if self.hurries:
            self.run(len(self.work), drives=False)

    def run(self, until: int, *, drives: bool = True) -> None:
        """Do the work before ``until``; ``drives`` says whether streams that it waits for are made to run."""
        while self.done < until:
            work = self.work[self.done]
            if isinstance(work, Event):
                if not work.query() and not drives:
                    return
                work.synchronize()
            else:
                work()
                self.work[self.done] = _nothing  # frees what it holds
            self.done += 1

    def wait_event(self, event: Event) -> None:
        self.submit(event)

    def wait_stream(self, other: Stream) -> None:
        if other is not self:
            self.submit(other.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def synchronize(self) -> None:
        machine.refuse_in_capture("synchronize()")
        with machine.lock:
            self.run(len(self.work))

    def query(self) -> bool:
        return self.done == len(self.work)


class Event:
    """A place in the work of a stream."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.stream: Stream | None = None
        self.place = 0

    def record(self, stream: Stream | None = None) -> None:
        self.stream = machine.current if stream is None else stream
        self.place = len(self.stream.work)

    def query(self) -> bool:
        return self.stream is None or self.stream.done >= self.place

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream.run(self.place)

    def wait(self, stream: Stream | None = None) -> None:
        (machine.current if stream is None else stream).submit(self)


class Graph:
    """Work that was recorded, to be given to a stream again and again."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[int], None], bool]] = []
        self.pools: dict[int, list[Block]] = {}

    def pool(self) -> dict[int, list[Block]]:
        return self.pools

    def replay(self) -> None:
        for work, draws in self.work:
            machine.submit(work, draws)


class Machine:
    """All state of the device."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.order: Iterator[bool]
        self.capturing: Graph | None = None
        self.blocks: dict[int, Block] = {}
        self.pinned: set[int] = set()
        self.generator = torch.Generator()
        self.generator.manual_seed(0)
        self.default: Stream
        self.current: Stream
        self.talking: Stream
        self.works: list[Work]

    def begin(self, order: Sequence[bool]) -> None:
        """Begin with new streams and memory; ``order`` says of each stream to come, in turn, whether it hurries."""
        self.order, self.capturing, self.works = cycle(order), None, []
        self.default = self.current = Stream(hurries=False)
        self.talking = Stream(hurries=order[0])

    def submit(self, work: Callable[[int], None], draws: bool = False) -> None:
        """Give the current stream ``work(seed)``; ``draws`` says whether it makes use of the seed."""
        with self.lock:
            if self.capturing is not None:
                self.capturing.work.append((work, draws))
                return
            seed = int(torch.randint(2**62, (), generator=self.generator)) if draws else 0
            self.current.submit(lambda: _do(work, seed))

    def refuse_in_capture(self, what: str) -> None:
        if self.capturing is not None:
            raise RuntimeError(f"{what} is not permitted while a stream is capturing")

    def allocate(self, size: int) -> Block:
        """Return memory of ``size`` bytes for the current stream, which was used by it before or by nobody."""
        pools = self.current.pools if self.capturing is None else self.capturing.pools
        pool = pools.setdefault(size, [])
        for place in reversed(range(len(pool))):
            if all(event.query() for event in pool[place].events):
                return pool.pop(place)
        return Block(size, pool)


def _nothing() -> None:
    """Stand in for work that is done."""


def _do(work: Callable[[int], None], seed: int) -> None:
    with _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
        work(seed)


machine = Machine()
machine.begin([False])


# ------------------------------------------------------------------------------------------------------- tensors


def _new(shape: Any, stride: Any, dtype: torch.dtype) -> Tensor:
    """Return a tensor in memory of its own, which holds whatever was in it."""
    needed = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if all(shape) else 0
    size = max(needed, 1) * dtype.itemsize
    with machine.lock:
        block = machine.allocate((size + 63) // 64 * 64)
    address = block.memory.data_ptr()
    storage = torch._C._construct_storage_from_data_pointer(address, DEVICE, size)
    machine.blocks[address] = block
    weakref.finalize(storage, _freed, block).atexit = False
    return _over(torch._C._acc.create_empty_tensor((0,), dtype), storage, 0, shape, stride)


def _freed(block: Block) -> None:
    with machine.lock:
        block.free()


def _over(tensor: Tensor, storage: Any, offset: int, shape: Any, stride: Any) -> Tensor:
    return aten.set_.source_Storage_storage_offset.redispatch(_BELOW, tensor, storage, offset, shape, stride)


def _place(tensor: Tensor) -> Callable[[], Tensor]:
    """Return what gives a CPU tensor over the memory of ``tensor``."""
    on_host = tensor.device.type != NAME
    if on_host and not tensor.is_inference():
        return lambda: tensor
    memory = tensor if on_host else machine.blocks[tensor.untyped_storage().data_ptr()].memory
    dtype, offset, shape, stride = tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
    return lambda: torch.empty(0, dtype=dtype).set_(memory.untyped_storage(), offset, shape, stride)


def _read(tensor: Tensor) -> Tensor:
    """Return the values of ``tensor`` on the CPU, when its stream has done its work."""
    machine.refuse_in_capture("reading a value")
    machine.current.synchronize()
    return _place(tensor)().clone(memory_format=torch.preserve_format)


def _meta(value: Any) -> Any:
    if isinstance(value, Tensor):
        if value.device.type == NAME:
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        return value.to("meta") if value.dim() else value
    return torch.device("meta") if isinstance(value, torch.device) and value.type == NAME else value


def _fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Do any operation late: what it returns is known from its kernel for the meta device."""
    schema = op._schema
    if op in _SYNCHRONOUS:
        found = op(*tree_map(_read_if_late, args), **tree_map(_read_if_late, kwargs))
        return found.to(DEVICE) if isinstance(found, Tensor) else tree_map(_moved, found)
    given = dict(zip((argument.name for argument in schema.arguments), args, strict=False)) | kwargs
    written = {
        next(iter(argument.alias_info.before_set), argument.name): given[argument.name]  # of a list none
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write and argument.name in given
    }
    _resize_outs(op, schema, args, kwargs)
    returns = schema.returns
    fresh = [r for r in returns if r.alias_info is None]
    views = [r for r in returns if r.alias_info is not None and not r.alias_info.is_write]
    outputs: Any = None
    if fresh or views:
        shapes = _shapes(op, args, kwargs)
        if views:
            return tree_map(lambda like: _view_of(args[0], like) if isinstance(like, Tensor) else like, shapes)
        outputs = tree_map(
            lambda like: _new(like.shape, like.stride(), like.dtype) if isinstance(like, Tensor) else like, shapes
        )
    given_outs = {a.name: kwargs[a.name] for a in schema.arguments if a.is_out}
    places = [_place_tree(tree) for tree in (args, kwargs, outputs, given_outs)]

    def work(seed: int) -> None:
        ins, named, outs, given = (tree_map(_found, place) for place in places)
        if "device" in named:
            named["device"] = torch.device("cpu")
        new = {name: torch.empty(0, dtype=out.dtype) for name, out in given.items()}  # which kernels may resize
        with _seeded(seed):
            made = op(*ins, **named | new)
        tree_map(_put, [outs, given], [made if outputs is not None else None, new])

    machine.submit(work, torch.Tag.nondeterministic_seeded in op.tags)
    if outputs is not None:
        return outputs
    back = [written[next(iter(r.alias_info.before_set))] for r in returns]
    return back[0] if len(back) == 1 else tuple(back) or None


def _shapes(op: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operation returns, on the meta device; asked once for arguments of the same shapes and values."""
    leaves, tree = tree_flatten((args, kwargs))
    kinds = [
        (leaf.shape, leaf.stride(), leaf.storage_offset(), leaf.dtype)
        if isinstance(leaf, Tensor)
        else (type(leaf), leaf)
        for leaf in leaves
    ]
    known = all(leaf.device.type == NAME for leaf in leaves if isinstance(leaf, Tensor))  # a number may be a tensor
    key = op, str(tree), str(kinds), torch.get_default_dtype()
    if not known or key not in _known:
        _known[key] = op(*tree_map(_meta, args), **tree_map(_meta, kwargs))
    return _known[key]


def _resize_outs(op: Any, schema: Any, args: Any, kwargs: Any) -> None:
    """Give the tensors of ``out=`` their shapes."""
    names = [a.name for a in schema.arguments if a.is_out]
    if not any(not kwargs[name].numel() for name in names if isinstance(kwargs.get(name), Tensor)):
        return
    like = tree_map(_meta, kwargs)
    op(*tree_map(_meta, args), **like)
    for name in names:
        _resize(kwargs[name], like[name].shape)


def _like(shape: Any) -> Any:
    return _new(shape.shape, shape.stride(), shape.dtype) if isinstance(shape, Tensor) else shape


def _put(to: Any, value: Any) -> None:
    # the CPU's batch norm returns no statistics in evaluation, and no gradients of frozen parameters
    if isinstance(to, Tensor) and value is not None and value.numel():
        to.copy_(value)


class _Place:
    """A leaf of a tree, found when the work is done."""

    def __init__(self, tensor: Tensor) -> None:
        self.find = _place(tensor)


def _place_tree(tree: Any) -> Any:
    return tree_map(lambda value: _Place(value) if isinstance(value, Tensor) else value, tree)


def _found(value: Any) -> Any:
    return value.find() if isinstance(value, _Place) else value


def _read_if_late(value: Any) -> Any:
    return _read(value) if isinstance(value, Tensor) and value.device.type == NAME else value


def _moved(value: Any) -> Any:
    return value.to(DEVICE) if isinstance(value, Tensor) else value


def _view_of(tensor: Tensor, like: Tensor) -> Tensor:
    return _strided(tensor, like.shape, like.stride(), tensor.storage_offset() + like.storage_offset())


def _strided(tensor: Tensor, shape: Any, stride: Any, offset: int | None = None) -> Tensor:
    return aten.as_strided.default.redispatch(_BELOW, tensor, shape, stride, offset)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    if not seed:
        yield
        return
    before = torch.default_generator.get_state()
    torch.default_generator.manual_seed(seed)
    yield
    torch.default_generator.set_state(before)


# ----------------------------------------------------------------------------------------- operations of their own


def _empty(size: Any, *, dtype: Any = None, memory_format: Any = None, **_: Any) -> Tensor:
    dtype = torch.get_default_dtype() if dtype is None else dtype
    like = torch.empty(size, dtype=dtype, device="meta", memory_format=memory_format or torch.contiguous_format)
    return _new(like.shape, like.stride(), dtype)


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **_: Any) -> Tensor:
    return _new(size, stride, torch.get_default_dtype() if dtype is None else dtype)


def _copy_from(source: Tensor, to: Tensor, non_blocking: bool = False) -> Tensor:
    if to.device.type != NAME:  # to the host: late into pinned memory, as cudaMemcpyAsync does
        late = non_blocking and to.untyped_storage().data_ptr() in machine.pinned
        read, write = _place(source), _place(to)
        machine.submit(lambda _: write().copy_(read()))
        if not late:
            machine.refuse_in_capture("a copy to memory that is not pinned")
            machine.current.synchronize()
        return to
    if source.device.type != NAME and not is_pinned(source):
        machine.refuse_in_capture("a copy from memory that is not pinned")
        source = source.clone()
    read, write = _place(source), _place(to)
    machine.submit(lambda _: write().copy_(read()))
    if source.device.type != NAME and not non_blocking:
        machine.refuse_in_capture("a copy that waits")
        machine.current.synchronize()
    return to


def _set_storage(tensor: Tensor, storage: Any, offset: int, size: Any, stride: Any = ()) -> Tensor:
    return _over(tensor, storage, offset, size, stride)


def _set_tensor(tensor: Tensor, source: Tensor) -> Tensor:
    return _over(tensor, source.untyped_storage(), source.storage_offset(), source.shape, source.stride())


def _resize(tensor: Tensor, size: Any, *, memory_format: Any = None) -> Tensor:
    if tuple(tensor.shape) == tuple(size):
        return tensor
    new = _empty(size, dtype=tensor.dtype)
    return _set_tensor(tensor, new)


def _item(tensor: Tensor) -> Any:
    return _read(tensor).item()


def _record_stream(tensor: Tensor, stream: Any) -> None:
    raise NotImplementedError("torch's own Stream is not one of this device")


def _to_copy(
    tensor: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
    **_: Any,
) -> Tensor:
    device = tensor.device if device is None else torch.device(device)
    dtype = tensor.dtype if dtype is None else dtype
    like = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="meta")
    like = torch.empty_like(like, memory_format=memory_format or torch.preserve_format)
    if device.type == NAME:
        to = _new(like.shape, like.stride(), dtype)
        return _copy_from(tensor, to, non_blocking)
    to = torch.empty_strided(like.shape, like.stride(), dtype=dtype, device=device)
    if non_blocking:  # torch takes pinned memory for it, so that the copy is late
        pin(to)
    return _copy_from(tensor, to, non_blocking)


def pin(tensor: Tensor) -> Tensor:
    """Make the memory of a CPU tensor count as pinned."""
    storage = tensor.untyped_storage()
    machine.pinned.add(storage.data_ptr())
    weakref.finalize(storage, machine.pinned.discard, storage.data_ptr()).atexit = False
    return tensor


def is_pinned(tensor: Tensor, device: Any = None) -> bool:
    """Return whether copies from and to a CPU tensor are late."""
    return tensor.untyped_storage().data_ptr() in machine.pinned


def _pinned_copy(tensor: Tensor, device: Any = None) -> Tensor:
    return pin(tensor.clone())


def record_stream(tensor: Tensor, stream: Stream) -> None:
    """Keep the memory of ``tensor``, when it is freed, until ``stream`` has done the work that it has by then."""
    machine.blocks[tensor.untyped_storage().data_ptr()].users.add(stream)


# ------------------------------------------------------------------------------------------------------ collectives


class Work(torch._C._distributed_c10d.Work):  # has no public name in torch 2.11
    """As NCCL's: waiting for it has the current stream wait, and its tensors are kept until then."""

    def __init__(self, tensors: Any) -> None:
        super().__init__()
        self.tensors, self.done = tensors, machine.talking.record_event()
        machine.works.append(self)  # torch holds the part in C++, which without this one waits for ever

    def wait(self, timeout: Any = None) -> bool:
        self.done.wait()
        self.tensors = None
        return True

    def get_future(self) -> Any:
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(self.tensors)
        self.wait()
        return future


def _talk(outs: Sequence[Tensor], ins: Sequence[Tensor], what_ranks_give: Callable[[Tensor, int], Tensor]) -> None:
    """Put what the ranks give into ``outs``, on a stream of its own; until that is done there is nothing in them."""
    machine.refuse_in_capture("a collective")
    held = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in ins]
    sources, targets = [_place(tensor) for tensor in ins], [_place(tensor) for tensor in outs]

    def take(_: int) -> None:
        for to, source in zip(held, sources, strict=True):
            to.copy_(source())
        for target in targets:
            target().view(-1).view(torch.uint8).fill_(255)

    def give(_: int) -> None:
        for number, target in enumerate(targets):
            target().copy_(what_ranks_give(held[number % len(held)], number))

    machine.submit(take)
    wait_for_step(machine.talking)
    with stream(machine.talking):
        machine.submit(give)


def wait_for_step(talking: Stream) -> None:
    """Have a collective begin when the work before it is done."""
    talking.wait_stream(machine.current)


def _of_all_ranks(outs: Sequence[Tensor], ins: Sequence[Tensor], share: Callable[[Tensor, int], Tensor]) -> Any:
    _talk(outs, ins, share)
    return Work(list(outs)).boxed()


def _allreduce(tensors: list[Tensor], group: Any, *_: Any) -> Any:
    size = dist.ProcessGroup.unbox(group).size()
    return tensors, _of_all_ranks(tensors, tensors, lambda mine, _: mine * size)


def _broadcast(tensors: list[Tensor], *_: Any) -> Any:
    return tensors, _of_all_ranks(tensors, tensors, lambda mine, _: mine)


def _allgather(outs: list[list[Tensor]], ins: list[Tensor], *_: Any) -> Any:
    return outs, _of_all_ranks(outs[0], ins, lambda mine, _: mine)


# --------------------------------------------------------------------------------------------------------- autocast


def _under_autocast(op: Any, dtype: Callable[[], torch.dtype]) -> Callable[..., Any]:
    """Return ``op`` with its tensors cast, as torch's autocast does it for devices of its own."""
    without = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def cast(value: Any) -> Any:
        return value.to(dtype()) if isinstance(value, Tensor) and value.is_floating_point() else value

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(without):
            return op(*map(cast, args), **kwargs)

    return call


# ---------------------------------------------------------------------------------------------------- torch.<name>


@contextmanager
def stream(one: Stream) -> Iterator[None]:
    """As ``torch.cuda.stream``."""
    before, machine.current = machine.current, one
    try:
        yield
    finally:
        machine.current = before


@contextmanager
def graph(one: Graph, pool: Any = None, on: Stream | None = None, capture_error_mode: str = "global") -> Iterator[None]:
    """As ``torch.cuda.graph``, which waits for all work before it begins."""
    synchronize()
    if pool is not None:
        one.pools = pool
    machine.capturing = one
    try:
        yield
    finally:
        machine.capturing = None


def synchronize(device: Any = None) -> None:
    """Wait for the work of the streams that anybody may still wait for."""
    machine.current.synchronize()
    machine.default.synchronize()


class Module:
    """``torch.late``."""

    Stream, Event = Stream, Event
    stream, synchronize = staticmethod(stream), staticmethod(synchronize)
    current_stream = staticmethod(lambda device=None: machine.current)
    is_initialized = is_available = staticmethod(lambda: True)
    current_device = staticmethod(lambda: 0)
    set_device = staticmethod(lambda device: None)
    device_count = staticmethod(lambda: 1)
    _is_in_bad_fork = staticmethod(lambda: False)
    manual_seed_all = manual_seed = staticmethod(machine.generator.manual_seed)
    get_amp_supported_dtype = staticmethod(lambda: [torch.bfloat16, torch.float16])
    get_rng_state = staticmethod(lambda device=None: machine.generator.get_state())
    set_rng_state = staticmethod(lambda state, device=None: machine.generator.set_state(state))


def _register() -> torch.device:
    _setup_privateuseone_for_python_backend(NAME, backend_module=Module)
    for name, function in {
        "empty.memory_format": _empty,
        "empty_strided": _empty_strided,
        "as_strided": _strided,
        "_copy_from": _copy_from,
        "set_.source_Storage_storage_offset": _set_storage,
        "set_.source_Tensor": _set_tensor,
        "resize_": _resize,
        "_local_scalar_dense": _item,
        "_to_copy": _to_copy,
        "record_stream": _record_stream,
    }.items():
        _library.impl(name, function, "PrivateUse1")
    _library.impl("is_pinned", is_pinned, "CPU")
    _library.impl("_pin_memory", _pinned_copy, "CPU")
    for name, function in {"allreduce_": _allreduce, "broadcast_": _broadcast, "allgather_": _allgather}.items():
        _collectives.impl(name, function, "PrivateUse1", allow_override=True)
    narrow = partial(torch.get_autocast_dtype, NAME)
    for op, dtype in {aten.linear: narrow, aten.mse_loss: lambda: torch.float32}.items():
        _library.impl(op.default, _under_autocast(op, dtype), "AutocastPrivateUse1")
    _everything.fallback(_fallback, "PrivateUse1")
    _everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    return torch.device(NAME, 0)


_library = torch.library.Library("aten", "IMPL")
_collectives = torch.library.Library("c10d", "IMPL")
_everything = torch.library.Library("_", "IMPL")
DEVICE = _register()
