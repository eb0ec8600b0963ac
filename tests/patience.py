"""How long a test waits before it takes something for hung: the one number, for all tests.

It only guards against a hang, so it is far longer than anything takes on a machine that twenty others use too. A test
that learns something from a time (who ended the job, which rule found the hang) gives the other party a time that is
longer than this one, and then looks at what was said.

    from tests.patience import PATIENCE

    subprocess.run(command, timeout=PATIENCE)
"""

PATIENCE = 600.0
"""Seconds."""
