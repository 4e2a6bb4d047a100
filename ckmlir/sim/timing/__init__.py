"""Time in the simulator: a model of how many cycles a kernel takes, and why.

It is a model. Nothing in it was fitted to a GPU; every number it uses is a named parameter with its source, marked
measured, published or assumed (`parameters.py`), and can be overridden. It never touches what a kernel computes: it is
fed by a recording of a functional run (`recording.py`).
"""
