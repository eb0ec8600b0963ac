from lt_checkpoint import AsyncCheckpointIO, ShardedCheckpointIO, TorchCheckpointIO
from lt_core import CheckpointIO
from lt_testing import CheckpointKit


class TestTheDefault(CheckpointKit):
    def make_io(self):
        return CheckpointIO()


class TestFiles(CheckpointKit):
    def make_io(self):
        return TorchCheckpointIO()


class TestFilesInTheBackground(CheckpointKit):
    def make_io(self):
        return AsyncCheckpointIO()


class TestFilesBesideFolders(CheckpointKit):
    def make_io(self):
        return ShardedCheckpointIO()
