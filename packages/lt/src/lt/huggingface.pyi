# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_huggingface.chat import tokenize_chat as tokenize_chat
from lt_huggingface.hub import PushToHub as PushToHub
from lt_huggingface.module import TransformersModule as TransformersModule
from lt_huggingface.pretrained import SavePretrained as SavePretrained
from lt_huggingface.pretrained import load_adapters as load_adapters

__all__ = [
    "PushToHub",
    "SavePretrained",
    "TransformersModule",
    "load_adapters",
    "tokenize_chat",
]
