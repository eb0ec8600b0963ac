import pytest

from lt_core.errors import ConfigError
from lt_strategies import Kubernetes, Lsf, Mpi, Plain, Slurm, Torchrun, environments
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
PLAIN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
OTHERS = (
    "LSB_HOSTS",
    "LSB_DJOB_RANKFILE",
    "GROUP_WORLD_SIZE",
    "NODE_RANK",
    "SLURM_JOB_NAME",
    "SLURM_PTY_PORT",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NUM_TASKS",
)
ALL = (Kubernetes, Lsf, Mpi, Plain, Slurm, Torchrun)


@pytest.fixture
def variables(monkeypatch):
    for name in {*TORCHRUN, *SLURM, *MPI, *LSF, *PODS, *OTHERS}:
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


def test_a_batch_script_is_one_process_however_many_tasks_its_allocation_has(variables):
    step = ("SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE")
    variables({name: value for name, value in SLURM.items() if name not in step} | {"SLURM_PROCID": "0"})
    assert Slurm.detect() is None


def test_the_shell_of_salloc_is_a_step_of_one_task_in_a_job_of_many(variables):
    variables({**SLURM, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_JOB_NAME": "interactive"})
    assert Slurm.detect() is None


@pytest.mark.parametrize("how", [{"SLURM_PTY_PORT": "40000"}, {"SLURM_JOB_NAME": "bash"}])
def test_the_shell_of_srun_is_no_job_of_many(variables, monkeypatch, how):
    variables({**SLURM, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_ID": "0", **how})
    monkeypatch.setattr(environments, "_has_terminal", lambda: False)
    assert Slurm.detect() is None
    variables({"SLURM_STEP_ID": "3"})
    monkeypatch.setattr(environments, "_has_terminal", lambda: True)
    assert Slurm.detect() is None


def test_what_srun_starts_from_that_shell_is_a_job_again(variables, monkeypatch):
    step = {"SLURM_STEP_NUM_TASKS": "6", "SLURM_STEP_ID": "1"}
    variables({**SLURM, "SLURM_JOB_NAME": "bash", "SLURM_PTY_PORT": "40000", **step})
    monkeypatch.setattr(environments, "_has_terminal", lambda: False)
    for rank in ("0", "5"):
        variables({"SLURM_PROCID": rank})
        assert Slurm.detect().world_size == 6


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("node7", "node7"),
        ("node[7-9,12],other", "node7"),
        ("a,b", "a"),
        ("gpu-[003-010,12]-ib,login1", "gpu-003-ib"),
        ("rack[1-2]node[3-4]", "rack1node3"),
        ("rack[4]node[03,7-9]-ib[2],other[1-2]", "rack4node03-ib2"),
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


def test_plain_variables_on_loopback_are_a_job_of_this_machine(variables):
    variables(PLAIN)
    found = Plain.detect()
    assert (found.rank, found.local_rank, found.world_size, found.local_world_size, found.nodes) == (1, 1, 2, 2, 1)
    assert found.rendezvous == "tcp://127.0.0.1:29500"


def test_plain_variables_with_another_machine_are_a_process_on_each_node(variables):
    variables({**PLAIN, "MASTER_ADDR": "first", "MASTER_PORT": "1234"})
    found = Plain.detect()
    assert (found.rank, found.local_rank, found.node_rank, found.local_world_size, found.nodes) == (1, 0, 1, 1, 2)
    assert found.rendezvous == "tcp://first:1234"


@pytest.mark.parametrize("rank", [{"RANK": "3", "GROUP_RANK": "1"}, {"NODE_RANK": "1"}])
def test_what_else_plain_variables_say_is_read(variables, rank):
    more = {"MASTER_ADDR": "first", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    variables({**more, **rank})
    found = Plain.detect()
    assert (found.rank, found.local_rank, found.node_rank, found.local_world_size, found.nodes) == (3, 1, 1, 2, 2)


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE", "MASTER_ADDR"])
def test_two_of_the_three_plain_variables_are_no_job(variables, missing):
    variables({name: value for name, value in PLAIN.items() if name != missing})
    assert Plain.detect() is None


def test_plain_variables_with_a_local_rank_must_say_how_many_are_here(variables):
    variables({**PLAIN, "MASTER_ADDR": "first", "LOCAL_RANK": "0"})
    with pytest.raises(ConfigError, match=r"Set LOCAL_WORLD_SIZE too"):
        Plain.detect()


def test_torchrun_says_its_nodes(variables):
    variables({**TORCHRUN, "GROUP_WORLD_SIZE": "2"})
    assert Torchrun.detect().num_nodes == 2


def test_nodes_with_different_numbers_of_tasks_are_counted_right(variables):
    variables(SLURM)
    for node, tasks in (("0", 4), ("1", 2)):
        variables({"SLURM_NODEID": node})
        found = Slurm.detect()
        assert (found.local_world_size, found.nodes) == (tasks, 2)


def test_a_variable_that_is_no_number_is_named(variables):
    variables({**TORCHRUN, "RANK": "three"})
    with pytest.raises(ConfigError, match="RANK should be a whole number.*'three'"):
        Torchrun.detect()
