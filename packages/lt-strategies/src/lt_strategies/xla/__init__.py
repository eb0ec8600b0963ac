"""TPUs and whatever else torch-xla drives: the device, and strategies with one process or with one for each device."""
