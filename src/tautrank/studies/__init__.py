"""Experiments: several systems on the same data, repeated, stored, resumed."""
