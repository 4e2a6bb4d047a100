"""The sources of K and V in pages, by the words of a specification: rows or vectors, blocks within a page or not."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec, copying, loads_k_earlier, row_multiple
from ckmlir.ops.attention.loop.loop_kernel import Form, Keys
from ckmlir.ops.attention.loop.pages_kernel import PageRows, PageViews, pool_of_head
from ckmlir.ops.attention.loop.vector_pages_kernel import VectorRows, VectorViews
from ckmlir.ops.attention.loop.work_kernel import Work


def in_pages(word: str, given: Any, spec: FmhaFwdSpec, work: Work, form: Form) -> Keys:
    """K and V of the work's head in its pages; `word` is the source's."""
    _, _, *how = word.split("_")
    pages = work.pages
    assert pages is not None
    multiple = row_multiple(spec.dtype)

    k = pool_of_head(given, "k", work.shared, spec.d, multiple)
    v = pool_of_head(given, "v", work.shared, spec.dv, multiple)
    if "alike" in how:  # so that what is computed of both is computed once
        v = replace(v, page=k.page, row=k.row)
    reach, whole = "far" if "far" in how else "close", form.keys <= pages.size
    if whole:
        k, v = k.bounded(pages.size), v.bounded(pages.size)
    if "vectors" in how:
        if whole:
            return VectorViews(form, pages, k, v, vector=multiple, copied=bool(copying(spec, "k")))
        return VectorRows(form, pages, k, v, vector=multiple, copied=False, reach=reach)
    handed = "alike" in how and loads_k_earlier(spec)
    return PageViews(form, pages, k, v, handed) if whole else PageRows(form, pages, k, v, reach)
