"""The manifests of docs/how-to/kubernetes.md: fields by Kubeflow's own models, commands by two pods here."""

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.patience import PATIENCE

yaml = pytest.importorskip("yaml")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "kubernetes.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
MANIFESTS = {manifest["kind"]: manifest for block in BLOCKS for manifest in yaml.safe_load_all(block)}
MODELS = {
    "JobSet": "JobsetV1alpha2JobSet",
    "TrainJob": "TrainerV1alpha1TrainJob",
    "Job": "IoK8sApiBatchV1Job",
    "Service": "IoK8sApiCoreV1Service",
}
# What the controllers set in each pod, as their sources say.
INDEXED = [{"JOB_COMPLETION_INDEX": str(pod)} for pod in (0, 1)]
PYTORCH_JOB = [
    {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": str(pod),
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": "PORT",
    }
    for pod in (0, 1)
]
PLAIN = [{"RANK": str(pod), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "PORT"} for pod in (0, 1)]


def test_the_page_has_every_manifest_that_is_checked():
    assert {*MANIFESTS} == {*MODELS, "PyTorchJob"}


@pytest.mark.parametrize("kind", MODELS)
def test_a_manifest_has_the_fields_that_its_model_knows(kind):
    """A field that the model does not know is missing in what it gives back; one that lacks is there, and empty."""
    models = pytest.importorskip("kubeflow_trainer_api.models")
    assert getattr(models, MODELS[kind]).from_dict(MANIFESTS[kind]).to_dict() == MANIFESTS[kind]


def test_the_pytorch_job_has_the_fields_that_its_model_knows():
    pytest.importorskip("kubeflow.training")
    assert faults("KubeflowOrgV1PyTorchJob", MANIFESTS["PyTorchJob"]) == []


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"spec": {"pytorchReplicas": {}}}, ".spec: no pytorchReplicas in KubeflowOrgV1PyTorchJobSpec"),
        ({"spec": {"pytorchReplicaSpecs": {"Master": {"replicas": "1"}}}}, ".Master.replicas: '1' is no int"),
        ({"spec": {"pytorchReplicaSpecs": {"Master": {"template": {"spec": {"volumes": []}}}}}}, "`containers`"),
    ],
)
def test_faults_of_a_pytorch_job_are_found(wrong, fault):
    pytest.importorskip("kubeflow.training")
    assert fault in str(faults("KubeflowOrgV1PyTorchJob", wrong))


def faults(kind, value, path=""):
    """Return what is wrong with a value by the model of Kubeflow's SDK, or of the Kubernetes client's, of this name."""
    container = re.fullmatch(r"list\[(.*)\]|dict\(str, (.*)\)", kind)
    if container:
        items = enumerate(value) if kind.startswith("list") else value.items()
        return [fault for key, item in items for fault in faults(container[1] or container[2], item, f"{path}.{key}")]
    plain = {"str": str, "int": int, "bool": bool, "object": object}.get(kind)
    if plain:
        quantity = ".resources." in path  # Kubernetes takes a number as well, the model says "str"
        return [] if isinstance(value, plain) or quantity else [f"{path}: {value!r} is no {kind}"]
    homes = (import_module("kubeflow.training.models"), import_module("kubernetes.client.models"))
    model = next(getattr(home, kind) for home in homes if hasattr(home, kind))
    names = {theirs: ours for ours, theirs in model.attribute_map.items()}
    found = [f"{path}: no {key} in {kind}" for key in value if key not in names]
    known = {key: item for key, item in value.items() if key in names}
    try:
        model(**{names[key]: item for key, item in known.items()})  # it wants what is required
    except ValueError as error:
        found.append(f"{path}: {error}")
    types = model.openapi_types
    return found + [fault for key, item in known.items() for fault in faults(types[names[key]], item, f"{path}.{key}")]


def pod(manifest):
    """Return the pod of a manifest."""
    spec = manifest["spec"]
    if "replicatedJobs" in spec:
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    if "pytorchReplicaSpecs" in spec:
        spec = spec["pytorchReplicaSpecs"]["Worker"]
    return spec["template"]["spec"]


@pytest.mark.ddp
@pytest.mark.parametrize(
    ("kind", "pods", "command"),
    [
        ("JobSet", INDEXED, None),
        pytest.param("Job", INDEXED, None, marks=pytest.mark.slow),
        pytest.param("PyTorchJob", PYTORCH_JOB, None, marks=pytest.mark.slow),
        pytest.param("PyTorchJob", PLAIN, ["python", "train.py"], marks=pytest.mark.slow),
    ],
    ids=["JobSet", "Job", "PyTorchJob", "PyTorchJob without torchrun"],
)
def test_two_pods_train_with_a_manifests_command(tmp_path, kind, pods, command):
    torch = pytest.importorskip("torch")
    (script,) = re.findall(
        r'```python title="train.py"\n(.*?)```', PAGE.with_name("multi-node.md").read_text("utf-8"), flags=re.DOTALL
    )
    (tmp_path / "train.py").write_text(script)
    (container,) = pod(MANIFESTS[kind])["containers"]
    port = str(20_000 + os.getpid() % 10_000)
    here = {"--nproc-per-node=4": "--nproc-per-node=1", "29400": port, "$(hostname -i)": "127.0.0.1"}
    names = {"train-node-0-0.train": "127.0.0.1", "train-0.train": "127.0.0.1", "max-restarts=3": "max-restarts=0"}
    words = command or [*container["command"], *container.get("args", [])]
    for printed, meant in (here | names).items():
        words = [word.replace(printed, meant) for word in words]
    given = {row["name"]: row["value"] for row in container.get("env", [])}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LT_", "PYTEST_"))}
    kept["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    env = {**kept, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **given}
    started = [
        subprocess.Popen(
            [shutil.which(words[0], path=kept["PATH"]), *words[1:]],
            cwd=tmp_path,
            env={**env, **{key: value.replace("PORT", port) for key, value in variables.items()}},
            stderr=subprocess.PIPE,
            text=True,
        )
        for variables in pods
    ]
    said = [process.communicate(timeout=PATIENCE)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    (saved,) = tmp_path.glob("**/last*.ckpt")
    assert torch.load(saved, weights_only=True)["global_step"] == 3 * 4096 // 16 // 2
