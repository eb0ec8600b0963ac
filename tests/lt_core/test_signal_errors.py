"""A signal handler's error is found behind others, however they refer to each other."""

import os
import signal
import threading

import pytest

from lt_core.errors import from_signal_handler


def its_own_cause(first):
    raise first from first


def each_other_s_cause(first):
    second = KeyError("second")
    second.__cause__, first.__cause__ = first, second
    raise first


def raised_again_later(first):
    try:
        raise KeyError("second") from first
    except KeyError as second:
        raise first from second


def three_in_a_circle(first):
    first.__cause__, (second, third) = KeyError("second"), (OSError("third"), ValueError("fourth"))
    first.__cause__.__context__, second.__cause__, third.__cause__ = second, third, first
    raise first


def alone(first):
    raise first


SHAPES = [alone, its_own_cause, each_other_s_cause, raised_again_later, three_in_a_circle]


def raised(shape, inside=None):
    """Return the error, made by ``shape``; ``inside`` is the oldest context."""
    try:
        try:
            if inside is not None:
                raise inside
            raise ValueError("first")
        except Exception as first:
            shape(first if inside is None else OSError("retried"))
    except Exception as error:
        return error


def looked_for(error):
    found = []
    thread = threading.Thread(target=lambda: found.append(from_signal_handler(error)), daemon=True)
    thread.start()
    thread.join(20)
    assert found, "it looks for ever"
    return found[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_errors_that_refer_to_each_other_end(shape):
    assert looked_for(raised(shape)) is None


class Empty(Exception):
    """Counts as false."""

    def __len__(self):
        return 0


@pytest.mark.skipif(os.name == "nt", reason="has no such signal")
@pytest.mark.parametrize("kind", [RuntimeError, Empty])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("beside", [False, True])
def test_a_handler_s_error_is_found_behind_them(shape, kind, beside):
    """``beside``: it is the context of an error that has another cause."""
    fault = kind("a worker was killed")

    def handle(number, frame):
        raise fault

    def interrupted():
        signal.raise_signal(signal.SIGUSR2)

    before = signal.signal(signal.SIGUSR2, handle)
    try:
        try:
            interrupted()
        except kind as error:
            found = raised(shape, error)
        if beside:
            try:
                try:
                    raise found
                except Exception:
                    raise OSError("gave up") from ValueError("of another place")
            except OSError as error:
                found = error
        assert looked_for(found) is fault
    finally:
        signal.signal(signal.SIGUSR2, before)
