"""Calibrated probabilities: `model` applies them to search results, `fit` learns them, `report` measures them."""
