# Written by tools/stubs.py from the table in __init__.py.

from lt_averaging.schedule_free import ScheduleFree as ScheduleFree
from lt_averaging.stochastic_weight_avg import StochasticWeightAveraging as StochasticWeightAveraging
from lt_averaging.weight_averaging import EMAWeightAveraging as EMAWeightAveraging
from lt_averaging.weight_averaging import WeightAveraging as WeightAveraging

__version__: str
