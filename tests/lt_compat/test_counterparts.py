import pytest

from lt_compat.names.counterparts import path_below_root, why_gone


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("pytorch_lightning", ""),
        ("lightning.pytorch.callbacks", "callbacks"),
        ("lightning.fabric.utilities", "utilities"),
        ("lightning", ""),
        ("lightning_utilities", None),
        ("torch", None),
    ],
)
def test_a_module_is_seen_from_lightnings_root(module, path):
    assert path_below_root(module) == path


def test_what_is_gone_has_advice():
    assert "torchmetrics" in why_gone("metrics.functional", "accuracy")
    assert why_gone("callbacks", "Anything") == ""
