"""The kit for checkpoints: core's own, a format on files and a store pass it, and planted faults do not."""

import hashlib
import io
import math
import os
import pickle
import shutil
import time
import zlib
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest
import torch

from lt_core import CheckpointError, CheckpointIO
from lt_core.checkpoint import OneFile
from lt_core.files.atomic_file import write_atomically, writing_errors
from lt_core.files.checkpoint_header import Header
from lt_core.files.plain_data import plain_tree
from lt_testing import CheckpointKit


class TestOneFile(CheckpointKit):
    def make_io(self):
        return OneFile()


class Packed(CheckpointIO):
    """Compressed files, each with a checksum; what is wrong derives from it."""

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        tree = self.own(checkpoint)
        with writing_errors(path):
            self.put(Path(path), self.packed(tree))

    def own(self, checkpoint):
        return plain_tree(dict(checkpoint), tensor=lambda tensor: tensor.detach().cpu())

    def packed(self, tree):
        file = io.BytesIO()
        torch.save(tree, file)
        data = zlib.compress(file.getvalue(), 0, wbits=-15)  # without a checksum of its own
        return hashlib.sha256(data).digest() + data

    def put(self, path, data):
        write_atomically(path, lambda file: file.write(data))

    def load_checkpoint(self, path, map_location=None, *, trusted=False, mmap=False, verify=True):
        try:
            data = Path(path).read_bytes()
            self.compare(data[:32], data[32:])
            return self.tree(self.unpacked(data[32:]), map_location or "cpu", trusted)
        except Exception as error:
            raise CheckpointError(f"{path} could not be read: {error}") from error

    def compare(self, digest, data):
        if digest != hashlib.sha256(data).digest():
            raise ValueError("its checksum is wrong")

    def unpacked(self, data):
        return zlib.decompress(data, wbits=-15)

    def tree(self, data, map_location, trusted):
        return torch.load(io.BytesIO(data), map_location=map_location, weights_only=not trusted)

    def verify(self, path):
        self.load_checkpoint(path)

    def header(self, path):
        try:
            return Header.of(self.load_checkpoint(path))
        except CheckpointError:
            return None


class PackedKit(CheckpointKit):
    __test__ = False
    kind = Packed

    def make_io(self):
        return self.kind()


class TestPacked(PackedKit):
    __test__ = True


class RunsCode(Packed):
    def tree(self, data, map_location, trusted):
        return super().tree(data, map_location, trusted=True)


class RunsCodeOfPlainPickles(Packed):
    """Reads what an old version wrote, too."""

    def load_checkpoint(self, path, map_location=None, **how):
        try:
            return pickle.loads(Path(path).read_bytes())
        except Exception:
            return super().load_checkpoint(path, map_location, **how)


class ComparesNoChecksum(Packed):
    def compare(self, digest, data):
        pass


class VerifiesTheName(Packed):
    def verify(self, path):
        if not self.exists(path):
            raise CheckpointError(f"{path} is not there")


class WritesInPlace(Packed):
    def put(self, path, data):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class RemovesFirst(Packed):
    def put(self, path, data):
        path.unlink(missing_ok=True)
        super().put(path, data)


class LeavesThePart(Packed):
    """Writes beside the file, and cleans up only where nothing went wrong."""

    def put(self, path, data):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(data)
        part.replace(path)


class KeepsTheOld(Packed):
    def put(self, path, data):
        if path.exists():
            shutil.copy(path, path.with_suffix(f".{time.time_ns()}"))
        super().put(path, data)


class LoadsToTheCPU(Packed):
    def tree(self, data, map_location, trusted):
        return super().tree(data, "cpu", trusted)


class LastIsACopyOfNow(Packed):
    def point_last(self, target, link):
        self.put(Path(link), Path(target).read_bytes())

    def header(self, path):
        return None


class RemovesWhatLastLeadsTo(Packed):
    def remove_checkpoint(self, path):
        super().remove_checkpoint(os.path.realpath(path))


class Float32(Packed):
    def own(self, checkpoint):
        tree = super().own(checkpoint)
        return {**tree, "half": tree["half"].float()} if "half" in tree else tree


class NamesAreTexts(Packed):
    def own(self, checkpoint):
        tree = super().own(checkpoint)
        return (
            {**tree, "numbers": {str(key): value for key, value in tree["numbers"].items()}} if len(tree) > 9 else tree
        )


class BytesAsTheyLie(Packed):
    """Takes a tensor's memory without its strides."""

    def own(self, checkpoint):
        tree = super().own(checkpoint)
        if "strided" in tree:
            flat = tree["strided"].as_strided((tree["strided"].numel(),), (1,))
            tree["strided"] = flat.reshape(tree["strided"].shape)
        return tree


class ObjectsAsText(Packed):
    def own(self, checkpoint):
        return {name: str(value) if type(value) is object else value for name, value in checkpoint.items()}


class TorchErrors(Packed):
    def load_checkpoint(self, path, map_location=None, **how):
        return self.tree(self.unpacked(Path(path).read_bytes()[32:]), map_location or "cpu", False)


class LosesBackgroundErrors(Packed):
    """Writes when it is asked to wait, and keeps what goes wrong to itself."""

    def __init__(self):
        self.waiting = []

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        self.waiting.append((self.own(checkpoint), path))

    def wait(self):
        while self.waiting:
            with suppress(CheckpointError):
                super().save_checkpoint(*self.waiting.pop(0))

    def teardown(self):
        self.wait()


class CopiesLate(LosesBackgroundErrors):
    def own(self, checkpoint):
        return checkpoint


class SortsKeys(Packed):
    def own(self, checkpoint):
        return dict(sorted(super().own(checkpoint).items()))


class TuplesAreLists(Packed):
    """As JSON has them."""

    def own(self, checkpoint):
        return self.listed(super().own(checkpoint))

    def listed(self, value):
        if isinstance(value, dict):
            return {name: self.listed(inner) for name, inner in value.items()}
        return [*map(self.listed, value)] if isinstance(value, (list, tuple)) else value


class OneForEachPointer(Packed):
    """Writes a tensor once, and takes a part of it that begins where it does for the same."""

    def own(self, checkpoint):
        seen = {}
        return plain_tree(
            dict(checkpoint), tensor=lambda tensor: seen.setdefault(tensor.data_ptr() or id(tensor), tensor.clone())
        )


class SmallNumbers(Packed):
    """Has 32 bits for an integer."""

    def own(self, checkpoint):
        return {name: min(v, 2**31) if type(v) is int else v for name, v in super().own(checkpoint).items()}


class FiniteNumbers(Packed):
    """Has no infinity, as strict JSON."""

    def own(self, checkpoint):
        tree = super().own(checkpoint)
        return {name: None if isinstance(v, float) and math.isinf(v) else v for name, v in tree.items()}


class AtLeastOneDimension(Packed):
    def own(self, checkpoint):
        return plain_tree(super().own(checkpoint), tensor=torch.atleast_1d)


class DoublesAreSingles(Packed):
    def own(self, checkpoint):
        return plain_tree(super().own(checkpoint), tensor=lambda t: t.float() if t.dtype == torch.float64 else t)


class FlagsAreBytes(Packed):
    def own(self, checkpoint):
        return plain_tree(super().own(checkpoint), tensor=lambda t: t.byte() if t.dtype == torch.bool else t)


FORMATS = [
    (SortsKeys, "test_what_was_saved_comes_back"),
    (TuplesAreLists, "test_what_was_saved_comes_back"),
    (OneForEachPointer, "test_what_was_saved_comes_back"),
    (SmallNumbers, "test_what_was_saved_comes_back"),
    (FiniteNumbers, "test_what_was_saved_comes_back"),
    (AtLeastOneDimension, "test_what_was_saved_comes_back"),
    (DoublesAreSingles, "test_what_was_saved_comes_back"),
    (FlagsAreBytes, "test_what_was_saved_comes_back"),
    (RunsCode, "test_reading_runs_no_code_of_the_file"),
    (RunsCodeOfPlainPickles, "test_reading_runs_no_code_of_the_file"),
    (ComparesNoChecksum, "test_a_flipped_byte_is_an_error_or_changes_nothing"),
    (VerifiesTheName, "test_a_flipped_byte_is_an_error_or_changes_nothing"),
    (VerifiesTheName, "test_a_damaged_file_is_an_error_that_names_it"),
    (WritesInPlace, "test_a_write_that_fails_half_way_leaves_the_old_one"),
    (RemovesFirst, "test_a_write_that_fails_half_way_leaves_the_old_one"),
    (LeavesThePart, "test_a_write_that_fails_half_way_leaves_the_old_one"),
    (KeepsTheOld, "test_nothing_is_left_beside_or_after_a_checkpoint"),
    (LoadsToTheCPU, "test_tensors_go_where_map_location_says"),
    (LastIsACopyOfNow, "test_a_second_name_makes_no_checkpoint_newer"),
    (RemovesWhatLastLeadsTo, "test_last_leads_to_the_newest"),
    (Float32, "test_what_was_saved_comes_back"),
    (NamesAreTexts, "test_what_was_saved_comes_back"),
    (BytesAsTheyLie, "test_what_was_saved_comes_back"),
    (ObjectsAsText, "test_what_is_no_plain_data_is_refused_and_the_old_one_stays"),
    (TorchErrors, "test_a_damaged_file_is_an_error_that_names_it"),
    (TorchErrors, "test_one_that_is_not_there_is_an_error_that_names_it"),
    (LosesBackgroundErrors, "test_a_write_that_fails_half_way_leaves_the_old_one"),
    (CopiesLate, "test_a_tensor_changed_after_the_save_is_as_it_was"),
]


@pytest.mark.parametrize(("kind", "test"), FORMATS)
def test_a_wrong_format_fails_where_it_is_wrong(kind, test, caught_by):
    assert caught_by(type("Wrong", (PackedKit,), {"__test__": False, "kind": kind}), test)


class Server(dict):
    """What is stored, each with its time."""

    room = 2**40

    def upload(self, key, data):
        self[key] = time.time_ns(), data[: self.room]
        if len(data) > self.room:
            raise ConnectionError("the store is full")


class Store(Packed):
    """Checkpoints by key in a server, which is a dict here; what is wrong derives from it."""

    server, links, parts = Server(), {}, Server()

    def key(self, path):
        return str(path)

    def followed(self, path):
        return self.links.get(self.key(path), self.key(path))

    def put(self, path, data):
        key = self.key(path)
        self.upload(key, data)
        self.links.pop(key, None)
        self.server[key] = self.parts.pop(key)

    def upload(self, key, data):
        self.parts.upload(key, data)

    def load_checkpoint(self, path, map_location=None, *, trusted=False, mmap=False, verify=True):
        try:
            data = self.server[self.followed(path)][1]
            self.compare(data[:32], data[32:])
            return self.tree(self.unpacked(data[32:]), map_location or "cpu", trusted)
        except Exception as error:
            raise CheckpointError(f"{path} could not be read: {error}") from error

    def exists(self, path):
        return self.followed(path) in self.server

    def remove_checkpoint(self, path):
        if self.links.pop(self.key(path), None) is None:
            self.server.pop(self.key(path), None)

    def point_last(self, target, link):
        self.links[self.key(link)] = self.key(target)

    def add_name(self, target, name):
        self.server[self.key(name)] = self.server[self.followed(target)]

    def times(self, folder):
        return {key: moment for key, (moment, _) in self.server.items() if self.lies_in(key, self.key(folder))}

    def lies_in(self, key, folder):
        return str(Path(key).parent) == folder

    def header(self, path):
        return None


class StoreKit(PackedKit):
    files, kind = False, Store

    def tamper(self, path, change):
        moment, data = Store.server[str(path)]
        Store.server[str(path)] = moment, change(data)

    def make_trouble(self):
        return mock.patch.object(Server, "room", 20_000)


class TestStore(StoreKit):
    __test__ = True


class StoreRunsCode(RunsCode, Store):
    pass


class StoreComparesNothing(ComparesNoChecksum, Store):
    pass


class StoreIsOnTheCPU(LoadsToTheCPU, Store):
    pass


class StoreRemovesFirst(Store):
    def save_checkpoint(self, checkpoint, path, storage_options=None):
        tree = self.own(checkpoint)
        self.remove_checkpoint(path)
        super().save_checkpoint(tree, path)


class GivesOutItsOwn(Store):
    """Keeps what it has read."""

    def __init__(self):
        self.cache = {}

    def load_checkpoint(self, path, map_location=None, **how):
        found = super().load_checkpoint(path, map_location, **how)
        return self.cache.setdefault(f"{map_location} {self.server[self.followed(path)]}", found)


class ThinksInNames(Store):
    """Its keys are names, and so are those of ``times``."""

    def key(self, path):
        return Path(path).name

    def lies_in(self, key, folder):
        return True


class TimesOfNames(Store):
    def times(self, folder):
        return {Path(key).name: moment for key, moment in super().times(folder).items()}


class TimesByPrefix(Store):
    def lies_in(self, key, folder):
        return key.startswith(folder)


class TimesInSeconds(Store):
    def times(self, folder):
        return {key: moment // 10**9 for key, moment in super().times(folder).items()}


class TimesSinceItBegan(Store):
    def times(self, folder):
        return {key: number for number, key in enumerate(super().times(folder))}


class LastHasTheTimeOfNow(Store):
    def point_last(self, target, link):
        self.put(link, self.server[self.key(target)][1])


class KeptHasTheTimeOfNow(Store):
    def add_name(self, target, name):
        self.put(name, self.server[self.followed(target)][1])


class LastIsThereWithoutItsTarget(Store):
    def exists(self, path):
        return self.key(path) in self.links or super().exists(path)


class KeptIsALink(Store):
    def add_name(self, target, name):
        self.point_last(target, name)


class RemovesOnce(Store):
    def remove_checkpoint(self, path):
        if self.links.pop(self.key(path), None) is None:
            del self.server[self.key(path)]


class OldHeader(Store):
    """Keeps headers, and forgets that a checkpoint may be replaced."""

    def __init__(self):
        self.headers = {}

    def header(self, path):
        if self.exists(path):
            return self.headers.setdefault(self.key(path), Header.of(self.load_checkpoint(path)))
        return None


class EachItsOwn(Store):
    """Has its server in the object."""

    def __init__(self):
        self.server, self.links = Server(), {}


class TakesAnythingForPut(Store):
    """Believes that a store never refuses."""

    def upload(self, key, data):
        with suppress(ConnectionError):
            super().upload(key, data)


class GoesOnWithoutThePut(Store):
    """Logs that the store refuses."""

    def put(self, path, data):
        with suppress(ConnectionError):
            super().put(path, data)


class PutsInPlace(Store):
    def put(self, path, data):
        self.links.pop(self.key(path), None)
        self.server.upload(self.key(path), data)


class DeletesThenPuts(Store):
    def put(self, path, data):
        self.server.pop(self.key(path), None)
        super().put(path, data)


class ListsParts(Store):
    """Counts what is not complete among the folder's checkpoints."""

    def times(self, folder):
        return super().times(folder) | {
            key: moment for key, (moment, _) in self.parts.items() if self.lies_in(key, self.key(folder))
        }


class PutsInTheBackground(LosesBackgroundErrors, Store):
    """Keeps to itself what the store says."""


class ErrorsOfItsClient(Store):
    """Lets out errors of a kind that no Trainer takes for a failed save."""

    def put(self, path, data):
        try:
            super().put(path, data)
        except ConnectionError as error:
            raise RuntimeError("HTTP 507") from error


STORES = [
    (StoreRunsCode, "test_reading_runs_no_code_of_the_file"),
    (StoreComparesNothing, "test_a_flipped_byte_is_an_error_or_changes_nothing"),
    (StoreIsOnTheCPU, "test_tensors_go_where_map_location_says"),
    (StoreRemovesFirst, "test_a_write_that_fails_half_way_leaves_the_old_one"),
    (TakesAnythingForPut, "test_a_write_that_fails_half_way_leaves_the_old_one"),
    (GoesOnWithoutThePut, "test_a_write_that_fails_half_way_leaves_the_old_one"),
    (PutsInPlace, "test_a_write_that_fails_half_way_leaves_the_old_one"),
    (DeletesThenPuts, "test_a_write_that_fails_half_way_leaves_the_old_one"),
    (ListsParts, "test_a_write_that_fails_half_way_leaves_the_old_one"),
    (PutsInTheBackground, "test_a_write_that_fails_half_way_leaves_the_old_one"),
    (ErrorsOfItsClient, "test_a_write_that_fails_half_way_leaves_the_old_one"),
    (GivesOutItsOwn, "test_what_was_loaded_can_be_changed"),
    (ThinksInNames, "test_a_folder_s_checkpoints_are_found_with_their_times"),
    (TimesOfNames, "test_a_folder_s_checkpoints_are_found_with_their_times"),
    (TimesByPrefix, "test_a_folder_s_checkpoints_are_found_with_their_times"),
    (TimesInSeconds, "test_a_folder_s_checkpoints_are_found_with_their_times"),
    (TimesSinceItBegan, "test_a_folder_s_checkpoints_are_found_with_their_times"),
    (LastHasTheTimeOfNow, "test_a_second_name_makes_no_checkpoint_newer"),
    (KeptHasTheTimeOfNow, "test_a_second_name_makes_no_checkpoint_newer"),
    (LastIsThereWithoutItsTarget, "test_a_last_whose_checkpoint_is_gone_is_not_there"),
    (KeptIsALink, "test_a_second_name_outlives_the_first"),
    (RemovesOnce, "test_a_removed_one_is_gone_and_may_be_removed_again"),
    (OldHeader, "test_it_returns_what_a_checkpoint_says_of_itself_or_nothing"),
    (EachItsOwn, "test_what_was_saved_comes_back"),
]


@pytest.mark.parametrize(("kind", "test"), STORES)
def test_a_wrong_store_fails_where_it_is_wrong(kind, test, caught_by):
    assert caught_by(type("Wrong", (StoreKit,), {"__test__": False, "kind": kind}), test)
