#include "client/commands/stdout_content.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "client/api/artifact_transfer.h"
#include "client/commands/transfer.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {

absl::Status CheckContentToStdout(const Session& session) {
  if (session.options().output != OutputFormat::kTable) {
    return absl::InvalidArgumentError(
        absl::StrCat("-o ", FormatName(session.options().output),
                     " cannot be used when the file's content goes to stdout; leave out -o, or name a file instead of "
                     "\"-\""));
  }
  return OutputIsTerminal() ? absl::InvalidArgumentError(
                                  "the file's content could control the terminal, so it is not printed there; name a "
                                  "file instead of \"-\", or send the content to a program, such as less")
                            : absl::OkStatus();
}

absl::Status PrintContents(Session* session, JobClient* client, const std::vector<v1::Artifact>& artifacts,
                           Cancellation* cancellation) {
  ProgressLine line(*session);
  absl::Status done;
  for (const v1::Artifact& artifact : artifacts) {
    done = StreamFile(
        client, artifact, [](const std::string& piece) { return WriteAll(STDOUT_FILENO, piece); },
        OptionsWithBar(&line, absl::Seconds(10), cancellation));
    if (!done.ok()) {
      break;
    }
  }
  line.Clear();
  return done;
}

}  // namespace ampd::client
