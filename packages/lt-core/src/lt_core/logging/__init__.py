"""What ``self.log`` writes to, and what can be logged beside numbers."""
