"""Of its own test suite: the modules, the datamodules and the callback that writes predictions."""

# requires: careamics==0.0.4.2 setuptools<81 pytest
# domain: microscopy
# compat: --pickle
# suite: tests/lightning/callbacks tests/lightning/test_lightning_api.py
