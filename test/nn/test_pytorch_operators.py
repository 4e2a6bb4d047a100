"""Operators of PyTorch: what its own checks of schemas, fake forms and gradients say, `torch.compile`, numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ckmlir import nn
from ckmlir.nn.calls import Call
from ckmlir.nn.gradients import NoGradient

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: its operators are not tried")
pytorch = pytest.importorskip("ckmlir.nn.pytorch")

BY_DEFAULT = ("linear", "attention", "topk_softmax", "grouped_matmul")


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    torch.manual_seed(0)
    with nn.Session("gfx942", device="sim"):
        yield


def normal(*shape: int, dtype: str = "float16", grad: bool = False) -> Any:
    return torch.randn(*shape, dtype=getattr(torch, dtype), requires_grad=grad)


def starts(*numbers: int) -> Any:
    return torch.tensor(numbers, dtype=torch.int32)


def convolutions() -> dict[str, tuple[Any, ...]]:
    """Of one, two and three dimensions, their gradients, and transposed ones."""
    found: dict[str, tuple[Any, ...]] = {}
    for rank, image, taps in ((1, (9,), (3,)), (2, (9, 7), (3, 2)), (3, (4, 5, 3), (2, 3, 1))):
        x, weight, bias = normal(2, 8, *image, grad=True), normal(16, 4, *taps, grad=True), normal(16, grad=True)
        how = [2] * rank, [1] * rank, [1] * rank, 2
        dy = getattr(torch.nn.functional, f"conv{rank}d")(x, weight, None, *how).detach()
        found[f"conv{rank}d"] = x, weight, bias, *how
        found[f"conv{rank}d_input"] = list(x.shape), weight.detach(), dy.clone(), *how
        found[f"conv{rank}d_weight"] = x.detach(), list(weight.shape), dy.clone(), *how
        found[f"conv_transpose{rank}d"] = dy.requires_grad_(), weight, normal(8, grad=True), *how[:2], 1, 2
        named, same = ([1] * rank, "same", [1] * rank, 2), normal(2, 16, *image)
        found[f"conv{rank}d.padding"] = x, weight, bias, *named
        found[f"conv{rank}d_input.padding"] = list(x.shape), weight.detach(), same, *named
        found[f"conv{rank}d_weight.padding"] = x.detach(), list(weight.shape), same, *named
    return found


def calls() -> dict[str, tuple[Any, ...]]:
    """What each operator is given."""
    q, k, v = (normal(1, 20, heads, 32, grad=True) for heads in (4, 2, 2))
    with nn.Session("gfx942", device="sim"):
        o, lse = nn.attention(q.detach(), k.detach(), v.detach(), return_lse=True)
    experts = normal(4, 48, 32), normal(4, 48, 32), normal(4, 32, 48)
    weights = torch.rand(5, 2), torch.randint(0, 4, (5, 2), dtype=torch.int32)
    return {
        "matmul": (normal(2, 5, 16, grad=True), normal(16, 24, grad=True)),
        "linear": (normal(2, 5, 16, grad=True), normal(24, 16, grad=True), normal(24, grad=True)),
        "swiglu": (normal(5, 16), normal(24, 16), normal(24, 16)),
        "grouped_matmul": (normal(5, 16), normal(2, 16, 24), [2, 5]),
        "attention": (q, k, v, None, torch.rand(4, requires_grad=True), normal(20, 20, grad=True)),
        "attention_varlen": (*(one.detach()[0].requires_grad_() for one in (q, k, v)), starts(0, 7, 20)),
        "attention_varlen_backward": (*(one.detach()[0] for one in (o, q, k, v, o, lse)), starts(0, 20)),
        "attention_backward": (o, q.detach(), k.detach(), v.detach(), o, lse),
        "attention_backward_with_parts": (
            o, *(one.detach() for one in (q, k, v)), o, lse, None, torch.rand(4), normal(4, 20, 20),
        ),
        "attention_varlen_backward_with_parts": (
            *(one.detach()[0] for one in (o, q, k, v, o, lse)), starts(0, 20), None, None, torch.rand(4),
        ),
        "hstu_attention": (*(one.detach()[0].requires_grad_() for one in (q, k, v)), starts(0, 7, 20), starts(2, 0)),
        "hstu_attention_backward": (*(one.detach()[0] for one in (o, q, k, v)), starts(0, 7, 20)),
        "layer_norm": (normal(5, 16, grad=True), normal(16, grad=True), normal(16, grad=True)),
        "layer_norm_with_stats": (normal(5, 16, grad=True), None, normal(16, grad=True), 1e-5, normal(5, 16)),
        "layer_norm_backward": (*(normal(5, 16) for _ in range(2)), *torch.rand(2, 5), normal(16), normal(5, 16)),
        "rms_norm": (normal(5, 16, grad=True), normal(16, grad=True)),
        "rms_norm_with_stats": (normal(5, 16, grad=True), normal(16, grad=True)),
        "rms_norm_backward": (normal(5, 16), normal(5, 16), torch.rand(5), normal(16)),
        "batch_norm_with_stats": (
            normal(3, 6, 5, grad=True), *torch.rand(2, 6), None, normal(6, grad=True), True, 0.1, 1e-5,
            normal(3, 6, 5, grad=True),
        ),
        "batch_norm_backward": (normal(3, 6, 5), normal(3, 6, 5), *torch.rand(2, 6), normal(6), normal(3, 6, 5)),
        "softmax": (normal(2, 5, 16, grad=True),),
        "softmax_backward": (normal(2, 5, 16), normal(2, 5, 16)),
        "topk": (normal(5, 50, dtype="float32"), 4),
        "topk_softmax": (normal(5, 8), 2),
        "embedding": (torch.randint(0, 9, (2, 5), dtype=torch.int32), normal(9, 16, grad=True)),
        "scatter_rows": (normal(2, 5, 16, grad=True), torch.randint(0, 9, (2, 5), dtype=torch.int32), 9),
        "segment_sum": (normal(10, 16), starts(0, 7, 7, 10)),
        "einsum": ("bik,bkj->jbi", normal(2, 5, 16, grad=True), normal(2, 16, 3, grad=True)),
        "add_rms_norm_quantize": (normal(2, 5, 16), normal(2, 5, 16), normal(16)),
        **convolutions(),
        "moe": (normal(5, 32), *experts, normal(5, 4), 2),
        "fused_experts": (normal(5, 32), *experts, *weights),
    }


def test_every_operator_is_tried() -> None:
    assert sorted(calls()) == sorted(pytorch.SCHEMAS)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in BY_DEFAULT else pytest.mark.full) for one in pytorch.SCHEMAS]
)
def test_what_pytorch_checks(name: str) -> None:
    """Schemas, what is kept of the types and shapes without elements, gradients, and tracing with sizes that change."""
    packet, _, overload = name.partition(".")
    torch.library.opcheck(getattr(getattr(torch.ops.ckmlir, packet), overload or "default"), calls()[name])


def test_compiling_keeps_operators_in_one_graph() -> None:
    ops, graphs = torch.ops.ckmlir, []

    def block(x: Any, weight: Any, gamma: Any) -> Any:
        return ops.softmax(ops.linear(ops.rms_norm(x, gamma), weight, None, "gelu")) * 2

    def keep(graph: Any, example: Any) -> Any:
        graphs.append({str(node.target) for node in graph.graph.nodes})
        return graph

    given = normal(5, 16), normal(24, 16), normal(16)
    found = torch.compile(block, backend=keep, fullgraph=True)(*given)
    assert torch.equal(found, block(*given))
    assert len(graphs) == 1 and {f"ckmlir.{name}" for name in ("softmax", "linear", "rms_norm")} <= graphs[0]


def test_functions_are_called_between_compiled_graphs() -> None:
    """Functions look at addresses and bytes, which the tracer has none of: it stops in front of them."""
    graphs: list[Any] = []

    def keep(graph: Any, example: Any) -> Any:
        graphs.append(graph)
        return graph

    def block(x: Any, weight: Any) -> Any:
        return nn.reduce(nn.elementwise("a + a", nn.linear(x * 2, weight))) + 1

    x, weight = normal(5, 16, grad=True), normal(24, 16)
    with torch.no_grad():
        assert torch.equal(torch.compile(block, backend=keep)(x, weight), block(x, weight))
    assert len(graphs) == 2  # before the functions and behind them
    torch.compile(lambda x: nn.linear(x * 2, weight) * 3, backend="eager")(x).float().sum().backward()
    assert torch.allclose(x.grad.float(), 6 * weight.float().sum(0), rtol=1e-2, atol=1e-2)


def test_gradients_of_products() -> None:
    x, weight, bias, residual = normal(2, 5, 16), normal(24, 16), normal(24), normal(2, 5, 24)
    given = [one.requires_grad_() for one in (x, weight, bias, residual)]
    torch.ops.ckmlir.linear(x, weight, bias, None, residual).sum().backward()
    exact = [one.detach().double().requires_grad_() for one in given]
    (torch.nn.functional.linear(*exact[:3]) + exact[3]).sum().backward()
    for own, one in zip(given, exact, strict=True):
        assert torch.allclose(own.grad.double(), one.grad, rtol=2e-3, atol=2e-2)
    for shapes in (((3, 1, 5, 16), (2, 16, 8)), ((16,), (2, 16, 8)), ((2, 5, 16), (16,)), ((16,), (16,))):
        a, b = (normal(*shape, grad=True) for shape in shapes)
        torch.ops.ckmlir.matmul(a, b).square().sum().backward()
        wide = [one.detach().double().requires_grad_() for one in (a, b)]
        (wide[0] @ wide[1]).square().sum().backward()
        for own, one in zip((a, b), wide, strict=True):
            assert torch.allclose(own.grad.double(), one.grad, rtol=4e-3, atol=8e-2)


def test_gradients_of_convolutions_and_named_sums() -> None:
    x, weight, bias = normal(2, 8, 9, 7), normal(16, 4, 3, 2), normal(16)
    given = [one.requires_grad_() for one in (x, weight, bias)]
    how = [2, 1], [1, 0], [1, 2], 2
    torch.ops.ckmlir.conv2d(*given, *how).sum().backward()
    exact = [one.detach().double().requires_grad_() for one in given]
    torch.nn.functional.conv2d(*exact, *how).sum().backward()
    for own, one in zip(given, exact, strict=True):
        assert torch.allclose(own.grad.double(), one.grad, rtol=4e-3, atol=4e-2)
    q, k = normal(2, 7, 3, 16, grad=True), normal(2, 5, 3, 16, grad=True)
    torch.ops.ckmlir.einsum("bqhd,bkhd->bhqk", q, k).square().sum().backward()
    wide = [one.detach().double().requires_grad_() for one in (q, k)]
    torch.einsum("bqhd,bkhd->bhqk", *wide).square().sum().backward()
    for own, one in zip((q, k), wide, strict=True):
        assert ((own.grad.double() - one.grad).abs() / (1 + one.grad.abs().max())).max() < 5e-3


@pytest.mark.one_in(4)
@pytest.mark.parametrize("how", [{}, {"stride": 2, "padding": 1}, {"dilation": [1, 2], "groups": 2}, {"padding": [1]}])
def test_convolutions_with_arguments_left_out(how: dict[str, Any]) -> None:
    """Shapes without elements, and numbers and gradients of what is compiled."""
    x, weight = normal(2, 8, 9, 7, grad=True), normal(16, 8 // how.get("groups", 1), 3, 2, grad=True)
    exact = [one.detach().double().requires_grad_() for one in (x, weight)]
    wanted = torch.nn.functional.conv2d(*exact, **how)
    meta = torch.ops.ckmlir.conv2d(x.to("meta"), weight.to("meta"), **how)
    assert meta.shape == wanted.shape and meta.dtype == x.dtype
    for call in (nn.conv2d, torch.compile(torch.ops.ckmlir.conv2d, backend="aot_eager")):
        x.grad = weight.grad = None
        found = call(x, weight, **how)
        assert torch.allclose(found.double(), wanted, rtol=4e-3, atol=4e-2)
        found.sum().backward()
        if exact[0].grad is None:
            wanted.sum().backward()
        for own, one in zip((x, weight), exact, strict=True):
            assert torch.allclose(own.grad.double(), one.grad, rtol=4e-3, atol=4e-2)


OPS = torch.ops.ckmlir
IDS = torch.tensor([[3, 0, 3]], dtype=torch.int32)
FUNCTIONS: dict[str, tuple[Any, Any, tuple[tuple[int, ...], ...]]] = {
    "linear": (nn.linear, OPS.linear, ((2, 5, 16), (24, 16), (24,))),
    "embedding": (lambda table: nn.embedding(IDS, table), lambda table: OPS.embedding(IDS.long(), table), ((24, 16),)),
    "scatter_rows": (lambda x: nn.scatter_rows(x, IDS, 9), lambda x: OPS.scatter_rows(x, IDS, 9), ((1, 3, 16),)),
    "attention": (
        lambda q: nn.attention(q, q, q, causal=True), lambda q: OPS.attention(q, q, q, causal=True)[0], ((1, 9, 2, 32),)
    ),
    "attention, logarithms": (
        lambda q: nn.attention(q, q, q, return_lse=True)[0], lambda q: OPS.attention(q, q, q)[0], ((1, 9, 2, 32),)
    ),
    "matmul": (nn.matmul, OPS.matmul, ((2, 5, 16), (16, 24))),
    "einsum": (
        lambda a, b: nn.einsum("bik,jk->jbi", a, b), lambda a, b: OPS.einsum("bik,jk->jbi", a, b),
        ((2, 5, 16), (24, 16)),
    ),
    "conv1d": (
        lambda x, w: nn.conv1d(x, w, None, 2, groups=2), lambda x, w: OPS.conv1d(x, w, None, 2, 0, 1, 2),
        ((1, 8, 9), (4, 4, 3)),
    ),
}  # fmt: skip
"""By what they are: functions, operators that give the same, and shapes."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [
    pytest.param(one, marks=() if one in ("linear", "scatter_rows") else pytest.mark.full) for one in FUNCTIONS
])  # fmt: skip
def test_functions_keep_gradients(name: str) -> None:
    function, operator, shapes = FUNCTIONS[name]
    given = [normal(*shape, grad=True) for shape in shapes]
    same = [one.detach().requires_grad_() for one in given]
    function(*given).square().sum().backward()
    operator(*same).square().sum().backward()
    assert all(torch.equal(one.grad, two.grad) for one, two in zip(given, same, strict=True))
    if name == "scatter_rows":
        assert torch.equal(given[0].grad, 2 * torch.ops.ckmlir.scatter_rows(given[0].detach(), IDS, 9)[IDS.long()])
    if name == "embedding":
        table = given[0].detach().float().requires_grad_()
        torch.nn.functional.embedding(IDS.long(), table).square().sum().backward()
        assert torch.allclose(given[0].grad.float(), table.grad, rtol=2e-3)


X = normal(5, 16, grad=True)
W = normal(24, 16)
Q = normal(1, 20, 2, 32, grad=True)
IMAGE, TAPS = normal(1, 8, 9, grad=True), normal(4, 8, 3)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: torch.ops.ckmlir.linear(X, W, None, "gelu"), "linear has no gradient with activation=gelu; apply it"),
        (lambda: torch.ops.ckmlir.attention(Q, Q, Q, softcap=10.0), "attention has no gradient with softcap"),
        (lambda: nn.attention_varlen(Q[0], Q[0], Q[0], [0, 20], softcap=10.0), "attention_varlen has no gradient with"),
        (lambda: torch.ops.ckmlir.scatter_rows(X, IDS[0, [0] * 5], 9, op="store"), "no gradient with op=store"),
        (lambda: torch.ops.ckmlir.swiglu(X, W, W), "swiglu: tensors require gradients, which it does not have; call"),
        (lambda: nn.linear(X, W, None, "gelu"), "linear has no gradient with activation=gelu; apply it behind"),
        (lambda: nn.linear(X, W, out=torch.empty(5, 24)), "linear: tensors require gradients, which it does not have"),
        (lambda: nn.matmul(X, W.T, dtype="f32"), "matmul: tensors require gradients, which it does not have with"),
        (lambda: nn.attention(Q, Q, Q, alibi_slopes=torch.ones(2, requires_grad=True)), "no gradient for alibi_slopes"),
        (lambda: torch.autograd.grad(nn.attention(Q, Q, Q).sum(), Q, create_graph=True), "attention has no second"),
        (lambda: nn.conv1d(IMAGE, TAPS, activation="relu"), "which it does not have with activation=relu"),
        (lambda: nn.swiglu(X, W, W), "x: a tensor that requires gradients, which this function does not have"),
        (lambda: nn.topk(X, 2, 0), "x: a tensor that requires gradients"),
        (lambda: nn.grouped_matmul([X], [W.T]), "a[0]: a tensor that requires gradients"),
        (lambda: nn.rms_norm(X, return_stats=True), "which it does not have with return_stats"),
        (lambda: torch.autograd.grad(nn.softmax(X).sum(), X, create_graph=True), "softmax has no second gradient"),
        (lambda: nn.rms_norm(X.detach(), out=X), "rms_norm: tensors require gradients, which it does not have with"),
        (lambda: nn.asarray(X), "array: a tensor that requires gradients"),
    ],
)  # fmt: skip
def test_what_has_no_gradient_says_so(call: Any, words: str) -> None:
    with pytest.raises(NoGradient) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("padding", "places", "dilation"), [("same", 3, 2), ("same", 4, 1), ("valid", 3, 2)])
def test_gradients_of_convolutions_padded_by_name(padding: str, places: int, dilation: int) -> None:
    """Where both ends of images get as many zeros, and where they do not."""
    given = [normal(2, 8, 9, grad=True), normal(4, 8, places, grad=True)]
    exact = [one.detach().double().requires_grad_() for one in given]
    nn.conv1d(*given, padding=padding, dilation=dilation).square().sum().backward()
    torch.nn.functional.conv1d(*exact, padding=padding, dilation=dilation).square().sum().backward()
    for own, one in zip(given, exact, strict=True):
        assert torch.allclose(own.grad.double(), one.grad, rtol=1e-2, atol=1e-2 * float(one.grad.abs().max()))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "how"), [
    ("conv2d", {"padding": "same", "groups": 2}), ("conv2d", {"stride": (2, 1), "padding": 1, "groups": 2}),
    ("conv_transpose2d", {"stride": (2, 3), "output_padding": (1, 0), "padding": 1}),
])  # fmt: skip
def test_gradients_with_channels_last(name: str, how: dict[str, Any]) -> None:
    """Those of PyTorch, with channels where the call has them; and the shape of what has no elements."""
    groups = how.get("groups", 1)
    given = [normal(2, 8, 5, 6), normal(8, 8 // groups, 3, 4), normal(8)]
    last = [one.movedim(1, -1).contiguous().requires_grad_() if one.ndim > 1 else one.requires_grad_() for one in given]
    exact = [one.detach().double().requires_grad_() for one in given]
    wanted = getattr(torch.nn.functional, name)(*exact, **how)
    found = getattr(nn, name)(*last, channels_last=True, **how)
    without = getattr(torch.ops.ckmlir, name)(*(one.to("meta") for one in last), channels_last=True, **how)
    assert without.shape == found.shape
    dy = normal(*wanted.shape)
    found.backward(dy.movedim(1, -1))
    wanted.backward(dy.double())
    pairs = [(found.movedim(-1, 1), wanted), *((own.grad, one.grad) for own, one in zip(last, exact, strict=True))]
    for own, one in pairs:
        own = own if own.ndim == 1 or own.shape == one.shape else own.movedim(-1, 1)
        assert torch.allclose(own.double(), one, rtol=1e-2, atol=1e-2 * float(one.detach().abs().max()))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("asked", [True, False])
def test_gradients_are_deterministic_where_pytorch_wants_that(monkeypatch: pytest.MonkeyPatch, asked: bool) -> None:
    seen = []
    run = Call.run

    def watched(self: Call, name: str, keys: dict[str, object], *others: Any, **more: Any) -> Any:
        seen.append((name, keys.get("deterministic")))
        return run(self, name, keys, *others, **more)

    monkeypatch.setattr(Call, "run", watched)
    found = nn.attention(Q, Q, Q).sum()
    torch.use_deterministic_algorithms(asked)
    try:
        found.backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert seen[-1] == ("fmha_bwd", asked)


def test_an_embedding_s_gradient_is_added_in_order_where_pytorch_wants_that(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = torch.randint(0, 9, (3, 40), dtype=torch.int32)
    weight, dy = normal(9, 16, grad=True), normal(3, 40, 16)
    seen = []
    run = Call.run

    def watched(self: Call, name: str, *others: Any, **more: Any) -> Any:
        seen.append(name)
        return run(self, name, *others, **more)

    monkeypatch.setattr(Call, "run", watched)
    found = nn.embedding(ids, weight)
    torch.use_deterministic_algorithms(True)
    try:
        found.backward(dy)
    finally:
        torch.use_deterministic_algorithms(False)
    assert seen == ["gather_rows", "segment_sum"]  # no atomics, as scatter_rows has
    wanted = torch.zeros(9, 16, dtype=torch.float64).index_add_(0, ids.flatten().long(), dy.double().reshape(-1, 16))
    assert torch.allclose(weight.grad.double(), wanted, rtol=1e-2, atol=1e-3)


def test_without_gradients_functions_take_all_tensors() -> None:
    with torch.no_grad():
        assert torch.equal(nn.softmax(X), nn.softmax(X.detach()))
        assert torch.equal(nn.linear(X, W, None, "gelu"), nn.linear(X.detach(), W, None, "gelu"))
    assert not nn.argsort(X).requires_grad  # places have no gradient


def test_compiling_says_what_has_no_gradient() -> None:
    with pytest.raises(RuntimeError, match="swiglu: tensors require gradients, which it does not have"):
        torch.compile(lambda x: torch.ops.ckmlir.swiglu(x, W, W) * 2, backend="eager")(X)
