import pytest

from lt_core import ConfigError, DataSource, Ranks, plugins
from lt_core.data_setup import prepare


class Source(DataSource):
    calls = 0

    def prepare_data(self):
        self.calls += 1


class Two(Ranks):
    world_size = 2


def test_one_process_prepares_once():
    source = Source()
    for _ in range(2):
        prepare(source, Ranks())
    assert source.calls == 1


def test_without_lt_data_several_ranks_cannot_prepare(monkeypatch):
    monkeypatch.setattr(plugins, "find", lambda group, name: None)
    with pytest.raises(ConfigError, match=r"2 ranks.*lt-data.*LT104"):
        prepare(Source(), Two())
