"""The demo: its formulas, its judge, its exit codes, and one quick run as a user starts it.

Law: formulas are tested on NumPy alone; what needs the engine runs in a process of its own.
"""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from asyncjit.demo import data, model, oracle

SEED = 5
RATE = 0.1


@pytest.fixture(scope="module")
def digits() -> data.Digits:
    return data.load_digits(SEED)


def steps_of(digits: data.Digits, count: int) -> list[oracle.Step]:
    """Training steps with the even tickets 2, 4, 6, …"""
    loader = data.Loader(digits, SEED)
    batches = [loader.load(step) for step in range(count)]
    return [oracle.Step(2 * (k + 1), b.images, b.targets, RATE) for k, b in enumerate(batches)]


def train(steps: Sequence[oracle.Step]) -> tuple[np.ndarray, ...]:
    """The demo's own formulas, on NumPy."""
    weights = tuple(model.initial_weights(SEED))
    velocities = tuple(np.zeros_like(weight) for weight in weights)
    with threadpool_limits(1, "blas"):
        for step in steps:
            _, slopes = model.gradients(np, step.images, step.targets, weights)
            model.update(weights, velocities, slopes, np.float32(step.rate))
    return weights


def test_gradients_are_the_slopes_of_the_loss() -> None:
    random = np.random.default_rng(SEED)
    weights = tuple(weight.astype(float) for weight in model.initial_weights(SEED))
    images, targets = random.random((5, model.PIXELS)), np.eye(model.CLASSES)[[1, 3, 3, 0, 9]]
    _, slopes = model.gradients(np, images, targets, weights)
    for weight, slope in zip(weights, slopes, strict=True):
        for _ in range(10):
            place = tuple(random.integers(extent) for extent in weight.shape)
            value, nudge = weight[place], 1e-6
            weight[place] = value + nudge
            above, _ = model.gradients(np, images, targets, weights)
            weight[place] = value - nudge
            below, _ = model.gradients(np, images, targets, weights)
            weight[place] = value
            assert slope[place] == pytest.approx((above - below) / (2 * nudge), abs=1e-7)


def test_the_loss_is_the_mean_cross_entropy_of_a_softmax() -> None:
    weights = (np.zeros((model.PIXELS, 1)), np.ones(1), np.array([[1.0, 2.0, 3.0]]), np.array([700.0, 700.0, 700.0]))
    loss, _ = model.gradients(np, np.zeros((1, model.PIXELS)), np.array([[0.0, 1.0, 0.0]]), weights)
    assert loss == pytest.approx(-np.log(np.exp(2) / (np.exp(1) + np.exp(2) + np.exp(3))))


def test_the_demo_and_its_judge_train_alike(digits: data.Digits) -> None:
    steps = steps_of(digits, 200)
    ours, theirs = train(steps), oracle.judge(model.initial_weights(SEED), model.MOMENTUM, steps, []).weights
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(ours, theirs, strict=True))
    assert np.mean(model.scores(np, digits.test_images, ours).argmax(axis=1) == digits.test_labels) > 0.9


def test_the_tolerance_lies_between_rounding_and_one_training_step(digits: data.Digits) -> None:
    """Rows in another order are the same mathematics and another rounding; one step more is another network."""
    steps = steps_of(digits, 300)
    turned = [replace(step, images=step.images[::-1].copy(), targets=step.targets[::-1].copy()) for step in steps]
    start = model.initial_weights(SEED)
    last, other, before = (
        model.scores(np, digits.test_images, oracle.judge(start, model.MOMENTUM, each, []).weights)
        for each in (steps, turned, steps[:-1])
    )
    assert 0 < np.max(np.abs(last - other)) < oracle.TOLERANCE / 10
    assert np.median(np.max(np.abs(last - before), axis=1)) > oracle.TOLERANCE * 10


def answers_of(digits: data.Digits, steps: Sequence[oracle.Step]) -> list[oracle.Answer]:
    """One answer after each step, between its ticket and the next."""
    found = []
    for count, step in enumerate(steps, 1):
        image = digits.test_images[count]
        found.append(oracle.Answer(step.ticket + 1, image, model.scores(np, image[None], train(steps[:count]))))
    return found


def test_the_judge_accepts_right_answers_in_any_order_of_arrival(digits: data.Digits) -> None:
    steps = steps_of(digits, 8)
    answers = answers_of(digits, steps)
    verdict = oracle.judge(model.initial_weights(SEED), model.MOMENTUM, steps[::-1], answers[::-1])
    assert (verdict.wrong, verdict.versions_seen) == (0, len(steps))


def test_the_judge_catches_answers_from_the_weights_of_another_ticket(digits: data.Digits) -> None:
    steps = steps_of(digits, 8)
    late = [replace(answer, ticket=answer.ticket + 2) for answer in answers_of(digits, steps)]
    # The last one stays right: there is no later step whose weights it could have missed.
    assert oracle.judge(model.initial_weights(SEED), model.MOMENTUM, steps, late).wrong == len(steps) - 1


@pytest.mark.parametrize("spoilt", [np.full((1, 10), np.nan, np.float32), np.zeros((1, 9)), np.zeros((1, 10))])
def test_the_judge_catches_answers_that_are_nonsense(digits: data.Digits, spoilt: np.ndarray) -> None:
    answer = oracle.Answer(1, digits.test_images[0], spoilt)
    assert oracle.judge(model.initial_weights(SEED), model.MOMENTUM, [], [answer]).wrong == 1


def test_batches_depend_on_seed_and_step_alone_and_an_epoch_repeats_no_image(digits: data.Digits) -> None:
    loader, again = data.Loader(digits, SEED), data.Loader(digits, SEED)
    assert np.array_equal(loader.load(30).images, again.load(30).images)
    assert not np.array_equal(loader.load(30).images, loader.load(31).images)
    assert not np.array_equal(loader.load(0).images, data.Loader(digits, SEED + 1).load(0).images)
    assert loader.load(0).images.dtype == loader.load(0).targets.dtype == np.float32
    counts = sum(loader.load(step).targets.sum(axis=0) for step in range(loader.steps_per_epoch))
    assert np.all(counts <= np.bincount(digits.train_labels))


def test_an_image_that_is_neither_turned_nor_moved_stays_as_it_is(
    digits: data.Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "TURN_MAX", 0.0)
    monkeypatch.setattr(data, "MOVE_MAX", 0.0)
    images = digits.train_images[:7]
    assert np.allclose(data.augment(images, np.random.default_rng(0)), images, atol=1e-6)


def test_an_image_moved_by_half_a_pixel_is_the_mean_of_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    class Half:
        def uniform(self, low: float, high: float, shape: tuple[int, ...]) -> np.ndarray:
            return np.full(shape, high)

    monkeypatch.setattr(data, "TURN_MAX", 0.0)
    monkeypatch.setattr(data, "MOVE_MAX", 0.5)
    image = np.random.default_rng(0).random((1, 64)).astype(np.float32)
    framed = np.pad(image.reshape(8, 8), ((0, 1), (0, 1)))
    mean = (framed[:-1, :-1] + framed[1:, :-1] + framed[:-1, 1:] + framed[1:, 1:]) / 4
    assert np.allclose(data.augment(image, Half()).reshape(8, 8), mean, atol=1e-6)  # type: ignore[arg-type]


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("module", ["sklearn", "rich"])
def test_a_missing_extra_is_one_line_that_names_it_and_exit_code_2(module: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from asyncjit.__main__ import main; sys.exit(main(['demo']))"
    done = python("-c", code)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "pip install 'asyncjit[demo]'" in done.stderr
    assert module in done.stderr


def test_a_quick_run_learns_answers_all_and_gets_none_wrong() -> None:
    done = python("-m", "asyncjit", "demo", "--quick", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    result = json.loads(line)
    assert result["wrong"] == 0
    assert result["requests"] == 2000
    assert result["steps"] == 15 * 22
    assert result["accuracy"] >= 0.95
    assert result["weights_versions_seen"] > 1
    assert result["in_flight_peak"] >= 1


def test_an_interrupt_ends_the_demo_with_one_line_and_exit_code_130() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "asyncjit", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "steps" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, "interrupted\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_progress_and_table_are_shown_on_a_terminal_and_elsewhere(kind: type[io.StringIO]) -> None:
    from asyncjit.demo import report, work

    out = kind()
    record = work.Record([], lag=[0.001, 0.002], lag_idle=[0.0001], loading_s=2.0, exposed_s=0.5, serving_s=1.0)
    record.training_s, record.accuracy, record.in_flight_peak = 1.0, 0.97, 5
    with report.progress_display(out) as show:
        show(work.Progress(steps_total=10, requests_total=20, steps=3, requests=7, loss=0.5))
    result = report.figures(
        work.Settings(epochs=1), record, oracle.Verdict(wrong=1, difference_max=1e-6, versions_seen=3, weights=())
    )
    report.print_table(result, out)
    text = out.getvalue()
    for expected in ("0.500", "0.970", "75%", "wrong answers", "1.99", "replays in flight at most"):
        assert expected in text
    assert not result.good
    assert replace(result, wrong=0).good
    assert not replace(result, wrong=0, accuracy=0.94).good
