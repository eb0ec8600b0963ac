"""``CheckpointIO``: what goes in comes out, plain ``torch.load`` opens it, bad paths say what to do."""

import os
from collections import Counter, OrderedDict
from enum import IntEnum
from pathlib import Path

import pytest
import torch
from torch import nn

from lt_checkpoint._archive import Archive
from lt_core import CheckpointError, CheckpointIO
from lt_core.seed import capture_generators

io = CheckpointIO()


def same(a, b) -> None:
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape, a.layout) == (b.dtype, b.shape, b.layout)
        left, right = (t.to_dense().resolve_conj().contiguous().flatten().view(torch.uint8) for t in (a, b))
        assert torch.equal(left, right)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)) and not isinstance(a, torch.Size):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            same(left, right)
    else:
        assert a == b


EVERYTHING = {
    "none": None,
    "bool": [True, False],
    "int": [0, -1, 255, 2**31, -(2**63), 10**200],
    "float": [0.5, float("inf"), -0.0, 5e-324],
    "complex": 1 + 2j,
    "str": ["", "ü", "x" * 300, "\udc80"],
    "bytes": [b"", b"\x00\xff" * 200],
    "tuple": ((), (1,), (1, 2), (1, 2, 3, 4)),
    "set": {1, "a"},
    "ordered": OrderedDict(b=1, a=2),
    "counter": Counter("hello"),
    "keys": {1: "int", 2.5: "float", None: "none", (1, "a"): "tuple", b"": 0, b"x": 1},
    "size": torch.Size([2, 3]),
    "dtype": [torch.float32, torch.bfloat16, torch.int64, torch.bool],
    "device": [torch.device("cpu"), torch.device("cuda", 1)],
    "scalar": torch.tensor(1.5),
    "empty": torch.empty(0, 3),
    "strided": torch.arange(12.0).reshape(3, 4).T.contiguous().T,
    "channels_last": torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "sparse": torch.eye(3).to_sparse(),
    "conj": torch.tensor([1 + 2j]).conj(),
    **{
        str(dtype): torch.ones(3).to(dtype)
        for dtype in (
            torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
            torch.int64, torch.bool, torch.complex64, torch.uint16, torch.uint32, torch.float8_e4m3fn,
            torch.float8_e5m2,
        )
    },
}  # fmt: skip


def test_everything_plain_comes_back_as_it_went(tmp_path):
    path = tmp_path / "a.ckpt"
    io.save_checkpoint(EVERYTHING, path)
    same(io.load_checkpoint(path), EVERYTHING)
    same(torch.load(path, weights_only=True), EVERYTHING)
    io.verify(path)


def test_a_training_state_comes_back_and_plain_torch_opens_it(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    schedulers = [
        torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2]),
        torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 10),
        torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer),
    ]
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    tree = {
        "state_dict": model.state_dict(),
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [scheduler.state_dict() for scheduler in schedulers],
        "generators": capture_generators(),
    }
    path = tmp_path / "a.ckpt"
    io.save_checkpoint(tree, path)
    loaded = torch.load(path, weights_only=True)
    same(loaded, tree)
    assert loaded["state_dict"]._metadata == model.state_dict()._metadata


def test_tied_weights_are_written_once_and_stay_tied(tmp_path):
    weight = torch.randn(1000)
    path = tmp_path / "a.ckpt"
    io.save_checkpoint({"a": weight, "b": nn.Parameter(weight), "half": weight[:500]}, path)
    loaded = io.load_checkpoint(path)
    assert path.stat().st_size < 8000
    assert loaded["a"].data_ptr() == loaded["b"].data_ptr() == loaded["half"].data_ptr()


def test_a_view_of_something_large_takes_only_its_own_space(tmp_path):
    large = torch.randn(1_000_000)
    path = tmp_path / "a.ckpt"
    io.save_checkpoint({"a": large[10:20], "b": large[10:20], "c": [large.view(1000, 1000)[3]]}, path)
    assert path.stat().st_size < 12_000
    loaded = io.load_checkpoint(path)
    assert torch.equal(loaded["a"], large[10:20])
    assert loaded["a"].data_ptr() == loaded["b"].data_ptr()


def test_graphs_hooks_and_attributes_are_left_behind(tmp_path):
    tensor = torch.ones(2, requires_grad=True) * 2
    tensor.register_hook(lambda grad: grad)
    tensor.note = object()
    io.save_checkpoint({"a": tensor}, tmp_path / "a.ckpt")
    assert not io.load_checkpoint(tmp_path / "a.ckpt")["a"].requires_grad


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (
            nn.Linear(1, 1),
            r"checkpoint\['callbacks'\]\['x'\]\[1\] holds a value of type torch.nn.modules.linear.Linear",
        ),
        (Path("a"), r"str\(path\)"),
        (Level.LOW, r"Level.*\.value"),
        (lambda: 0, "function"),
        (object, "type"),
        (torch.nn.Parameter, "x"),
        (torch.ones(1, device="meta"), "no data"),
        ({object(): 1}, "a key or member"),
        (frozenset({1}), "frozenset"),
        (type("Sub", (dict,), {})(), "Sub"),
        (type("Sub", (torch.Tensor,), {})(), "Sub"),
        (range(3), "range"),
    ],
)
def test_what_is_not_plain_is_named_by_its_keys_before_anything_is_written(tmp_path, value, where):
    path = tmp_path / "folder" / "a.ckpt"
    with pytest.raises(CheckpointError, match=where):
        io.save_checkpoint({"callbacks": {"x": [1, value]}}, path)
    assert not path.parent.exists()


def test_numbers_of_numpy_are_named_with_a_remedy(tmp_path):
    numpy = pytest.importorskip("numpy")
    with pytest.raises(CheckpointError, match=r"\['best'\] holds a value of type numpy.float64.*float\(x\)"):
        io.save_checkpoint({"best": numpy.float64(1)}, tmp_path / "a.ckpt")


def test_a_tree_that_contains_itself_is_an_error(tmp_path):
    tree: dict = {"a": []}
    tree["a"].append(tree["a"])
    with pytest.raises(CheckpointError, match="contains itself"):
        io.save_checkpoint(tree, tmp_path / "a.ckpt")


def test_what_occurs_twice_is_walked_once(tmp_path):
    node: list = [1]
    for _ in range(60):
        node = [node, node]
    io.save_checkpoint({"a": node}, tmp_path / "a.ckpt")
    assert len(io.load_checkpoint(tmp_path / "a.ckpt")["a"]) == 2


def test_a_missing_file_names_the_nearest_ones(tmp_path):
    io.save_checkpoint({}, tmp_path / "epoch=1.ckpt")
    with pytest.raises(CheckpointError, match=r"epoch=2\.ckpt is not there\. Near it: 'epoch=1\.ckpt'"):
        io.load_checkpoint(tmp_path / "epoch=2.ckpt")
    with pytest.raises(CheckpointError, match="folder is not there either"):
        io.load_checkpoint(tmp_path / "runs" / "1" / "a.ckpt")


def test_a_folder_in_place_of_a_file_says_so(tmp_path):
    io.save_checkpoint({}, tmp_path / "a.ckpt")
    with pytest.raises(CheckpointError, match=r"is a folder: expected a file.*lt ckpt convert.*'a\.ckpt'"):
        io.load_checkpoint(tmp_path)


def test_a_link_whose_target_is_gone_names_it(tmp_path):
    (tmp_path / "last.ckpt").symlink_to("gone.ckpt")
    with pytest.raises(CheckpointError, match=r"points to 'gone\.ckpt', which is gone"):
        io.load_checkpoint(tmp_path / "last.ckpt")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_names_the_cause(tmp_path):
    io.save_checkpoint({}, tmp_path / "a.ckpt")
    (tmp_path / "a.ckpt").chmod(0)
    with pytest.raises(CheckpointError, match="Permission denied"):
        io.load_checkpoint(tmp_path / "a.ckpt")


def test_mapped_tensors_equal_read_ones(tmp_path):
    tree = {"a": torch.arange(1000.0), "b": torch.ones(3, dtype=torch.int8)}
    io.save_checkpoint(tree, tmp_path / "a.ckpt")
    same(io.load_checkpoint(tmp_path / "a.ckpt", mmap=True), tree)


def test_map_location_moves_tensors(tmp_path):
    io.save_checkpoint({"a": torch.ones(2)}, tmp_path / "a.ckpt")
    assert io.load_checkpoint(tmp_path / "a.ckpt", map_location="meta")["a"].is_meta


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_what_was_saved_on_cuda_opens_on_the_cpu(tmp_path):
    import io as memory
    import zipfile

    buffer = memory.BytesIO()
    torch.save({"a": torch.arange(3.0)}, buffer)
    path = tmp_path / "cuda.ckpt"
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0"))
    with pytest.raises(RuntimeError, match="CUDA"):
        torch.load(path, weights_only=True)
    for mmap in (False, True):
        assert io.load_checkpoint(path, mmap=mmap)["a"].tolist() == [0, 1, 2]


@pytest.mark.xla
def test_tensors_on_xla_are_written_as_cpu_tensors_and_others_files_of_them_open(tmp_path):
    import torch_xla

    tensor = torch.arange(3.0, device=torch_xla.device())
    io.save_checkpoint({"a": tensor}, tmp_path / "ours.ckpt")
    assert torch.load(tmp_path / "ours.ckpt", weights_only=True)["a"].device.type == "cpu"
    torch.save({"a": tensor}, tmp_path / "theirs.ckpt")
    assert io.load_checkpoint(tmp_path / "theirs.ckpt")["a"].tolist() == [0, 1, 2]


@pytest.mark.cuda
def test_tensors_on_cuda_are_written_as_cpu_tensors(tmp_path):
    io.save_checkpoint({"a": torch.arange(3.0, device="cuda"), "b": torch.ones(2)}, tmp_path / "a.ckpt")
    loaded = torch.load(tmp_path / "a.ckpt", weights_only=True)
    assert loaded["a"].device.type == "cpu"
    assert loaded["a"].tolist() == [0, 1, 2]
    assert io.load_checkpoint(tmp_path / "a.ckpt", map_location="cuda")["b"].is_cuda


def test_removing_and_existing(tmp_path):
    path = tmp_path / "a.ckpt"
    assert not io.exists(path)
    io.save_checkpoint({}, str(path))
    assert io.exists(f"file://{path}")
    io.remove_checkpoint(path)
    io.remove_checkpoint(path)
    assert not io.exists(path)


def test_the_last_link_moves_in_one_step_and_survives_a_moved_folder(tmp_path):
    folder = tmp_path / "run"
    for number in (1, 2):
        io.save_checkpoint({"n": number}, folder / f"{number}.ckpt")
        io.point_last(folder / f"{number}.ckpt", folder / "last.ckpt")
        assert io.load_checkpoint(folder / "last.ckpt") == {"n": number}
    folder.rename(tmp_path / "moved")
    assert io.load_checkpoint(tmp_path / "moved" / "last.ckpt") == {"n": 2}
    assert sorted(file.name for file in (tmp_path / "moved").iterdir()) == ["1.ckpt", "2.ckpt", "last.ckpt"]


def test_without_symbolic_links_last_is_a_copy(tmp_path, monkeypatch):
    def refuse(*args):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    io.save_checkpoint({"n": 1}, tmp_path / "1.ckpt")
    io.point_last(tmp_path / "1.ckpt", tmp_path / "last.ckpt")
    assert not (tmp_path / "last.ckpt").is_symlink()
    assert io.load_checkpoint(tmp_path / "last.ckpt") == {"n": 1}


def test_saving_over_a_link_replaces_the_link_and_not_its_target(tmp_path):
    io.save_checkpoint({"n": 1}, tmp_path / "1.ckpt")
    io.point_last(tmp_path / "1.ckpt", tmp_path / "last.ckpt")
    io.save_checkpoint({"n": 2}, tmp_path / "last.ckpt")
    assert io.load_checkpoint(tmp_path / "1.ckpt") == {"n": 1}


def test_every_record_of_a_file_carries_its_checksum(tmp_path):
    io.save_checkpoint({"a": torch.arange(10)}, tmp_path / "a.ckpt")
    with (tmp_path / "a.ckpt").open("rb") as file:
        archive = Archive(file)
        with archive.verifying():
            pass
    assert all(record.crc for record in archive.records.values())


def test_urls_are_written_and_read_through_fsspec(tmp_path):
    pytest.importorskip("fsspec")
    url = "memory://written-and-read/run/a.ckpt"
    assert not io.exists(url)
    with pytest.raises(CheckpointError, match="not there"):
        io.load_checkpoint(url)
    io.save_checkpoint({"a": torch.arange(3)}, url)
    io.verify(url)
    assert io.load_checkpoint(url)["a"].tolist() == [0, 1, 2]
    io.point_last(url, "memory://written-and-read/run/last.ckpt")
    import fsspec

    files = fsspec.filesystem("memory").ls("/written-and-read/run", detail=False)
    assert sorted(Path(file).name for file in files) == ["a.ckpt", "last.ckpt"]
    io.remove_checkpoint(url)
    assert not io.exists(url)


def test_a_url_that_nobody_knows_names_the_cause():
    with pytest.raises(CheckpointError, match="nowhere://a could not be written"):
        io.save_checkpoint({}, "nowhere://a")


def test_an_upload_that_fails_leaves_nothing(monkeypatch):
    pytest.importorskip("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    io.save_checkpoint({"n": 1}, "memory://full/a.ckpt")

    def fail(self, path1, path2, **kwargs):
        raise OSError("the bucket is gone")

    monkeypatch.setattr(MemoryFileSystem, "mv", fail)
    with pytest.raises(CheckpointError, match="bucket is gone"):
        io.save_checkpoint({"n": 2}, "memory://full/a.ckpt")
    assert io.load_checkpoint("memory://full/a.ckpt") == {"n": 1}
    assert len(MemoryFileSystem().ls("/full")) == 1


@pytest.mark.parametrize("name", ["a.onnx", "a.tar.H5"])
def test_a_name_that_promises_another_format_is_refused(name, tmp_path):
    with pytest.raises(CheckpointError, match=r"Take .*a.*\.ckpt.*LT609"):
        io.save_checkpoint({}, tmp_path / name)
    assert not list(tmp_path.iterdir())
