#include "client/commands/init/init.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/commands/arguments.h"
#include "client/commands/job_source.h"
#include "client/commands/output_file.h"
#include "client/jobfile/job_template.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

struct InitOptions {
  std::string file = "job.yaml";  // "-": stdout
  std::string model = "lenet";
  std::string data;  // empty: the kind that is usual for the model
  std::string name;  // empty: the model's name
  bool replace = false;
};

// Whether the descriptor refers to a regular file, as standard output does if the shell command ends in `> FILE`.
bool WritesToFile(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

int Init(Session* session, const InitOptions& options) {
  const std::string name = options.name.empty() ? absl::StrReplaceAll(options.model, {{"_", "-"}}) : options.name;
  const auto text = JobTemplate(options.model, options.data, name);
  if (!text.ok()) {
    return session->Fail(text.status());
  }
  const std::vector<std::string> models = TemplateModels();
  if (std::find(models.begin(), models.end(), options.file) != models.end()) {
    return session->Fail(absl::InvalidArgumentError(absl::StrCat(
        options.file, " is taken as the name of the file to write; for a job with this model: ampctl init --model ",
        options.file, "; for a file with this name: ampctl init ./", options.file)));
  }
  if (options.file == "-") {
    WriteText(*text);
    return kExitOk;
  }
  if (const absl::Status allowed = CheckOutputFile(options.file, options.replace); !allowed.ok()) {
    return session->Fail(allowed);
  }
  if (const absl::Status written = WriteOutputFile(options.file, *text, options.replace); !written.ok()) {
    return session->Fail(written);
  }
  if (session->names_only()) {
    WriteText(options.file + "\n");
    return kExitOk;
  }
  WriteProse(absl::StrCat("wrote ", options.file, "\n"));
  if (WritesToFile(STDOUT_FILENO)) {
    session->Note("to print the job file instead of writing job.yaml: ampctl init - > FILE");
  }
  const std::string submit = session->Command("job submit");
  session->Note(absl::StrCat("to check it: ", CommandWithFile(submit, options.file, "--dry-run")));
  session->Note(absl::StrCat("to run it:   ", CommandWithFile(submit, options.file, "--follow")));
  return kExitOk;
}

}  // namespace

Command InitCommand() {
  const auto options = std::make_shared<InitOptions>();
  return {.name = "init",
          .help = "Write a job file to start from, with comments",
          .examples =
              "  ampctl init\n"
              "  ampctl init resnet.yaml --model resnet --data npz\n"
              "  ampctl init - --model gpt2",
          .arguments = {{.name = "file",
                         .value = &options->file,
                         .text = "[FILE]",
                         .help = "File to write, or - for stdout (default job.yaml)",
                         .is_path = true},
                        {.name = "--model",
                         .value = &options->model,
                         .text = "MODEL",
                         .help = absl::StrCat("Model: ", absl::StrJoin(TemplateModels(), ", "), " (default lenet)"),
                         .choices = TemplateModels()},
                        {.name = "--data",
                         .value = &options->data,
                         .text = "DATA",
                         .help = absl::StrCat("Kind of data: ", absl::StrJoin(TemplateData(), ", "),
                                              " (default: the usual one for the model)"),
                         .choices = TemplateData()},
                        {.name = "--name",
                         .value = &options->name,
                         .text = "NAME",
                         .help = "Name of the job (default: the model's name)"},
                        {.name = "--force", .value = &options->replace, .help = "Replace the file if it exists"}},
          .run = [options](Session* session) { return Init(session, *options); }};
}

}  // namespace ampd::client
