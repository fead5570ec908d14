"""The one instrument under inspect, doctor and watch: a specimen, a recording of one run, small changes, a short run.

Whatever is done to a specimen is done to a copy, from fixed random numbers, and leaves no trace.
"""
