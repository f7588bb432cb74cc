"""Where the metrics agree with the tools people already use, and what explains it where they do not."""
