"""Sharded arrays: what stays on its shard, what meets, and a data-parallel step on two devices equal to one device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.demo.model import gradients, initial_weights, update
from asyncjit.devices.cpu import CpuDevice
from asyncjit.errors import DeviceError, DeviceUnavailableError

DEVICES = ("cpu:0", "cpu:1")
HOST = np.arange(30.0).reshape(5, 6)
#: Exact in float64, so that the order of sums cannot be seen.
WHOLE = np.random.default_rng(1).integers(-9, 9, (4, 6)).astype("float64")


@pytest.fixture(autouse=True)
def engine() -> Iterator[aj.Engine]:
    engine = aj.Engine([CpuDevice(name, workers=1) for name in (*DEVICES, "cpu:2")])
    with engine.use():
        yield engine
    engine.close(20.0)


def check(result: Any, expected: Any, axis: int | None) -> None:
    assert isinstance(result, anp.ShardedArray)
    assert result.axis == axis
    assert result.shape == np.shape(expected)
    assert result.dtype == np.asarray(expected).dtype
    assert result.devices == DEVICES
    assert np.array_equal(np.asarray(result), expected)
    if axis is None:
        for shard in result.shards:
            assert np.array_equal(np.asarray(shard), expected), "the devices differ"


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_a_sharded_array_has_parts_in_order_and_gathers_to_the_whole(axis: int | None) -> None:
    x = anp.shard(HOST, DEVICES, axis)
    expected = [HOST, HOST] if axis is None else np.array_split(HOST, 2, axis)
    assert [np.array_equal(np.asarray(a), b) for a, b in zip(x.shards, expected, strict=True)] == [True, True]
    check(x, HOST, None if axis is None else axis % 2)
    for device in DEVICES:
        whole = x.gather(device)
        assert whole.device == device
        assert np.array_equal(np.asarray(whole), HOST)
    assert x.gather().device == "cpu:0"
    assert np.array_equal(np.asarray(x.gather("cpu:2")), HOST)


def test_shards_are_copies() -> None:
    x = anp.asarray(HOST)
    sharded = anp.shard(x, DEVICES)
    x[...] = 0
    check(sharded, HOST, 0)


ELEMENTWISE: list[Callable[[Any, Any], Any]] = [
    lambda x, xp: x * 2 + 1 - x / 4,
    lambda x, xp: 3 - x,
    lambda x, xp: xp.exp(-xp.abs(x)),
    lambda x, xp: xp.maximum(x, 7.0),
    lambda x, xp: xp.where(x > 9, x, 0.5),
    lambda x, xp: (x > 3) & ~(x == 8) | (x != 8),
    lambda x, xp: x**2 + x % 5 + x // 3,
    lambda x, xp: x + HOST,
    lambda x, xp: HOST - x,
    lambda x, xp: x * HOST[0],
    lambda x, xp: x * HOST[:, :1],
    lambda x, xp: x.astype("float32") * 2,
    lambda x, xp: xp.clip(x, 3, 9),
]


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("operation", range(len(ELEMENTWISE)))
def test_elementwise_work_stays_on_its_shard_and_equals_numpy(axis: int | None, operation: int) -> None:
    work = ELEMENTWISE[operation]
    check(work(anp.shard(HOST, DEVICES, axis), anp), work(HOST, np), axis)


def test_elementwise_work_copies_nothing_between_devices() -> None:
    x, y = anp.shard(HOST, DEVICES), anp.shard(HOST * 2, DEVICES)

    @aj.jit
    def step(x: Any, y: Any) -> Any:
        return anp.sin(x) * y + x

    check(step.run(x, y), np.sin(HOST) * (HOST * 2) + HOST, 0)
    assert " copy " not in step.explain()


def test_arrays_and_sharded_arrays_mix_when_they_fit() -> None:
    x, whole = anp.shard(HOST, DEVICES), anp.shard(HOST, DEVICES, None)
    check(x + whole, HOST + HOST, 0)
    check(whole - x, HOST - HOST, 0)
    check(x * anp.asarray(HOST[0]), HOST * HOST[0], 0)
    check(anp.asarray(HOST[:, :1]) * x, HOST * HOST[:, :1], 0)
    with pytest.raises(ValueError, match=r"sharded differently \(.*along axis 0 and .*along axis 1\)"):
        x + anp.shard(HOST, DEVICES, 1)
    with pytest.raises(DeviceError, match="sharded over"):
        x + anp.shard(HOST, ("cpu:1", "cpu:2"))


@pytest.mark.parametrize("sharded", [0, 1, None])
@pytest.mark.parametrize("over", [0, 1, None, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_meet_over_the_sharded_axis_only(sharded: int | None, over: Any, keepdims: bool) -> None:
    x = anp.shard(HOST, DEVICES, sharded)
    gone = sharded is None or over is None or sharded == over or isinstance(over, tuple)
    axis = None if gone else sharded if keepdims or sharded < over else sharded - 1  # type: ignore[operator]
    for name in ("sum", "max", "min", "prod", "mean"):
        expected = getattr(np, name)(HOST, axis=over, keepdims=keepdims)
        check(getattr(x, name)(over, keepdims=keepdims), expected, axis)
        check(getattr(anp, name)(x, axis=over, keepdims=keepdims), expected, axis)
    for name in ("any", "all"):
        check(getattr(x > 3, name)(over, keepdims=keepdims), getattr(HOST > 3, name)(over, keepdims=keepdims), axis)
    check((x > 3).mean(over), (HOST > 3).mean(over), None if gone else axis if not keepdims else (x > 3).sum(over).axis)


def test_a_reduction_over_some_of_three_axes_knows_where_the_sharded_one_is_left() -> None:
    host = np.arange(2 * 4 * 3.0).reshape(2, 4, 3)
    for sharded in range(3):
        for over in range(3):
            left = None if over == sharded else sharded - (over < sharded)
            check(anp.shard(host, DEVICES, sharded).sum(over), host.sum(over), left)
            check(anp.shard(host, DEVICES, sharded).mean(over), host.mean(over), left)


def test_small_floats_are_averaged_as_numpy_does() -> None:
    host = np.linspace(0, 1000, 400).astype("float16")
    mean = anp.mean(anp.shard(host, DEVICES))
    assert mean.dtype == np.float16
    assert np.allclose(np.asarray(mean), host.mean(), rtol=1e-3)


PRODUCTS = [
    # left axis, right axis (False: a plain array), axis of the result
    (0, False, 0),
    (0, None, 0),
    (1, False, None),
    (1, 0, None),
    (1, None, None),
    (None, 0, None),
    (None, 1, 1),
    (False, 0, None),
    (False, 1, 1),
    (None, None, None),
]


@pytest.mark.parametrize(("left", "right", "axis"), PRODUCTS)
def test_products_meet_over_the_axis_that_is_summed(left: Any, right: Any, axis: int | None) -> None:
    b = WHOLE.T[:, :3].copy()
    x = WHOLE if left is False else anp.shard(WHOLE, DEVICES, left)
    y = b if right is False else anp.shard(b, DEVICES, right)
    check(x @ y, WHOLE @ b, axis)
    check(anp.matmul(x, y), WHOLE @ b, axis)


def test_products_of_vectors_and_of_stacks() -> None:
    vector = WHOLE[0]
    check(anp.shard(WHOLE, DEVICES, 0) @ vector, WHOLE @ vector, 0)
    check(anp.shard(WHOLE, DEVICES, 1) @ anp.shard(vector, DEVICES), WHOLE @ vector, None)
    check(vector @ anp.shard(WHOLE.T.copy(), DEVICES, 1), vector @ WHOLE.T, 0)
    stack = np.arange(4 * 3 * 2.0).reshape(4, 3, 2)
    check(anp.shard(stack, DEVICES) @ np.ones((2, 5)), stack @ np.ones((2, 5)), 0)
    other = np.arange(4 * 2 * 3.0).reshape(4, 2, 3)
    check(anp.shard(stack, DEVICES) @ other, stack @ other, 0)
    check(anp.shard(stack, DEVICES) @ anp.shard(other, DEVICES), stack @ other, 0)
    with pytest.raises(ValueError, match="sharded differently"):
        anp.shard(WHOLE, DEVICES, 0) @ anp.shard(WHOLE.T.copy(), DEVICES, 0)


def test_transposes_follow_their_axis() -> None:
    check(anp.shard(HOST, DEVICES, 0).T, HOST.T, 1)
    check(anp.shard(HOST, DEVICES, None).T, HOST.T, None)
    check(anp.shard(HOST, DEVICES, 1).copy(), HOST, 1)


def test_writes_in_place_go_to_every_shard() -> None:
    x, whole, expected = anp.shard(HOST, DEVICES), anp.shard(HOST[0], DEVICES, None), HOST.copy()
    same = x
    x += whole
    x *= 2
    x -= HOST
    assert x is same
    expected = (expected + HOST[0]) * 2 - HOST
    check(x, expected, 0)
    x[...] = HOST
    check(x, HOST, 0)
    x[...] = anp.shard(HOST * 3, DEVICES)
    check(x, HOST * 3, 0)
    x[...] = 4
    check(x, np.full((5, 6), 4.0), 0)
    with pytest.raises(ValueError, match="sharded differently"):
        whole += anp.shard(HOST[0], DEVICES)
    with pytest.raises(ValueError, match="sharded differently"):
        x[...] = anp.shard(HOST, DEVICES, 1)
    with pytest.raises(IndexError, match="written whole"):
        x[0] = 1


def test_what_cannot_be_sharded_or_done_is_told() -> None:
    with pytest.raises(ValueError, match="fewer elements"):
        anp.shard(HOST[:1], DEVICES)
    with pytest.raises(ValueError, match="different devices"):
        anp.shard(HOST, ("cpu:0", "cpu:0"))
    with pytest.raises(DeviceUnavailableError):
        anp.shard(HOST, ("cpu:0", "cpu:9"))
    with pytest.raises(AttributeError, match="no 'ravel'; gather"):
        anp.shard(HOST, DEVICES).ravel()
    assert repr(anp.shard(HOST, DEVICES)) == "ShardedArray(shape=(5, 6), dtype=float64, along axis 0 over cpu:0, cpu:1)"
    assert "on each of" in repr(anp.shard(HOST, DEVICES, None))


def test_the_axis_belongs_to_the_signature() -> None:
    double = aj.jit(lambda x: x * 2)
    for axis in (0, 1, None, 0):
        check(double.run(anp.shard(HOST, DEVICES, axis)), HOST * 2, axis)
    assert len(double.captures) == 3


def test_partial_results_meet_in_the_order_of_the_shards_on_every_device() -> None:
    devices = (*DEVICES, "cpu:2")
    host = np.random.default_rng(3).standard_normal((30, 50)).astype("float32")
    first, second, third = (host[part].sum(axis=0) for part in (slice(10), slice(10, 20), slice(20, 30)))
    expected = (first + second) + third
    assert not np.array_equal(expected, first + (second + third)), "the order cannot be seen in this data"
    for replica in anp.shard(host, devices).sum(axis=0).shards:
        assert np.array_equal(np.asarray(replica), expected)


# A data-parallel training step.


def data(steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(7)
    for _ in range(steps):
        labels = rng.integers(0, 10, 32)
        yield rng.standard_normal((32, 64)).astype("float32"), np.eye(10, dtype="float32")[labels]


async def train(place: Callable[..., Any], batch: Callable[..., Any]) -> tuple[list[float], list[np.ndarray]]:
    weights = [place(weight) for weight in initial_weights(1)]
    velocities = [place(np.zeros_like(weight)) for weight in initial_weights(1)]

    @aj.jit
    def step(images: Any, targets: Any, weights: Any, velocities: Any, rate: float) -> Any:
        loss, slopes = gradients(anp, images, targets, weights)
        update(weights, velocities, slopes, rate)
        return loss

    losses = []
    for images, targets in data(12):
        loss = await step(batch(images), batch(targets), weights, velocities, 0.05)
        losses.append(float(np.asarray(loss)))
    assert len(step.captures) == 1
    for weight in weights:
        await weight
    return losses, [np.asarray(weight) for weight in weights]


async def test_a_data_parallel_step_on_two_devices_equals_one_device() -> None:
    alone = await train(anp.asarray, anp.asarray)
    together = await train(lambda w: anp.shard(w, DEVICES, None), lambda x: anp.shard(x, DEVICES))
    assert np.allclose(alone[0], together[0], rtol=1e-5)
    for one, both in zip(alone[1], together[1], strict=True):
        assert np.allclose(one, both, rtol=1e-4, atol=1e-6)


async def test_a_data_parallel_step_is_bitwise_that_of_numpy_which_sums_the_same_parts() -> None:
    """Each half computed by itself and added in the order of the shards: the same operations on the same shapes."""
    weight = np.random.default_rng(2).standard_normal((64, 10)).astype("float32")
    shared = anp.shard(weight, DEVICES, None)

    @aj.jit
    def step(images: Any, targets: Any, shared: Any) -> Any:
        error = anp.tanh(images @ shared) - targets
        shared -= (images.T @ error) / 32
        return (error * error).sum()

    for images, targets in data(6):
        loss = await step(anp.shard(images, DEVICES), anp.shard(targets, DEVICES), shared)
        halves = [(images[part], targets[part]) for part in (slice(0, 16), slice(16, 32))]
        errors = [np.tanh(x @ weight) - y for x, y in halves]
        slopes = [x.T @ error for (x, _), error in zip(halves, errors, strict=True)]
        assert np.asarray(loss) == (errors[0] * errors[0]).sum() + (errors[1] * errors[1]).sum()
        weight = weight - (slopes[0] + slopes[1]) / 32
    await shared
    for replica in shared.shards:
        assert np.array_equal(np.asarray(replica), weight)
