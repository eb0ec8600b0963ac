"""What the loggers' tests share."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def trackio_folder(tmp_path_factory):
    """Trackio's folder of all runs, which it takes from the environment when it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACKIO_DIR", str(tmp_path_factory.mktemp("trackio")))
        yield
