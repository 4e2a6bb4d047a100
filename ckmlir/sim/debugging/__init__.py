"""Debugging and tracing kernels in the simulator.

    with Debugger(simulator, code_object, grid=…, block=…, arguments=[x, y]) as debugger:
        debugger.break_at("kernel.py:12")
        while stop := debugger.run():
            print(stop, debugger.register("v3", np.float32), debugger.lds(np.float16, 0, 64))

`Tracer` reports every execution of chosen instructions with values. `stepper.py` says how a launch is made to stop.
"""

from ckmlir.sim.debugging.debugger import Debugger, Stop
from ckmlir.sim.debugging.trace import TraceEvent, Tracer
from ckmlir.sim.debugging.wave import Wave

__all__ = ["Debugger", "Stop", "TraceEvent", "Tracer", "Wave"]
