"""Our feed on the kit that strangers use."""

from lt_data.loaders import feed
from lt_testing import FeedKit


class TestLoaderFeed(FeedKit):
    ranks = (1, 2, 3)

    def make_feed(self, loader, **how):
        return feed(loader, **how)
