"""Measures submits over the network's two ways, TLS by the server and HAProxy before it, both with tokens, beside submits
in plaintext."""
import contextlib
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import tempfile

from programs import json_line, program, wait_for

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUTSTANDING = 32
SECONDS_A_TURN = 2
# haproxy is in a folder that is not in every user's PATH.
HAPROXY = shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin")


def start_server(stack, options, folder, name, flags):
    """Starts a server with its own data. Returns its address."""
    ports = folder / f"{name}-ports"
    process = stack.enter_context(program(
        [options.bin / "ampd-server", "--data-dir", folder / name, "--listen", "127.0.0.1:0", "--metrics-listen",
         "127.0.0.1:0", "--port-file", ports, *flags], folder / f"{name}.log"))
    wait_for(lambda: ports.exists() and ports.read_text().count("\n") >= 2, "ampd-server", process)
    return f"127.0.0.1:{ports.read_text().split()[0]}"


def start_proxy(stack, options, folder, tls):
    """Starts HAProxy with the template, but without its limit of calls per address, which the bench exceeds."""
    template = subprocess.run([options.bin / "ampd-server", "init", "--proxy"], capture_output=True, text=True,
                              check=True).stdout
    lines = [line for line in template.splitlines() if "sc_http_req_rate" not in line]
    configuration = folder / "haproxy.cfg"
    configuration.write_text("\n".join(lines) + "\n")
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    listener.set_inheritable(True)
    environment = {"AMPD_PROXY_BIND": f"fd@{listener.fileno()}", "AMPD_PROXY_CERT": tls / "proxy.pem",
                   "AMPD_PROXY_CLIENT_CA": tls / "ca.pem", "AMPD_PROXY_SOCKET": folder / "proxy/ampd.sock"}
    stack.enter_context(program(["env", *(f"{key}={value}" for key, value in environment.items()), HAPROXY, "-W", "-db",
                                 "-f", configuration], folder / "proxy.log", pass_fds=[listener.fileno()]))
    return f"127.0.0.1:{listener.getsockname()[1]}"


def measure_round(options, seconds):
    """Returns the calls per second of the three ways, which follow each other. Each round has servers of its own, so that
    no round meets the limit of jobs that a server holds, or a longer journal than the rounds before it."""
    with tempfile.TemporaryDirectory(prefix="ampd-bench-") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        (folder / "proxy").mkdir(mode=0o700)
        tls = folder / "network/tls"
        subprocess.run([options.bin / "ampd-server", "init", "--data-dir", folder / "network", "--host", "127.0.0.1"],
                       capture_output=True, check=True)
        subprocess.run([options.bin / "ampd-server", "cert", "bench", "--data-dir", folder / "network", "--out", folder],
                       capture_output=True, check=True)
        plain = start_server(stack, options, folder, "plain", ["--allow-unauthenticated-loopback"])
        direct = start_server(stack, options, folder, "network", [
            "--tls-cert", tls / "server.pem", "--tls-key", tls / "server.key", "--tls-client-ca", tls / "ca.pem",
            "--proxy-socket", folder / "proxy/ampd.sock"])
        token = (folder / "network/admin.token").read_text().strip()
        secure = {"AMPD_TOKEN": token, "AMPD_CA": tls / "ca.pem", "AMPD_CERT": folder / "bench.pem",
                  "AMPD_KEY": folder / "bench.key"}
        ways = {"plain": (plain, {}), "tls": (direct, secure), "proxy": (start_proxy(stack, options, folder, tls), secure)}
        rates = {}
        for way, (address, environment) in ways.items():
            variables = [f"{key}={value}" for key, value in environment.items()]
            row = json_line("env", *variables, options.bin / "submit_bench", address, OUTSTANDING, seconds)
            assert row["failed"] == 0, (way, row)
            rates[way] = row["calls_per_second"]
        return rates


def bench_submit_network(options):
    """Returns the medians over rounds."""
    rounds = [measure_round(options, min(SECONDS_A_TURN, options.seconds)) for _ in range(options.rounds)]
    medians = {way: statistics.median(rates[way] for rates in rounds) for way in rounds[0]}
    ratios = {way: round(statistics.median(rates[way] / rates["plain"] for rates in rounds), 3)
              for way in ("tls", "proxy")}
    return {"submit_network": {"calls_per_second": medians, "times_plain": ratios, "outstanding": OUTSTANDING,
                               "rounds": options.rounds}}
