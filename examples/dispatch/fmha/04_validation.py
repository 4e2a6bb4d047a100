"""What cannot be computed is said in a line, before anything is compiled.

    python examples/dispatch/fmha/04_validation.py
"""

from shown import choose

from ckmlir.ops.request import RequestError


def main() -> None:
    odd = [{"d": 60}, {"h": 3, "hk": 2}, {"mask": "upwards"}, {"soft_cap": 5.0, "bias": "one"}, {"dropout": 1.5}]
    for request in odd:
        try:
            choose("fmha_fwd", **request)
        except RequestError as error:
            print(error)
    try:
        choose("fmha_fwd", "gfx90a", dtype="fp8")
    except RequestError as error:
        print(error)


if __name__ == "__main__":
    main()
