"""Our callbacks on the kit that strangers use; with lt-loops it trains with each of them."""

import pytest

import lt_callbacks as cb
from lt_testing import CallbackKit

pytestmark = pytest.mark.filterwarnings("ignore:.*:lt_core.errors.LtWarning")  # hints about a toy run


class TestModelCheckpoint(CallbackKit):
    resumes = begins_anew = False  # its state names files, and two runs of one folder name them differently

    def make_callback(self, folder):
        return cb.ModelCheckpoint(dirpath=folder / "kept", monitor="val_loss", save_top_k=2)


class TestEarlyStopping(CallbackKit):
    def make_callback(self, folder):
        return cb.EarlyStopping("val_loss", patience=5)


class TestTimer(CallbackKit):
    resumes = begins_anew = False  # it measures time

    def make_callback(self, folder):
        return cb.Timer("00:01:00:00")


class TestModelSummary(CallbackKit):
    def make_callback(self, folder):
        return cb.ModelSummary()


class TestProgressBar(CallbackKit):
    def make_callback(self, folder):
        return cb.ProgressBar()


class TestOnExceptionCheckpoint(CallbackKit):
    def make_callback(self, folder):
        return cb.OnExceptionCheckpoint(folder)


class TestLambdaCallback(CallbackKit):
    def make_callback(self, folder):
        return cb.LambdaCallback(on_train_start=print)
