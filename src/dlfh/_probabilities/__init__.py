"""Label probabilities: how likely each label is for a point, and rankings by them.

`model` holds those of a fitted method, `scores` combines those of a query and an item, and `fit` learns both.
"""
