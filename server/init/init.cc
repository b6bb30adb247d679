#include "server/init/init.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/flags/flag_set.h"
#include "base/io/file.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/tls/certificate_maker.h"
#include "base/tls/tls_files.h"
#include "base/units.h"
#include "server/data_directory.h"
#include "server/exit_code.h"
#include "server/init/proxy_template.h"
#include "server/server_commands.h"
#include "server/tokens/token_store.h"

namespace ampd::server {
namespace {

constexpr char kFirstAdmin[] = "admin";
constexpr int64_t kMaxPemBytes = 64 << 10;
constexpr size_t kMaxNameBytes = 64;

absl::Status CannotWrite(const std::string& path, int error) {
  return Error(absl::StatusCode::kFailedPrecondition, "CANNOT_WRITE",
               absl::StrCat("cannot create ", path, ": ", std::strerror(error)));
}

// Creates a file with this content. Returns an error if the file already exists.
absl::Status WriteNewFile(const std::string& path, const std::string& content, mode_t mode) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file.ok()) {
    return CannotWrite(path, errno);
  }
  AMPD_RETURN_IF_ERROR(WriteAll(file.get(), content));
  return fsync(file.get()) == 0 ? absl::OkStatus() : CannotWrite(path, errno);
}

// Writes a file, which may exist already. Nobody sees a part of the new content: the file is replaced as a whole.
absl::Status ReplaceFile(const std::string& path, const std::string& content, mode_t mode) {
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());
  AMPD_RETURN_IF_ERROR(WriteNewFile(fresh, content, mode));
  return rename(fresh.c_str(), path.c_str()) == 0 ? absl::OkStatus() : CannotWrite(path, errno);
}

struct NewFile {
  std::string path;
  std::string content;
  mode_t mode = 0600;
};
// Writes all files. Writes none if `replace` is false and one of them already exists.
absl::Status WriteFiles(const std::vector<NewFile>& files, bool replace) {
  for (const NewFile& file : files) {
    if (!replace && access(file.path.c_str(), F_OK) == 0) {
      return Error(absl::StatusCode::kFailedPrecondition, "CANNOT_WRITE",
                   absl::StrCat(file.path, " exists already; delete it, or replace it with --replace"));
    }
  }
  for (const NewFile& file : files) {
    AMPD_RETURN_IF_ERROR(replace ? ReplaceFile(file.path, file.content, file.mode)
                                 : WriteNewFile(file.path, file.content, file.mode));
  }
  return absl::OkStatus();
}

// The name of the file with a server's certificate and key, the form that HAProxy requires, without ".pem".
constexpr char kProxy[] = "proxy";

// Returns the files to write for a certificate; their paths differ. For a server, they include the file for HAProxy. A
// server's certificate with the name of that file has no other .pem file.
std::vector<NewFile> FilesOf(const std::string& folder, const std::string& name, const CertificateAndKey& pair,
                             bool is_server) {
  std::vector<NewFile> files = {{folder + "/" + name + ".key", pair.key, 0600}};
  if (!is_server || name != kProxy) {
    files.push_back({folder + "/" + name + ".pem", pair.certificate, 0644});
  }
  if (is_server) {
    files.push_back({folder + "/" + kProxy + ".pem", pair.certificate + pair.key, 0600});
  }
  return files;
}

// Locks the data directory with the lock that servers use, and returns the lock.
absl::StatusOr<UniqueFd> LockDirectory(const std::string& data_dir) {
  UniqueFd lock(open((data_dir + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.ok()) {
    return CannotWrite(data_dir + "/lock", errno);
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error(absl::StatusCode::kFailedPrecondition, "DATA_DIRECTORY_LOCKED",
                 absl::StrCat("a server uses ", data_dir, "; stop it first"));
  }
  return lock;
}

absl::StatusOr<std::string> MakeFirstToken(TokenStore* tokens) {
  v1::CreateTokenRequest request;
  request.set_name(kFirstAdmin);
  request.set_role(v1::ADMIN);
  AMPD_ASSIGN_OR_RETURN(const v1::CreateTokenResponse created, tokens->Create(request, "ampd-server init"));
  return created.secret();
}

// Checks beforehand for everything that would stop `init` half way.
absl::Status CheckNothingIsThere(const std::string& data_dir, const TokenStore& tokens) {
  for (const char* const name : {"/tls", "/admin.token"}) {
    if (const std::string path = data_dir + name; access(path.c_str(), F_OK) == 0) {
      return Error(absl::StatusCode::kFailedPrecondition, "ALREADY_INITIALIZED",
                   absl::StrCat(path, " exists already; to make a certificate with the authority in ", data_dir,
                                "/tls: ampd-server cert NAME --data-dir ", data_dir));
    }
  }
  AMPD_ASSIGN_OR_RETURN(const v1::ListTokensResponse all, tokens.List({}));
  for (const v1::Token& token : all.tokens()) {
    if (token.name() == kFirstAdmin) {
      return Error(absl::StatusCode::kFailedPrecondition, "ALREADY_INITIALIZED",
                   absl::StrCat("there is a token ", kFirstAdmin,
                                " already; start the server, revoke that token, and stop the server again"));
    }
  }
  return absl::OkStatus();
}

// Returns the next commands to run after `init`, as lines that can be copied.
std::string NextSteps(const InitOptions& options) {
  const std::string& data = options.data_dir;
  const std::string tls = data + "/tls";
  const std::string& host = options.hosts.front();
  const std::string grants = " --grant cert:alice=submitter --grant 'cert:worker-*=agent'";
  return absl::StrCat(
      "Made a certificate authority, the server's certificate and the token of the first admin in ", data,
      ".\n\n# On this host: a certificate for each user and worker\nampd-server cert alice --data-dir ", data,
      "\nampd-server cert worker-1 --data-dir ", data,
      "\n\n# On this host: the server, with TLS of its own ...\nampd-server --data-dir ", data,
      " --listen 0.0.0.0:7070 --tls-cert ", tls, "/server.pem --tls-key ", tls, "/server.key --tls-client-ca ", tls,
      "/ca.pem", grants,
      "\n# ... or behind HAProxy, which listens at port 7443: write 7443 in place of 7070 below\n"
      "# (ampd-server init --proxy prints its configuration)\nampd-server ",
      "--data-dir ", data, " --proxy-socket /run/ampd-proxy/ampd.sock --tls-client-ca ", tls, "/ca.pem", grants,
      "\n\n# On the admin's host, with ca.pem, a certificate and admin.token from here\nampctl context add prod ", host,
      ":7070 --ca ca.pem --cert alice.pem --key alice.key --token-file admin.token\n",
      "\n# On a user's host, with ca.pem, alice.pem and alice.key from here\nampctl context add prod ", host,
      ":7070 --ca ca.pem --cert alice.pem --key alice.key\n",
      "\n# On a worker's host, with ca.pem, worker-1.pem and worker-1.key from here\nampd-worker --server ", host,
      ":7070 --ca ca.pem --cert worker-1.pem --key worker-1.key --name worker-1 --state-dir /var/lib/ampd-worker\n\n",
      "Keep ", tls, "/ca.key and ", data, "/admin.token secret: whoever has them can make certificates and tokens.");
}

bool IsCommonName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name.front() != '-' && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '@';
         });
}

void AddValidity(FlagSet* flags, absl::Duration* validity) {
  flags->AddValue({.name = "--valid-for", .type = "DURATION", .help = "How long the certificates are valid"}, "365d",
                  [validity](const std::string& text) {
                    const std::optional<absl::Duration> parsed = ParseDuration(text);
                    if (!parsed.has_value() || *parsed < absl::Minutes(1) || *parsed > absl::Hours(24 * 365 * 20)) {
                      return absl::InvalidArgumentError(
                          absl::StrCat("'", text, "' is no duration from 1m to 20 years, such as 365d"));
                    }
                    *validity = *parsed;
                    return absl::OkStatus();
                  });
}

void AddHosts(FlagSet* flags, const std::string& help, std::vector<std::string>* hosts) {
  flags->AddRepeated({.name = "--host", .type = "HOST", .help = help}, [hosts](const std::string& host) {
    hosts->push_back(host);
    return absl::OkStatus();
  });
}

// Prints the result of a command. Returns the exit code of the process.
int PrintResult(const absl::StatusOr<std::string>& done) {
  if (done.ok()) {
    std::printf("%s\n", done->c_str());
    return kExitOk;
  }
  std::fprintf(stderr, "ampd-server: %s\n", std::string(done.status().message()).c_str());
  return absl::IsInvalidArgument(done.status()) ? kExitUsage : kExitDataLocked;
}

}  // namespace

absl::StatusOr<std::string> InitServer(const InitOptions& options) {
  AMPD_ASSIGN_OR_RETURN(const std::vector<std::string> lines,
                        PrepareDataDirectory(options.data_dir, /*has_open_socket=*/false));
  for (const std::string& line : lines) {
    std::fprintf(stderr, "ampd-server: %s\n", line.c_str());
  }
  AMPD_ASSIGN_OR_RETURN(const UniqueFd lock, LockDirectory(options.data_dir));
  // All checks of the request come before the first file is written.
  AMPD_ASSIGN_OR_RETURN(const CertificateAndKey authority, MakeAuthority("ampd CA", 10 * options.validity));
  AMPD_ASSIGN_OR_RETURN(
      const CertificateAndKey server,
      IssueCertificate(authority, {.name = "ampd-server", .hosts = options.hosts, .validity = options.validity}));
  AMPD_ASSIGN_OR_RETURN(
      const std::unique_ptr<TokenStore> tokens,
      TokenStore::Open({.path = options.data_dir + "/tokens.db", .clock = &SystemClock(), .random = &SystemRandom()}));
  AMPD_RETURN_IF_ERROR(CheckNothingIsThere(options.data_dir, *tokens));
  const std::string tls = options.data_dir + "/tls";
  if (mkdir(tls.c_str(), 0700) != 0) {
    return CannotWrite(tls, errno);
  }
  AMPD_RETURN_IF_ERROR(WriteFiles(FilesOf(tls, "ca", authority, /*is_server=*/false), /*replace=*/false));
  AMPD_RETURN_IF_ERROR(WriteFiles(FilesOf(tls, "server", server, /*is_server=*/true), /*replace=*/false));
  AMPD_ASSIGN_OR_RETURN(const std::string secret, MakeFirstToken(tokens.get()));
  AMPD_RETURN_IF_ERROR(WriteNewFile(options.data_dir + "/admin.token", secret + "\n", 0600));
  return NextSteps(options);
}

absl::StatusOr<std::string> MakeCertificate(const CertOptions& options) {
  if (!IsCommonName(options.name)) {
    return Error(absl::StatusCode::kInvalidArgument, "BAD_NAME",
                 absl::StrCat("'", options.name,
                              "' is no name for a certificate: it must have 1 to 64 letters, digits, '-', '_', '.' and "
                              "'@', and begin with a letter or digit"));
  }
  const std::string tls = options.data_dir + "/tls";
  const absl::StatusOr<std::string> certificate = ReadFile(tls + "/ca.pem", kMaxPemBytes);
  const absl::StatusOr<std::string> key = ReadFile(tls + "/ca.key", kMaxPemBytes);
  if (!certificate.ok() || !key.ok()) {
    return Error(absl::StatusCode::kFailedPrecondition, "NOT_INITIALIZED",
                 absl::StrCat("cannot read the authority in ", tls, ": ",
                              std::string((certificate.ok() ? key : certificate).status().message()),
                              "; to make one: ampd-server init --data-dir ", options.data_dir, " --host HOST"));
  }
  AMPD_ASSIGN_OR_RETURN(const CertificateAndKey made,
                        IssueCertificate({.certificate = *certificate, .key = *key},
                                         {.name = options.name, .hosts = options.hosts, .validity = options.validity}));
  const std::string folder = options.out.empty() ? "." : options.out;
  const bool is_server = !options.hosts.empty();
  AMPD_RETURN_IF_ERROR(WriteFiles(FilesOf(folder, options.name, made, is_server), options.replace));
  const std::string base = absl::StrCat(folder, "/", options.name);
  if (is_server && options.name == kProxy) {
    return absl::StrCat("wrote ", base, ".pem, for HAProxy, with certificate and key, and ", base, ".key");
  }
  return is_server ? absl::StrCat("wrote ", base, ".pem, ", base, ".key and, for HAProxy, ", folder, "/proxy.pem")
                   : absl::StrCat("wrote ", base, ".pem and ", base, ".key; copy them with ", tls,
                                  "/ca.pem to the host of ", options.name);
}

int RunInit(int argc, const char* const* argv) {
  InitOptions init;
  bool prints_proxy = false;
  FlagSet flags = FlagsOfCommand("init");
  flags.AddText(
      {.name = "--data-dir", .type = "FOLDER", .help = "The server's data directory; created if it is missing"},
      &init.data_dir);
  AddHosts(&flags, "Name or address by which clients and workers reach the server", &init.hosts);
  AddValidity(&flags, &init.validity);
  flags.AddSwitch({.name = "--proxy", .help = "Only print the configuration of HAProxy in front of a server"},
                  &prints_proxy);
  if (const std::optional<int> exit_code = ParseCommand(&flags, argc, argv); exit_code.has_value()) {
    return *exit_code;
  }
  if (prints_proxy && (!init.data_dir.empty() || !init.hosts.empty())) {
    return UsageErrorOfCommand("init", "--proxy goes with no other flag");
  }
  if (prints_proxy) {
    std::fputs(kProxyTemplate, stdout);
    return kExitOk;
  }
  if (init.data_dir.empty() || init.hosts.empty()) {
    return UsageErrorOfCommand("init", "init needs --data-dir FOLDER and --host HOST, or --proxy");
  }
  return PrintResult(InitServer(init));
}

int RunCert(int argc, const char* const* argv) {
  CertOptions cert;
  FlagSet flags = FlagsOfCommand("cert");
  flags.AddWord("NAME", "Name of the user or of the worker", &cert.name);
  flags.AddText({.name = "--data-dir",
                 .type = "FOLDER",
                 .help = "The server's data directory, with the certificate authority that ampd-server init made",
                 .is_required = true},
                &cert.data_dir);
  flags.AddText({.name = "--out",
                 .type = "FOLDER",
                 .help = "Folder to write NAME.pem and NAME.key to (default: the current one)"},
                &cert.out);
  AddHosts(&flags, "Make the certificate of a server with this name or address", &cert.hosts);
  flags.AddSwitch({.name = "--replace", .help = "Replace files that exist"}, &cert.replace);
  AddValidity(&flags, &cert.validity);
  if (const std::optional<int> exit_code = ParseCommand(&flags, argc, argv); exit_code.has_value()) {
    return *exit_code;
  }
  return PrintResult(MakeCertificate(cert));
}

}  // namespace ampd::server
