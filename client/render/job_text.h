#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/job.pb.h"
#include "client/render/format.h"

// A job's record as text.
namespace ampd::client {

struct JobTextOptions {
  absl::Time now;
  absl::TimeZone zone;  // of the times shown
  Palette palette{false};
  bool wide = false;  // RenderJob: also what only some look for
};

// Whether a job has ended, whatever the end.
bool IsTerminal(v1::Job::State state);

// The state in its colour: green for good ends, red for bad ones.
std::string StateText(v1::Job::State state, const Palette& palette);

// A row of `job list`, and its headings; `wide` has what only some jobs need.
std::vector<std::string> JobHeadings(bool wide);
std::vector<std::string> JobRow(const v1::Job& job, bool wide, const JobTextOptions& options);

// All about a job, a subject a line. Lines of what is not known yet are left out.
std::string RenderJob(const v1::Job& job, const JobTextOptions& options);

// When the server deletes what the job leaves, in one line; empty where the server does not say.
std::string RenderRetention(const v1::Job& job, const JobTextOptions& options);

// How a finished job ended, in one line: "SUCCEEDED: accuracy 0.89, ...", "FAILED (DATA_ERROR): ...".
std::string RenderEnd(const v1::Job& job);

// What to type next, one command a line, each with its purpose; empty when there is nothing to say.
std::string NextCommands(const v1::Job& job);

}  // namespace ampd::client
