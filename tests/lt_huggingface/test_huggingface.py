"""What needs no library of Hugging Face: a stand-in has the two things that are asked of a model."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from lt_core.errors import CheckpointError, ConfigError, DataError, HookError, LtWarning
from lt_huggingface import PushToHub, SavePretrained, TransformersModule, tokenize_chat
from lt_testing import FakeTrainer


class Model(nn.Module):
    """A model that is called with a batch's entries and saves itself, as those of transformers."""

    def __init__(self, fails=False):
        super().__init__()
        self.layer, self.norm, self.fails = nn.Linear(2, 1), nn.LayerNorm(1), fails

    def forward(self, x, labels=None):
        logits = self.norm(self.layer(x))
        loss = None if labels is None else (logits.squeeze(1) - labels).square().mean()
        return SimpleNamespace(loss=loss, logits=logits)

    def save_pretrained(self, folder):
        (folder / "config.json").write_text("{}")
        if self.fails:
            raise OSError("No space left on device")
        (folder / "model.safetensors").write_bytes(b"weights")


class Client:
    def __init__(self, create=None, upload=None):
        self.create, self.upload, self.asked = create, upload, []

    def create_repo(self, repo_id, **named):
        if self.create is not None:
            raise self.create

    def upload_folder(self, **named):
        self.asked.append(named)
        if self.upload is not None:
            raise self.upload


BATCH = {"x": torch.ones(3, 2), "labels": torch.zeros(3)}


def test_a_batch_without_labels_is_an_error_that_names_its_keys():
    with pytest.raises(HookError, match="Model returned no loss for a batch with 'x'.*LT932"):
        TransformersModule(Model()).training_step({"x": BATCH["x"]}, 0)


def test_a_batch_that_is_no_dict_is_an_error():
    with pytest.raises(HookError, match="received list.*LT931"):
        TransformersModule(Model()).training_step([BATCH["x"]], 0)


def test_an_unknown_schedule_is_an_error():
    with pytest.raises(ConfigError, match="'linear', 'cosine', 'constant', 'warmup_stable_decay'.*LT930"):
        TransformersModule(Model(), schedule="cos")


def test_prediction_leaves_the_labels_out_and_returns_logits():
    module = TransformersModule(Model())
    assert torch.equal(module.predict_step(BATCH, 0), module.model(BATCH["x"]).logits)


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant", "warmup_stable_decay"])
def test_decay_spares_biases_and_norms_and_the_rate_rises_first(schedule):
    module = TransformersModule(Model(), lr=1.0, warmup_steps=0.5, weight_decay=0.3, schedule=schedule)
    module.trainer = trainer = FakeTrainer(estimated_stepping_batches=8)
    made = module.configure_optimizers()
    optimizer, scheduler = made["optimizer"], made["lr_scheduler"]["scheduler"]
    assert [(len(group["params"]), group["weight_decay"]) for group in optimizer.param_groups] == [(1, 0.3), (3, 0.0)]
    factors = [scheduler.lr_lambdas[0](step) for step in (0, 2, 4, 8)]
    assert scheduler.lr_lambdas[0](7.6) == pytest.approx(
        {"constant": 1, "warmup_stable_decay": 0.25, "linear": 0.1, "cosine": (1 + math.cos(0.9 * math.pi)) / 2}[
            schedule
        ]
    )
    assert trainer.estimated_stepping_batches == 8
    assert factors == pytest.approx([0, 0.5, 1, 1 if schedule == "constant" else 0])


def test_a_folder_is_replaced_whole_and_a_failed_save_leaves_the_old_one(tmp_path):
    save = SavePretrained(tmp_path / "model")
    save.save(TransformersModule(Model()))
    save.save(TransformersModule(Model()))
    with pytest.raises(CheckpointError, match="No space left.*LT934"):
        save.save(TransformersModule(Model(fails=True)))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == b"weights"


def test_a_model_that_cannot_save_itself_is_an_error_before_the_first_step(tmp_path):
    with pytest.raises(ConfigError, match="with save_pretrained; found Linear.*LT933"):
        SavePretrained(tmp_path / "m").on_fit_start(FakeTrainer(), TransformersModule(nn.Linear(1, 1)))


def test_a_refused_repository_ends_the_run_before_the_first_step(tmp_path):
    push = PushToHub("me/x", tmp_path / "m", client=Client(create=RuntimeError("401")))
    with pytest.raises(ConfigError, match="RuntimeError: 401.*hf auth login.*LT937"):
        push.on_fit_start(FakeTrainer(), TransformersModule(Model()))


def test_a_failed_upload_keeps_the_files_and_says_how_to_go_on(tmp_path):
    push = PushToHub("me/x", tmp_path / "m", client=Client(upload=OSError("gone")))
    with pytest.warns(LtWarning, match=r"hf upload me/x .*LT938"):
        push.on_fit_end(FakeTrainer(), TransformersModule(Model()))
    assert (tmp_path / "m" / "model.safetensors").is_file()


def test_a_batch_without_a_counted_label_leaves_the_epochs_loss_finite():
    class Tokens(Model):
        def forward(self, x, labels=None):
            logits = self.layer(x)
            return SimpleNamespace(loss=logits.mean() * (labels != -100).sum() / (labels != -100).sum(), logits=logits)

    module, logged = TransformersModule(Tokens()), []
    module.log = lambda name, value, **given: logged.append((value.item(), given["batch_size"]))
    module.validation_step({"x": torch.ones(1, 2), "labels": torch.full((1, 3), -100)}, 0)
    assert logged == [(0.0, 0)]


class Tokenizer:
    """Writes a conversation as letters: ``U`` and ``A`` begin turns, ``.`` ends an answer."""

    def __init__(self, forgets=False, ending=""):
        self.forgets, self.ending = forgets, ending

    def apply_chat_template(self, messages, *, add_generation_prompt, return_dict, shout=False):
        assert not return_dict
        text = ""
        for place, turn in enumerate(messages):
            said = turn["content"]
            if self.forgets and place + 1 < len(messages):
                said = said.replace("?", "")
            text += f"A{said}." if turn["role"] == "assistant" else f"U{said}"
        text += "A" if add_generation_prompt else self.ending
        return [ord(letter) for letter in (text.upper() if shout else text)]


def turns(*said):
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(said)]


def learned(chat):
    return "".join("_" if label == -100 else chr(label) for label in chat["labels"])


@pytest.mark.parametrize(
    ("said", "labels"),
    [
        (["hi", "yes"], "____yes."),
        (["hi", "yes", "so", "no?"], "____yes.____no?."),
        (["hi"], "___"),
        (["hi", "yes", "so"], "____yes.___"),
        (["", ""], "__."),
    ],
)
def test_labels_stand_at_the_assistants_words_and_the_token_that_ends_them(said, labels):
    chat = tokenize_chat(Tokenizer(), turns(*said))
    assert learned(chat) == labels
    assert all(label in (-100, token) for label, token in zip(chat["labels"], chat["input_ids"], strict=True))
    assert len(chat["input_ids"]) == len(labels)


def test_a_conversation_may_begin_with_the_assistant_and_options_reach_the_template():
    chat = tokenize_chat(Tokenizer(), [{"role": "assistant", "content": "yes"}], shout=True)
    assert learned(chat) == "_YES."


@pytest.mark.parametrize(
    ("tokenizer", "said"), [(Tokenizer(forgets=True), ["a", "b?", "c", "d"]), (Tokenizer(ending="$"), ["a", "b", "c"])]
)
def test_a_template_whose_turns_change_later_is_an_error(tokenizer, said):
    with pytest.raises(DataError, match="otherwise where more turns follow.*LT807"):
        tokenize_chat(tokenizer, turns(*said))
    assert learned(tokenize_chat(Tokenizer(forgets=True), turns("a", "b?"))) == "___b?."
