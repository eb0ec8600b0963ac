"""What tests of the kits share."""

import inspect

import pytest


@pytest.fixture
def caught_by(request):
    """Return whether a test of a kit fails; it gets the fixtures that it asks for. Skips where no Trainer is."""

    def caught(kit, test):
        method = getattr(kit(), test)
        given = {name: request.getfixturevalue(name) for name in inspect.signature(method).parameters}
        try:
            method(**given)
        except (Exception, pytest.fail.Exception):
            return True
        except pytest.skip.Exception as skip:
            if "needs the Trainer" in str(skip):
                raise
            return False
        return False

    return caught
