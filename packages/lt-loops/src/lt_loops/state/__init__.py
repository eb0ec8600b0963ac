"""Plain data of a run: its position, its origin, the plan of its step."""
