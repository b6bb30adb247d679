#include "client/commands/server/version.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/version.h"
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
};

// Says why the server's version is not known, in one line.
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
  }
  return fields;
}

int PrintVersion(Session* session) {
  ServerVersion server;
  absl::Status status;
  if (const auto address = ResolveAddress(session->options().address); address.ok()) {
    server.address = address->address;
    const auto connection = ConnectionTo(server.address, session->options().files, address->defaults);
    const auto info = connection.ok() ? JobClient({.server = *connection, .call_deadline = kDeadline}).GetServerInfo()
                                      : connection.status();
    server.version = info.ok() ? info->version() : "";
    status = info.status();
  } else {
    status = address.status();
  }
  if (!PrintStructured(*session, ToFields(server))) {
    WriteText(VersionLine("ampctl") + "\n");
    if (!server.version.empty()) {
      WriteFormatted("ampd-server %s at %s\n", Printable(server.version), Printable(server.address));
    }
  }
  if (!status.ok()) {
    session->Note(WhyUnknown(status, server.address));
  }
  return kExitOk;
}

}  // namespace

Command VersionCommand() {
  return {.name = "version",
          .help = "Print the versions of ampctl and of the server, if one answers within a second",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .run = PrintVersion};
}

}  // namespace ampd::client
