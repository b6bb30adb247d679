"""Contests on one device: ampd and PyTorch train the same network in turns. Stages of scripts/gpu-check."""
import os
import pathlib
import select
import statistics
import subprocess
import tempfile
import time

from gpu_context import Skip, at_once, finding

HERE = pathlib.Path(__file__).resolve().parent
LOSS_TOLERANCE = 0.02  # Share of the first loss. Contestants whose last losses differ by more did different work.
ROUND_STEPS = 10
WARM_UP_TURNS = 2  # Turns after the first step that are not measured.
FIRST_HEAT = 0.6  # Share of a contest's time that the first heat gets.
OURS, EAGER = "ours bf16", "PyTorch eager bf16"
COMPILE_CACHE = {"TORCHINDUCTOR_CACHE_DIR": str(pathlib.Path(tempfile.gettempdir()) / f"gpu-check-compiled-{os.getuid()}"),
                 "TORCHINDUCTOR_FX_GRAPH_CACHE": "1"}
COMPILED_NETWORKS = ("gpt2-124m", "resnet50")


class Contestant:
    """A process that trains a network. For each line "N" it takes N steps and answers with the seconds per step, the
    loss and the peak of allocated bytes."""

    def __init__(self, name, arguments, environment):
        self.name = name
        self.seconds = []
        self.loss = self.peak = None
        self._process = subprocess.Popen([str(part) for part in arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         env=environment)

    def ask(self, steps, seconds):
        """Orders `steps` steps and returns the answer. Returns None if the process died. If it does not answer within
        `seconds`, ends it and returns None."""
        try:
            self._process.stdin.write(f"{steps}\n".encode())
            self._process.stdin.flush()
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, seconds))
            words = self._process.stdout.readline().split() if ready else []
        except OSError:
            words = []
        if len(words) != 3:
            self._process.kill()
            return None
        self.loss, self.peak = float(words[1]), int(words[2])
        return float(words[0])

    def end(self):
        self._process.kill()
        self._process.wait()


def heats(context, network):
    """Returns the contestants in groups that fit into a GPU's memory together, the most valuable group first. Each
    group is {name: (arguments, environment)}."""
    tiny = ["--tiny"] if context.tiny else []

    def ours(preset, *flags):
        return [context.bundle.program("policy_report"), context.device, f"--networks={network}", f"--presets={preset}",
                "--turns", *flags, *tiny], context.environment()

    def peer(mode):
        return [context.python, HERE / "gpu_peers.py", network, mode, "cuda" if context.on_gpu else "cpu",
                context.bundle.models(), *tiny], {**os.environ, **COMPILE_CACHE}

    both = {OURS: ours("bf16")}
    compiled = {}
    if context.torch() and context.bundle.models():
        both[EAGER] = peer("eager")
        compiled = {"PyTorch compiled bf16": peer("compile")}
    else:
        finding(line="no torch in python: no peers")
    if context.tiny:
        return [both]
    presets = ("tf32", "fp32", "torch-amp-fp16", "apex-o2") if network == "resnet50" else \
        ("fp8", "fp8-delayed", "fp8-block")
    return [both | compiled | {"ours bf16 op by op": ours("bf16", "--no-replay"),
                               "ours bf16 not determ.": ours("bf16", "--nondeterministic")},
            both | {f"ours {preset}": ours(preset) for preset in ("torch-amp-bf16", *presets)}]


def compile_peers(context):
    """Compiles PyTorch's networks into TorchInductor's cache beside the other stages, so that the contests need not
    wait for the compiler."""
    if not context.on_gpu or not context.torch() or not context.bundle.models():
        raise Skip("nothing is compiled here")

    def work(network):
        done = subprocess.run([context.python, HERE / "gpu_peers.py", network, "compile-only", "cuda",
                               str(context.bundle.models())], env={**os.environ, **COMPILE_CACHE}, check=False)
        finding(line=f"{network}: {'compiled' if done.returncode == 0 else 'not compiled'}")
        return done.returncode == 0

    return all(at_once([lambda network=network: work(network) for network in COMPILED_NETWORKS]))


def play(started, steps, end, most_rounds):
    """Lets the contestants take turns, one after the other, until `end` is near. Returns those that still answer, and
    the loss of the first one's first step."""
    running = list(started)
    first_loss = None
    for number in range(most_rounds):
        begin = time.monotonic()
        for one in list(running):
            # The first turn, which may compile, may take half of the time left, so that one contestant does not use up
            # all.
            seconds = one.ask(1 if number == 0 else steps, (end - time.monotonic()) / 2 if number == 0 else end - begin)
            first_loss = one.loss if first_loss is None else first_loss
            if seconds is None:
                running.remove(one)
                finding(line=f"{one.name}: does not {'start' if number == 0 else 'answer'}", died=one.name)
            elif number > WARM_UP_TURNS:
                one.seconds.append(seconds)
        now = time.monotonic()
        if number > WARM_UP_TURNS and now + (now - begin) > end:
            break
    return [one for one in running if one.seconds], first_loss


def contest(network, unit, all_units, tiny_units):
    """Returns a stage in which ampd and PyTorch train the same network in turns. Units are tokens or samples in a
    step."""
    def heat(context, group, end):
        started = [Contestant(name, *arguments) for name, arguments in group.items()]
        try:
            done, first_loss = play(started, *((1, end, WARM_UP_TURNS + 2) if context.tiny else (ROUND_STEPS, end, 14)))
        finally:
            for one in started:
                one.end()
        units = tiny_units if context.tiny else all_units
        medians = {one.name: statistics.median(one.seconds) for one in done}
        for one in done:
            median = medians[one.name]
            same = abs(one.loss - done[0].loss) <= LOSS_TOLERANCE * first_loss
            versus = f" {medians[EAGER] / median:5.2f} x eager" if EAGER in medians else ""
            finding(line=f"{one.name:22} {median * 1e3:9.2f} ms {units / median:10.0f} {unit}/s {one.peak / 2**20:8.0f} MiB"
                         f"{versus}{'' if same else '  OTHER LOSS'}",
                    network=network, contestant=one.name, ms=median * 1e3, fastest_ms=min(one.seconds) * 1e3,
                    turns=len(one.seconds), loss=one.loss, same_loss=same, peak_bytes=one.peak)
        return len(done) == len(started)

    def body(context):
        groups = heats(context, network)
        good = True
        for number, group in enumerate(groups):
            share = FIRST_HEAT if number < len(groups) - 1 else 1
            good = heat(context, group, time.monotonic() + (context.left() - 5) * share) and good
        return good
    return body
