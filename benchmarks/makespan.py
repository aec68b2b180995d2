"""How near plans on K streams come to the best possible makespan, on the simulated device with hops that cost nothing.

Efficiency is max(longest path, work / K), which no schedule can beat, over the makespan reached. ``graham_violations``
counts makespans above work / K + (1 - 1/K) * longest path: possible only where a stream was idle with work ready.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from asyncjit.devices.base import Submission
from asyncjit.devices.sim import SimDevice
from asyncjit.ir import Access, Call, Cost, Kernel, Schedule, new_buffer, operand_of
from asyncjit.plan import lower
from asyncjit.streams import Fence
from benchmarks._dags import Edges, layered

DAGS = 200
STREAMS = (2, 4)


def run() -> dict[str, object]:
    return {"rows": [_row(streams) for streams in STREAMS]}


def _row(streams: int) -> dict[str, object]:
    dice = random.Random(streams)
    efficiencies: list[float] = []
    violations = 0
    for seed in range(DAGS):
        count, edges = layered(dice, dice.randint(4, 14), dice.randint(3, 10))
        costs = [dice.randint(1, 8) for _ in range(count)]
        path, work = _longest_path(edges, costs), sum(costs)
        makespan = _simulated(_schedule(edges, costs), streams, seed)
        efficiencies.append(max(path, work / streams) / makespan)
        violations += makespan > work / streams + (1 - 1 / streams) * path + 1e-9
    return {
        "streams": streams,
        "mean_efficiency": round(sum(efficiencies) / DAGS, 4),
        "worst": round(min(efficiencies), 4),
        "graham_violations": violations,
    }


def _longest_path(edges: Edges, costs: Sequence[int]) -> int:
    ends: list[int] = []
    for call, cost in enumerate(costs):
        ends.append(cost + max((ends[u] for u, v in edges if v == call), default=0))
    return max(ends)


def _nothing(*_operands: object) -> None:
    """Only the order and the durations of the calls matter."""


def _schedule(edges: Edges, costs: Sequence[int]) -> Schedule:
    """Calls that each write a byte of their own and read those of the calls before; a call lasts its ``flops``."""
    cells = [operand_of(new_buffer("sim", 1), (1,), (1,), "uint8", 1) for _ in costs]
    calls = []
    for call, cost in enumerate(costs):
        sources = [cells[u] for u, v in edges if v == call]
        kernel = Kernel("nothing", (*(Access.READ for _ in sources), Access.WRITE), implementation=_nothing)
        calls.append(Call(kernel, (*sources, cells[call]), Cost(flops=cost)))
    return Schedule(tuple(calls), name="makespan")


def _simulated(schedule: Schedule, streams: int, seed: int) -> float:
    """Virtual time of one replay."""
    device = SimDevice(seed=seed, streams_max=streams, hop_s=0.0, duration=lambda call: float(call.cost.flops))
    plan = lower(schedule, streams_max=streams, costs=[float(call.cost.flops) for call in schedule.calls])
    executable = device.instantiate(plan)
    errors: list[BaseException | None] = []
    submission = Submission(
        executable=executable,
        frame=executable.create_frame(),
        bindings=(),
        gates={},
        report=lambda _submission, error, _call: errors.append(error),
        fence=Fence(),
    )
    device.submit(submission)
    device.run_until_idle()
    if errors != [None]:
        raise AssertionError(f"the replay reported {errors}")
    return device.now_s
