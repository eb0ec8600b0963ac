"""Files: written complete or not at all, what a checkpoint may hold and says of itself, and what is made from one."""
