"""Tensors around others in a file: plain parts, made again by classes that were declared safe, and by no others."""

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from lt_core import CheckpointError
from lt_core.files.typed_data import plain_with_types
from lt_core.loading.from_checkpoint import load_state_dict_strictly
from lt_lowbits.wrapped import restore_tensors


class Trap:
    """Must not be made by a file that names it."""

    made = 0

    def __new__(cls, *args):
        cls.made += 1
        return super().__new__(cls)

    __tensor_unflatten__ = __new__


def test_low_bit_states_of_a_class_that_nobody_declared_are_an_error():
    mark = (["optimizer_states", 0], "tensor", [f"{__name__}.Trap", None, [1], [1]])
    with pytest.raises(CheckpointError, match=r"'.*Trap', which nothing here declared safe.*LT603"):
        restore_tensors({"optimizer_states": [[1]], "lt_types": [mark]})
    assert Trap.made == 0


def of_two(low, high):
    return TwoTensor(torch.full((2, 3), low), torch.full((2, 3), high))


class Net(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)


def test_a_weight_is_its_parts_in_the_file_and_made_as_the_modules_own():
    tree, gaps = plain_with_types({"state_dict": Net(of_two(1.0, 2.0)).state_dict()}, lambda keys: 0)
    assert not gaps
    assert tree["state_dict"]["weight"].keys() == {"a", "b"}
    module = Net(of_two(0.0, 0.0))
    load_state_dict_strictly(module, tree["state_dict"], "a.ckpt")
    assert module.weight.a.tolist() == [[1.0] * 3] * 2
    assert module.weight.b.tolist() == [[2.0] * 3] * 2


def test_parts_do_not_go_into_a_plain_weight():
    tree, _ = plain_with_types({"state_dict": Net(of_two(1.0, 2.0)).state_dict()}, lambda keys: 0)
    with pytest.raises(CheckpointError, match=r"a.ckpt: weight is a quantized weight, of the tensors a, b.*LT662"):
        load_state_dict_strictly(Net(torch.zeros(2, 3)), tree["state_dict"], "a.ckpt")


def test_a_state_comes_back_where_its_class_was_declared_safe_and_is_left_out_elsewhere(monkeypatch):
    tree = {"optimizer_states": [{"state": {0: {"momentum": of_two(1.0, 2.0)}}}]}
    known = torch.serialization.get_safe_globals
    monkeypatch.setattr(torch.serialization, "get_safe_globals", list)
    assert plain_with_types(tree, len)[1]
    monkeypatch.setattr(TwoTensor, "__module__", "theirs")  # those of torch's own are not made
    monkeypatch.setattr(torch.serialization, "get_safe_globals", lambda: [*known(), TwoTensor])
    plain, gaps = plain_with_types(tree, len)
    assert not gaps
    restore_tensors(plain)
    momentum = plain["optimizer_states"][0]["state"][0]["momentum"]
    assert type(momentum) is TwoTensor
    assert momentum.b.tolist() == [[2.0] * 3] * 2
