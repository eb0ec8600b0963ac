"""Of its own test suite: the Trainer, which is a subclass of Lightning's, and the graphs."""

# requires: pina-mathlab==0.3.2.post2610 pytest
# domain: physics
# suite: tests/test_trainer.py tests/test_graph.py
