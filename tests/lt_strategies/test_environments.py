import pytest

from lt_core.errors import ConfigError
from lt_strategies import Kubernetes, Lsf, Mpi, Slurm, Torchrun
from lt_strategies.environments import first_host

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "x",
    "RANK": "3",
    "LOCAL_RANK": "1",
    "GROUP_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "host",
    "MASTER_PORT": "2345",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_NTASKS": "6",
    "SLURM_NNODES": "2",
    "SLURM_STEP_TASKS_PER_NODE": "4,2",
    "SLURM_STEP_NODELIST": "gpu-[07-08]",
}
MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "job",
}
LSF = {"LSB_JOBID": "9", "JSM_NAMESPACE_RANK": "2", "JSM_NAMESPACE_SIZE": "4", "JSM_NAMESPACE_LOCAL_RANK": "0"}
PODS = {
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "MASTER_ADDR": "pod-0",
    "MASTER_PORT": "1234",
    "WORLD_SIZE": "3",
    "RANK": "2",
}
ALL = (Kubernetes, Lsf, Mpi, Slurm, Torchrun)


@pytest.fixture
def variables(monkeypatch):
    for name in {*TORCHRUN, *SLURM, *MPI, *LSF, *PODS, "LSB_HOSTS", "LSB_DJOB_RANKFILE"}:
        monkeypatch.delenv(name, raising=False)

    def set_all(values):
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return set_all


@pytest.mark.parametrize("kind", ALL)
def test_no_environment_is_found_where_nothing_says_so(kind, variables):
    assert kind.detect() is None


def test_torchrun_says_rank_and_place(variables):
    variables(TORCHRUN)
    found = Torchrun.detect()
    assert (found.rank, found.local_rank, found.node_rank, found.world_size, found.local_world_size) == (3, 1, 1, 4, 2)
    assert (found.rendezvous, found.restart_count, found.processes_exist) == ("env://", 2, True)


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind is not Torchrun])
def test_torchrun_inside_a_cluster_s_job_is_the_only_one_in_force(kind, variables):
    variables({**SLURM, **MPI, **LSF, **PODS, **TORCHRUN})
    assert kind.detect() is None


def test_slurm_says_rank_tasks_of_this_node_and_the_first_host(variables):
    variables(SLURM)
    found = Slurm.detect()
    assert (found.rank, found.local_rank, found.node_rank, found.world_size, found.local_world_size) == (5, 1, 1, 6, 2)
    assert found.main_address == "gpu-07"


def test_all_tasks_of_a_slurm_job_take_the_same_port_and_another_job_another(variables):
    variables(SLURM)
    first = Slurm.detect().main_port
    variables({"SLURM_PROCID": "0"})
    assert Slurm.detect().main_port == first
    variables({"SLURM_JOB_ID": "78"})
    assert Slurm.detect().main_port != first


def test_a_slurm_job_on_one_node_stays_on_loopback(variables):
    variables({**SLURM, "SLURM_NNODES": "1", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "6"})
    assert Slurm.detect().rendezvous.startswith("tcp://127.0.0.1:")


def test_a_slurm_job_of_one_task_is_an_ordinary_machine(variables):
    variables({**SLURM, "SLURM_NTASKS": "1"})
    assert Slurm.detect() is None


def test_the_user_s_address_and_port_win(variables):
    variables({**SLURM, "MASTER_ADDR": "here", "MASTER_PORT": "4321"})
    assert Slurm.detect().rendezvous == "tcp://here:4321"


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("node7", "node7"),
        ("node[7-9,12],other", "node7"),
        ("a,b", "a"),
        ("gpu-[003-010,12]-ib,login1", "gpu-003-ib"),
        ("", ""),
    ],
)
def test_the_first_host_of_a_slurm_node_list_is_read(nodes, first):
    assert first_host(nodes) == first


def test_mpi_says_rank_and_place(variables):
    variables(MPI)
    found = Mpi.detect()
    assert (found.rank, found.local_rank, found.world_size, found.local_world_size) == (1, 1, 2, 2)
    assert found.main_address == "127.0.0.1"


def test_mpi_on_several_nodes_needs_an_address(variables):
    variables({**MPI, "OMPI_COMM_WORLD_SIZE": "4"})
    with pytest.raises(ConfigError, match="Set MASTER_ADDR"):
        Mpi.detect()


def test_lsf_reads_its_hosts(variables, tmp_path):
    (tmp_path / "ranks").write_text("launch\nhost-a\nhost-a\nhost-b\nhost-b\n")
    variables({**LSF, "LSB_DJOB_RANKFILE": str(tmp_path / "ranks")})
    found = Lsf.detect()
    assert (found.rank, found.node_rank, found.local_world_size, found.main_address) == (2, 1, 2, "host-a")


def test_pods_of_kubernetes_are_one_process_each(variables):
    variables(PODS)
    found = Kubernetes.detect()
    assert (found.rank, found.local_rank, found.node_rank, found.local_world_size) == (2, 0, 2, 1)
    assert found.rendezvous == "tcp://pod-0:1234"


def test_a_variable_that_is_no_number_is_named(variables):
    variables({**TORCHRUN, "RANK": "three"})
    with pytest.raises(ConfigError, match="RANK should be a whole number.*'three'"):
        Torchrun.detect()
