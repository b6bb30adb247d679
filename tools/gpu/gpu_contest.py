"""Contests on one device: ampd and PyTorch train the same network in turns. Stages of scripts/gpu-check."""
import ctypes
import os
import pathlib
import select
import statistics
import subprocess
import tempfile
import time

from gpu_context import Skip, at_once, finding

HERE = pathlib.Path(__file__).resolve().parent
# Contestants did different work if their losses before the first step, or the amounts by which the first turn lowered
# them, differ by more than these shares. Later losses tell nothing: all steps are on one batch, whose samples the
# network learns by heart, and there small differences grow.
START_TOLERANCE = 0.01
DROP_TOLERANCE = 0.1
ROUND_STEPS = 10
WARM_UP_TURNS = 2  # Turns after the first step that are not measured.
START_SHARE = 0.7  # Share of a contest's time that its contestants may take for their first step.
OURS, EAGER = "ours bf16", "PyTorch eager bf16"
COMPILE_CACHE = {"TORCHINDUCTOR_CACHE_DIR": str(pathlib.Path(tempfile.gettempdir()) / f"gpu-check-compiled-{os.getuid()}"),
                 "TORCHINDUCTOR_FX_GRAPH_CACHE": "1"}
COMPILED_NETWORKS = ("gpt2-124m", "resnet50")
# The presets and the formats of the peers that the contests beyond bf16 compare.
PRESETS = {"gpt2-124m": ("torch-amp-bf16", "fp8", "fp8-delayed", "fp8-block"),
           "resnet50": ("tf32", "fp32", "torch-amp-fp16", "apex-o2")}
PEER_FORMATS = {"gpt2-124m": ("defaults",), "resnet50": ("defaults", "tf32", "fp32", "fp16", "o2")}


class Contestant:
    """A process that trains a network. For each line "N" it takes N steps and answers with the seconds per step, the
    loss and the peak of allocated bytes."""

    def __init__(self, name, arguments, environment):
        self.name = name
        self.seconds = []
        self.joules = 0.0  # Energy that the GPU used in the measured turns.
        self.losses = []  # The last loss of each turn, from the first step on.
        self.peak = None
        self._process = subprocess.Popen([str(part) for part in arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         env=environment)

    def order(self, steps):
        try:
            self._process.stdin.write(f"{steps}\n".encode())
            self._process.stdin.flush()
        except OSError:
            pass  # The process has died, so that there will be no answer.

    def answer(self, seconds):
        """Returns the answer to an order. Returns None if the process died. If it does not answer within `seconds`, ends
        it and returns None."""
        ready, _, _ = select.select([self._process.stdout], [], [], max(0, seconds))
        words = self._process.stdout.readline().split() if ready else []
        if len(words) != 3:
            self._process.kill()
            return None
        self.losses.append(float(words[1]))
        self.peak = int(words[2])
        return float(words[0])

    def trains_like(self, other):
        """Whether both begin at the same loss and lower it alike in their first turn."""
        (start, after), (start_of_other, after_of_other) = self.losses[:2], other.losses[:2]
        drop, drop_of_other = start - after, start_of_other - after_of_other
        return abs(start - start_of_other) <= START_TOLERANCE * start_of_other and \
            abs(drop - drop_of_other) <= DROP_TOLERANCE * abs(drop_of_other)

    def end(self):
        self._process.kill()
        self._process.wait()


def contestants(context, network, formats):
    """Returns the contestants as {name: (arguments, environment)}. Without `formats` they all train in bf16, in
    different ways; with `formats`, in other formats, beside ours and PyTorch's eager mode in bf16."""
    tiny = ["--tiny"] if context.tiny else []

    def ours(preset, *flags):
        return [context.bundle.program("policy_report"), context.device, f"--networks={network}", f"--presets={preset}",
                "--turns", *flags, *tiny], context.environment()

    def peer(mode, number_format="bf16"):
        return [context.python, HERE / "gpu_peers.py", network, mode, "cuda" if context.on_gpu else "cpu",
                context.bundle.models(), f"--format={number_format}", *tiny], {**os.environ, **COMPILE_CACHE}

    chosen = {OURS: ours("bf16")}
    has_peers = context.torch() and context.bundle.models()
    if has_peers:
        chosen[EAGER] = peer("eager")
    else:
        finding(line="no torch in python: no peers")
    if context.tiny:
        return chosen
    if not formats:
        if has_peers:
            chosen |= {"PyTorch compiled bf16": peer("compile"), "PyTorch graphs bf16": peer("graphs")}
        return chosen | {"ours bf16 op by op": ours("bf16", "--no-replay"),
                         "ours bf16 not determ.": ours("bf16", "--nondeterministic")}
    chosen |= {f"ours {preset}": ours(preset) for preset in PRESETS[network]}
    if has_peers:
        chosen |= {f"PyTorch eager {name}": peer("eager", name) for name in PEER_FORMATS[network]}
    return chosen


def compile_peers(context):
    """Compiles PyTorch's networks into TorchInductor's cache beside the other stages, so that the contests need not
    wait for the compiler."""
    if not context.on_gpu or not context.torch() or not context.bundle.models():
        raise Skip("nothing is compiled here")

    def work(network, mode):
        done = subprocess.run([context.python, HERE / "gpu_peers.py", network, f"{mode}-only", "cuda",
                               str(context.bundle.models())], env={**os.environ, **COMPILE_CACHE}, check=False)
        finding(line=f"{network}, {mode}: {'compiled' if done.returncode == 0 else 'not compiled'}")
        return done.returncode == 0

    return all(at_once([lambda network=network, mode=mode: work(network, mode) for network in COMPILED_NETWORKS
                        for mode in ("compile", "graphs")]))


class EnergyCounter:
    """The energy that a GPU has used since its driver was loaded. NVML says it."""

    def __init__(self, index):
        self._device = ctypes.c_void_p()
        try:
            self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            self._nvml = None
            return
        if self._nvml.nvmlInit_v2() or self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self._device)):
            self._nvml = None

    def joules(self):
        """Returns the counter, or 0 if it cannot be read."""
        millijoules = ctypes.c_ulonglong()
        if self._nvml is None or self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._device, ctypes.byref(millijoules)):
            return 0.0
        return millijoules.value / 1e3


def begin(started, end):
    """Lets all contestants take their first step at the same time, because some compile then, and may take until `end`.
    Returns those that answer."""
    for one in started:
        one.order(1)
    running = []
    for one in started:
        if one.answer(end - time.monotonic()) is None:
            finding(line=f"{one.name}: does not start", died=one.name)
        else:
            running.append(one)
    return running


def play(running, steps, end, most_rounds, energy):
    """Lets the contestants take turns, one after the other, until `end` is near. Returns those that still answer."""
    for number in range(most_rounds):
        start = time.monotonic()
        for one in list(running):
            before = energy.joules()
            one.order(steps)
            seconds = one.answer(end - start)
            if seconds is None:
                running.remove(one)
                finding(line=f"{one.name}: does not answer", died=one.name)
            elif number >= WARM_UP_TURNS:
                one.seconds.append(seconds)
                one.joules += energy.joules() - before
        now = time.monotonic()
        if number >= WARM_UP_TURNS and now + (now - start) > end:
            break
    return [one for one in running if one.seconds]


def contest(network, unit, all_units, tiny_units, formats=False):
    """Returns a stage in which ampd and PyTorch train the same network in turns. Units are tokens or samples in a
    step."""
    def body(context):
        if formats and context.tiny:
            raise Skip("with small sizes one contest shows that everything runs")
        energy = EnergyCounter(int(context.device.removeprefix("gpu")) if context.on_gpu else 0)
        steps, most_rounds = (1, WARM_UP_TURNS + 1) if context.tiny else (ROUND_STEPS, 14)
        units = tiny_units if context.tiny else all_units
        started = [Contestant(name, *arguments) for name, arguments in contestants(context, network, formats).items()]
        try:
            left = context.left() - 3
            now = time.monotonic()
            running = begin(started, now + START_SHARE * left)
            done = play(running, steps, now + left, most_rounds, energy)
        finally:
            for one in started:
                one.end()
        medians = {one.name: statistics.median(one.seconds) for one in done}
        for one in done:
            median = medians[one.name]
            same = one.trains_like(done[0])
            joules = one.joules / (steps * len(one.seconds)) if context.on_gpu else 0.0
            versus = f" {medians[EAGER] / median:5.2f} x eager" if EAGER in medians else ""
            finding(line=f"{one.name:22} {median * 1e3:9.2f} ms {units / median:10.0f} {unit}/s {one.peak / 2**20:8.0f} MiB"
                         f"{f' {joules:6.2f} J' if joules else ''}{versus}{'' if same else '  OTHER LOSS'}",
                    network=network, contestant=one.name, ms=median * 1e3, fastest_ms=min(one.seconds) * 1e3,
                    turns=len(one.seconds), losses=one.losses, same_loss=same, peak_bytes=one.peak,
                    joules_per_step=joules)
        return len(done) == len(started)
    return body
