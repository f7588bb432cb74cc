"""Whether a difference is real: paired tests, intervals, tests over repeated trainings,
corrections.
"""
