"""Ranking data: what a query's documents, labels and features are, and how to read and write them."""
