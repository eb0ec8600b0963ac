import pytest

from lt_core.rank import process_rank

VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "JSM_NAMESPACE_RANK", "LOCAL_RANK")


@pytest.fixture(autouse=True)
def no_job(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def test_without_a_job_the_rank_is_0():
    assert process_rank() == 0


@pytest.mark.parametrize("variable", VARIABLES)
def test_launchers_and_schedulers_say_the_rank(monkeypatch, variable):
    monkeypatch.setenv(variable, "3")
    assert process_rank() == 3


def test_the_global_rank_goes_before_the_local_one(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("RANK", "5")
    assert process_rank() == 5
