"""Looks at any nn.Module: its shapes, parameters and costs, and probes that prove what is sound and what is not.

This room knows no network of pellucid, or it would not be for any module. Looking changes nothing: weights, buffers,
modes, hooks and random numbers are afterwards what they were before.
"""
