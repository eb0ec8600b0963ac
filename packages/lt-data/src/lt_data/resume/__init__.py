"""State restored by a resume: random generators, the sampler's indices, and the workers.

torchdata's protocol (``state_dict`` and ``load_state_dict`` of a dataset, a sampler or a whole loader) is used where
the user's objects have it, so a ``StatefulDataLoader`` resumes in its own way. It does not replace this
folder: it (0.11) wants its class in place of the user's ``DataLoader``, saves no random generator of the process or of
a worker, refuses another number of workers, and its state is one rank's, so that no other number of ranks can go
on. Here any ``DataLoader`` goes on with the very batches, augmentations included, that it would have given.
"""
