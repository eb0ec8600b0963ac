"""What ``lt ckpt`` does, with torch: the command itself answers ``--help`` and completion without it."""
