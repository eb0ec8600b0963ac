"""A stream that a resume reads again hands on what the stream in it has."""

from torch.utils.data import IterableDataset

from lt_recipes import Reread


class Rows(IterableDataset):
    def __iter__(self):
        return iter(range(3))


def test_reread_hands_on_what_its_stream_has():
    class Split(Rows):
        num_shards = 4
        epoch = 0

        def shard(self, num_shards, index):
            return (num_shards, index)

        def set_epoch(self, epoch):
            self.epoch = epoch

    stream = Reread(Split())
    stream.set_epoch(3)
    assert stream.dataset.epoch == 3
    assert (stream.num_shards, stream.shard(num_shards=2, index=1).dataset) == (4, (2, 1))
    assert not hasattr(Reread(Rows()), "shard")
