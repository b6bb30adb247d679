#include "client/commands/arguments.h"

#include "client/commands/checks.h"
#include "client/commands/suggestions.h"

namespace ampd::client {

Argument JobId(std::string* id) {
  return {.name = "id",
          .value = id,
          .text = "ID",
          .help = "Job id",
          .required = true,
          .check = CheckNotEmpty,
          .suggest = SuggestJobIds};
}

Argument JobIds(std::vector<std::string>* ids) {
  return {.name = "ids",
          .value = ids,
          .text = "ID...",
          .help = "Job ids",
          .required = true,
          .check = CheckNotEmpty,
          .suggest = SuggestJobIds};
}

Argument Yes(bool* confirmed) {
  return {.name = "-y,--yes", .value = confirmed, .help = "Do not ask for confirmation"};
}

Argument OutputFile(std::string* path) {
  return {.name = "file",
          .value = path,
          .text = "FILE",
          .help = "File to write",
          .required = true,
          .check = CheckNotEmpty,
          .suggest = SuggestFiles};
}

Argument Force(bool* replace) { return {.name = "--force", .value = replace, .help = "Replace an existing file"}; }

Argument AttemptNumber(int* attempt) {
  return {.name = "--attempt",
          .value = attempt,
          .text = "N",
          .help = "Number of the attempt (default: the newest)",
          .check = CheckPositiveCount};
}

Argument ExampleDeviceKind(std::string* kind) {
  return {.name = "--device",
          .value = kind,
          .text = "KIND",
          .help = "Kind of device: gpu (compute capability 9.0) or cpu (with avx512_bf16) (default gpu)",
          .choices = {"gpu", "cpu"}};
}

}  // namespace ampd::client
