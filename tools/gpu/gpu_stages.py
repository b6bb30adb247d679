"""The stages of scripts/gpu-check in their order, and what each runs. docs/gpu.md says what each stage shows.

A stage runs in a process of its own (`run_stage`). It prints what its programs print, and findings: lines that begin with
FINDING, each a JSON object, which scripts/gpu-check records also if the stage is killed later. A finding with a `line`
appears in the table, and one with a `why` explains the stage's outcome.
"""
import dataclasses
import json
import os
import pathlib
import platform
import re
import subprocess

from gpu_contest import compile_peers, contest
from gpu_context import SKIPPED, Context, Skip, at_once, echo, finding
from gpu_service import service

RERUNS = 6  # How often a test program is started at most, if its processes die.


# Facts and smoke.

def missing_libraries(context, name):
    program = context.bundle.program(name)
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False,
                            env=context.environment()).stdout
    print(listed)
    return re.findall(r"^\s*(\S+) => not found", listed, re.M)


def facts(context):
    """Reports what the machine has: GPUs, driver and torch, and which libraries our programs do not find."""
    torch = context.torch()
    finding(kernel=platform.release(), cores=os.cpu_count(), python=platform.python_version(), torch=bool(torch))
    lacking = {name: missing_libraries(context, name) for name in ("policy_report", "ampd-trainer")}
    for name, libraries in lacking.items():
        for library in libraries:
            finding(line=f"{name} does not find {library}", why=f"{library} is missing")
    if context.on_gpu:
        fields = "name,compute_cap,memory.total,driver_version,clocks.max.sm,power.limit"
        subprocess.run(["nvidia-smi", "-q"], check=False, timeout=max(1, context.left()))
        asked = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], capture_output=True,
                               text=True, check=True)
        for line in asked.stdout.splitlines():
            finding(line=line, gpu=dict(zip(fields.split(","), line.split(", "))))
        read_into_cache(torch, context.left() - 2)
    return not any(lacking.values())


def read_into_cache(torch, seconds):
    """Reads LibTorch's libraries into the page cache, so that the next programs start faster."""
    site = pathlib.Path(torch).parent
    files = [str(path) for folder in (pathlib.Path(torch) / "lib", site / "nvidia") for path in folder.rglob("*.so*")]
    try:
        subprocess.run(["cat", *files], stdout=subprocess.DEVNULL, check=False, timeout=max(1, seconds))
    except subprocess.TimeoutExpired:
        print("the libraries were not read to the end")


def smoke(context):
    """Checks that programs load and train at all. After a failure it shows where the loader looked for libraries."""
    arguments = [context.device, "--networks=mlp", "--presets=fp32", "--steps=3", "--no-op-by-op"]
    ok = False
    for cell in report(context, arguments):
        if cell["what"] == "device":
            why_not = cell["why_not"] or "a CPU has none"
            finding(line=f"{cell['device']}; step graphs: {'yes' if cell['replays'] else 'no, ' + why_not}")
        ok = ok or has_finite_losses(cell)
    if not ok:
        print("again, with LD_DEBUG=libs")
        for line in echo(context.start("policy_report", *arguments, env={"LD_DEBUG": "libs"})):
            if "cannot open shared object" in line or "undefined symbol" in line:
                finding(why=line[-300:])
    return ok


# Test programs.

RAN = re.compile(r"^\[ +(RUN|OK|FAILED|SKIPPED) +\] (\S+?)(?:,|$| \()")


def listed_tests(context, program, pattern):
    """Returns the names of a program's tests. If it does not start or has none, its output becomes a finding."""
    process = context.start(program, "--gtest_list_tests", f"--gtest_filter={pattern}")
    text = process.communicate()[0]
    names, suite = [], ""
    for line in text.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + word)
        elif word.endswith("."):
            suite = word
    if process.returncode != 0 or not names:
        finding(line=f"{program} lists no tests for {pattern}: {text.strip()[-300:]}", why=f"{program} lists no tests")
    return names


def run_once(context, program, names, environment):
    """Runs tests in one process. Returns {name: "OK" | "FAILED" | "SKIPPED" | "RUN"}; "RUN" means that the process
    died in this test."""
    outcomes = {}
    for line in echo(context.start(program, f"--gtest_filter={':'.join(names)}", env=environment)):
        match = RAN.match(line)
        if match and match.group(2) in names:
            outcomes[match.group(2)] = match.group(1)
    return outcomes


def run_tests(context, program, pattern, environment=None):
    """Runs a program's tests. If the process dies, the tests that it has not reported run again in a fresh one. A test
    that failed runs once more, alone and with the host waiting for each kernel, because after one error of CUDA all
    later tests of a process fail."""
    environment = environment or {}
    names = listed_tests(context, program, pattern)
    outcomes = {}
    for _ in range(RERUNS):
        waiting = [name for name in names if name not in outcomes]
        if not waiting:
            break
        outcomes |= run_once(context, program, waiting, environment)
    failed = [name for name in names if outcomes.get(name) in ("FAILED", "RUN")]
    alone = [name for name in failed
             if run_once(context, program, [name], {**environment, "CUDA_LAUNCH_BLOCKING": "1"}).get(name) == "OK"]
    for name in failed:
        finding(line=f"{name} {'died' if outcomes[name] == 'RUN' else 'failed'}"
                     + (", and passes alone" if name in alone else ""), test=name)
    counts = {what: sum(outcomes.get(name) == word for name in names)
              for what, word in (("passed", "OK"), ("skipped", "SKIPPED"))}
    unreported = len([name for name in names if name not in outcomes])
    finding(line=f"{program}: {counts['passed']} passed, {len(failed)} failed, {counts['skipped']} skipped"
                 + (f", {unreported} not reported" if unreported else ""), program=program, failed=len(failed), **counts)
    good = names and not failed and not unreported
    return bool(good and not (context.on_gpu and counts["skipped"]))


def gpu_tests(*runs):
    """Returns a stage that runs tests, given as (program, filter), side by side. Without a GPU the stage is skipped."""
    def body(context):
        if not context.on_gpu:
            raise Skip("these tests need a GPU")
        return all(at_once([lambda run=run: run_tests(context, *run) for run in runs]))
    return body


def resume(context):
    """Checks that a job that is killed and resumed gives the same numbers, to the last bit, as one that runs
    through."""
    cases = ["fp32_0"] if context.tiny else ["fp32_0", "bf16_0", "fp16_0", "fp8_delayed_0"]
    return all(at_once([lambda case=case: run_tests(context, "worker_train_trainer_test", f"*TrainerResumeTest*/{case}",
                                                    {"AMPD_TRAINER_DEVICE": context.device}) for case in cases]))


# policy_report.

def report(context, arguments, environment=None):
    """Yields the objects that policy_report prints."""
    tiny = ["--tiny"] if context.tiny else []
    for line in echo(context.start("policy_report", *arguments, *tiny, env=environment or {})):
        if line.startswith("{"):
            yield json.loads(line)


def has_finite_losses(cell):
    """Returns whether a network was trained and none of its losses is NaN or infinite, which policy_report writes as
    null."""
    return "losses" in cell and None not in cell["losses"]


def summary_of(cell):
    """Returns the result of a network under a preset as a finding, and whether something is wrong. The finding has no
    losses, and a line only if something is wrong."""
    cell = cell | {"network": pathlib.PurePath(cell["network"]).name}  # An exported model's is a path.
    fields = {key: cell[key] for key in ("network", "preset", "error", "skipped", "emulated", "replayed", "graph_failure",
                                         "host_waits", "same_losses_op_by_op", "largest_difference_from_cpu",
                                         "skipped_steps", "steps_per_second") if cell.get(key) not in (None, "", 0)}
    wrong = cell.get("error") or cell.get("graph_failure")
    wrong = wrong or ("other losses op by op" if cell.get("same_losses_op_by_op") is False else "")
    wrong = wrong or ("losses are not finite" if "losses" in cell and not has_finite_losses(cell) else "")
    wrong = wrong or ("losses cannot be compared with the CPU's, which are not finite"
                      if cell.get("largest_difference_from_cpu", 0) is None else "")
    wrong = wrong or ("the host waits for the device within a step" if cell.get("host_waits") else "")
    return (fields | {"line": f"{cell['network']} {cell['preset']}: {wrong}"[:150]} if wrong else fields), bool(wrong)


ZOO = ("mlp", "lenet", "gpt", "gpt2", "bert", "lstm", "gru", "resnet18", "efficientnet")
TINY_ZOO = ("mlp", "gpt")
COMPARED_PRESETS = ("fp32", "bf16", "fp16")
PROCESSES = 4


def zoo_network(context, network, presets):
    """Trains one network under the presets. If the process dies under a preset, that preset is not tried again, and
    the presets that it did not reach run in a fresh process. On a GPU each preset with an error also runs once more in
    a fresh process."""
    flags = [f"--networks={network}", "--batch=8", "--steps=4", f"--compare-cpu={','.join(COMPARED_PRESETS)}"]
    threads = {"OMP_NUM_THREADS": str(max(1, os.cpu_count() // PROCESSES))}
    cells, waiting = {}, list(presets)
    while waiting and context.left() > 5:
        before = len(cells)
        for cell in report(context, [context.device, *flags, f"--presets={','.join(waiting)}"], threads):
            if cell["what"] == "training":
                cells[cell["preset"]] = cell
        if len(cells) == before:
            cells[waiting[0]] = {"network": network, "preset": waiting[0], "error": "the process died"}
        waiting = [preset for preset in presets if preset not in cells]
    for preset in [preset for preset, cell in cells.items() if "error" in cell and context.on_gpu]:
        for cell in report(context, [context.device, *flags, f"--presets={preset}"], threads):
            cells[preset] = cell if cell["what"] == "training" else cells[preset]
    bad = False
    for cell in cells.values():
        summary, wrong = summary_of(cell)
        finding(**summary)
        bad |= wrong
    return not bad and not waiting


def presets_of(context):
    if context.tiny:
        return ["fp32", "bf16", "keras-mixed-bfloat16"]
    return context.start("policy_report", "presets").communicate()[0].split()


def zoo(context):
    """Trains every kind of network under every preset and compares with the CPU."""
    networks = list(TINY_ZOO if context.tiny else ZOO)
    num_networks = len(networks)
    presets = presets_of(context)
    good = []

    def work():
        while networks and context.left() > 5:
            good.append(zoo_network(context, networks.pop(0), presets))

    at_once([work] * (1 if context.tiny else PROCESSES))
    for network in networks:
        finding(line=f"{network}: no time left")
    finding(line=f"{len(good)} networks under {len(presets)} presets, {good.count(False)} with something wrong")
    return len(good) == num_networks and all(good)


IMPORT_PRESETS = ("fp32", "bf16", "fp16", "torch-amp-bf16", "keras-mixed-bfloat16")
TINY_IMPORTS, TINY_IMPORT_PRESETS = 1, ("bf16",)


def imports(context):
    """Trains exported models under some presets and compares with the CPU."""
    folder = context.bundle.folder / "models"
    names = sorted(str(path.with_suffix("")) for path in folder.glob("*.pt2")) if folder.is_dir() else []
    if not names:
        raise Skip("the bundle has no exported models")
    presets = TINY_IMPORT_PRESETS if context.tiny else IMPORT_PRESETS
    waiting = names[:TINY_IMPORTS] if context.tiny else names
    num_names = len(waiting)
    good = []

    def work():
        while waiting and context.left() > 5:
            good.append(zoo_network(context, waiting.pop(0), presets))

    at_once([work] * (1 if context.tiny else PROCESSES))
    finding(line=f"{len(good)} of {num_names} exported models under {len(presets)} presets, "
                 f"{good.count(False)} with something wrong")
    return len(good) == num_names and all(good)


def out_of_memory(context):
    """Checks that a step that does not fit into memory fails with a typed error, and that the process can train
    afterwards."""
    if not context.on_gpu:
        raise Skip("on a CPU it would take the machine's memory")
    cells = [cell for cell in report(context, [context.device, "--networks=gpt2-124m,mlp", "--presets=bf16",
                                               "--batch=4096", "--steps=2", "--no-op-by-op"])
             if cell["what"] == "training"]
    refused = bool(cells) and "memory" in cells[0].get("error", "")
    trains = len(cells) == 2 and has_finite_losses(cells[1])
    finding(line=f"refused: {refused}; trains afterwards: {trains}")
    return refused and trains


def ceilings(context):
    """Measures the most that the device's memory and its multipliers can do."""
    good = False
    for cell in report(context, [context.device, "--networks=none", "--ceilings"]):
        if cell["what"] == "copy":
            good = "error" not in cell
            finding(line=f"copy: {cell.get('gigabytes_per_second', 0):.0f} GB/s {cell.get('error', '')}", **cell)
        elif cell["what"] == "product":
            finding(line=f"product in {cell['format']}: {cell.get('teraflops', 0):.2f} TFLOP/s {cell.get('error', '')}",
                    **cell)
    return good


LISTED_KERNELS = 8  # How many kernels of a network the table lists.


def profile(context):
    """Measures the time of each kernel in a step of the two large networks."""
    good = []
    for network in ("gpt",) if context.tiny else ("gpt2-124m", "resnet50"):
        for cell in report(context, [context.device, f"--networks={network}", "--presets=bf16", "--steps=5",
                                     "--no-op-by-op", "--kernels"]):
            if cell["what"] != "training":
                continue
            kernels, steps = cell.get("kernels", []), cell.get("profiled_steps", 1)
            milliseconds = sum(kernel["milliseconds"] for kernel in kernels) / steps
            launches = sum(kernel["count"] for kernel in kernels) / steps
            finding(line=f"{network}: {milliseconds:.2f} ms in {launches:.0f} launches {cell.get('error', '')}",
                    network=network, milliseconds=milliseconds, launches=launches)
            for number, kernel in enumerate(kernels):
                line = {"line": f"  {kernel['milliseconds'] / steps:7.3f} ms {kernel['count'] / steps:5.0f} x "
                                f"{kernel['name'][:100]}"} if number < LISTED_KERNELS and not context.tiny else {}
                finding(network=network, **kernel, **line)
            good.append(bool(kernels))
    return bool(good) and all(good)


def optimizer(context):
    """Measures the optimizer step, beside a copy of memory."""
    for cell in report(context, [context.device, "--networks=none", "--optimizer"]):
        if cell["what"] == "optimizer_step" and "error" not in cell:
            ours, copy = cell["gigabytes_per_second"], cell["copy_gigabytes_per_second"]
            finding(line=f"{ours:.0f} GB/s where a copy has {copy:.0f}: {ours / copy:.2f}", **cell)
            return True
    return False


@dataclasses.dataclass
class Stage:
    name: str
    limit: float  # Seconds after which the stage is killed.
    log: str  # Name of the log file, which stages may share.
    body: object  # Function of a Context that returns whether the stage passed.
    programs: tuple = ()
    background: bool = False  # Whether the stage runs beside the stages that follow it.
    alone: bool = False  # Whether it waits until none runs in the background, because it measures time or memory.


# What the contests count, how many of it a step has, and how many with small sizes.
TOKENS = ("tokens", 8 * 1024, 2 * 32)
IMAGES = ("images", 256, 2)

STAGES = [
    Stage("facts", 15, "1-start", facts, ("policy_report", "ampd-trainer")),
    Stage("compile", 150, "5-peers", compile_peers, ("policy_report",), background=True),
    Stage("smoke", 20, "1-start", smoke, ("policy_report",)),
    Stage("kernels", 40, "2-tests", gpu_tests(("worker_device_devices_test", "Devices.ThisHostsGpus*"),
                                          ("worker_kernels_cuda_test", "*")),
          ("worker_device_devices_test", "worker_kernels_cuda_test")),
    Stage("training", 90, "2-tests", gpu_tests(("worker_train_gpu_test", "*GpuTraining*"),
                                               ("worker_train_gpu_test", "*GpuGraph*"),
                                               ("worker_train_gpu_test", "*GpuFp8*")), ("worker_train_gpu_test",)),
    Stage("zoo", 60, "3-zoo", zoo, ("policy_report",)),
    Stage("imports", 50, "3-zoo", imports, ("policy_report",)),
    Stage("trainer", 20, "2-tests", gpu_tests(("worker_train_trainer_test", "*TrainsThere*")),
          ("worker_train_trainer_test", "ampd-trainer")),
    Stage("resume", 30, "2-tests", resume, ("worker_train_trainer_test", "ampd-trainer")),
    Stage("out-of-memory", 20, "1-start", out_of_memory, ("policy_report",), alone=True),
    Stage("ceilings", 15, "4-speed", ceilings, ("policy_report",), alone=True),
    Stage("profile", 40, "4-speed", profile, ("policy_report",), alone=True),
    Stage("gpt2", 60, "4-speed", contest("gpt2-124m", *TOKENS), ("policy_report",), alone=True),
    Stage("resnet50", 50, "4-speed", contest("resnet50", *IMAGES), ("policy_report",), alone=True),
    Stage("gpt2-formats", 45, "4-speed", contest("gpt2-124m", *TOKENS, formats=True), ("policy_report",), alone=True),
    Stage("resnet50-formats", 55, "4-speed", contest("resnet50", *IMAGES, formats=True), ("policy_report",),
          alone=True),
    Stage("optimizer", 20, "4-speed", optimizer, ("policy_report",), alone=True),
    Stage("service", 40, "6-service", service, ("ampctl", "ampd-server", "ampd-worker", "ampd-shim", "ampd-trainer")),
]


def run_stage(options):
    """Runs one stage in this process. Returns its exit status."""
    stage = next(stage for stage in STAGES if stage.name == options.stage)
    try:
        return 0 if stage.body(Context(options)) else 1
    except Skip as skip:
        finding(why=str(skip))
        return SKIPPED
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        finding(why=f"{type(error).__name__}: {error}"[:300])
        return 1
