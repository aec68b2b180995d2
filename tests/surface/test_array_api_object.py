"""The array object, DLPack, and what the namespace says about itself."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.ops import DTYPES
from tests.surface.immediate import immediate
from tests.surface.samples import same_bits, sample


def test_the_namespace_is_found_from_an_array_and_tells_its_version() -> None:
    x = anp.asarray([1.0])
    assert x.__array_namespace__() is anp
    assert x.__array_namespace__(api_version="2025.12") is anp
    assert anp.__array_api_version__ == "2025.12"
    with pytest.raises(ValueError, match=r"2019\.12"):
        x.__array_namespace__(api_version="2019.12")


def test_information_about_devices_and_dtypes_is_true() -> None:
    info = anp.__array_namespace_info__()
    assert info.default_device() in info.devices()
    made = anp.zeros(1)
    assert made.device == info.default_device()
    defaults = info.default_dtypes()
    assert anp.asarray(1.0).dtype == defaults["real floating"]
    assert anp.asarray(1j).dtype == defaults["complex floating"]
    assert anp.asarray(1).dtype == defaults["integral"]
    assert anp.argmax(made).dtype == defaults["indexing"]
    assert info.dtypes() == DTYPES
    for kind in (
        "bool",
        "signed integer",
        "unsigned integer",
        "real floating",
        "complex floating",
        "integral",
        "numeric",
    ):
        wanted = {name for name, dtype in DTYPES.items() if np.isdtype(dtype, kind)}
        assert info.dtypes(kind=kind).keys() == wanted, kind
    assert info.dtypes(kind=("bool", "complex floating")).keys() == {"bool", "complex64", "complex128"}
    with pytest.raises(ValueError, match="no kind"):
        info.dtypes(kind="float")


def test_shapes_depend_on_values_outside_a_captured_function_only() -> None:
    told: list[dict[str, Any]] = []
    refused: list[str] = []

    @aj.jit
    def function(x: aj.Array) -> aj.Array:
        told.append(anp.__array_namespace_info__().capabilities())
        for name in ("nonzero", "unique_values", "unique_all", "unique_counts", "unique_inverse"):
            with pytest.raises(aj.HostReadError, match="depends on values") as caught:
                getattr(anp, name)(x)
            assert "anp.where" in str(caught.value)
            refused.append(name)
        with pytest.raises(aj.HostReadError, match="repeat"):
            anp.repeat(x, anp.asarray([1, 2]))
        return x + 1

    x = anp.asarray([0, 3])
    told.append(anp.__array_namespace_info__().capabilities())
    assert [np.asarray(each).tolist() for each in anp.nonzero(x)] == [[1]]
    same_bits(anp.repeat(x, anp.asarray([1, 2])), [0, 3, 3])
    function.run(x)
    assert [each["data-dependent shapes"] for each in told] == [True, False]
    assert [each["boolean indexing"] for each in told] == [True, False]
    assert len(refused) == 5


async def test_values_are_read_after_they_were_awaited() -> None:
    x = anp.asarray([0, 3]) * 2
    with pytest.raises(aj.WouldBlockError):
        anp.nonzero(x)
    (places,) = anp.nonzero(await x)
    assert np.asarray(places).tolist() == [1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_go_to_numpy_and_back_by_dlpack(dtype: str) -> None:
    host = sample(dtype, (3, 4))
    ours = anp.from_dlpack(host)
    same_bits(ours, host)
    back = np.from_dlpack(ours)
    np.testing.assert_array_equal(back, host)
    same_bits(anp.from_dlpack(ours), host)
    copied = np.from_dlpack(ours, copy=True)
    copied[...] = 0
    same_bits(ours, host)
    same_bits(anp.from_dlpack(np.asfortranarray(host)[::-1, ::2]), host[::-1, ::2])


def test_arrays_go_to_torch_and_back_by_dlpack() -> None:
    torch = pytest.importorskip("torch")
    host = sample("float32", (3, 4))
    ours = anp.from_dlpack(torch.from_numpy(host.copy()))
    same_bits(ours, host)
    np.testing.assert_array_equal(torch.from_dlpack(ours).numpy(), host)


def test_conversions_to_python_numbers_take_one_element_and_refuse_in_a_captured_function() -> None:
    with immediate():
        assert (bool(anp.asarray(2)), int(anp.asarray(2.5)), float(anp.asarray(3)), complex(anp.asarray(1j))) == (
            True,
            2,
            3.0,
            1j,
        )
        assert [10, 20, 30][anp.asarray(1)] == 20
        with pytest.raises(TypeError, match="one element"):
            float(anp.asarray([1.0, 2.0]))

    for convert in (bool, int, float, complex, lambda x: range(5)[x]):

        def function(x: aj.Array, convert: Any = convert) -> aj.Array:
            convert(x)
            return x + 1

        with pytest.raises(aj.HostReadError) as caught:
            aj.jit(function, static=("convert",)).run(anp.asarray(1))
        assert isinstance(caught.value, ValueError)
        assert "test_array_api_object.py:" in str(caught.value)
        assert "static=" in str(caught.value)


def test_functions_give_the_same_in_a_captured_function() -> None:
    """One capture of many functions, compared with the same ones run one at a time."""
    x = np.arange(24.0).reshape(2, 3, 4)[:, ::-1] - 7

    def everything(x: Any) -> list[Any]:
        places = anp.argsort(x, axis=1, descending=True)
        values, indices = anp.top_k(x, 2, axis=1)
        return [
            *(anp.sort(x), places, values, indices, anp.take_along_axis(x, places, axis=1)),
            *(anp.isin(x, anp.asarray([1.0, 4.0])), anp.diff(x, n=2, prepend=x), anp.searchsorted(x[0, 0], x)),
            *(anp.cumulative_sum(x, axis=1, include_initial=True), anp.roll(x, (1, 2), axis=(0, 2)), anp.erf(x)),
            *(
                anp.scatter_along_axis(x, places, x, axis=1, reduction="add"),
                anp.one_hot(indices, 3),
                anp.einsum("ijk->k", x),
            ),
            *(anp.gather_nd(x, [[0, 1], [1, 2]]), anp.scatter_nd(x, [[0, 1], [0, 1]], x[:, 0], reduction="max")),
            *anp.meshgrid(x[0, 0], x[0, :, 0]),
        ]

    given = anp.asarray(x)
    for one, other in zip(aj.jit(everything).run(given), everything(given), strict=True):
        same_bits(one, np.asarray(other))


def test_an_index_out_of_bounds_fails_when_it_runs() -> None:
    for call in (
        lambda x, i: anp.take_along_axis(x, i, axis=0),
        lambda x, i: anp.gather_nd(x, i),
        lambda x, i: anp.scatter_nd(x, i, x[:1]),
    ):

        async def main(call: Any = call) -> None:
            with pytest.raises(aj.DependencyError, match="out of bounds"):
                await call(anp.asarray([[1.0, 2.0]]), anp.asarray([[5]]))

        asyncio.run(main())


def test_what_numpy_has_no_name_for_takes_symbolic_extents() -> None:
    n = aj.Variable("n", 2, 9)
    host = np.random.default_rng(0).random((9, 4))

    def function(x: Any) -> list[Any]:
        return [
            *anp.top_k(x, 2, axis=0),
            *(anp.one_hot(anp.argmax(x, axis=1), 4), anp.gather_nd(x, anp.argsort(x, axis=0)[:2, :1])),
            *(anp.scatter_nd(x, [[0]], x[:1] * 2), anp.scatter_along_axis(x, anp.argsort(x, axis=1), x, axis=1)),
            anp.cumulative_sum(x, axis=0, include_initial=True),
        ]

    captured = aj.jit(lambda x, count: function(x[:count]))
    for count in (3, 5, 9):
        ours = captured.run(anp.asarray(host), n.bind(count))
        for one, other in zip(ours, function(anp.asarray(host[:count])), strict=True):
            same_bits(one, np.asarray(other))
    assert len(captured.captures) == 1


def test_parts_of_complex_arrays_without_elements_are_views_too() -> None:
    with immediate():
        for shape in ((0,), (0, 2), (2, 0)):
            x = anp.asarray(np.zeros(shape, "complex64"))
            for part in (x.real, x.imag, anp.real(x[::-1]), anp.imag(x)):
                same_bits(part, np.zeros(shape, "float32"))
