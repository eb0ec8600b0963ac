import pytest
import torch

from lt_core.errors import ConfigError
from lt_profilers import grad_norm


def test_the_total_is_the_norm_that_torch_clips_by():
    layer = torch.nn.Linear(3, 2)
    layer(torch.ones(4, 3)).sum().backward()
    norms = grad_norm(layer)
    assert norms["grad_2.0_norm_total"] == pytest.approx(torch.nn.utils.clip_grad_norm_(layer.parameters(), 1e9).item())
    assert set(norms) == {"grad_2.0_norm/weight", "grad_2.0_norm/bias", "grad_2.0_norm_total"}


def test_parameters_without_gradients_have_no_norm():
    assert grad_norm(torch.nn.Linear(3, 2), "inf") == {}


def test_a_norm_of_zero_is_refused():
    with pytest.raises(ConfigError, match="above 0"):
        grad_norm(torch.nn.Linear(1, 1), 0)
