"""How each kind of loader is read, epoch by epoch, and read on in the middle of one after a resume."""
