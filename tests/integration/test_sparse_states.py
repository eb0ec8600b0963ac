"""Tensors of a sparse layout in the states that a checkpoint holds."""

from pathlib import Path

import pytest
import torch
from lt.demos import BoringModel
from torch import Tensor

import lt as pl


class Holds(pl.Callback):
    def __init__(self, value: Tensor) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Tensor]:
        return {"value": self.value}

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        self.value = state_dict["value"]


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_callback_gets_its_tensor_back_in_any_layout(tmp_path: Path, layout: torch.layout):
    value = torch.eye(3)
    options = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "default_root_dir": tmp_path}
    trainer = pl.Trainer(max_steps=1, callbacks=Holds(value.to_sparse(layout=layout)), **options)
    trainer.fit(BoringModel())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    again = Holds(torch.zeros(1))
    pl.Trainer(max_steps=2, callbacks=again, **options).fit(BoringModel(), ckpt_path=tmp_path / "a.ckpt")
    assert again.value.layout is layout
    assert again.value.to_dense().equal(value)
