"""Packed queries, K and V in pages of a pool: vLLM's tables and SGLang's lists.

    python examples/dispatch/fmha/23_batch_prefill.py
"""

from shown import show


def main() -> None:
    for table in ("vllm", "sglang"):
        show("fmha_batch_prefill", table=table, seqlens_q="5,33", seqlens_k="70,33", page_size=16, h=1, d=32)


if __name__ == "__main__":
    main()
