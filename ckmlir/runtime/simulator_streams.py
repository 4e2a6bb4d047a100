"""Streams and events of the simulator: work waits until somebody synchronises, as late as HIP's order allows.

What is queued on a stream of one's own is done when the stream, a later event on it, the device or the default stream
is synchronised, never before: a program that reads without synchronising, or whose streams lack a wait for each other's
events, meets memory that nobody has written yet. What is queued on the default stream is done at once, after everything
else. Where several streams may go on, the seed chooses.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

import numpy as np

from ckmlir.errors import CkmlirError
from ckmlir.runtime.device import DeviceError, Event, Stream


class SimulatorStream:
    """A queue of the simulator."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self.waiting: deque[Work] = deque()
        self.failure: CkmlirError | None = None

    def synchronize(self) -> None:
        """See `Stream`."""
        self._queues.finish([self])

    def is_done(self) -> bool:
        """See `Stream`."""
        return not self.waiting

    def wait(self, event: Event) -> None:
        """See `Stream`."""
        if not isinstance(event, SimulatorEvent):
            raise DeviceError(f"{type(event).__name__} is not an event of this device")
        mark = event.mark
        if mark is not None and not mark.is_reached:
            self._queues.add(self, mark)

    def close(self) -> None:
        """See `Stream`."""
        self._queues.forget(self)


class Mark:
    """A point of a stream that an event marked; also stands in the queues of streams that wait for it.

    Attributes:
        stream: where it was recorded; None for the default stream.
        time: on the host's clock, None before it is reached.
    """

    def __init__(self, stream: SimulatorStream | None) -> None:
        self.stream = stream
        self.time: float | None = None

    @property
    def is_reached(self) -> bool:
        """Whether everything before it has been done."""
        return self.time is not None

    def reach(self) -> None:
        """Everything before it has been done."""
        self.time = time.perf_counter()


Work = Callable[[], None] | Mark
"""A function to run; a mark of the queue's own stream to be reached, or of another to wait for."""


class SimulatorEvent:
    """A point in a stream of the simulator, with its time on the host's clock."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self.mark: Mark | None = None

    def record(self, stream: Stream | None = None) -> None:
        """See `Event`."""
        own = self._queues.own(stream)
        self.mark = Mark(own)
        if own is None:
            self._queues.finish_all()
            self.mark.reach()
        else:
            self._queues.add(own, self.mark)

    def synchronize(self) -> None:
        """See `Event`."""
        if self.mark is not None:
            self._queues.reach(self.mark)

    def is_reached(self) -> bool:
        """See `Event`."""
        return self.mark is None or self.mark.is_reached

    def seconds_since(self, earlier: Event) -> float:
        """See `Event`. Raises DeviceError when one of the events was never recorded, or is not reached."""
        marks = [event.mark if isinstance(event, SimulatorEvent) else None for event in (earlier, self)]
        if marks[0] is None or marks[1] is None:
            raise DeviceError("an event that was never recorded on this device has no time")
        if marks[0].time is None or marks[1].time is None:
            raise DeviceError("an event that is not reached has no time; synchronize first")
        return marks[1].time - marks[0].time

    def close(self) -> None:
        """See `Event`."""


class Queues:
    """The streams of one simulator device. One thread at a time works on them."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._streams: weakref.WeakSet[SimulatorStream] = weakref.WeakSet()
        self._busy: dict[SimulatorStream, None] = {}  # with work or a failure: kept also when nobody else does
        self._lock = threading.RLock()
        self._host_function_thread: int | None = None

    def create(self) -> SimulatorStream:
        """A new stream."""
        stream = SimulatorStream(self)
        self._streams.add(stream)
        return stream

    def own(self, stream: Stream | None) -> SimulatorStream | None:
        """The stream, which must be one of these, or None. Raises DeviceError."""
        if stream is None:
            return None
        if not isinstance(stream, SimulatorStream) or stream not in self._streams:
            raise DeviceError(f"{type(stream).__name__} is not a stream of this device, or was closed")
        return stream

    def check_thread(self) -> None:
        """Raise DeviceError inside of a host function."""
        if self._host_function_thread == threading.get_ident():
            raise DeviceError("a host function must not use a device")

    def submit(self, work: Callable[[], None], stream: Stream | None) -> None:
        """Queue work; on the default stream, do it now, after everything else."""
        own = self.own(stream)
        with self._lock:
            self.check_thread()
            if own is None:
                self.finish_all()
                work()
            else:
                self._append(own, work)

    def run_host_function(self, function: Callable[[], None]) -> None:
        """Run a host function, which may not use the device. Raises DeviceError with what it raises."""
        self._host_function_thread = threading.get_ident()
        try:
            function()
        except Exception as error:  # of the caller's function, which may raise anything
            raise DeviceError(f"a host function raised {type(error).__name__}: {error}") from error
        finally:
            self._host_function_thread = None

    def add(self, stream: SimulatorStream, mark: Mark) -> None:
        """Queue a mark: the stream's own, to be reached, or another's, to be waited for."""
        with self._lock:
            self.check_thread()
            self._append(stream, mark)

    def _append(self, stream: SimulatorStream, work: Work) -> None:
        stream.waiting.append(work)
        self._busy[stream] = None

    def finish(self, streams: list[SimulatorStream]) -> None:
        """Do all work of some streams, and of others what they wait for. Raises what the first failure was."""
        with self._lock:
            self.check_thread()
            while pending := [stream for stream in streams if stream.waiting]:
                self._step(pending[int(self._random.integers(len(pending)))])
            for stream in streams:
                self._raise_failure(stream)

    def finish_all(self) -> None:
        """Do all work of all streams."""
        with self._lock:
            self.finish(list(self._busy))

    def _raise_failure(self, stream: SimulatorStream) -> None:
        if not stream.waiting:
            self._busy.pop(stream, None)
        if stream.failure is not None:
            failure, stream.failure = stream.failure, None
            raise failure

    def reach(self, mark: Mark) -> None:
        """Do a stream's work up to a mark. Raises what went wrong on the way."""
        with self._lock:
            self.check_thread()
            self._reach(mark)
            if mark.stream is not None:
                self._raise_failure(mark.stream)

    def forget(self, stream: SimulatorStream) -> None:
        """Do a stream's work and take it from the list."""
        if stream in self._streams:
            try:
                self.finish([stream])
            finally:
                self._streams.discard(stream)

    def _reach(self, mark: Mark) -> None:
        while not mark.is_reached and mark.stream is not None:
            self._step(mark.stream)

    def _step(self, stream: SimulatorStream) -> None:
        """Do the first work of a stream. After a failure the rest of its work is dropped, marks are still reached."""
        work = stream.waiting[0]
        if isinstance(work, Mark):
            if work.stream is stream:
                work.reach()
            else:
                self._reach(work)
            stream.waiting.popleft()
            return
        stream.waiting.popleft()
        if stream.failure is None:
            try:
                work()
            except CkmlirError as error:
                stream.failure = error
            except KeyboardInterrupt:  # what follows needs what was not done
                stream.waiting = deque(work for work in stream.waiting if isinstance(work, Mark))
                raise
