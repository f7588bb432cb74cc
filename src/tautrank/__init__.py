"""Learning to rank that optimises the ranking metric itself."""
