"""What a strategy keeps for itself is part of the run: it is saved, and comes back in a resume."""

import pytest
import torch

from lt_core import Callback, LtWarning, Strategy


class Patient(Strategy):
    """Steps at every third call only, and remembers across runs at which it is."""

    calls = 0

    def setup(self, module, make_optimizers, precision):
        self.calls = 0
        return super().setup(module, make_optimizers, precision)

    def optimizer_step(self, optimizer, closure=None):
        self.calls += 1
        return self.calls % 3 == 0 and super().optimizer_step(optimizer, closure)

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


class SavesAt(Callback):
    """Asks for a checkpoint after batch 4 of the first epoch: one call after the first step."""

    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if (trainer.current_epoch, batch_idx) == (0, 3):
            trainer.request_save(self.path, owner=self)


def test_a_resume_goes_on_where_the_strategy_was(trainer, loader, seeded, net, same, tmp_path):
    whole, path = seeded(net), tmp_path / "four.ckpt"
    trainer(strategy=Patient(), max_epochs=2, callbacks=[SavesAt(path)]).fit(whole, loader(shuffle=False))
    resumed = seeded(net)
    trainer(strategy=Patient(), max_epochs=2).fit(resumed, loader(shuffle=False), ckpt_path=str(path))
    same(resumed, whole)


def test_the_state_is_given_back_when_module_and_optimizers_have_theirs(trainer, loader, seeded, net, tmp_path):
    seen = []

    class Looks(Patient):
        def setup(self, module, make_optimizers, precision):
            self.optimizers = super().setup(module, make_optimizers, precision)[1]
            return module, self.optimizers

        def load_state_dict(self, state):
            seen.append((state, bool(self.optimizers[0].state)))

    class WithAdam(net):
        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    first, path = trainer(strategy=Patient(), limit_train_batches=4, max_epochs=1), tmp_path / "one.ckpt"
    first.fit(seeded(WithAdam), loader(shuffle=False))
    first.save_checkpoint(path)
    trainer(strategy=Looks(), max_epochs=2).fit(seeded(WithAdam), loader(shuffle=False), ckpt_path=str(path))
    assert seen == [({"calls": 4}, True)]


def test_another_number_of_ranks_begins_the_strategy_s_state_anew_and_says_so(trainer, loader, seeded, net, tmp_path):
    first = trainer(strategy=Patient(), limit_train_batches=4, max_epochs=1)
    first.fit(seeded(net), loader(shuffle=False))
    path = tmp_path / "two.ckpt"
    first.save_checkpoint(path)
    tree = torch.load(path, weights_only=True)
    tree["lt"] |= {"world_size": 2, "ranks": tree["lt"]["ranks"] * 2}
    torch.save(tree, path)
    second = trainer(strategy=Patient(), limit_train_batches=4, max_epochs=2)
    with pytest.warns(LtWarning, match=r"saved on 2 ranks and goes on with 1.*'single'.*\[LT619\]"):
        second.fit(seeded(net), loader(shuffle=False), ckpt_path=str(path))
    assert second.strategy.calls == 4


def test_a_strategy_without_a_state_adds_nothing_to_the_file(trainer, loader, net, tmp_path):
    fit = trainer(limit_train_batches=2)
    fit.fit(net(), loader())
    fit.save_checkpoint(tmp_path / "plain.ckpt")
    assert "strategy" not in torch.load(tmp_path / "plain.ckpt", weights_only=True)["lt"]["ranks"][0]
