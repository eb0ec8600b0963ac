"""What the site makes of docstrings that are written in Sphinx's way."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def shown(html):
    return runpy.run_path(str(ROOT / "docs" / "roles.py"))["on_page_content"](html)


def test_a_role_becomes_a_link_to_the_member_of_its_class():
    page = (
        '<h2 id="lt_core.a.A"></h2><h3 id="lt_core.a.A.save"></h3><h2 id="lt_core.b.B"></h2>'
        '<h3 id="lt_core.b.B.save"></h3><h3 id="lt_core.b.B.load"></h3>:meth:<code>save</code>'
    )
    assert shown(page).endswith('<a href="#lt_core.b.B.save"><code>save</code></a>')


def test_a_name_that_is_not_on_the_page_stays_code_without_its_role():
    assert shown(":class:<code>~lt_core.c.C</code> and :attr:<code>x</code>") == "<code>C</code> and <code>x</code>"


def test_colons_before_a_block_of_code_are_one_or_none():
    assert shown("<p>::</p><pre></pre><p>like this::</p><pre></pre>") == "<pre></pre><p>like this:</p><pre></pre>"


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("freeze layers", "how-to/transfer-learning"),
        ("warmup", "how-to/optimization"),
        ("batch size", "how-to/optimization"),
        ("ReduceLROnPlateau", "how-to/optimization"),
        ("reproducible seed", "how-to/reproducible"),
        ("print metrics", "terminal"),
        ("several GPUs", "how-to/several-gpus"),
        ("class weights", "how-to/buffers"),
        ("sanity check", "how-to/validation"),
        ("docker", "how-to/docker"),
        ("Colab", "how-to/colab"),
        ("which package do I install", "install"),
        ("confusion matrix", "how-to/torchmetrics"),
        ("values for each class", "how-to/torchmetrics"),
        ("resume learning rate", "how-to/resume"),
        ("several validation loaders", "how-to/validation"),
        ("gradients in validation", "how-to/validation"),
        ("batch sampler", "data"),
        ("layers another name", "how-to/transfer-learning"),
        ("model summary", "terminal"),
        ("augmentation GPU", "data"),
        ("validation_step not called", "how-to/validation"),
        ("test metrics each epoch", "how-to/validation"),
        ("change learning rate", "how-to/optimization"),
        ("on_step", "loggers"),
        ("W&B", "loggers"),
        ("TensorBoard graph", "loggers"),
        ("transforms", "data"),
        ("HDF5", "data"),
        ("gather predictions", "how-to/several-gpus"),
        ("contrastive", "how-to/several-gpus"),
        ("several schedules", "how-to/optimization"),
        ("skip step", "how-to/optimization"),
        ("KL annealing", "how-to/optimization"),
        ("truncated backpropagation", "how-to/optimization"),
        ("distillation", "how-to/transfer-learning"),
        ("checkpoint without downloading", "how-to/transfer-learning"),
        ("no checkpoint saved", "how-to/checkpoints"),
        ("cross-validation", "data"),
        ("imbalanced classes", "data"),
        ("WeightedRandomSampler", "data"),
        ("padding collate_fn", "data"),
        ("PyTorch Geometric", "data"),
        ("how many workers", "data"),
        ("gradient norm", "how-to/optimization"),
        ("weight decay", "how-to/optimization"),
        ("multi-task", "how-to/optimization"),
        ("log learning rate", "how-to/optimization"),
        ("accumulate gradients", "how-to/several-optimizers"),
        ("gradient penalty", "how-to/several-optimizers"),
        ("gradient checkpointing", "how-to/large-models"),
        ("torch.compile", "how-to/profiling"),
        ("Hydra", "how-to/hyperparameters"),
        ("argparse", "how-to/hyperparameters"),
        ("print rank 0", "how-to/several-gpus"),
        ("Apple MPS", "how-to/several-gpus"),
        ("unused parameters", "how-to/several-gpus"),
        ("EMA", "callbacks"),
        ("open files", "how-to/debugging"),
        ("pickle", "how-to/debugging"),
        ("port in use", "how-to/debugging"),
        ("validation loss lower", "how-to/debugging"),
        ("bad after loading", "how-to/debugging"),
        ("loss jumps after resume", "how-to/resume"),
        ("fit twice", "how-to/resume"),
        ("no GPU found", "how-to/several-gpus"),
        ("DDP faster", "how-to/several-gpus"),
        ("broadcast", "how-to/several-gpus"),
        ("on a TPU", "how-to/several-gpus"),
        ("job does not start", "how-to/multi-node"),
        ("optimizer_step", "how-to/optimization"),
        ("another optimizer", "how-to/optimization"),
        ("configure_optimizers may return", "how-to/optimization"),
        ("timm", "how-to/optimization"),
        ("toggle_optimizer", "how-to/several-optimizers"),
        ("MAML", "how-to/several-optimizers"),
        ("shapes fit", "how-to/debugging"),
        ("loss does not fall", "how-to/debugging"),
        ("parameters no gradient", "how-to/debugging"),
        ("loss scale", "how-to/precision"),
        ("format GPU", "how-to/precision"),
        ("profiler trace", "how-to/profiling"),
        ("loader bottleneck", "how-to/profiling"),
        ("embeddings", "how-to/inference"),
        ("ensemble", "how-to/inference"),
        ("half precision", "how-to/inference"),
        ("unfreeze layer by layer", "how-to/transfer-learning"),
        ("momentum encoder", "how-to/transfer-learning"),
        ("input channels", "how-to/transfer-learning"),
        ("replay buffer", "how-to/reinforcement-learning"),
        ("self.trainer", "how-to/testing"),
        ("begin at an epoch", "how-to/early-stopping"),
        ("Keras", "migration"),
        ("Accelerate", "migration"),
        ("Hugging Face Trainer", "migration"),
        ("1.x hooks", "migration"),
        ("hook finds", "write-a-callback"),
        ("stratified split", "data"),
        ("mixture", "data"),
        ("drop_last", "data"),
        ("workers hang", "data"),
        ("moved to the device", "data"),
        ("pandas", "data"),
        ("indices file names", "data"),
        ("limit_train_batches", "data"),
        ("time of an epoch", "loggers"),
        ("MLflow", "loggers"),
        ("W&B sweeps", "how-to/sweeps"),
        ("scikit-learn", "how-to/torchmetrics"),
        ("metric ranks", "how-to/torchmetrics"),
        ("best value", "how-to/torchmetrics"),
        ("normalize", "how-to/buffers"),
        ("failed reading zip archive", "how-to/checkpoints"),
        ("average checkpoints", "how-to/checkpoints"),
        ("parameter groups", "how-to/resume"),
        ("Hydra multirun", "how-to/hyperparameters"),
        ("default configuration file", "cli"),
        ("lists dicts", "cli"),
        ("Jupyter Windows", "how-to/colab"),
    ],
)
def test_a_question_has_its_words_in_a_heading_of_the_page_that_answers(words, page):
    """The search weighs headings a thousand times as much as text, and the reference a fiftieth."""
    lines = (ROOT / "docs" / f"{page}.md").read_text("utf-8").splitlines()
    assert any(all(word in line.lower() for word in words.lower().split()) for line in lines if line.startswith("#"))


WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/README.md")]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_relative_link_leads_to_a_file_of_the_repository_too(page):
    """So pages can be read where they lie; docs/pages.py leads their links to the site's own pages."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    made = {"examples.md"} if page.name == "nav.md" else set()  # by the site
    links = {link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link} - made
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[a](../packages/lt-ray/README.md)", "[a](packages/lt-ray.md)"),
        ("[a](../../packages/lt-ray/README.md#places)", "[a](../packages/lt-ray.md#places)"),
        ("[a](../packages/lt-core/api.txt)", "[a](reference/lt_core.md)"),
        ("[a](../../examples/colab.ipynb)", "[a](../examples.md#colabipynb)"),
        ("[a](../gpu.md), ../packages/lt-ray", "[a](../gpu.md), ../packages/lt-ray"),
    ],
)
def test_a_link_to_a_file_of_the_repository_leads_to_its_page_in_the_site(link, shown):
    assert runpy.run_path(str(ROOT / "docs" / "links.py"))["on_page_markdown"](link) == shown
