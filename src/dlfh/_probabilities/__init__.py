"""Label probabilities: how likely each label is for a point, and rankings by them.

`model` has the label probabilities of a fitted method, `scores` compares a query with an item, and `fit` learns both.
"""
