#include "client/commands/server/version.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "client/api/auth.h"
#include "client/commands/server/versions.h"
#include "client/render/format.h"
#include "client/terminal/contexts.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(1);

struct ServerVersion {
  std::string address;
  std::string version;
  std::vector<v1::Worker> workers;
};

// Returns one line that says why the server's version is not known.
std::string WhyUnknown(const absl::Status& status, const std::string& address) {
  if (address.empty()) {
    return absl::StrCat("the server's version is not known: ", status.message());
  }
  if (const std::string other = OtherServer(status, address); !other.empty()) {
    return other;
  }
  return absl::IsUnimplemented(status) ? absl::StrCat("the server at ", address, " is too old to report its version")
                                       : absl::StrCat("no server answers at ", address, " within ",
                                                      absl::FormatDuration(kDeadline), ", so its version is not known");
}

PlainFields ToFields(const ServerVersion& server) {
  PlainFields fields = {{"version", Version()}};
  if (!server.version.empty()) {
    fields.push_back({"server", PlainFields{{"address", server.address}, {"version", server.version}}});
    std::vector<PlainFields> workers;
    for (const v1::Worker& worker : server.workers) {
      workers.push_back({{"name", worker.name()}, {"version", worker.version()}});
    }
    fields.push_back({"workers", std::move(workers)});
  }
  return fields;
}

// Asks for the versions of the server and its workers. Does not ask for the workers if the server knows no role of the
// caller: the call would be refused, and refused calls are in the audit log.
absl::Status AskServer(const ServerConnection& connection, ServerVersion* server) {
  JobClient client({.server = connection, .call_deadline = kDeadline});
  AMPD_ASSIGN_OR_RETURN(const v1::ServerInfo info, client.GetServerInfo());
  server->version = info.version();
  if (const auto caller = WhoAmI(&client); caller.ok() && !caller->roles().empty()) {
    auto workers = client.ListWorkers();
    server->workers = workers.ok() ? *std::move(workers) : std::vector<v1::Worker>();
  }
  return absl::OkStatus();
}

int PrintVersion(Session* session) {
  ServerVersion server;
  absl::Status status;
  if (const auto address = ResolveAddress(session->options().address); address.ok()) {
    server.address = address->address;
    auto connection = ConnectionTo(server.address, session->options().files, address->defaults);
    if (connection.ok()) {
      connection->traceparent = session->traceparent();
    }
    status = connection.ok() ? AskServer(*connection, &server) : connection.status();
  } else {
    status = address.status();
  }
  if (!PrintStructured(*session, ToFields(server))) {
    WriteText(VersionLine("ampctl") + "\n");
    if (!server.version.empty()) {
      WriteFormatted("ampd-server %s at %s\n", Printable(server.version), Printable(server.address));
    }
    for (const std::string& line : WorkerVersionLines(server.workers)) {
      WriteText(line + "\n");
    }
  }
  for (const std::string& warning : VersionWarnings(server.version, server.workers)) {
    session->Note(warning);
  }
  if (!status.ok()) {
    session->Note(WhyUnknown(status, server.address));
  }
  return kExitOk;
}

}  // namespace

Command VersionCommand() {
  return {.name = "version",
          .help =
              "Print the version of ampctl and, if the server answers within a second, those of the server and its "
              "workers",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .run = PrintVersion};
}

}  // namespace ampd::client
