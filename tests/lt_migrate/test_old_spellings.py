import pytest

from lt_migrate.old_spellings import new_arguments

REWRITTEN = {
    ("gpus", "2"): {"accelerator": '"gpu"', "devices": "2"},
    ("gpus", "0"): {"accelerator": '"cpu"'},
    ("gpus", "None"): {},
    ("gpus", "[0, 1]"): {"accelerator": '"gpu"', "devices": "[0, 1]"},
    ("tpu_cores", "8"): {"accelerator": '"tpu"', "devices": "8"},
    ("accelerator", '"ddp"'): {"strategy": '"ddp"'},
    ("accelerator", '"gpu"'): {"accelerator": '"gpu"'},
    ("distributed_backend", '"ddp_cpu"'): {"accelerator": '"cpu"', "strategy": '"ddp_spawn"'},
    ("precision", "16"): {"precision": '"16-mixed"'},
    ("progress_bar_refresh_rate", "0"): {"enable_progress_bar": "False"},
    ("weights_summary", "None"): {"enable_model_summary": "False"},
    ("checkpoint_callback", "False"): {"enable_checkpointing": "False"},
    ("reload_dataloaders_every_epoch", "True"): {"reload_dataloaders_every_n_epochs": "1"},
    ("replace_sampler_ddp", "flag"): {"use_distributed_sampler": "flag"},
    ("flush_logs_every_n_steps", "5"): {},
    ("max_epochs", "3"): {"max_epochs": "3"},
}


@pytest.mark.parametrize(("old", "new"), REWRITTEN.items(), ids=lambda case: str(case)[:40])
def test_an_argument_of_1x_is_rewritten(old, new):
    name, value = old
    assert new_arguments({name: value}) == ({name: new}, {})


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("gpus", "args.gpus", "auto"),
        ("resume_from_checkpoint", "path", "ckpt_path=path"),
        ("auto_lr_find", "True", "lr_find"),
        ("checkpoint_callback", "saver", "callbacks"),
    ],
)
def test_what_only_a_person_can_decide_stays_with_advice(name, value, advice):
    new, told = new_arguments({name: value})
    assert new == {name: {name: value}}
    assert advice in told[name]


def test_an_argument_is_written_once():
    new, _ = new_arguments({"gpus": "1", "accelerator": '"gpu"', "max_epochs": "2"})
    assert [name for arguments in new.values() for name in arguments] == ["accelerator", "devices", "max_epochs"]
