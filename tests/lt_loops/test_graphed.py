"""``Trainer(cuda_graphs=True)``: the same numbers as without it; by a stand-in for CUDA's graphs without a GPU."""

import pytest
import torch

from lt_core.errors import ConfigError
from lt_core.precision import Precision


class Logged:
    """Makes a net log its loss in each step."""

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.log_dict({"double": 2 * loss.detach()})
        return {"loss": loss, "kept": loss.detach() + 1}

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.__dict__.setdefault("seen", []).append((outputs["loss"].item(), outputs["kept"].item(), len(batch[0])))


def fit(trainer, net, loader, optimizer, stand_in=None, **arguments):
    torch.manual_seed(5)

    class Net(Logged, net):
        def configure_optimizers(self):
            self.mine = optimizer(self.parameters())
            if stand_in is not None:
                stand_in.watch(self, self.mine)
            scheduler = torch.optim.lr_scheduler.StepLR(self.mine, 7, 0.5)
            return {"optimizer": self.mine, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    module, run = Net(), trainer(max_epochs=2, log_every_n_steps=1, gradient_clip_val=0.5, **arguments)
    run.fit(module, loader(samples=42))  # batches of 4, the last one of 2
    return module, run


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
        lambda params: torch.optim.SGD(params, lr=torch.tensor(0.1)),
    ],
)
def test_weights_losses_and_logged_values_are_those_without_graphs(optimizer, stand_in, trainer, net, loader, same):
    plain, by_hand = fit(trainer, net, loader, optimizer)
    quick, replayed = fit(trainer, net, loader, optimizer, stand_in, cuda_graphs=True)
    same(plain, quick)
    assert plain.seen == quick.seen
    assert by_hand.logged_metrics == replayed.logged_metrics
    assert by_hand.callback_metrics == replayed.callback_metrics
    assert replayed.global_step == by_hand.global_step == 22
    assert stand_in.captures == (
        1 if isinstance(quick.mine.param_groups[0]["lr"], torch.Tensor) else 3
    )  # the rate was halved twice before a full batch


def test_everything_in_the_way_of_a_capture_is_named_before_the_first_step(trainer, net, loader):
    class Hooked(net):
        def on_after_backward(self):
            """Python in the middle of a step."""

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    with pytest.raises(
        ConfigError, match=r"runs on cpu.*on_after_backward is overridden.*Adam\(\.\.\., capturable=True\)"
    ):
        trainer(cuda_graphs=True).fit(Hooked(), loader())


@pytest.mark.cuda
@pytest.mark.parametrize("steps", [1, 4])
def test_graphs_on_a_gpu_give_the_same_numbers(steps, trainer, net, loader):
    class Trained(net):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.log("loss", loss, on_step=False, on_epoch=True)
            return loss

    def run(**arguments):
        torch.manual_seed(5)
        module, fitted = Trained(), trainer(max_epochs=2, accelerator="cuda", devices=1, **arguments)
        module.layers[2].p = 0.0  # a graph may draw in another order
        fitted.fit(module, loader(samples=42, shuffle=False))
        return module, fitted

    (plain, by_hand), (quick, replayed) = run(), run(cuda_graphs=True, steps_per_execution=steps)
    for mine, theirs in zip(plain.parameters(), quick.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(by_hand.callback_metrics["loss"], replayed.callback_metrics["loss"])
    assert replayed.global_step == 22


class Autocast(Precision):
    """What a step under autocast is, without a package that brings it."""

    def wrap_step(self, step):
        def under_autocast(*args):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return step(*args)

        return under_autocast


@pytest.mark.parametrize("size", [1, 2])
def test_weights_are_cast_anew_in_each_captured_step(size, stand_in, trainer, net, loader, same):
    torch.manual_seed(5)
    theirs = net(lambda module: torch.optim.SGD(module.parameters(), lr=torch.tensor(0.1)))
    optimizer = theirs.configure_optimizers()
    for batch in loader(samples=42):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = theirs.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def watched(module):
        stand_in.watch(module, alike := torch.optim.SGD(module.parameters(), lr=torch.tensor(0.1)))
        return alike

    torch.manual_seed(5)
    mine = net(watched)
    trainer(plugins=[Autocast()], cuda_graphs=True, steps_per_execution=size).fit(mine, loader(samples=42))
    assert stand_in.captures
    same(mine, theirs)
