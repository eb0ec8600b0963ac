"""What writes and reads checkpoint files."""
