#include <string>

#include "client/commands/context/context.h"
#include "client/terminal/contexts.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

int ShowContext(Session* session) {
  const auto address = ResolveAddress(session->options().address);
  if (!address.ok()) {
    return session->Fail(address.status());
  }
  if (PrintStructured(*session, PlainFields{{"address", address->address}, {"origin", address->origin}})) {
    return kExitOk;
  }
  WriteFormatted("%s  (from %s)\n", Printable(address->address).c_str(), Printable(address->origin).c_str());
  return kExitOk;
}

}  // namespace

Command ShowContextCommand() {
  return {.name = "show",
          .help = "Show which server is used, and why",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .run = ShowContext};
}

}  // namespace ampd::client
