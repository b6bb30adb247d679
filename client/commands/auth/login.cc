// ampctl login: checks a token with a server, saves the server and the token as a context, and makes it the default.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/grpc/server_connection.h"
#include "base/io/file.h"
#include "base/io/pending_file.h"
#include "base/status_macros.h"
#include "client/api/auth.h"
#include "client/commands/auth/auth.h"
#include "client/commands/context/save_context.h"
#include "client/terminal/secret_prompt.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

struct LoginOptions {
  std::string name;
  std::string address;
};

// A token that the server has not yet accepted, in a temporary file that only its owner may read. The destructor
// deletes the file unless Keep() was called.
class TriedToken {
 public:
  // `path`: the file that Keep() moves the token to.
  static absl::StatusOr<TriedToken> Write(const std::string& path, const std::string& token) {
    TriedToken tried(path);
    AMPD_ASSIGN_OR_RETURN(PendingFile file, PendingFile::Create(tried.temporary_, /*replace=*/true, kPrivateFile));
    AMPD_RETURN_IF_ERROR(file.Append(token + "\n"));
    AMPD_RETURN_IF_ERROR(file.Commit());
    return tried;
  }
  ~TriedToken() {
    if (!path_.empty()) {
      unlink(temporary_.c_str());
    }
  }
  TriedToken(TriedToken&& other) noexcept : path_(std::exchange(other.path_, "")), temporary_(other.temporary_) {}
  TriedToken& operator=(TriedToken&&) = delete;

  const std::string& temporary() const { return temporary_; }
  // Renames the temporary file to `path`. Replaces an existing file.
  absl::Status Keep() {
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      return ErrnoError(errno, absl::StrCat("write ", path_));
    }
    path_ = "";
    return absl::OkStatus();
  }

 private:
  explicit TriedToken(std::string path) : path_(std::move(path)), temporary_(path_ + ".new") {}

  std::string path_;  // Empty: Keep() has renamed the temporary file, or this object was moved from.
  std::string temporary_;
};

// Asks the server for the caller's name and roles. If the caller has no role, returns an error that says what to do.
absl::StatusOr<v1::Caller> Try(const Session& session, const NamedServer& server) {
  AMPD_ASSIGN_OR_RETURN(ServerConnection connection,
                        ConnectionTo(server.address, server.files, {.files = {}, .reads_environment = false}));
  connection.traceparent = session.traceparent();
  JobClient client({.server = connection});
  absl::StatusOr<v1::Caller> caller = WhoAmI(&client);
  if (!caller.ok()) {
    const std::string why = UnreachedText(caller.status(), connection);
    return why.empty() ? caller : absl::Status(caller.status().code(), why + "; check ADDRESS. Nothing was saved");
  }
  if (caller->roles().empty()) {
    return Error(absl::StatusCode::kUnauthenticated, "NO_ROLE",
                 absl::StrCat(caller->name().empty() ? "without a token, you have no role on this server"
                                                     : caller->name() + " has no role on this server",
                              "; ask its administrator to create a token (ampctl auth token create)"));
  }
  return caller;
}

// Reads a token from standard input and logs in with it. Keeps the token in a file of its own beside the file of
// contexts.
absl::StatusOr<v1::Caller> TryTypedToken(const Session& session, const std::string& name, NamedServer* server) {
  AMPD_ASSIGN_OR_RETURN(const std::string path, PathBesideContexts(TokenFileName(name)));
  AMPD_ASSIGN_OR_RETURN(const std::string token, ReadSecret("token for " + server->address + ": "));
  AMPD_ASSIGN_OR_RETURN(TriedToken tried, TriedToken::Write(path, token));
  server->files.token = tried.temporary();
  AMPD_ASSIGN_OR_RETURN(v1::Caller caller, Try(session, *server));
  AMPD_RETURN_IF_ERROR(tried.Keep());
  server->files.token = path;
  return caller;
}

int Login(Session* session, const LoginOptions& options) {
  NamedServer server{
      .address = options.address, .tenant = session->options().tenant, .files = session->options().files};
  MakeAbsolute(&server);
  if (const absl::Status good = CheckNamedServer(options.name, server); !good.ok()) {
    return session->Fail(good);
  }
  const bool has_proof =
      !server.files.token.empty() || !server.files.tls.certificate.empty() || IsSocketAddress(server.address);
  const absl::StatusOr<v1::Caller> caller =
      has_proof ? Try(*session, server) : TryTypedToken(*session, options.name, &server);
  if (!caller.ok()) {
    return session->Fail(caller.status());
  }
  session->Note(absl::StrCat("logged in as ", Printable(caller->name())));
  return SaveContext(session, options.name, server, /*use=*/true);
}

}  // namespace

Command LoginCommand() {
  const auto options = std::make_shared<LoginOptions>();
  return {
      .name = "login",
      .help =
          "Log in to a server: ask for your token (made by an administrator with ampctl auth token create), check it "
          "with the server, keep it in ~/.config/ampd, and use the server by default",
      .examples =
          "  ampctl login prod ampd.example.com:7443 --ca ca.pem\n"
          "  ampctl login prod ampd.example.com:7443 --ca ca.pem < my.token\n"
          "  ampctl login prod ampd.example.com:7443 --ca ca.pem --cert me.pem --key me.key",
      .arguments = NamedServerArguments(&options->name, &options->address),
      .run = [options](Session* session) { return Login(session, *options); }};
}

}  // namespace ampd::client
