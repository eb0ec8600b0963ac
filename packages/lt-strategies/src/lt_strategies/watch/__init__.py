"""The watch over the ranks of a job on one machine: a rank that died or hangs ends the others, with one message.

Standard library only: for jobs whose rank 0 is the user's script a process of its own runs it without torch
(:mod:`~lt_strategies.watch.script`); for spawned and forked jobs the parent does.

Why not torchelastic's agent. It starts every rank as its child, and here rank 0 is the user's own script, which began
before anybody knew that there would be ranks. It imports torch, seconds in which a failing rank stands unobserved.
It learns of a failure by an exit status or an error file, so that a rank whose connection broke may count as the cause;
it knows of no batches, so that a rank that hangs is found by the collectives' timeout, ten minutes later, and
without its stack. And it restarts all ranks, where a run here ends with the error of the rank that failed. Under
``torchrun`` the agent does all that, and each rank looks after itself (:mod:`~lt_strategies.launch.self_watch`).
"""
