"""lt's errors under lt.compat are caught by the types that Lightning 2.6.6 raises."""

import pickle
import sys
import traceback

import pytest
from tests import processes

from lt_compat.lightning.error_types import _CODES, caught_by_lightnings_types
from lt_core.errors import CheckpointError, ConfigError, ConfigTypeError, LtError

CODES = [(kind, code) for kind, codes in _CODES.items() for code in codes.split()]
BOTH = """
import pickle, sys
from lt_core.errors import ConfigError, DataError, MissingCheckpointError

def kinds(error):
    return {kind.__name__ for kind in type(error).__mro__}

before = ConfigError("a", code="LT301")
from lt_compat.install import install
install()
assert "RuntimeError" not in kinds(ConfigError("a", code="LT301"))
import lightning, pytorch_lightning
error = ConfigError("a", code="LT301")
assert {"ConfigError", "RuntimeError"} <= kinds(error) and "RuntimeError" not in kinds(before)
assert type(DataError("a")) is DataError and type(DataError("a", code="LT999")) is DataError
assert isinstance(MissingCheckpointError("a", code="LT611"), FileNotFoundError)
sys.stdout.buffer.write(pickle.dumps(error))
"""
WORKERS = """
import sys, torch, lightning
from torch.utils.data import DataLoader
from lt_core.errors import ConfigError

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        raise ConfigError("In the worker.", code="LT603")

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        try:
            next(iter(DataLoader(Data(), num_workers=1, multiprocessing_context=method, timeout=60)))
        except (KeyError, ValueError) as error:
            assert isinstance(error, ConfigError) and "In the worker. [LT603]" in str(error), error
            print(method, type(error) is type(ConfigError("a", code="LT603")))
"""


@pytest.fixture(autouse=True)
def lightnings_types(monkeypatch):
    monkeypatch.setattr(LtError, "__init__", LtError.__init__)
    caught_by_lightnings_types()


@pytest.mark.parametrize(("kind", "code"), CODES)
@pytest.mark.parametrize("own", [ConfigError, CheckpointError])
def test_an_error_is_caught_by_lightnings_type_and_by_lts_and_reads_as_before(own, kind, code):
    with pytest.raises(kind) as caught:
        raise own("Wrong.", code=code)
    error = caught.value
    assert isinstance(error, own)
    assert (error.message, error.code, str(error)) == ("Wrong.", code, f"Wrong. [{code}]")
    assert traceback.format_exception_only(error) == [f"lt_core.errors.{own.__name__}: Wrong. [{code}]\n"]
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (vars(again), again.args) == (vars(error), error.args)
    assert pickle.loads(pickle.dumps(type(error))) is type(error)  # as a DataLoader's worker sends it


def test_errors_of_other_codes_and_those_that_have_the_type_keep_their_class():
    assert type(ConfigError("a", code="LT101")) is ConfigError
    assert type(ConfigTypeError("a", code="LT113")) is ConfigTypeError
    assert type(ConfigError("a")) is ConfigError


@pytest.mark.parametrize("kind", [TypeError, RuntimeError, KeyError])
@pytest.mark.parametrize("code", ["LT134", "LT140", "LT171", "LT178", "LT304", "LT330", "LT332", "LT403"])
def test_a_type_that_lightning_raises_for_few_mistakes_leaves_the_rest_to_its_main_one(code, kind):
    assert not isinstance(ConfigError("a", code=code), kind)


def test_only_a_process_that_imports_lightning_has_the_types_and_another_reads_its_errors():
    done = processes.run([sys.executable, "-c", BOTH], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert isinstance(pickle.loads(done.stdout), (ConfigError, RuntimeError))


def test_an_error_in_a_worker_of_a_loader_reaches_the_process_that_waits(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WORKERS)
    done = processes.run(
        [sys.executable, "-m", "lt_compat", script], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.stdout.split(), done.returncode) == (["fork", "True", "spawn", "True"], 0), done.stderr
