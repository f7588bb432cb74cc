"""Speed and memory beside the peers. Run with `make bench`; nothing here is a test."""
