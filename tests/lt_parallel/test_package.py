"""The package is there, and says what it offers."""

import pickle

import pytest

import lt_parallel
from lt_parallel import fsdp
from lt_parallel.root import RootHolder


def test_every_public_name_is_there():
    assert all(hasattr(lt_parallel, name) for name in lt_parallel.__all__)


def test_names_that_fsdp_gave_away_are_still_found_there():
    from lt_parallel.fsdp import ModelParallel

    assert ModelParallel is lt_parallel.ModelParallel
    with pytest.raises(AttributeError, match=r"module 'lt_parallel\.fsdp' has no attribute 'Modelparallel'"):
        fsdp.Modelparallel  # noqa: B018  (asked for)


def test_a_pickle_of_a_sharded_module_from_before_the_root_moved_loads():
    holder = pickle.loads(b"clt_parallel.fsdp\n_RootHolder\n(tR.")  # what pickle wrote there, protocol 0
    assert isinstance(holder, RootHolder)
    assert holder.root is None
