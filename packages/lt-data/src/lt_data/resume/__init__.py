"""What a resume puts back: random generators, the indices that a sampler gave, and the state of workers."""
