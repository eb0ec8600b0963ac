"""Hugging Face with lt: a module around any transformers model, models and adapters as their own files, the Hub."""

from importlib.metadata import version

from lt_huggingface.chat import tokenize_chat
from lt_huggingface.hub import PushToHub
from lt_huggingface.module import TransformersModule
from lt_huggingface.pretrained import SavePretrained, load_adapters

__version__ = version("lt-huggingface")

__all__ = ["PushToHub", "SavePretrained", "TransformersModule", "load_adapters", "tokenize_chat"]
