"""Files from strangers: whatever they hold, they are read as plain data or refused; nothing in them runs."""

import argparse
import contextlib
import io
import os
import pickle
import random
import struct
import sys
import zipfile
import zlib
from collections import OrderedDict, defaultdict
from pathlib import Path, PurePosixPath

import pytest
import torch

from lt_checkpoint._archive import Archive
from lt_checkpoint._pickle_calls import RefusedError
from lt_checkpoint._pickle_check import dry_run
from lt_checkpoint._safe_read import read_checkpoint, verify_checkpoint
from lt_core import CheckpointError, CheckpointIO, LightningModule

io_ = CheckpointIO()


def records_of(tree) -> dict[str, bytes]:
    buffer = io.BytesIO()
    torch.save(tree, buffer)
    with zipfile.ZipFile(buffer) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def write_zip(path: Path, records, folder="archive", compression=zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in records.items() if isinstance(records, dict) else records:
            archive.writestr(f"{folder}/{name}" if folder else name, data)
    return path


def with_pickle(path: Path, program: bytes) -> Path:
    return write_zip(path, {**records_of({"a": torch.zeros(4)}), "data.pkl": program})


class Runs:
    """Pickles to a call of ``function(*args)``."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def trap(tmp_path: Path) -> tuple[Path, str]:
    mark = tmp_path / "owned"
    return mark, f"touch {mark}"


def programs(command: str) -> dict[str, bytes]:
    text = command.encode()
    name = b"cposix\nsystem\n" if os.name == "posix" else b"cnt\nsystem\n"
    arg = b"X" + struct.pack("<I", len(text)) + text
    code = f"__import__('os').system({command!r})".encode()
    code = b"X" + struct.pack("<I", len(code)) + code
    return {
        "GLOBAL and REDUCE": b"\x80\x02" + name + arg + b"\x85R.",
        "os.system": b"\x80\x02cos\nsystem\n" + arg + b"\x85R.",
        "inside a dict": b"\x80\x02}X\x01\x00\x00\x00a" + name + arg + b"\x85Rs.",
        "INST": b"\x80\x02(" + arg + b"iposix\nsystem\n.",
        "OBJ": b"\x80\x02(" + name + arg + b"o.",
        "STACK_GLOBAL": b"\x80\x04\x8c\x05posix\x8c\x06system\x93" + arg + b"\x85R.",
        "STACK_GLOBAL in protocol 2": b"\x80\x02X\x05\x00\x00\x00posixX\x06\x00\x00\x00system\x93" + arg + b"\x85R.",
        "through the memo": b"\x80\x02" + name + b"q\x010h\x01" + arg + b"\x85R.",
        "memo without POP": b"\x80\x02]q\x00" + name + b"q\x01ah\x01" + arg + b"\x85R.",
        "NEWOBJ": b"\x80\x02csubprocess\nPopen\n]" + arg + b"a\x85\x81.",
        "NEWOBJ_EX": b"\x80\x02csubprocess\nPopen\n]" + arg + b"a\x85}\x92.",
        "builtins.eval": b"\x80\x02cbuiltins\neval\n" + code + b"\x85R.",
        "__builtin__.exec": b"\x80\x02c__builtin__\nexec\n" + code + b"\x85R.",
        "builtins.getattr": b"\x80\x02cbuiltins\ngetattr\n" + name + arg + b"\x86R.",
        "dotted name": b"\x80\x02ctorch\nos.system\n" + arg + b"\x85R.",
        "torch.os": b"\x80\x02ctorch.os\nsystem\n" + arg + b"\x85R.",
        "runpy": b"\x80\x02crunpy\nrun_path\n" + arg + b"\x85R.",
        "torch.load": b"\x80\x02ctorch.serialization\nload\n" + arg + b"\x85R.",
        "torch.hub": b"\x80\x02ctorch.hub\nload\n" + arg + b"\x85R.",
        "EXT1": b"\x80\x02\x82\x01" + arg + b"\x85R.",
        "PERSID": b"\x80\x02Pposix.system\n.",
        "a call by _rebuild_from_type_v2": b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n("
        + name
        + name
        + arg
        + b"\x85}tR.",
        "second program after STOP": b"\x80\x02}." + b"\x80\x02" + name + arg + b"\x85R.",
    }


@pytest.mark.parametrize("kind", programs("x"))
def test_a_program_that_calls_something_is_refused_and_does_not_run(tmp_path, kind):
    mark, command = trap(tmp_path)
    path = with_pickle(tmp_path / "bad.ckpt", programs(command)[kind])
    for read in (io_.load_checkpoint, io_.verify, LightningModule.load_from_checkpoint):
        with pytest.raises(CheckpointError, match=r"bad\.ckpt"):
            read(path)
    assert not mark.exists()


@pytest.mark.parametrize("kind", programs("x"))
def test_the_same_programs_as_bare_pickles_are_refused(tmp_path, kind):
    mark, command = trap(tmp_path)
    path = tmp_path / "bad.ckpt"
    path.write_bytes(programs(command)[kind])
    with pytest.raises(CheckpointError, match=r"bad\.ckpt"):
        io_.load_checkpoint(path)
    assert not mark.exists()


def test_python_objects_pickled_with_a_reduce_are_refused_by_name(tmp_path):
    mark, command = trap(tmp_path)
    path = tmp_path / "bad.ckpt"
    torch.save({"state_dict": {}, "hyper_parameters": {"lr": Runs(os.system, command)}}, path)
    with pytest.raises(CheckpointError, match="system"):
        io_.load_checkpoint(path)
    torch.save({"state_dict": {}, "x": Runs(eval, "1")}, path)
    with pytest.raises(CheckpointError, match=r"builtins\.eval"):
        io_.load_checkpoint(path)
    assert not mark.exists()


def test_a_pickle_inside_a_pickle_stays_bytes(tmp_path):
    inner = pickle.dumps(Runs(os.system, trap(tmp_path)[1]))
    path = tmp_path / "nested.ckpt"
    torch.save({"inner": inner}, path)
    assert io_.load_checkpoint(path) == {"inner": inner}
    assert not trap(tmp_path)[0].exists()


def test_nothing_is_imported_because_a_file_names_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    mark = tmp_path / "owned"
    (tmp_path / "trapmodule.py").write_text(f"open({str(mark)!r}, 'w')\nclass Thing: pass\n")
    for prefix in (b"trapmodule", b"pytorch_lightning.trapmodule", b"omegaconf.trapmodule"):
        path = with_pickle(tmp_path / "bad.ckpt", b"\x80\x02}X\x01\x00\x00\x00ac" + prefix + b"\nThing\ns.")
        with contextlib.suppress(CheckpointError):
            io_.load_checkpoint(path)
    assert "trapmodule" not in sys.modules
    assert not mark.exists()


@pytest.mark.parametrize("data", [b"\x00\xd3random" * 50, b"<html>", b"\x80\x02K\x01."])
def test_what_is_no_checkpoint_is_not_said_to_be_readable_all_the_same(tmp_path, data):
    path = tmp_path / "other.ckpt"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"is no checkpoint: it is .*torch\.save wrote") as told:
        io_.load_checkpoint(path)
    assert "all the same" not in str(told.value)


def test_trusted_reads_what_is_refused_and_says_so_loudly(tmp_path):
    path = tmp_path / "mine.ckpt"
    torch.save({"state_dict": {}, "x": Runs(abs, 2.0), "y": PurePosixPath("a"), "z": print}, path)
    with pytest.raises(CheckpointError, match=r"weights_only=False in Python, --trusted for lt ckpt"):
        io_.load_checkpoint(path)
    with pytest.warns(UserWarning, match="may run any code"):
        assert io_.load_checkpoint(path, trusted=True)["z"] is print


# ---- tensors that lie about their memory ---------------------------------------------------------------------------


def lying(tmp_path, old: bytes, new: bytes) -> Path:
    records = records_of({"a": torch.zeros(4)})
    assert old in records["data.pkl"]
    return write_zip(tmp_path / "lies.ckpt", {**records, "data.pkl": records["data.pkl"].replace(old, new)})


def test_a_storage_larger_than_its_record_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="needs 4194304 bytes of its record"):
        io_.load_checkpoint(lying(tmp_path, b"K\x04t", b"J\x00\x00\x10\x00t"))


def test_a_tensor_larger_than_its_storage_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="do not fit"):
        io_.load_checkpoint(lying(tmp_path, b"K\x04\x85", b"J\x00\x00\x10\x00\x85"))


def test_a_negative_offset_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="do not fit"):
        io_.load_checkpoint(lying(tmp_path, b"QK\x00", b"QJ\xf0\xff\xff\xff"))


def test_a_storage_without_a_record_is_refused(tmp_path):
    records = records_of({"a": torch.zeros(4)})
    del records["data/0"]
    with pytest.raises(CheckpointError, match="is not there"):
        io_.load_checkpoint(write_zip(tmp_path / "lies.ckpt", records))


def test_a_sparse_tensor_whose_indices_lie_outside_of_it_is_refused(tmp_path):
    path = tmp_path / "sparse.ckpt"
    io_.save_checkpoint({"a": torch.eye(3).to_sparse()}, path)
    assert torch.equal(io_.load_checkpoint(path)["a"].to_dense(), torch.eye(3))
    records = records_of({"a": torch.eye(3).to_sparse()})
    indices = struct.pack("<6q", 0, 1, 1 << 40, 0, 1, 2)
    with pytest.raises(CheckpointError, match=r"sparse\.ckpt"):
        io_.load_checkpoint(write_zip(path, {**records, "data/0": indices}))


def test_hooks_of_a_tensor_stay_empty(tmp_path):
    buffer = records_of({"a": torch.zeros(4)})["data.pkl"]
    # ... REDUCE of the tensor, then get its hooks (memo 11) and set an item of them
    program = buffer[:-2] + b"h\x0bX\x01\x00\x00\x00kK\x01s0s."
    with pytest.raises(CheckpointError):
        io_.load_checkpoint(with_pickle(tmp_path / "hooks.ckpt", program))
    sealed = buffer[: buffer.rindex(b"R")] + b"R0h\x0bX\x01\x00\x00\x00kK\x01s."
    with pytest.raises(RefusedError):
        dry_run(sealed)


def test_a_state_that_would_replace_methods_of_an_ordered_dict_is_refused(tmp_path):
    program = b"\x80\x02ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsK\x01sb."
    with pytest.raises(CheckpointError, match="changes the inside"):
        io_.load_checkpoint(with_pickle(tmp_path / "bad.ckpt", program))


@pytest.mark.parametrize(
    "program",
    [
        b"\x80\x02c__builtin__\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x01\x85R.",  # a terabyte of zeros
        b"\x80\x02X\xff\xff\xff\xffabc.",  # a string of 4 GiB
        b"\x80\x02}r\xff\xff\xff\xff.",  # a memo of 4 G entries: harmless here, a plain dict
        b"\x80\x02" + b"\x8a\xff" + b"\x01" * 10 + b".",
        b"\x80\x02" + b"(" * 100_000,
        b"\x80\x02" + b")" + b"\x86" * 3,
        b"",
        b"\x80\x02.",
        b"\x80\x02h\x05.",
        b"\x80\x02e.",
        b"\x80\x03}.",
        b"\x80\x02c_codecs\nencode\nX\x02\x00\x00\x00abX\x05\x00\x00\x00utf16\x86R.",
    ],
)
def test_bombs_and_senseless_programs_end_in_one_error_or_plain_data(tmp_path, program):
    path = with_pickle(tmp_path / "bomb.ckpt", program)
    tree = {}
    with contextlib.suppress(CheckpointError):
        tree = io_.load_checkpoint(path)
    assert tree == {}


@pytest.mark.parametrize("nested", [b"]" * 3000 + b"a" * 2999, b")" + b"\x85" * 3000, b"(" * 3000 + b"t" * 3000])
def test_containers_that_are_nested_too_deep_are_refused_before_torch_reads_them(tmp_path, nested):
    path = with_pickle(tmp_path / "deep.ckpt", b"\x80\x02}K\x01" + nested + b"s.")
    with pytest.raises(CheckpointError, match=r"more than 1000 deep.*LT658"):
        verify_checkpoint(path)


def test_keys_that_take_forever_to_hash_are_refused():
    program = b"\x80\x02" + b")" + b"q\x00h\x00\x86" * 40 + b"q\x01}h\x01K\x01s."
    with pytest.raises(RefusedError, match="key"):
        dry_run(program)


def test_random_changes_of_a_checkpoint_end_in_one_error_or_the_same_types(tmp_path):
    records = records_of({"sd": OrderedDict(w=torch.arange(6.0)), "n": [1, 2.5, "x", None, (True, b"b")], "s": {1}})
    rng, path = random.Random(0), tmp_path / "fuzz.ckpt"
    for _ in range(300):
        program = bytearray(records["data.pkl"])
        for _ in range(rng.randint(1, 4)):
            program[rng.randrange(len(program))] = rng.randrange(256)
        write_zip(path, {**records, "data.pkl": bytes(program)})
        with contextlib.suppress(CheckpointError):
            assert isinstance(io_.load_checkpoint(path), dict)


# ---- archives ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_an_archive_with_two_programs_is_refused(tmp_path):
    records = records_of({"a": 1})
    hostile = programs("true")["GLOBAL and REDUCE"]
    for second in ("data.pkl", "DATA.PKL", "Data.pkl"):
        path = write_zip(tmp_path / "two.ckpt", [*records.items(), (second, hostile)])
        with pytest.raises(CheckpointError, match="name"):
            io_.load_checkpoint(path)


@pytest.mark.parametrize("name", ["../../evil", "a/../../evil", "data/../x", "a\\..\\x", "/abs", "."])
def test_records_whose_names_lead_out_are_refused(tmp_path, name):
    with pytest.raises(CheckpointError, match="name"):
        io_.load_checkpoint(write_zip(tmp_path / "out.ckpt", {**records_of({"a": 1}), name: b"x"}))


def test_records_in_another_folder_are_refused(tmp_path):
    records = {f"archive/{name}": data for name, data in records_of({"a": 1}).items()}
    with pytest.raises(CheckpointError, match="name"):
        io_.load_checkpoint(write_zip(tmp_path / "out.ckpt", {**records, "other/data.pkl": b"x"}, folder=""))


def test_packed_records_are_refused_before_they_unfold(tmp_path):
    records = {**records_of({"a": 1}), "data/0": bytes(50_000_000)}
    path = write_zip(tmp_path / "bomb.ckpt", records, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000
    with pytest.raises(CheckpointError, match="packed"):
        io_.load_checkpoint(path)


def test_overlapping_records_are_refused(tmp_path):
    path = write_zip(tmp_path / "overlap.ckpt", records_of({"a": torch.zeros(4), "b": torch.ones(4)}))
    data = bytearray(path.read_bytes())
    entries = [at for at in range(len(data) - 4) if data[at : at + 4] == b"PK\x01\x02"]
    data[entries[2] + 42 : entries[2] + 46] = data[entries[1] + 42 : entries[1] + 46]
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"overlaps|not where"):
        io_.load_checkpoint(path)


@pytest.mark.parametrize("change", [b"x", b"PK\x05\x06" + bytes(18)])
def test_an_archive_with_something_after_its_end_is_refused(tmp_path, change):
    path = write_zip(tmp_path / "tail.ckpt", records_of({"a": 1}))
    path.write_bytes(path.read_bytes() + change)
    with pytest.raises(CheckpointError, match="damaged"):
        io_.load_checkpoint(path)


def test_an_archive_after_something_else_is_refused(tmp_path):
    path = write_zip(tmp_path / "head.ckpt", records_of({"a": 1}))
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    with pytest.raises(CheckpointError):
        io_.load_checkpoint(path)


def test_a_torchscript_program_is_refused(tmp_path):
    path = write_zip(tmp_path / "script.ckpt", {**records_of({"a": 1}), "constants.pkl": b"\x80\x02)."})
    with pytest.raises(CheckpointError, match="TorchScript"):
        io_.load_checkpoint(path)


def test_an_unknown_byte_order_is_one_error(tmp_path):
    path = write_zip(tmp_path / "order.ckpt", {**records_of({"a": torch.zeros(2)}), "byteorder": b"middle"})
    with pytest.raises(CheckpointError, match=r"order\.ckpt"):
        io_.load_checkpoint(path)


def test_a_file_of_a_big_endian_machine_loads(tmp_path):
    records = records_of({"a": torch.tensor([1, 2], dtype=torch.int32)})
    swapped = struct.pack(">2i", 1, 2) if sys.byteorder == "little" else struct.pack("<2i", 1, 2)
    other = b"big" if sys.byteorder == "little" else b"little"
    path = write_zip(tmp_path / "big.ckpt", {**records, "byteorder": other, "data/0": swapped})
    assert io_.load_checkpoint(path)["a"].tolist() == [1, 2]


def test_every_flipped_bit_of_a_tensor_is_found(tmp_path):
    path = tmp_path / "a.ckpt"
    io_.save_checkpoint({"a": torch.arange(1000.0)}, path)
    whole = path.read_bytes()
    with path.open("rb") as file:
        record = Archive(file).records["data/0"]
    for at in (record.start, record.start + 1999, record.start + record.size - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CheckpointError, match="checksum of its record 'data/0'"):
            io_.load_checkpoint(path)
        assert io_.load_checkpoint(path, verify=False)["a"].shape == (1000,)


def test_a_file_that_is_said_to_be_undamaged_is_one_that_torch_loads_whichever_bit_around_its_records_flips(tmp_path):
    path = tmp_path / "a.ckpt"
    torch.save({"n": [1, 2]}, path)
    whole = path.read_bytes()
    inside = {at for r in Archive(io.BytesIO(whole)).records.values() for at in range(r.start, r.start + r.size)}
    wrong = []
    for bit in range(8 * len(whole)):
        if bit // 8 in inside:
            continue
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(CheckpointError):
            verify_checkpoint(io.BytesIO(changed))
            try:
                assert torch.load(io.BytesIO(changed)) == {"n": [1, 2]}
            except Exception as error:
                wrong.append((bit // 8 - len(whole), bit % 8, str(error)[:80]))
    assert not wrong


def test_an_archive_of_other_files_is_no_damaged_checkpoint(tmp_path):
    path = tmp_path / "x.ckpt"
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for records, what in (
            ({"a.npy": b"1", "b.npy": b"2"}, r"numpy\.load"),
            ({"a.txt": b"1", "d/b": b"2"}, "'a.txt'"),
        ):
            write_zip(path, records, folder="", compression=compression)
            with pytest.raises(CheckpointError, match=rf"is no checkpoint: .*{what}.*LT658"):
                io_.load_checkpoint(path)


def test_a_checkpoint_without_a_name_is_not_written():
    for path in ("", Path()):
        with pytest.raises(CheckpointError, match=r"its path is empty.*LT625"):
            io_.save_checkpoint({}, path)


def test_a_map_location_that_is_not_here_is_not_the_file_s_fault(tmp_path):
    path = tmp_path / "a.ckpt"
    io_.save_checkpoint({"a": torch.zeros(2)}, path)
    for place in ("cuda:99", torch.device("cuda", 99), {"cpu": "cuda:99"}, "cpuu", 3, lambda storage, at: 1 / 0):
        with pytest.raises((RuntimeError, AssertionError, TypeError, ZeroDivisionError)) as raised:
            read_checkpoint(path, place)
        assert "damaged" not in str(raised.value)


def test_a_file_cut_off_anywhere_is_damaged(tmp_path):
    path = tmp_path / "a.ckpt"
    io_.save_checkpoint({"a": torch.arange(50.0), "b": [1] * 20}, path)
    whole = path.read_bytes()
    for size in range(1, len(whole), 37):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match=r"a\.ckpt"):
            io_.load_checkpoint(path)


def test_big_files_are_compared_in_threads_and_damage_is_found(tmp_path):
    path = tmp_path / "big.ckpt"
    tree = {f"w{i}": torch.full((500_000,), float(i)) for i in range(10)}
    io_.save_checkpoint(tree, path)
    torch.testing.assert_close(io_.load_checkpoint(path), tree)
    with path.open("r+b") as file:
        record = Archive(file).records["data/7"]
        file.seek(record.start + 12345)
        file.write(b"\xff")
    with pytest.raises(CheckpointError, match="'data/7'"):
        io_.load_checkpoint(path)


def test_files_saved_without_checksums_load(tmp_path):
    path = tmp_path / "plain.ckpt"
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"a": torch.arange(3)}, path)
        io_.save_checkpoint({"a": torch.arange(3)}, tmp_path / "ours.ckpt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert io_.load_checkpoint(path)["a"].tolist() == [0, 1, 2]
    with (tmp_path / "ours.ckpt").open("rb") as file:
        record = Archive(file).records["data/0"]
    assert record.crc == zlib.crc32(struct.pack("<3q", 0, 1, 2))


# ---- what others wrote -----------------------------------------------------------------------------------------------


def test_lightning_1_checkpoints_load_without_importing_what_they_name(tmp_path):
    class_key = b"cpytorch_lightning.callbacks.model_checkpoint\nModelCheckpoint\n"
    hparams = (
        b"cpytorch_lightning.utilities.parsing\nAttributeDict\n)\x81(X\x02\x00\x00\x00lrG?\xb9\x99\x99\x99\x99\x99\x9au"
    )
    reason = b"cpytorch_lightning.callbacks.early_stopping\nEarlyStoppingReason\nK\x02\x85R"
    program = (
        b"\x80\x02}(X\x09\x00\x00\x00callbacks}"
        + class_key
        + b"}X\x06\x00\x00\x00reason"
        + reason
        + b"ssX\x10\x00\x00\x00hyper_parameters"
        + hparams
        + b"u."
    )
    tree = io_.load_checkpoint(with_pickle(tmp_path / "lightning.ckpt", program))
    assert tree == {
        "callbacks": {"pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint": {"reason": 2}},
        "hyper_parameters": {"lr": 0.1},
    }
    assert "pytorch_lightning" not in sys.modules


def test_namespaces_paths_and_defaultdicts_become_plain_data(tmp_path):
    path = tmp_path / "plain.ckpt"
    counts = defaultdict(list, a=[1])
    shared = argparse.Namespace(lr=0.1, inner=argparse.Namespace(deep=[2]))
    torch.save(
        {"ns": shared, "again": shared, "path": PurePosixPath("/a/b"), "counts": counts, "act": torch.nn.ReLU}, path
    )
    tree = io_.load_checkpoint(path)
    assert tree == {
        "ns": {"lr": 0.1, "inner": {"deep": [2]}},
        "again": {"lr": 0.1, "inner": {"deep": [2]}},
        "path": "/a/b",
        "counts": {"a": [1]},
        "act": "torch.nn.modules.activation.ReLU",
    }


def test_a_class_among_hyperparameters_must_be_given_again(tmp_path):
    class Model(LightningModule):
        def __init__(self, lr, act):
            super().__init__()

    path = tmp_path / "lightning.ckpt"
    torch.save({"state_dict": {}, "hyper_parameters": {"lr": 1, "act": [torch.nn.ReLU]}}, path)
    assert io_.load_checkpoint(path)["hparams_by_name"] == {"act": ["torch.nn.modules.activation.ReLU"]}
    with pytest.raises(CheckpointError, match=r"act \(saved by name only"):
        Model.load_from_checkpoint(path)
    Model.load_from_checkpoint(path, act=torch.nn.ReLU)


def test_numbers_and_arrays_of_numpy_become_numbers_and_tensors(tmp_path):
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "numpy.ckpt"
    array = numpy.arange(6, dtype="float32").reshape(2, 3)
    torch.save(
        {
            "f": numpy.float64(0.5),
            "i": numpy.int32(-3),
            "b": numpy.bool_(True),
            "big": numpy.dtype(">i4").type(7),
            "array": array,
            "fortran": numpy.asfortranarray(array),
        },
        path,
    )
    tree = io_.load_checkpoint(path)
    assert (tree["f"], tree["i"], tree["b"], tree["big"]) == (0.5, -3, True, 7)
    assert torch.equal(tree["array"], torch.from_numpy(array))
    assert torch.equal(tree["fortran"], torch.from_numpy(array))
    assert tree["array"].dtype == torch.float32


def arrays_that_are_lists(numpy):
    texts = numpy.array([["a", "bcd"], ["", "é"]])
    return {
        "texts": texts,
        "big-endian": texts.astype(">U3"),
        "fortran": numpy.asfortranarray(texts),
        "bytes": numpy.array([b"a", b""]),
        "objects": numpy.array([[{"a": 1}, None], ["x", [2]]], dtype=object),
        "one text": numpy.array("a"),
        "none": numpy.array([], dtype="U5"),
        "three axes": numpy.array(list("abcdefgh")).reshape(2, 2, 2).transpose(2, 0, 1),
    }


def test_numpy_arrays_of_texts_and_objects_are_lists(tmp_path):
    arrays = arrays_that_are_lists(pytest.importorskip("numpy"))
    torch.save(arrays, tmp_path / "numpy.ckpt")
    assert io_.load_checkpoint(tmp_path / "numpy.ckpt") == {name: array.tolist() for name, array in arrays.items()}


@pytest.mark.parametrize("shape", [(2**40, 0), (2**20,), (-1, 2**62), (1,) * 1000, "x", (0.5,)])
def test_an_array_of_texts_whose_shape_lies_is_refused_or_empty(tmp_path, shape):
    numpy = pytest.importorskip("numpy")
    for value in (numpy.array(["a", "b"]), numpy.array([], dtype="U1")):
        make, start, state = value.__reduce__()
        lies = Reduced(make, start, (state[0], shape, *state[2:]))
        torch.save({"a": lies}, tmp_path / "numpy.ckpt")
        with contextlib.suppress(CheckpointError):
            assert io_.load_checkpoint(tmp_path / "numpy.ckpt") == {"a": []}


class Reduced:
    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


def test_a_module_pickled_whole_is_refused_by_its_class(tmp_path):
    path = tmp_path / "whole.ckpt"
    torch.save(torch.nn.Linear(2, 2), path)
    with pytest.raises(CheckpointError, match=r"torch\.nn\.modules\.linear\.Linear"):
        io_.load_checkpoint(path)


def test_a_file_that_is_no_checkpoint_says_what_it_is(tmp_path):
    path = tmp_path / "x.ckpt"
    for head, what in {
        b"version https://git-lfs.github.com/spec/v1\n": "git lfs pull",
        b"<!DOCTYPE html>": "web page",
        b"\x1f\x8b\x08": "gzip",
        b'{"a": 1}': "JSON",
        b"hello": "no file that torch.save wrote",
        bytes(5000): "zeros",
        b"": "empty",
    }.items():
        path.write_bytes(head)
        with pytest.raises(CheckpointError, match=what):
            io_.load_checkpoint(path)


def test_bare_tensors_and_lists_are_no_checkpoint(tmp_path):
    path = tmp_path / "x.ckpt"
    torch.save([1, 2], path)
    with pytest.raises(CheckpointError, match="holds a list: expected a dict"):
        io_.load_checkpoint(path)


@pytest.mark.parametrize("trusted", [False, True])
def test_files_of_torch_before_1_6_are_refused_with_a_way_out(tmp_path, trusted):
    path = tmp_path / "old.ckpt"
    torch.save({"a": torch.arange(4.0)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match=r"torch before 1.6: torch.save\(torch.load.*LT658"):
        io_.load_checkpoint(path, trusted=trusted)
    torch.save(torch.load(path), path)
    assert io_.load_checkpoint(path)["a"].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_an_open_file_can_be_read_and_stays_open(tmp_path):
    path = tmp_path / "a.ckpt"
    io_.save_checkpoint({"a": torch.ones(2)}, path)
    with path.open("rb") as file:
        assert read_checkpoint(file)["a"].tolist() == [1, 1]
        assert not file.closed
    assert read_checkpoint(io.BytesIO(path.read_bytes()))["a"].tolist() == [1, 1]
