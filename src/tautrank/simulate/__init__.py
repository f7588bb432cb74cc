"""Made-up data that behaves like real data: synthetic web search, and the papers' small examples."""

from tautrank.simulate.five_documents import five_documents
from tautrank.simulate.web_search import simulate_web_search

__all__ = ["five_documents", "simulate_web_search"]
