"""lt's errors under lt.compat are caught by the types that Lightning 2.6.6 raises."""

import pickle
import subprocess
import sys
import traceback

import pytest

from lt_compat.lightning.error_types import _CODES, caught_by_lightnings_types
from lt_core.errors import CheckpointError, ConfigError, ConfigTypeError, LtError

CODES = [(kind, code) for kind, codes in _CODES.items() for code in codes.split()]
BOTH = """
import pickle, sys
from lt_core.errors import ConfigError, DataError, MissingCheckpointError

def kinds(error):
    return {kind.__name__ for kind in type(error).__mro__}

before = ConfigError("a", code="LT140")
from lt_compat.install import install
install()
assert "RuntimeError" not in kinds(ConfigError("a", code="LT140"))
import lightning, pytorch_lightning
error = ConfigError("a", code="LT140")
assert {"ConfigError", "RuntimeError", "TypeError"} <= kinds(error) and "RuntimeError" not in kinds(before)
assert type(DataError("a")) is DataError and type(DataError("a", code="LT999")) is DataError
assert isinstance(MissingCheckpointError("a", code="LT611"), FileNotFoundError)
sys.stdout.buffer.write(pickle.dumps(error))
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


def test_errors_of_other_codes_and_those_that_have_the_type_keep_their_class():
    assert type(ConfigError("a", code="LT101")) is ConfigError
    assert type(ConfigTypeError("a", code="LT113")) is ConfigTypeError
    assert type(ConfigError("a")) is ConfigError


def test_only_a_process_that_imports_lightning_has_the_types_and_another_reads_its_errors():
    done = subprocess.run([sys.executable, "-c", BOTH], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert isinstance(pickle.loads(done.stdout), (ConfigError, RuntimeError))
