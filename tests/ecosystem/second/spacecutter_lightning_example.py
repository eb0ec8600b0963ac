"""The README's ordinal regression: its callback keeps the cutpoints of an ordinal head in ascending order"""

# requires: spacecutter-lightning==1.0.1
# domain: statistics

import pytorch_lightning as pl
import torch
from spacecutter import CumulativeLinkLoss, OrdinalLogisticHead
from spacecutter_lightning import ClipCutpoints

if __name__ == "__main__":
    pl.seed_everything(0)
    num_classes = 10
    num_features = 5
    hidden_size = 10
    size = 200
    print("START")

    x = torch.randn(size, num_features)
    y = torch.randint(0, num_classes, (size, 1))

    train_dataloader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, y),
    )

    model = torch.nn.Sequential(
        torch.nn.Linear(num_features, hidden_size),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden_size, 1),
        OrdinalLogisticHead(num_classes),
    )

    loss_fn = CumulativeLinkLoss()

    class LitModel(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model
            self.loss_fn = loss_fn

        def forward(self, x):
            return self.model(x)

        def training_step(self, batch, batch_idx):
            x, y = batch
            y_hat = self(x)
            loss = self.loss_fn(y_hat, y)
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    trainer = pl.Trainer(
        callbacks=[ClipCutpoints()],
        max_epochs=10,
    )
    trainer.fit(LitModel(), train_dataloader)

    print("RESULT", {name: value.item() for name, value in trainer.callback_metrics.items()})
    print("RESULT", model[-1].link.cutpoints.tolist())
    print(
        "RESULT", trainer.global_step, trainer.current_epoch, sum(p.double().sum().item() for p in model.parameters())
    )
    saved = torch.load(trainer.checkpoint_callback.best_model_path, weights_only=True)
    print("RESULT", saved["epoch"], sorted(saved["state_dict"]))
