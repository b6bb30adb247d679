#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "client/api/artifact_transfer.h"
#include "client/commands/arguments.h"
#include "client/commands/checks.h"
#include "client/commands/find_job.h"
#include "client/commands/job/job.h"
#include "client/commands/job/job_answer.h"
#include "client/commands/output_file.h"
#include "client/commands/stdout_content.h"
#include "client/commands/suggestions.h"
#include "client/commands/transfer.h"
#include "client/render/format.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

constexpr int kMaxSteps = 100;

struct ProfileOptions {
  std::string id;
  std::string file;  // file to write; empty: named after the job and the step
  int num_steps = 5;
  absl::Duration timeout = absl::Minutes(5);
  bool replace = false;
};

// A stored profile, and the local file to which it was written.
struct Profile {
  v1::Event event;
  std::string file;
  int64_t size_bytes = 0;
};

// Returns the files that hold the profile, in order. FAILED_PRECONDITION if the job could not record the profile;
// NOT_FOUND if the server does not have all files.
absl::StatusOr<std::vector<v1::Artifact>> FilesOf(const Session& session, JobClient* client, const std::string& id,
                                                  const v1::Event& event) {
  const auto attribute = event.attributes().find("files");
  int num_files = 0;
  if (attribute == event.attributes().end() || !absl::SimpleAtoi(attribute->second, &num_files) || num_files < 1) {
    return absl::FailedPreconditionError(Printable(event.message()));
  }
  AMPD_ASSIGN_OR_RETURN(const std::vector<v1::Artifact> all, client->ListArtifacts(id));
  // Search by name: the step may also have files of an earlier attempt's profile, which have other names.
  const int num_digits = static_cast<int>(absl::StrCat(num_files).size());
  std::vector<v1::Artifact> files;
  for (int part = 1; part <= num_files; ++part) {
    const std::string name = absl::StrFormat("profile-%0*d.json.gz", num_digits, part);
    const auto found = std::find_if(all.begin(), all.end(), [&](const v1::Artifact& file) {
      return file.step() == event.step() && file.file_name() == name;
    });
    if (found == all.end()) {
      return absl::NotFoundError(absl::StrCat("the server does not have the complete profile of step ", event.step(),
                                              "; see the job's events: ", session.Command("job events "), id));
    }
    files.push_back(*found);
  }
  return files;
}

// Checks the file to write. Call it before asking the job for a profile.
absl::Status CheckFile(const Session& session, const ProfileOptions& options) {
  if (options.file.empty()) {
    return absl::OkStatus();
  }
  if (options.file == "-") {
    return CheckContentToStdout(session);
  }
  if (std::all_of(options.file.begin(), options.file.end(), absl::ascii_isdigit)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", options.file, "' is taken as the name of the file to write; did you mean --steps ",
                     options.file, "? For a file with this name, write ./", options.file));
  }
  AMPD_RETURN_IF_ERROR(CheckEnding(options.file, {".json.gz", "gzipped JSON"}, {".json", ".txt", ".html"}));
  return CheckOutputFile(options.file, options.replace);
}

// Writes the files of a profile into one file, or to stdout if the path is "-".
absl::Status WriteFiles(Session* session, JobClient* client, const std::vector<v1::Artifact>& files,
                        const std::string& path, bool replace, Cancellation* interrupt) {
  if (path == "-") {
    return PrintContents(session, client, files, interrupt);
  }
  ProgressLine line(*session);
  const absl::Status written =
      DownloadJoined(client, files, path, replace, OptionsWithBar(&line, absl::Seconds(10), interrupt));
  line.Clear();
  return written;
}

absl::StatusOr<Profile> MakeProfile(Session* session, const ProfileOptions& options) {
  AMPD_RETURN_IF_ERROR(CheckFile(*session, options));
  Cancellation* const interrupt = session->CancelledByInterrupt();
  AMPD_ASSIGN_OR_RETURN(JobClient* const client, session->Client());
  AMPD_ASSIGN_OR_RETURN(const std::string id, FindJobId(client, options.id));
  AMPD_ASSIGN_OR_RETURN(const v1::Job job, client->GetJob(id));
  JobRequest request = {
      .answer = v1::Event::PROFILED, .thing = "its profile", .asked = "be profiled", .program = session->Program()};
  request.request.set_id(id);
  request.request.mutable_update_mask()->add_paths("profile_steps");
  request.request.set_profile_steps(options.num_steps);
  Profile profile;
  AMPD_ASSIGN_OR_RETURN(profile.event,
                        AwaitAnswer(client, request, SystemClock().SinceBoot() + options.timeout, interrupt));
  AMPD_ASSIGN_OR_RETURN(const std::vector<v1::Artifact> files, FilesOf(*session, client, id, profile.event));
  profile.file = options.file.empty()
                     ? absl::StrCat(FileNameFor(job), "-profile-step-", profile.event.step(), ".json.gz")
                     : options.file;
  AMPD_RETURN_IF_ERROR(AsOutputError(WriteFiles(session, client, files, profile.file, options.replace, interrupt)));
  for (const v1::Artifact& file : files) {
    profile.size_bytes += file.size_bytes();
  }
  return profile;
}

int ProfileJob(Session* session, const ProfileOptions& options) {
  const absl::StatusOr<Profile> profile = MakeProfile(session, options);
  if (!profile.ok()) {
    return session->Fail(profile.status());
  }
  const PlainFields fields = {
      {"file", profile->file}, {"step", profile->event.step()}, {"sizeBytes", profile->size_bytes}};
  if (profile->file == "-") {
    session->Note(Printable(profile->event.message()));
  } else if (!PrintStructured(*session, fields) && !session->options().quiet) {
    WriteFormatted("%s: %s (%s)\n", Printable(profile->file).c_str(), Printable(profile->event.message()).c_str(),
                   FormatBytes(profile->size_bytes).c_str());
    session->Note("open it at https://ui.perfetto.dev, or in Chrome at chrome://tracing");
  }
  return kExitOk;
}

}  // namespace

Command ProfileJobCommand() {
  const auto options = std::make_shared<ProfileOptions>();
  return {
      .name = "profile",
      .help = "Record what a running job's next steps do on the CPU and the GPU, and write a trace",
      .examples =
          "  ampctl job profile ID\n"
          "  ampctl job profile ID --steps 20 trace.json.gz      open it at https://ui.perfetto.dev",
      .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
      .arguments = {JobId(&options->id),
                    {.name = "file",
                     .value = &options->file,
                     .text = "[FILE]",
                     .help = "File to write, - for stdout. It has the format of Chrome's trace viewer, gzipped, so its "
                             "name should end in .json.gz (default: named after the job and the last step)",
                     .suggest = SuggestFiles,
                     .is_path = true},
                    {.name = "--steps",
                     .value = &options->num_steps,
                     .text = "N",
                     .help = "Number of steps to record (default 5, at most 100)",
                     .check = InRange(1, kMaxSteps)},
                    {.name = "--timeout",
                     .value = &options->timeout,
                     .text = "DURATION",
                     .help = "Give up after this time, with exit code 7 (default 5m)"},
                    Force(&options->replace)},
      .run = [options](Session* session) { return ProfileJob(session, *options); }};
}

}  // namespace ampd::client
