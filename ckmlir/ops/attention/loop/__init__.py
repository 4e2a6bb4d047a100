"""The loop over keys of attention forward, and the kernels' halves of what goes into it."""
