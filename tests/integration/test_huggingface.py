"""Models of transformers and peft, tiny and made from configs, through a Trainer: nothing is downloaded.

They run in `nox -s examples`, whose environment holds the libraries; the models' own loss is the oracle.
"""

import json

import pytest
import torch
from torch.utils.data import DataLoader

import lt as pl
from lt.callbacks import ModelCheckpoint
from lt_huggingface import PushToHub, SavePretrained, TransformersModule, load_adapters, tokenize_chat
from lt_recipes import chunked_cross_entropy, pack, schedule

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
datasets = pytest.importorskip("datasets")
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # of peft's own use

ROWS = [[(7 * row + column) % 30 for column in range(3 + row % 4)] for row in range(24)]


def model(dropout=0.1):
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    drops = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), dropout)
    config = transformers.GPT2Config(**sizes, **ends, **drops)
    return transformers.GPT2LMHeadModel(config)


def adapted():
    return peft.get_peft_model(model(), peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True))


def collate(rows):
    rows = [row["ids"] if isinstance(row, dict) else row for row in rows]
    longest = max(map(len, rows))
    ids = torch.tensor([list(row) + [0] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def loader(rows=ROWS):
    return DataLoader(rows, batch_size=4, collate_fn=collate)


def trainer(folder, **arguments):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
    arguments.setdefault("enable_checkpointing", False)
    return pl.Trainer(default_root_dir=folder, **quiet, **arguments)


def same(one, other):
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def test_a_model_trains_as_by_transformers_own_loss_optimizer_and_schedule(tmp_path):
    module = TransformersModule(model(), lr=1e-2, warmup_steps=3)
    torch.manual_seed(5)
    trainer(tmp_path, max_epochs=2).fit(module, loader())

    wanted = model().train()
    parameters = list(wanted.parameters())
    groups = [{"params": [p for p in parameters if p.ndim > 1]}, {"params": [p for p in parameters if p.ndim < 2]}]
    optimizer = torch.optim.AdamW([groups[0] | {"weight_decay": 0.01}, groups[1] | {"weight_decay": 0.0}], lr=1e-2)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 3, 12)
    torch.manual_seed(5)
    for _ in range(2):
        for batch in loader():
            optimizer.zero_grad()
            wanted(**batch).loss.backward()
            optimizer.step()
            schedule.step()
    same(module.model, wanted)


def test_every_token_weighs_the_same_however_batches_are_accumulated(tmp_path):
    found = []
    for size, window in ((8, 1), (2, 4)):
        module = TransformersModule(model(dropout=0.0).double(), lr=1e-2)
        data = DataLoader(ROWS, batch_size=size, collate_fn=collate)
        run = trainer(tmp_path, max_epochs=1, accumulate_grad_batches=window)
        run.fit(module, data)
        found.append((module, run.validate(module, data, verbose=False)[0]["val_loss"]))
    (one, loss), (other, other_loss) = found
    assert loss == pytest.approx(other_loss, rel=1e-6)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)  # the loss is float32, and Adam divides by little


def test_a_streamed_data_set_and_dropout_resume_bit_for_bit_in_the_middle(tmp_path):
    for shard in range(2):
        lines = (json.dumps({"ids": row}) for row in ROWS[shard::2])
        (tmp_path / f"{shard}.jsonl").write_text("\n".join(lines))

    def stream():
        files = [str(tmp_path / f"{shard}.jsonl") for shard in range(2)]
        return loader(datasets.load_dataset("json", data_files=files, split="train", streaming=True))

    def fit(steps, ckpt_path=None):
        module = TransformersModule(model(), lr=1e-2, schedule="constant")
        torch.manual_seed(5)
        run = trainer(tmp_path, max_steps=steps)
        run.fit(module, stream(), ckpt_path=ckpt_path)
        run.save_checkpoint(tmp_path / f"{steps}.ckpt")
        return module

    whole = fit(10)
    fit(4)
    torch.manual_seed(99)
    same(fit(10, tmp_path / "4.ckpt"), whole)


def test_adapters_are_saved_alone_and_come_back(tmp_path):
    module = TransformersModule(adapted(), lr=1e-2)
    keep = ModelCheckpoint(tmp_path / "kept", trainable_only=True)
    callbacks = [keep, SavePretrained(tmp_path / "adapters")]
    trainer(tmp_path, max_epochs=1, callbacks=callbacks, enable_checkpointing=True).fit(module, loader())
    names = {path.name for path in (tmp_path / "adapters").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors"} <= names
    assert "model.safetensors" not in names
    again = adapted()
    load_adapters(again, tmp_path / "adapters")
    same(again, module.model)
    state = torch.load(keep.best_model_path, weights_only=True)["state_dict"]
    assert state
    assert all("lora_" in name for name in state)
    by_peft = peft.PeftModel.from_pretrained(model(), tmp_path / "adapters")
    same(by_peft, module.model)


def test_adapters_of_another_rank_are_refused_by_name(tmp_path):
    module = TransformersModule(adapted())
    SavePretrained(tmp_path / "adapters").save(module)
    other = peft.get_peft_model(model(), peft.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True))
    with pytest.raises(pl.errors.CheckpointError, match=r"lora_A.*\(2, 8\) there and \(4, 8\).*LT936"):
        load_adapters(other, tmp_path / "adapters")


def test_a_saved_model_is_read_by_transformers(tmp_path):
    module = TransformersModule(model(), lr=1e-2)
    folder = tmp_path / "model"
    trainer(tmp_path, max_steps=2, callbacks=[SavePretrained(folder)]).fit(module, loader())
    same(transformers.AutoModelForCausalLM.from_pretrained(folder), module.model)
    again = TransformersModule(transformers.AutoModelForCausalLM.from_pretrained(folder))
    assert again.model.training  # from_pretrained leaves dropout off


class Client:
    """Stands in for huggingface_hub.HfApi: notes what it is asked for."""

    def __init__(self):
        self.asked = []

    def create_repo(self, repo_id, *, private=None, exist_ok=False):
        self.asked.append(("create", repo_id, private))

    def upload_folder(self, *, repo_id, folder_path, commit_message=None, revision=None):
        self.asked.append(("upload", repo_id, folder_path))


def test_the_stand_in_has_the_signature_of_the_hubs_client():
    inspect, hub = pytest.importorskip("inspect"), pytest.importorskip("huggingface_hub")
    for name in ("create_repo", "upload_folder"):
        real = inspect.signature(getattr(hub.HfApi, name)).parameters
        assert set(inspect.signature(getattr(Client, name)).parameters) <= set(real)


def test_the_model_is_pushed_when_the_fit_ends(tmp_path):
    client = Client()
    push = PushToHub("me/tiny", tmp_path / "model", client=client)
    trainer(tmp_path, max_steps=2, callbacks=[push]).fit(TransformersModule(model()), loader())
    assert client.asked == [("create", "me/tiny", True), ("upload", "me/tiny", str(tmp_path / "model"))]


def llama():
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "hidden_size": 16, "intermediate_size": 32}
    config = transformers.LlamaConfig(**sizes, num_hidden_layers=2, num_attention_heads=2)
    return transformers.LlamaForCausalLM(config)


@pytest.mark.parametrize("make", [llama, lambda: model(dropout=0.0)], ids=["Llama", "GPT-2"])
def test_packed_documents_have_the_loss_of_padded_ones(make, tmp_path):
    assert make().config.use_cache  # with which transformers would take them for a single document
    found = []
    for collated in (collate, lambda rows: pack([{"input_ids": row} for row in rows])):
        data = DataLoader(ROWS, batch_size=6, collate_fn=collated)
        module = TransformersModule(make(), lr=1e-3)
        run = trainer(tmp_path, max_epochs=1)
        run.fit(module, data)
        found.append((run.validate(module, data, verbose=False)[0]["val_loss"], module))
    (padded, one), (packed, other) = found
    assert packed == pytest.approx(padded, rel=1e-6)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    batch = next(iter(data))
    first = one.predict_step({"input_ids": batch["input_ids"][:, :3]}, 0)
    torch.testing.assert_close(one.predict_step(batch, 0)[:, :3], first, rtol=1e-4, atol=1e-5)


def test_the_loss_in_chunks_is_that_of_the_model():
    net, ids = llama(), torch.randint(0, 30, (3, 9))
    hidden = net.model(input_ids=ids).last_hidden_state[:, :-1]
    ours = chunked_cross_entropy(hidden, net.lm_head.weight, ids[:, 1:], chunk=4)
    torch.testing.assert_close(ours, net(input_ids=ids, labels=ids).loss, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "theirs", "arguments"),
    [
        ("constant", "constant_with_warmup", {}),
        ("linear", "linear", {}),
        ("cosine", "cosine", {}),
        ("warmup_stable_decay", "warmup_stable_decay", {"num_decay_steps": 5, "decay_type": "linear"}),
    ],
)
def test_a_schedule_has_the_rates_of_transformers(name, theirs, arguments):
    rates = []
    for own in (True, False):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.3)
        if own:
            made = schedule(optimizer, name, 20, warmup=4, decay=5)["scheduler"]
        else:
            made = transformers.get_scheduler(theirs, optimizer, 4, 20, scheduler_specific_kwargs=arguments)
        rates.append([])
        for _ in range(20):
            rates[-1].append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            made.step()
    assert rates[0] == pytest.approx(rates[1])


TEMPLATE = (
    "{% for m in messages %}{{ '<' + m.role + '> ' }}{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content + ' </s> ' }}{% endgeneration %}{% else %}{{ m.content + ' ' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant> ' }}{% endif %}"
)


def test_the_assistants_tokens_are_those_that_a_template_marks_itself():
    tokenizers = pytest.importorskip("tokenizers")
    words = ["[UNK]", "</s>", "<system>", "<user>", "<assistant>", *"abcdefgh"]
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, chat_template=TEMPLATE)
    said = [("system", "a b"), ("user", "c"), ("assistant", "d e f"), ("user", "g"), ("assistant", "h")]
    messages = [{"role": role, "content": text} for role, text in said]
    marked = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    chat = tokenize_chat(tokenizer, messages)
    assert chat["input_ids"] == list(marked["input_ids"])
    spoken = zip(chat["input_ids"], marked["assistant_masks"], strict=True)
    assert chat["labels"] == [token if mark else -100 for token, mark in spoken]
