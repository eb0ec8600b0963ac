"""The package says what it offers, and is found by name."""

import re
from pathlib import Path

import lt_profilers
from lt_core import plugins
from lt_core.callback import Callback
from lt_core.profiler import Profiler


def test_every_name_loads_and_the_stub_lists_the_same():
    stub = (Path(lt_profilers.__file__).parent / "__init__.pyi").read_text()
    assert sorted(re.findall(r" as (\w+)", stub)) == lt_profilers.__all__
    for name in lt_profilers.__all__:
        assert getattr(lt_profilers, name).__name__ == name


def test_profilers_and_callbacks_are_found_by_name():
    for name in ("advanced", "pytorch", "simple", "speed", "xla"):
        assert issubclass(plugins.load("profilers", name), Profiler)
    for name in ("device_stats_monitor", "memory_snapshot", "nan_guard", "spike_detection", "throughput_monitor"):
        kind = plugins.load("callbacks", name)
        assert issubclass(kind, Callback)
        assert kind.__name__.lower() == name.replace("_", "")
