"""Attention backward: the gradients of `fmha_fwd`."""
