"""What losses, engines and theory share: threads, random numbers, ranking, the normal
distribution.
"""
