#!/usr/bin/env python3
"""JWTs of an identity provider, as docs/access.md says: a small HTTPS server is the provider, and ampd-server fetches
its keys, when they change too. Also a provider that is out of reach, one whose certificate is not trusted, and a JWT of
nearly 8 KiB through HAProxy.

Usage: oidc_test.py FOLDER_OF_BINARIES [REPORT.xml]. Fails if scripts/setup has not installed haproxy.
"""
import base64
import http.server
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from service import Client, Program, Service, kill_below, replace_file, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

CLIENT_DENIED = 4
HAPROXY = shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin")


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def run(*command, data=None):
    return subprocess.run(command, input=data, capture_output=True, check=True, timeout=60).stdout


class Key:
    """An RSA key that signs with the program openssl."""

    def __init__(self, folder, name):
        self.name, self.file = name, folder / f"{name}.key"
        run("openssl", "genrsa", "-out", self.file, "2048")
        modulus = run("openssl", "rsa", "-in", self.file, "-noout", "-modulus").decode().strip().split("=")[1]
        self.jwk = {"kty": "RSA", "use": "sig", "kid": name, "n": base64url(bytes.fromhex(modulus)), "e": "AQAB"}

    def jwt(self, claims):
        head = {"alg": "RS256", "kid": self.name, "typ": "JWT"}
        text = ".".join(base64url(json.dumps(part).encode()) for part in (head, claims))
        return f"{text}.{base64url(run('openssl', 'dgst', '-sha256', '-sign', self.file, data=text.encode()))}"


class Provider:
    """An identity provider: its description and its keys, over HTTPS. `pages` maps a path to a status, headers and a
    body; `requests` are the paths that were asked for."""

    def __init__(self, folder, tls):
        self.key, self.requests = Key(folder, "key-1"), []
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                provider.requests.append(self.path)
                status, headers, body = provider.pages.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls / "server.pem", tls / "server.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_port}"
        self.show([self.key])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def show(self, keys):
        discovery = {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"}
        self.pages = {"/.well-known/openid-configuration": (200, {}, json.dumps(discovery).encode()),
                      "/jwks": (200, {}, json.dumps({"keys": [key.jwk for key in keys]}).encode())}

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def claims(self, **more):
        now = int(time.time())
        return {"iss": self.url, "aud": ["account", "ampd"], "sub": "alice", "iat": now, "exp": now + 3600,
                "groups": ["ml-vision"], **more}


class Oidc(ServiceCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-oidc-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(kill_below, self.folder)
        run(BINARIES / "ampd-server", "init", "--data-dir", self.folder / "pki", "--host", "127.0.0.1")
        self.tls = self.folder / "pki/tls"
        self.provider = Provider(self.folder, self.tls)
        self.addCleanup(self.provider.close)
        self.flags = ["--oidc-issuer", self.provider.url, "--oidc-audience", "ampd",
                      "--oidc-role", "groups:ml-vision=submitter@vision"]
        self.trust = ["--oidc-ca", self.tls / "ca.pem"]

    def start(self, *flags):
        service = self.enterContext(Service(BINARIES, flags, trusts_loopback=False))
        service.root = Client(BINARIES, self.folder, f"unix:{service.folder}/data/ampd.sock")
        return service

    def client(self, service, jwt):
        file = self.folder / "jwt"
        file.write_text(jwt)
        return Client(BINARIES, self.folder, service.address, token_file=file)

    def who(self, service, jwt):
        code, out, err = self.client(service, jwt).ampctl("auth", "whoami", "-o", "json")
        return json.loads(out)["name"] if code == 0 else err

    def await_name(self, service, jwt):
        wait_for(lambda: self.who(service, jwt) == "oidc:alice", "the provider's keys")

    def test_a_holder_of_a_jwt_submits_in_its_tenant(self):
        service = self.start(*self.flags, *self.trust)
        jwt = self.provider.key.jwt(self.provider.claims())
        self.await_name(service, jwt)
        alice = self.client(service, jwt)
        job = alice.job(alice.submit(JOB))
        self.assertEqual((job["owner"], job["tenant"]), ("oidc:alice", "vision"))
        self.assertEqual(self.provider.requests, ["/.well-known/openid-configuration", "/jwks"])
        code, out, err = self.client(service, self.provider.key.jwt(self.provider.claims(aud="other"))).ampctl("job", "list")
        self.assertEqual((code, out), (CLIENT_DENIED, ""), err)
        self.assertIn("JWT_INVALID", err)
        self.expect_clean_line(err.splitlines()[0])
        self.assertIn("--oidc-audience", service.server.log())
        self.assertNotIn(jwt.split(".")[1], service.server.log())

    def test_a_key_that_the_provider_added_is_fetched_when_a_jwt_names_it(self):
        service = self.start("--oidc-keys", f"{self.provider.url}/jwks", *self.flags, *self.trust)
        self.await_name(service, self.provider.key.jwt(self.provider.claims()))
        self.assertEqual(self.provider.requests, ["/jwks"])
        added, jwt = Key(self.folder, "key-2"), self.provider.key.jwt(self.provider.claims())
        self.provider.show([self.provider.key, added])
        # Within a minute of the first fetch there is no other.
        self.assertIn("JWT_INVALID", self.who(service, added.jwt(self.provider.claims())))
        self.assertEqual(self.provider.requests, ["/jwks"])
        wait_for(lambda: self.who(service, added.jwt(self.provider.claims())) == "oidc:alice", "the added key", seconds=90)
        self.assertEqual(self.provider.requests, ["/jwks", "/jwks"])
        self.assertEqual(self.who(service, jwt), "oidc:alice")

    def test_a_file_of_keys_that_changes_is_read_again(self):
        file, other = self.folder / "jwks.json", Key(self.folder, "key-2")
        file.write_text(json.dumps({"keys": [self.provider.key.jwk]}))
        service = self.start("--oidc-keys", file, *self.flags)
        first = self.provider.key.jwt(self.provider.claims())
        self.assertEqual(self.who(service, first), "oidc:alice")
        replace_file(file, json.dumps({"keys": [other.jwk]}))
        self.await_name(service, other.jwt(self.provider.claims()))
        self.assertIn("JWT_INVALID", self.who(service, first))
        file.write_text("")
        wait_for(lambda: "those of before stay" in service.server.log(), "the log line")
        self.assertEqual(self.who(service, other.jwt(self.provider.claims())), "oidc:alice")
        self.assertEqual(self.provider.requests, [])

    def test_while_the_provider_is_out_of_reach_all_others_are_served(self):
        self.provider.pages = {}
        service = self.start(*self.flags, *self.trust)
        jwt = self.provider.key.jwt(self.provider.claims())
        wait_for(lambda: "HTTP status 404" in service.server.log(), "the log line")
        self.assertIn("JWT_KEYS_MISSING", self.who(service, jwt))
        self.assertEqual(service.root.read("auth", "whoami")["roles"], ["ADMIN"])
        self.assertEqual(service.server.log().count("cannot read the keys"), 1)
        self.assertEqual(service.drain_server(), 0)

    def test_a_provider_that_answers_what_it_should_not_gives_no_keys(self):
        redirect = (302, {"Location": f"{self.provider.url}/jwks"}, b"")
        self.provider.pages["/moved"] = redirect
        self.provider.pages["/large"] = (200, {}, b" " * (1 << 20) + self.provider.pages["/jwks"][2])
        for path, words in (("/moved", "HTTP status 302"), ("/large", "more than 1048576 bytes")):
            service = self.start("--oidc-keys", self.provider.url + path, *self.flags, *self.trust)
            wait_for(lambda: words in service.server.log(), words)
            self.assertIn("JWT_KEYS_MISSING", self.who(service, self.provider.key.jwt(self.provider.claims())))

    def test_a_provider_whose_certificate_is_not_trusted_gives_no_keys(self):
        service = self.start(*self.flags)  # with the system's authorities
        wait_for(lambda: "certificate" in service.server.log(), "the log line")
        self.assertIn("JWT_KEYS_MISSING", self.who(service, self.provider.key.jwt(self.provider.claims())))
        self.assertEqual(self.provider.requests, [])

    def test_the_server_says_which_flag_lacks(self):
        def message(*flags):
            done = subprocess.run([BINARIES / "ampd-server", "--data-dir", self.folder / "d", *flags], capture_output=True,
                                  text=True, check=False, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (64, ""), done.stderr)
            return done.stderr
        url = ["--oidc-issuer", self.provider.url]
        self.assertIn("--oidc-audience", message(*url))
        self.assertIn("--oidc-role", message(*url, "--oidc-audience", "ampd"))
        self.assertIn("--oidc-issuer", message("--oidc-audience", "ampd"))
        self.assertIn("boss", message(*url, "--oidc-audience", "ampd", "--oidc-role", "groups:x=boss"))
        self.assertIn("nowhere", message(*self.flags, "--oidc-keys", self.folder / "nowhere"))

    def test_a_large_jwt_passes_haproxy(self):
        (self.folder / "proxy").mkdir(mode=0o700)
        service = self.start("--proxy-socket", self.folder / "proxy/ampd.sock", "--tls-client-ca", self.tls / "ca.pem",
                             *self.flags, *self.trust)
        proxied = self.start_proxy()
        self.await_name(service, self.provider.key.jwt(self.provider.claims()))
        run(BINARIES / "ampd-server", "cert", "bob", "--data-dir", self.folder / "pki", "--out", self.folder)
        large = self.provider.key.jwt(self.provider.claims(more="x" * 5550))
        self.assertGreater(len(large), 8000)
        self.assertLessEqual(len(large), 8192)
        (self.folder / "jwt").write_text(large)
        for certificate in ([], ["--cert", self.folder / "bob.pem", "--key", self.folder / "bob.key"]):
            client = Client(BINARIES, self.folder, proxied, token_file=self.folder / "jwt")
            code, out, err = client.ampctl("auth", "whoami", "-o", "json", "--ca", self.tls / "ca.pem", *certificate)
            self.assertEqual(code, 0, err)
            self.assertEqual(json.loads(out)["name"], "oidc:alice")
        code, _, err = self.client(service, self.provider.key.jwt(self.provider.claims(more="x" * 6000))).ampctl("job", "list")
        self.assertEqual(code, CLIENT_DENIED, err)
        self.assertIn("JWT_INVALID", err)

    def test_a_caller_with_too_large_headers_ends_nobody_elses_streams(self):
        (self.folder / "proxy").mkdir(mode=0o700)
        service = self.start("--proxy-socket", self.folder / "proxy/ampd.sock", "--tls-client-ca", self.tls / "ca.pem",
                             *self.flags, *self.trust)
        proxied = self.start_proxy()
        jwt = self.provider.key.jwt(self.provider.claims())
        self.await_name(service, jwt)
        alice = self.client(service, jwt)
        job = alice.submit(JOB)
        (self.folder / "alice.jwt").write_text(jwt)
        ca = ["--ca", self.tls / "ca.pem"]
        watch = Program([BINARIES / "ampctl", "--address", proxied, *ca, "--token-file", self.folder / "alice.jwt", "job",
                         "watch", job], self.folder / "watch.log")
        self.addCleanup(watch.kill)
        wait_for(lambda: "QUEUED" in watch.log(), "the watch")
        # HAProxy may send the later requests of a connection over any connection to the server.
        one = ["--silent", "--http2", "--cacert", self.tls / "ca.pem", "--max-time", "5", "--request", "POST", "--output",
               "/dev/null", "--write-out", "%{http_code} ", "--header", "content-type: application/grpc", "--header",
               "te: trailers", "--data-binary", "@" + str(self.folder / "empty"),
               f"https://{proxied}/ampd.v1.JobService/GetServerInfo"]
        (self.folder / "empty").write_bytes(bytes(5))
        # HTTP/2 counts 32 bytes for each header too, so 50 headers are larger for the server than for HAProxy.
        for size in (9000, 11500, 12300, 14000, 14700, 14800):
            (self.folder / "header").write_text("".join(f"x-{i:02}: {'b' * (size // 50 - 8)}\n" for i in range(50)))
            large = ["--header", f"@{self.folder}/header"]
            answers = run("curl", *one, "--next", *one, *large, "--next", *one, *large, "--next", *one).decode().split()
            # "000": HAProxy refused the request before curl had sent it.
            self.assertEqual((answers[0], answers[3]), ("200", "200"), size)
            self.assertTrue(set(answers[1:3]) <= ({"200"} if size < 12000 else {"413", "000"}), (size, answers))
        self.assertEqual(alice.ampctl("job", "cancel", job)[0], 0)
        watch.process.wait(timeout=60)
        self.assertIn("CANCELLED", watch.log())
        self.assertNotIn("connect", watch.log())

    def start_proxy(self):
        configuration = self.folder / "haproxy.cfg"
        configuration.write_bytes(run(BINARIES / "ampd-server", "init", "--proxy"))
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        environment = {**os.environ, "AMPD_PROXY_BIND": f"fd@{listener.fileno()}", "AMPD_PROXY_CERT": str(self.tls / "proxy.pem"),
                       "AMPD_PROXY_CLIENT_CA": str(self.tls / "ca.pem"),
                       "AMPD_PROXY_SOCKET": str(self.folder / "proxy/ampd.sock")}
        proxy = Program([HAPROXY, "-W", "-db", "-f", configuration], self.folder / "proxy.log", env=environment,
                        pass_fds=[listener.fileno()])
        self.addCleanup(proxy.process.wait, timeout=60)
        self.addCleanup(proxy.signal, 15)
        return f"127.0.0.1:{listener.getsockname()[1]}"


if __name__ == "__main__":
    main()
