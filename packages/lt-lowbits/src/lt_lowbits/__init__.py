"""Number formats that need a library of their own: torchao, Transformer Engine, bitsandbytes.

``Trainer(precision="float8")``, ``"int8"``, ``"transformer-engine"``, ``"bitsandbytes"``; import a class to give it
arguments: ``Trainer(plugins=[Float8(recipe="rowwise")])``.
"""

from importlib.metadata import version

from lt_lowbits.bitsandbytes import Bitsandbytes
from lt_lowbits.torchao import Float8, Int8
from lt_lowbits.transformer_engine import TransformerEngine

__version__ = version("lt-lowbits")

__all__ = ["Bitsandbytes", "Float8", "Int8", "TransformerEngine"]
