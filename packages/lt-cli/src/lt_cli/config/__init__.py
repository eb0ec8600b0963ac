"""From words, files and variables to a Trainer's arguments, and mistakes in them."""
