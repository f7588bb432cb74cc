"""What only a paper has: its tables and figures, its printed numbers, its own test, verdicts."""
