import io
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from lt_core.errors import ConfigError, LtWarning
from lt_loggers import TensorBoardLogger
from lt_loggers.media import Audio, Histogram, Table, Video


@pytest.fixture
def accumulated():
    """Return what TensorBoard itself reads from a logger's folder."""
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

    def read(logger):
        found = module.EventAccumulator(logger.log_dir, size_guidance=dict.fromkeys(module.DEFAULT_SIZE_GUIDANCE, 0))
        return found.Reload()

    return read


def event_file(logger):
    (path,) = Path(logger.log_dir).glob("*tfevents*")
    return path


# ---- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 7, 64, 1000])
def test_a_record_is_tensorboards_own_byte_for_byte(size):
    record_writer = pytest.importorskip("tensorboard.summary.writer.record_writer")
    from lt_loggers.tensorboard.events import framed

    content = random.Random(size).randbytes(size)
    file = io.BytesIO()
    record_writer.RecordWriter(file).write(content)
    assert framed(SimpleNamespace(SerializeToString=lambda: content)) == file.getvalue()


def test_a_row_is_written_without_what_tensorboard_takes_longest_to_import(tmp_path):
    pytest.importorskip("tensorboard")
    code = (
        "import sys\nfrom lt_loggers import TensorBoardLogger\n"
        f"logger = TensorBoardLogger({str(tmp_path)!r})\nlogger.log_metrics({{'loss': 1.0}}, 0)\nlogger.save()\n"
        "print([name for name in sys.modules if name.startswith(('tensorboard.summary', 'fsspec', 'absl'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


# ---- numbers ---------------------------------------------------------------------------------------------------------


def test_tensorboard_reads_scalars_with_steps_and_times(tmp_path, accumulated):
    logger = TensorBoardLogger(tmp_path)
    for step in (0, 1, 127, 128, 2**31, 2**40):
        logger.log_metrics({"loss": 0.5, "acc": torch.tensor(step / 7)}, step)
    logger.save()
    scalars = accumulated(logger).Scalars("acc")
    assert [event.step for event in scalars] == [0, 1, 127, 128, 2**31, 2**40]
    assert [event.value for event in scalars] == [torch.tensor(e.step / 7).item() for e in scalars]
    assert all(event.wall_time > 1.7e9 for event in scalars)


def test_numbers_too_large_for_32_bits_are_infinite(tmp_path, accumulated):
    logger = TensorBoardLogger(tmp_path)
    logger.log_metrics({"up": 1e300, "down": -(10**400), "fine": 1.5}, 0)
    logger.save()
    read = accumulated(logger)
    assert [read.Scalars(name)[0].value for name in ("up", "down", "fine")] == [float("inf"), float("-inf"), 1.5]


def test_a_negative_step_is_kept(tmp_path, accumulated):
    logger = TensorBoardLogger(tmp_path)
    logger.log_metrics({"a": 1.0}, -5)
    logger.save()
    assert accumulated(logger).Scalars("a")[0].step == -5


# ---- hyperparameters -------------------------------------------------------------------------------------------------


def hparams_of(read):
    plugin_data = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    tags = read.summary_metadata
    content = {tag: tags[tag].plugin_data.content for tag in tags if tag.startswith("_hparams_/")}
    return {tag: plugin_data.HParamsPluginData.FromString(data) for tag, data in content.items()}


def test_hyperparameters_reach_the_hparams_tab(tmp_path, accumulated):
    logger = TensorBoardLogger(tmp_path)
    logger.log_hyperparams({"lr": 0.1, "net": {"act": torch.nn.ReLU, "bias": True, "sizes": [1, 2]}})
    logger.log_hyperparams({"late": 1})
    logger.log_metrics({"loss": 1.0}, 0)
    logger.finalize("success")
    found = hparams_of(accumulated(logger))
    values = found["_hparams_/session_start_info"].session_start_info.hparams
    assert (values["lr"].number_value, values["net/bias"].bool_value, values["late"].number_value) == (0.1, True, 1)
    assert values["net/sizes"].string_value == "[1, 2]"
    assert values["net/act"].string_value == "torch.nn.modules.activation.ReLU"
    assert found["_hparams_/session_end_info"].session_end_info.status == 1  # STATUS_SUCCESS


@pytest.mark.parametrize(
    ("metrics", "name", "value"), [({"best": 0.5}, "best", 0.5), (0.5, "hp_metric", 0.5), (0, "hp_metric", 0.0)]
)
def test_metrics_of_hyperparameters_are_scalars(tmp_path, accumulated, metrics, name, value):
    logger = TensorBoardLogger(tmp_path, default_hp_metric=False)
    logger.log_hyperparams({"lr": 0.1}, metrics)
    logger.save()
    read = accumulated(logger)
    assert read.Scalars(name)[0].value == value
    assert "_hparams_/session_start_info" in hparams_of(read)


def test_without_the_default_metric_hyperparameters_alone_are_not_shown(tmp_path, accumulated):
    logger = TensorBoardLogger(tmp_path, default_hp_metric=False)
    logger.log_hyperparams({"lr": 0.1})
    logger.log_metrics({"a": 1.0}, 0)
    logger.finalize("success")
    assert hparams_of(accumulated(logger)) == {}
    assert Path(logger.log_dir, "hparams.yaml").read_text() == "lr: 0.1\n"


# ---- media, graph, experiment ----------------------------------------------------------------------------------------


def test_images_are_read_back(tmp_path, accumulated):
    image = pytest.importorskip("PIL.Image")
    logger = TensorBoardLogger(tmp_path)
    pixels = torch.randint(0, 256, (3, 5, 7), dtype=torch.uint8)
    logger.log_media("picture", pixels, 4)
    logger.save()
    (event,) = accumulated(logger).Images("picture")
    (tmp_path / "x.png").write_bytes(event.encoded_image_string)
    assert (event.step, event.width, event.height) == (4, 7, 5)
    with image.open(tmp_path / "x.png") as shown:
        assert shown.tobytes() == bytes(pixels.permute(1, 2, 0).flatten().tolist())


def test_histograms_are_read_back(tmp_path, accumulated):
    logger = TensorBoardLogger(tmp_path)
    logger.log_media("weights", Histogram(torch.arange(100.0), bins=10), 1)
    logger.save()
    value = accumulated(logger).Histograms("weights")[0].histogram_value
    assert (value.min, value.max, value.num, value.sum) == (0, 99, 100, 4950)
    assert list(value.bucket) == [10.0] * 10


def test_texts_and_tables_are_read_back(tmp_path, accumulated):
    logger = TensorBoardLogger(tmp_path)
    logger.log_media("text", "hello *you*", 1)
    logger.log_media("table", Table(["a"], [["x|y"]]), 1)
    logger.save()
    read = accumulated(logger)
    assert read.Tensors("text")[0].tensor_proto.string_val[0] == b"hello *you*"
    assert read.Tensors("table")[0].tensor_proto.string_val[0] == b"| a |\n| --- |\n| x\\|y |"


def test_audio_and_video_are_read_back(tmp_path, accumulated):
    logger = TensorBoardLogger(tmp_path)
    logger.log_media("sound", Audio(torch.zeros(80), sample_rate=8000), 1)
    logger.log_media("film", Video(torch.rand(3, 1, 4, 4)), 1)
    logger.save()
    sound = accumulated(logger).Audio("sound")[0]
    assert (sound.sample_rate, sound.content_type, sound.length_frames) == (8000, "audio/wav", 80)
    assert b"acTL" in accumulated(logger).Images("film")[0].encoded_image_string


def test_the_experiment_is_a_summary_writer_on_the_same_file(tmp_path, accumulated):
    pytest.importorskip("tensorboard")
    logger = TensorBoardLogger(tmp_path)
    logger.log_metrics({"ours": 1.0}, 0)
    logger.experiment.add_scalar("theirs", 2.0, 1)
    logger.experiment.add_histogram("theirs/histogram", torch.arange(5), 1)
    logger.experiment.close()
    logger.experiment.add_scalar("later", 3.0, 2)
    logger.finalize("success")
    assert sorted(accumulated(logger).Tags()["scalars"]) == ["later", "ours", "theirs"]
    assert event_file(logger).exists()


class Model(torch.nn.Module):
    example_input_array = torch.ones(2, 4)

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout())

    def forward(self, x):
        return self.layers(x)


def test_the_graph_is_traced_without_leaving_a_trace(tmp_path, accumulated):
    pytest.importorskip("tensorboard")
    logger, model = TensorBoardLogger(tmp_path, log_graph=True), Model()
    model.layers[2].eval()
    before = [p.clone() for p in model.state_dict().values()], torch.get_rng_state()
    logger.log_graph(model)
    logger.save()
    assert all(torch.equal(a, b) for a, b in zip(before[0], model.state_dict().values(), strict=True))
    assert torch.equal(before[1], torch.get_rng_state())
    assert [part.training for part in model.layers] == [True, True, False]
    assert "Model/Sequential[layers]/Linear[0]" in str(accumulated(logger).Graph())


def test_the_graph_of_a_model_with_keywords_is_traced(tmp_path, accumulated):
    pytest.importorskip("tensorboard")
    logger = TensorBoardLogger(tmp_path, log_graph=True)
    logger.log_graph(Model(), {"x": torch.ones(2, 4)})
    logger.save()
    assert "Linear" in str(accumulated(logger).Graph())


def test_a_graph_without_an_input_is_explained(tmp_path):
    with pytest.warns(LtWarning, match="example_input_array"):
        TensorBoardLogger(tmp_path, log_graph=True).log_graph(torch.nn.Linear(1, 1))


@pytest.mark.parametrize("log_graph", [False, True])
def test_an_example_that_is_drawn_at_each_read_leaves_the_generators_as_they_were(tmp_path, log_graph):
    drawn = type("Drawn", (Model,), {"example_input_array": property(lambda model: torch.randn(2, 4))})()
    before = torch.get_rng_state()
    TensorBoardLogger(tmp_path, log_graph=log_graph).log_graph(drawn)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_graph_is_traced_only_when_asked_for(tmp_path):
    TensorBoardLogger(tmp_path).log_graph(Model())
    assert list(tmp_path.iterdir()) == []


# ---- the file --------------------------------------------------------------------------------------------------------


def test_a_resume_continues_the_event_file_and_keeps_what_it_cuts(tmp_path, accumulated):
    logger = TensorBoardLogger(tmp_path)
    logger.log_hyperparams({"lr": 1})
    logger.log_metrics({"a": 1.0}, 0)
    logger.save()
    state = logger.state_dict()
    logger.log_metrics({"a": 2.0}, 1)
    logger.finalize("failed")
    resumed = TensorBoardLogger(tmp_path)
    resumed.log_hyperparams({"lr": 1})
    resumed.load_state_dict(state)
    resumed.log_metrics({"a": 3.0}, 1)
    resumed.finalize("success")
    assert event_file(resumed) == event_file(logger)
    read = accumulated(resumed)
    assert [event.value for event in read.Scalars("a")] == [1.0, 3.0]
    assert hparams_of(read)["_hparams_/session_end_info"].session_end_info.status == 1
    assert len(list(Path(resumed.log_dir).glob("*dropped*"))) == 1


def test_a_resume_without_the_file_starts_a_new_one_and_says_so(tmp_path, accumulated):
    logger = TensorBoardLogger(tmp_path)
    logger.log_metrics({"a": 1.0}, 0)
    logger.save()
    state = logger.state_dict()
    event_file(logger).unlink()
    resumed = TensorBoardLogger(tmp_path)
    resumed.load_state_dict(state)
    resumed.log_metrics({"a": 2.0}, 1)
    with pytest.warns(LtWarning, match="new event file"):
        resumed.save()
    assert [event.value for event in accumulated(resumed).Scalars("a")] == [2.0]


def test_a_checkpoint_cannot_name_a_file_elsewhere(tmp_path):
    victim = tmp_path / "tfevents.precious"
    victim.write_bytes(b"precious")
    logger = TensorBoardLogger(tmp_path)
    state = {
        "version": 0,
        "step": 0,
        "files": {"events": {"name": f"../../{victim.name}", "size": 0, "hparams": False}},
    }
    logger.load_state_dict(state)
    with pytest.warns(LtWarning, match="new event file"):
        logger.save()
    assert victim.read_bytes() == b"precious"


def test_a_purge_step_hides_what_earlier_files_hold(tmp_path, accumulated):
    first = TensorBoardLogger(tmp_path, version=0)
    for step in range(5):
        first.log_metrics({"a": 1.0}, step)
    first.save()
    event_file(first).rename(event_file(first).with_name("events.out.tfevents.0000000001.a"))
    second = TensorBoardLogger(tmp_path, version=0, purge_step=2)
    second.log_metrics({"a": 2.0}, 2)
    second.save()
    assert [(event.step, event.value) for event in accumulated(second).Scalars("a")] == [(0, 1), (1, 1), (2, 2)]


def test_large_media_do_not_wait_in_memory(tmp_path):
    logger = TensorBoardLogger(tmp_path)
    for step in range(20):
        logger.log_media("noise", torch.randint(0, 256, (3, 300, 300), dtype=torch.uint8), step)
    assert sum(map(len, logger._lt_events)) < 2_000_000


def test_without_tensorboard_it_is_an_error_that_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("lt_loggers.tracker.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"lt-loggers\[tensorboard\].*logger='csv'"):
        TensorBoardLogger(tmp_path)
