"""Speed and memory compared with other tools. Run with `make bench`; nothing here is a test."""
