"""From words, files and variables to a Trainer's arguments, and what is wrong in them."""
