"""New keys behind those of a cache, rotated; a cache in pages.

    python examples/dispatch/fmha/17_appendkv.py
"""

from shown import show


def main() -> None:
    show("fmha_fwd_appendkv", b=2, h=2, hk=1, sq=1, snew=2, cached="17,30", d=32, rotary=16)
    show("fmha_fwd_appendkv", b=2, h=2, hk=1, sq=1, snew=2, cached="17,30", d=32, page_size=16)


if __name__ == "__main__":
    main()
