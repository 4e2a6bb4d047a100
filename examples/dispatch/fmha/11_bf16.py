"""bf16, on two chips.

    python examples/dispatch/fmha/11_bf16.py
"""

from shown import show


def main() -> None:
    for arch in ("gfx942", "gfx950"):
        show("fmha_fwd", arch, dtype="bf16", h=1, sq=70, sk=70, d=32)


if __name__ == "__main__":
    main()
