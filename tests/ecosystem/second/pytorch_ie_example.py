"""The README's training of a span classifier of entities: task module, encodings, fit, model saved and loaded."""

# requires: pytorch-ie==0.33.0
# domain: language

from dataclasses import dataclass
from pathlib import Path

import pytorch_lightning as pl
from pytorch_ie import TaskEncodingDataset
from pytorch_ie.annotations import LabeledSpan
from pytorch_ie.core import AnnotationLayer, annotation_field
from pytorch_ie.documents import TextDocument
from pytorch_ie.models.transformer_span_classification import TransformerSpanClassificationModel
from pytorch_ie.taskmodules.transformer_span_classification import TransformerSpanClassificationTaskModule
from pytorch_lightning.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader
from transformers import BertConfig, BertModel, BertTokenizerFast


@dataclass
class Document(TextDocument):
    entities: AnnotationLayer[LabeledSpan] = annotation_field(target="text")  # noqa: RUF009


def documents(count, offset):
    names = {"anna": "PER", "boris": "PER", "acme": "ORG", "initech": "ORG"}
    for number in range(offset, offset + count):
        words = ["today", list(names)[number % 4], "met", list(names)[number * 3 % 4], "again"]
        document = Document(" ".join(words))
        begin = 0
        for word in words:
            if word in names:
                document.entities.append(LabeledSpan(start=begin, end=begin + len(word), label=names[word]))
            begin += len(word) + 1
        yield document


if __name__ == "__main__":
    pl.seed_everything(42)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "today", "anna", "boris", "acme", "initech", "met", "again"]
    Path("bert").mkdir()
    Path("bert/vocab.txt").write_text("\n".join(words), "utf-8")
    BertTokenizerFast("bert/vocab.txt").save_pretrained("bert")
    BertModel(
        BertConfig(vocab_size=12, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    ).save_pretrained("bert")
    print("START")
    train_docs, val_docs = list(documents(24, 0)), list(documents(6, 30))
    task_module = TransformerSpanClassificationTaskModule(
        tokenizer_name_or_path="bert", entity_annotation="entities", max_length=32
    )
    task_module.prepare(train_docs)
    task_module.save_pretrained("model_output")
    loaders = [
        DataLoader(
            TaskEncodingDataset(task_module.encode(docs, encode_target=True)),
            batch_size=8,
            shuffle=docs is train_docs,
            collate_fn=task_module.collate,
        )
        for docs in (train_docs, val_docs)
    ]
    model = TransformerSpanClassificationModel(
        model_name_or_path="bert",
        num_classes=len(task_module.label_to_id),
        t_total=len(loaders[0]) * 3,
        learning_rate=1e-2,
    )
    checkpoint = ModelCheckpoint(
        monitor="val/f1",
        dirpath="model_output",
        filename="zs-ner-{epoch:02d}-val_f1-{val/f1:.2f}",
        save_top_k=1,
        mode="max",
        auto_insert_metric_name=False,
        save_weights_only=True,
    )
    trainer = pl.Trainer(fast_dev_run=False, max_epochs=3, callbacks=[checkpoint], precision=32)
    trainer.fit(model, *loaders)
    for name, value in sorted(trainer.callback_metrics.items()):
        print("RESULT", name, value.item())
    print("RESULT", Path(checkpoint.best_model_path).name, sum(p.double().sum().item() for p in model.parameters()))
    model.save_pretrained("model_output")
    print("RESULT", sorted(path.name for path in Path("model_output").iterdir()))
    loaded = TransformerSpanClassificationModel.from_pretrained("model_output")
    print("RESULT", sum(p.double().sum().item() for p in loaded.parameters()))
