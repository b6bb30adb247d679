#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/arguments.h"
#include "client/commands/artifact/artifact.h"
#include "client/commands/artifact/find_artifact.h"
#include "client/commands/confirm_delete.h"
#include "client/render/format.h"
#include "client/render/shell_word.h"

namespace ampd::client {
namespace {

struct DeleteOptions {
  std::string name;
  bool confirmed = false;
};

int DeleteArtifact(Session* session, const DeleteOptions& options) {
  const auto client = session->Client();
  const auto artifact = client.ok() ? FindArtifact(*client, options.name) : client.status();
  if (!artifact.ok()) {
    return session->Fail(artifact.status());
  }
  if (const auto refused = AskBeforeDelete(session, options.confirmed,
                                           absl::StrCat("delete artifact ", Printable(artifact->name()), "?"),
                                           absl::StrCat("artifact delete --yes ", ShellWord(artifact->name())));
      refused.has_value()) {
    return *refused;
  }
  if (const absl::Status deleted = (*client)->DeleteArtifact(artifact->name()); !deleted.ok()) {
    return session->Fail(deleted);
  }
  ReportArtifact(*session, *artifact, "deleted");
  return kExitOk;
}

}  // namespace

Command DeleteArtifactCommand() {
  const auto options = std::make_shared<DeleteOptions>();
  return {.name = "delete",
          .help = "Delete a file on the server for good. Refused if a job that has not ended uses it",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments = {ArtifactName(&options->name), Yes(&options->confirmed)},
          .run = [options](Session* session) { return DeleteArtifact(session, *options); }};
}

}  // namespace ampd::client
