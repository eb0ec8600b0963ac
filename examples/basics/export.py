"""A trained module for other runtimes: torch.export's program, ONNX, and the weights alone as safetensors.

ONNX Runtime and the loaded program give what the module gives, for a batch of another size too. Run it with
``uv run --group examples examples/basics/export.py``.
"""

# nox needs onnx, onnxscript, onnxruntime, safetensors

from __future__ import annotations

import onnxruntime
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl


class Line(pl.LightningModule):
    """Learns a line through noisy points."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
        self.example_input_array = torch.zeros(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        return nn.functional.mse_loss(self(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05)


if __name__ == "__main__":
    pl.seed_everything(3)
    x = torch.randn(256, 4)
    trainer = pl.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    module = Line()
    trainer.fit(module, DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16))

    module.eval()
    rows = torch.randn(5, 4)  # another batch size than the example's
    wanted = module(rows).detach()

    batch = torch.export.Dim("batch")
    exported = torch.export.export(module, (module.example_input_array,), dynamic_shapes=({0: batch},))
    torch.export.save(exported, "line.pt2")
    program = torch.export.load("line.pt2").module()  # needs neither the class nor lt
    print(f"torch.export: the same outputs: {torch.allclose(program(rows), wanted, atol=1e-6)}")

    module.to_onnx("line.onnx", dynamic_shapes=({0: batch},), verbose=False)
    session = onnxruntime.InferenceSession("line.onnx")
    (outputs,) = session.run(None, {session.get_inputs()[0].name: rows.numpy()})
    print(f"ONNX Runtime: the same outputs: {torch.allclose(torch.from_numpy(outputs), wanted, atol=1e-5)}")

    trainer.save_checkpoint("line.safetensors")
    again = Line()
    again.load_state_dict(load_file("line.safetensors"))  # or Line.load_from_checkpoint("line.safetensors")
    print(f"safetensors: the same outputs: {torch.equal(again.eval()(rows), wanted)}")
