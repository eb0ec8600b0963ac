"""The work of ``lt ckpt``, with torch: the command itself answers ``--help`` and completion without it."""
