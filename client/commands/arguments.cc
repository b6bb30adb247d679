#include "client/commands/arguments.h"

#include "ampd/v1/job_spec.pb.h"
#include "client/commands/checks.h"
#include "client/commands/suggestions.h"

namespace ampd::client {

Argument JobId(std::string* id) {
  return {.name = "id",
          .value = id,
          .text = "ID",
          .help =
              "Id or name of the job, or at least the first 5 characters of its id. If it fits several jobs, the "
              "command fails",
          .required = true,
          .suggest = SuggestJobIds};
}

Argument JobIds(std::vector<std::string>* ids) {
  return {.name = "ids",
          .value = ids,
          .text = "ID...",
          .help =
              "Ids or names of jobs, or at least the first 5 characters of their ids. One that fits several jobs is an "
              "error",
          .required = true,
          .suggest = SuggestJobIds};
}

Argument Yes(bool* confirmed) {
  return {.name = "-y,--yes", .value = confirmed, .help = "Do not ask for confirmation"};
}

Argument JobFilePath(std::string* path, bool is_required) {
  return {.name = "-f,--file",
          .value = path,
          .text = "FILE",
          .help = "Job file (- for standard input)",
          .required = is_required,
          .suggest = SuggestFiles,
          .is_path = true};
}

Argument SpecOverrides(std::vector<std::string>* overrides) {
  return {.name = "--set",
          .value = overrides,
          .text = "PATH=VALUE",
          .help = "Override a field of the file, for example train.epochs=2; repeatable",
          .suggest = [](const Typed& typed) { return SpecPathsFor(*v1::JobSpec::descriptor(), typed.text); }};
}

Argument OutputFile(std::string* path) {
  return {.name = "file",
          .value = path,
          .text = "FILE",
          .help = "File to write",
          .required = true,
          .suggest = SuggestFiles,
          .is_path = true};
}

Argument Force(bool* replace) { return {.name = "--force", .value = replace, .help = "Replace an existing file"}; }

Argument AttemptNumber(int* attempt) {
  return {
      .name = "--attempt",
      .value = attempt,
      .text = "N",
      .help = "Which run of the job, counted from 1 (default: the newest); a job runs again after a crash or a pause",
      .check = CheckPositiveCount};
}

Argument AttemptOfCheckpoint(int* attempt) {
  return {.name = "--attempt",
          .value = attempt,
          .text = "N",
          .help =
              "Run of the job that saved the checkpoint: 1 is the first run (default: any run, and of several with the "
              "same step the newest). A job runs again after a crash or a pause",
          .check = CheckPositiveCount};
}

Argument ExampleDeviceKind(std::string* kind) {
  return {
      .name = "--device",
      .value = kind,
      .text = "KIND",
      .help =
          "Assume this device: gpu (like an H100) or cpu (one with avx512_bf16). It need not exist here (default gpu)",
      .choices = {"gpu", "cpu"}};
}

}  // namespace ampd::client
