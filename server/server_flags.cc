#include "server/server_flags.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ampd::server {
namespace {

Flag FileFlag(const std::string& name, const std::string& help) {
  return {.name = name, .type = "FILE", .help = help, .path = PathForm::kPath};
}

Flag PathFlag(const std::string& name, const std::string& help) {
  return {.name = name, .type = "PATH", .help = help, .path = PathForm::kPath};
}

// Adds the flags for the addresses and sockets on which the server accepts calls.
void AddListeners(FlagSet* flags, ServerConfig* config, ServerAddresses* addresses) {
  flags->AddText(
      PathFlag("--socket",
               "Path of the Unix socket of the gRPC API (default: ampd.sock in --data-dir). The kernel tells the "
               "server which user connects. The server's own user and root are admins"),
      &config->socket);
  flags->AddText(
      {.name = "--listen",
       .type = "HOST:PORT",
       .help =
           "Address of the gRPC API besides the socket (default: none; port 0 picks a free port). Without TLS it must "
           "be a loopback address, and calls there need a token: ampctl auth token create"},
      &addresses->listen);
  flags->AddText(
      FileFlag(
          "--tls-cert",
          "File with the server's certificate: TLS over --listen, where every caller must then have a certificate"),
      &config->tls.certificate);
  flags->AddText(FileFlag("--tls-key", "File with the key of the server's certificate"), &config->tls.key);
  flags->AddText(
      FileFlag("--tls-client-ca",
               "File with the CA certificates that the certificates of clients and workers are checked against; needed "
               "with --tls-cert and with --proxy-socket"),
      &config->tls.ca);
  flags->AddSwitch({.name = "--allow-unauthenticated-loopback",
                    .help = "Let every user of this host control all jobs over --listen, and read /metrics, without a "
                            "token"},
                   &config->trusts_loopback);
  flags->AddText(PathFlag("--proxy-socket",
                          "Path of a Unix socket, in a folder that is closed to others, for a proxy that terminates "
                          "TLS: ampd-server init --proxy prints its configuration"),
                 &config->proxy_socket);
}

// Adds the flags for /metrics and the health pages.
void AddMetrics(FlagSet* flags, ServerConfig* config, ServerAddresses* addresses) {
  flags->AddText(
      {.name = "--metrics-listen",
       .type = "HOST:PORT",
       .help =
           "Address of /metrics, /healthz and /readyz (port 0 picks a free port). Without TLS it must be a loopback "
           "address. /metrics needs a token or a certificate with the role scraper"},
      &addresses->metrics_listen);
  flags->AddText(FileFlag("--metrics-tls-cert", "File with the certificate for TLS over --metrics-listen"),
                 &config->metrics_tls.certificate);
  flags->AddText(FileFlag("--metrics-tls-key", "File with the key of that certificate"), &config->metrics_tls.key);
  flags->AddText(FileFlag("--metrics-tls-client-ca",
                          "File with the CA certificates that the certificates of scrapers are checked against "
                          "(default: scrapers are asked for no certificate)"),
                 &config->metrics_tls.ca);
  flags->AddDuration({.name = "--metrics-linger",
                      .type = "DURATION",
                      .help = "How long /metrics still shows a job after its end (0 = not at all)"},
                     absl::ZeroDuration(), &config->metrics_linger);
  flags->AddNumber({.name = "--metrics-max-jobs",
                    .type = "N",
                    .help = "Maximum number of jobs that /metrics shows; running jobs come first"},
                   0, 100'000, &config->metrics_max_jobs);
}

// Adds the flags for access rights and limits.
void AddRights(FlagSet* flags, ServerConfig* config) {
  flags->AddRepeated(
      {.name = "--grant",
       .type = "GRANT",
       .help = absl::StrCat(
           "Give a role on the server to a user or a group of this host, or to the holders of certificates whose "
           "common name is NAME (* stands for any characters): user:NAME=ROLE, uid:NUMBER=ROLE, group:NAME=ROLE, "
           "cert:NAME=ROLE; ROLE@TENANT gives it in a tenant, and ROLE@* in all. Without @, viewer and submitter hold "
           "in the tenant 'default', the other roles in all. The roles are ",
           RoleNames())},
      [config](const std::string& grant) { return config->grants.Add(grant); });
  flags->AddRepeated(
      {.name = "--tenant-limit",
       .type = "LIMIT",
       .help = "Limit what a tenant may have: TENANT:jobs=NUMBER (unfinished ones), "
               "TENANT:spec-bytes=SIZE (of the job files of these), TENANT:artifact-bytes=SIZE, TENANT:requests=NUMBER "
               "(a second) or TENANT:streams=NUMBER (open ones); *:... is for every tenant without a "
               "limit of its own"},
      [config](const std::string& limit) { return config->limits.AddForTenants(limit); });
  flags->AddRepeated({.name = "--caller-limit",
                      .type = "LIMIT",
                      .help = "Limit what one user, token or certificate may do: requests=NUMBER (a second) or "
                              "streams=NUMBER (open ones)"},
                     [config](const std::string& limit) { return config->limits.AddForCallers(limit); });
}

// Adds the flags for the connection to the identity provider.
void AddProvider(FlagSet* flags, OidcConfig* oidc) {
  flags->AddText({.name = "--oidc-issuer",
                  .type = "URL",
                  .help = "URL of an identity provider (OpenID Connect): its JWTs are accepted as tokens "
                          "(docs/access.md)"},
                 &oidc->issuer);
  flags->AddText({.name = "--oidc-audience",
                  .type = "TEXT",
                  .help = "Name of this server at the identity provider: JWTs must be for this audience",
                  .needs = "--oidc-issuer"},
                 &oidc->audience);
  flags->AddText({.name = "--oidc-keys",
                  .type = "FILE|URL",
                  .help = "Keys of the identity provider, a JWK set: a file or an https URL (default: the URL that the "
                          "identity provider names)",
                  .path = PathForm::kPathOrUrl,
                  .needs = "--oidc-issuer"},
                 &oidc->keys);
  flags->AddText({.name = "--oidc-ca",
                  .type = "FILE",
                  .help = "File with the CA certificates that the identity provider's host is checked against "
                          "(default: those of the system)",
                  .path = PathForm::kPath,
                  .needs = "--oidc-issuer"},
                 &oidc->ca);
}

// Adds the flags that map the claims of a JWT to rights.
void AddClaims(FlagSet* flags, OidcConfig* oidc) {
  flags->AddRepeated(
      {.name = "--oidc-role",
       .type = "RULE",
       .help = "Give a role to those whose JWT has VALUE in the claim CLAIM, which may be a list: CLAIM:VALUE=ROLE, or "
               "CLAIM:VALUE=ROLE@TENANT. In VALUE, * stands for any characters",
       .needs = "--oidc-issuer"},
      [oidc](const std::string& role) { return oidc->claims.AddRole(role); });
  flags->AddValue({.name = "--oidc-tenant-claim",
                   .type = "CLAIM",
                   .help = "Claim with the tenant, or a list of tenants, in which roles without @TENANT hold",
                   .needs = "--oidc-issuer"},
                  "", [oidc](const std::string& claim) {
                    oidc->claims.set_tenant_claim(claim);
                    return absl::OkStatus();
                  });
  flags->AddValue({.name = "--oidc-name-claim",
                   .type = "CLAIM",
                   .help = "Claim with the name of the holder, whose identity is oidc:NAME",
                   .needs = "--oidc-issuer"},
                  "sub", [oidc](const std::string& claim) {
                    oidc->claims.set_name_claim(claim);
                    return absl::OkStatus();
                  });
}

// Adds the flags for the leases of workers, and for lost workers.
void AddLeases(FlagSet* flags, ServerConfig* config) {
  const auto duration = [flags](const char* name, const char* help, absl::Duration at_least, absl::Duration* value) {
    flags->AddDuration({.name = name, .type = "DURATION", .help = help}, at_least, value);
  };
  duration("--lease", "Length of a worker's lease: how long the worker may run without hearing from the server",
           absl::Milliseconds(100), &config->lease);
  duration("--margin",
           "Extra time after a worker's lease has expired, before the server counts the worker as lost and gives its "
           "jobs to others",
           absl::Milliseconds(10), &config->lease_margin);
  duration("--suspend-limit",
           "How long a trainer whose lease has expired stays suspended, waiting for a new lease; then it is killed",
           absl::ZeroDuration(), &config->suspend_limit);
  duration(
      "--local-checkpoint-wait",
      "How long a job waits for the return of a lost or drained worker that alone can read its checkpoints; then it "
      "starts over on another worker",
      absl::ZeroDuration(), &config->local_checkpoint_wait);
}

// Adds the flags for retention times.
void AddAges(FlagSet* flags, ServerConfig* config) {
  const auto age = [flags](const char* name, const char* help, absl::Duration* value) {
    flags->AddAge({.name = name, .type = "DURATION", .help = help}, value);
  };
  age("--archive-after",
      "How long an ended job stays in memory. After that it is only on disk; all commands still work on it",
      &config->archive_after);
  age("--retention",
      "How long after a job's end its metrics, events, logs, samples, predictions and profiles are kept. After that "
      "the job itself is deleted too, once it has no checkpoint left",
      &config->retention);
  age("--checkpoint-retention",
      "How long after a job's end its checkpoints are kept; then all are deleted, even the last one. By default they "
      "stay until ampctl job delete or ampctl checkpoint delete",
      &config->checkpoint_retention);
  age("--worker-retention", "How long a lost worker stays in the list of workers", &config->worker_retention);
  age("--artifact-retention",
      "How long an uploaded file is kept after the last request for it; a file that a job uses is kept until the "
      "job has ended",
      &config->artifact_retention);
}

// Adds the flags for disk space and memory.
void AddSpace(FlagSet* flags, ServerConfig* config) {
  const auto size = [flags](const char* name, const char* help, auto* value) {
    flags->AddSize({.name = name, .type = "SIZE", .help = help}, value);
  };
  size("--min-free-space", "Refuse new jobs while less space than this is free on the disk of --data-dir",
       &config->min_free_bytes);
  size("--reserve-space",
       "Disk space to reserve in --data-dir, so that jobs can be cancelled and can end even if the disk is full",
       &config->reserve_bytes);
  size("--memory-limit",
       "Refuse new jobs and streams while the server takes more memory than this, and end the server if it takes a "
       "quarter more for 10 s (0 = no limit; default: three quarters of the memory of the host or control group)",
       &config->memory_limit_bytes);
  size("--artifact-quota-bytes",
       "Maximum disk space of all uploaded files and all files that jobs make (samples, "
       "predictions and profiles) together",
       &config->artifact_quota_bytes);
}

// Adds the flags for the server's files, its log and its shutdown.
void AddProgram(FlagSet* flags, ServerConfig* config) {
  flags->AddText({.name = "--data-dir",
                  .type = "PATH",
                  .help = "Folder for all data of the server, such as its journal; created if it is missing",
                  .path = PathForm::kPath,
                  .is_required = true},
                 &config->data_dir);
  flags->AddText(FileFlag("--port-file",
                          "File to write once the server listens: the gRPC port in its first line, the metrics port in "
                          "its second"),
                 &config->port_file);
  flags->AddDuration(
      {.name = "--drain-grace", .type = "DURATION", .help = "How long running calls may take to finish after SIGTERM"},
      absl::ZeroDuration(), &config->drain_grace);
  flags->AddChoice({.name = "--log-level",
                    .type = "LEVEL",
                    .help = "Lowest level that is logged to stderr: debug, info, warning or error"},
                   {"debug", "info", "warning", "error"}, &config->log_level);
  flags->AddChoice({.name = "--log-format",
                    .type = "FORMAT",
                    .help = "Format of the log on stderr: text, or json (one object per line)"},
                   {"text", "json"}, &config->log_format);
}

}  // namespace

void AddServerFlags(FlagSet* flags, ServerConfig* config, ServerAddresses* addresses) {
  AddProgram(flags, config);
  AddListeners(flags, config, addresses);
  AddRights(flags, config);
  AddProvider(flags, &config->oidc);
  AddClaims(flags, &config->oidc);
  AddMetrics(flags, config, addresses);
  AddLeases(flags, config);
  AddAges(flags, config);
  AddSpace(flags, config);
}

}  // namespace ampd::server
