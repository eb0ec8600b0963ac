import platform
import warnings
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from lt_core import Placement, plugins
from lt_core.errors import ConfigError
from lt_strategies import DDP, Cuda, Mps
from lt_strategies.group import default_backend
from lt_testing import AcceleratorKit


class TestCuda(AcceleratorKit):
    def make_accelerator(self):
        return Cuda()


class TestMps(AcceleratorKit):
    def make_accelerator(self):
        return Mps()


@pytest.fixture
def four_gpus(monkeypatch):
    """A machine with four GPUs, as far as counting goes."""
    monkeypatch.setattr(torch.cuda, "_is_compiled", lambda: True)
    monkeypatch.setattr(torch.cuda, "_cached_device_count", None)
    monkeypatch.setattr(torch.cuda, "_raw_device_count_nvml", lambda: 4)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return monkeypatch


@pytest.mark.parametrize("name", ["cuda", "gpu"])
def test_cuda_is_found_by_both_of_its_names(name):
    assert isinstance(plugins.load("accelerators", name)(), Cuda)


def test_all_visible_gpus_are_taken_by_default(four_gpus):
    assert Cuda().parse_devices("auto") == [0, 1, 2, 3]
    numpy = pytest.importorskip("numpy")
    assert Cuda().parse_devices(numpy.int64(2)) == [0, 1]
    assert Cuda().parse_devices([numpy.int64(2)]) == [2]
    assert Cuda().parse_devices(-1) == [0, 1, 2, 3]


def test_indices_count_the_visible_gpus_from_0(four_gpus):
    four_gpus.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert Cuda().parse_devices("auto") == [0, 1]
    assert Cuda().torch_device(Cuda().parse_devices([1])[0]) == torch.device("cuda", 1)


def test_an_index_that_is_not_visible_says_what_is_and_why(four_gpus):
    four_gpus.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    with pytest.raises(ConfigError, match=r"GPU 2 is not visible.*CUDA_VISIBLE_DEVICES='2,3' shows 2, 3 of.* 4 GPUs"):
        Cuda().parse_devices([0, 2])


def test_more_gpus_than_there_are_is_an_error_that_counts_them(four_gpus):
    with pytest.raises(ConfigError, match=r"asks for 5 cuda devices, but 4 are here"):
        Cuda().parse_devices(5)


def test_counting_gpus_leaves_cuda_uninitialised(four_gpus):
    four_gpus.setattr(torch.cuda, "_lazy_init", lambda: pytest.fail("CUDA was initialised"))
    assert Cuda().count() == 4


def test_hidden_gpus_are_the_reason_where_none_is_visible(four_gpus):
    four_gpus.setenv("CUDA_VISIBLE_DEVICES", "")
    four_gpus.setattr(torch.version, "cuda", "13.0")
    assert not Cuda().available()
    assert "CUDA_VISIBLE_DEVICES='' shows none of this machine's 4 GPUs" in Cuda().unavailable_reason()


def test_a_torch_without_cuda_is_the_reason_where_it_is(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    assert "built without CUDA" in Cuda().unavailable_reason()


def test_mps_says_why_it_is_not_here(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    assert "does not run macOS" in Mps().unavailable_reason()


def test_every_mac_has_one_mps_device(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert Mps().parse_devices("auto") == [0]
    with pytest.raises(ConfigError, match="asks for 2 mps devices, but 1 is here"):
        Mps().parse_devices(2)


@pytest.mark.cuda
def test_a_gpu_tells_its_memory_in_bytes():
    device = torch.device("cuda", 0)
    kept = torch.ones(1024, device=device)
    assert Cuda().stats(device)["memory_allocated_bytes"] >= kept.numel() * 4


@pytest.mark.parametrize(("used", "kept"), [([1], [1]), ([0, 2], [0, 1, 2])])
def test_generators_of_all_gpus_that_a_process_works_on_are_kept(used, kept, four_gpus):
    states = {index: torch.full((16,), index, dtype=torch.uint8) for index in range(4)}
    four_gpus.setattr(torch.cuda, "is_initialized", lambda: True)
    four_gpus.setattr(torch.cuda, "is_available", lambda: True)
    four_gpus.setattr(torch._C, "_cuda_hasPrimaryContext", used.__contains__, raising=False)
    four_gpus.setattr(torch.cuda, "get_rng_state", lambda index=used[0]: states[index].clone())
    four_gpus.setattr(torch.cuda, "set_rng_state", lambda state, index=used[0]: states.update({index: state}))
    before, state = dict(states), Cuda().generator_state()
    states.update({index: value + 100 for index, value in before.items()})
    Cuda().restore_generator(state)
    assert [index for index in states if torch.equal(states[index], before[index])] == kept


@pytest.fixture
def side_stream(monkeypatch):
    """Copies to a GPU that is not here: streams do nothing, and whose memory they are told of is noted."""
    noted = []
    stream = SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: noted.append(tensor.layout))
    return Cuda().copies(torch.device("cpu")), noted


def test_only_tensors_that_torch_can_say_it_of_are_said_to_be_used_by_a_stream(side_stream):
    copies, noted = side_stream
    dense = torch.ones(2, 3)
    with warnings.catch_warnings(action="ignore"):  # nested tensors and CSR are prototypes of torch's
        kinds = {
            "SparseCUDA": dense.to_sparse(),
            "SparseCsrCUDA": dense.to_sparse_csr(),
            "NestedTensorCUDA": torch.nested.nested_tensor([dense[0], dense[1, :2]]),
            "QuantizedCUDA": torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8),
        }
        jagged = torch.nested.nested_tensor([dense[0], dense[1, :2]], layout=torch.jagged)
    assert not any(torch._C._dispatch_has_kernel_for_dispatch_key("aten::record_stream", key) for key in kinds)
    for tensor in (*kinds.values(), jagged, dense):
        copies.hand_over(copies.begin(tensor))
    assert noted == [torch.strided]


class Graph:
    """A CUDA graph as torch's allocator sees it: a pool that has lost its last graph, it takes no more."""

    users: ClassVar = Counter()

    def __init__(self):
        self.mine = self.stream = None

    def begin(self, pool, stream):
        self.mine = pool or object()
        assert self.mine not in self.users or self.users[self.mine], "use_count > 0"
        self.users[self.mine] += 1
        self.stream = stream

    def pool(self):
        return self.mine

    def replay(self):
        """Do what was captured."""

    def __del__(self):
        self.users[self.mine] -= 1


@pytest.fixture
def graphs(side_stream, monkeypatch):
    begun = nullcontext()
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, *rest, **more: graph.begin(*rest) or begun)
    return Cuda().graphs(torch.device("cpu"))


def test_all_graphs_of_a_run_share_one_stream_and_one_pool(graphs):
    outputs, kept = [graphs.warm_up(lambda: 1)], []
    for value in (2, 3):
        replay, output = graphs.capture(lambda value=value: value)
        kept.append(replay.__self__)
        outputs.append(output)
    assert outputs == [1, 2, 3]
    assert kept[0].pool() is kept[1].pool()
    assert kept[0].stream is kept[1].stream


def test_after_all_graphs_are_gone_the_next_one_has_a_pool_of_its_own(graphs):
    replay, _ = graphs.capture(lambda: None)
    first = replay.__self__.pool()
    del replay
    replay, _ = graphs.capture(lambda: None)
    assert replay.__self__.pool() is not first


def test_an_error_in_a_capture_says_what_a_captured_step_may_not_do(graphs):
    def step():
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="not permitted") as caught:
        graphs.capture(step)
    assert "nothing in it may read a value from the GPU (.item()" in caught.value.__notes__[0]


def test_which_gradients_there_are_is_said_on_the_cpu_so_that_no_device_is_waited_for(monkeypatch):
    reduced = []
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor, **named: reduced.append(tensor.device.type))
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda ranks: 2)
    strategy, param = DDP(), torch.nn.Parameter(torch.ones(3, device="meta"))
    strategy._lt_group = SimpleNamespace(control=SimpleNamespace(_device_types=[torch.device("cpu")]))
    param.grad = torch.ones_like(param)
    strategy.reduce_gradients([param])
    assert reduced == ["cpu", "meta"]


def test_what_ranks_gather_crosses_by_the_cpu_and_not_to_the_gpu_of_the_sender_s_number(monkeypatch):
    brought, mine, strategy = [], torch.arange(3.0), DDP()
    strategy.place(Placement(accelerator=Cuda(), devices=(1,)))
    with monkeypatch.context() as on_gpu:
        on_gpu.setattr(torch.Tensor, "cpu", lambda tensor: brought.append(tensor.shape) or tensor)
        on_gpu.setattr(torch.Tensor, "device", property(lambda tensor: strategy.device), raising=False)
        on_gpu.setattr(strategy, "_lt_exchange", lambda call, given: [given])
        (found,) = strategy.gather_objects({"outputs": [[mine], [mine]]})
    assert brought == [mine.shape]
    assert torch.equal(found["outputs"][1][0], mine)


@pytest.mark.parametrize(
    "kind, backends", [("cpu", "gloo"), ("cuda", "cpu:gloo,cuda:nccl"), ("mps", "gloo"), ("xpu", "cpu:gloo,xpu:xccl")]
)
def test_ranks_talk_by_the_backend_that_is_registered_with_torch_for_their_device(kind, backends):
    assert default_backend(torch.device(kind)) == backends


@pytest.mark.mps
def test_a_gpu_of_apple_s_tells_its_memory_in_bytes():
    kept = torch.ones(1024, device="mps")
    assert Mps().stats(torch.device("mps", 0))["memory_allocated_bytes"] >= kept.numel() * 4


@pytest.mark.mps
def test_the_generator_of_mps_is_captured():
    state = Mps().generator_state()
    first = torch.rand(3, device="mps")
    Mps().restore_generator(state)
    assert torch.equal(torch.rand(3, device="mps"), first)
