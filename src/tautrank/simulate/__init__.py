"""Made-up data that behaves like real data: synthetic web search."""

from tautrank.simulate.web_search import simulate_web_search

__all__ = ["simulate_web_search"]
