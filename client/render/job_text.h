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
  absl::TimeZone zone;  // time zone of the times shown
  Palette palette{false};
  bool wide = false;  // RenderJob: adds details that are rarely needed
};

// Whether the job has ended, successfully or not.
bool IsTerminal(v1::Job::State state);

// The state in its colour: green for good ends, red for bad ones.
std::string StateText(v1::Job::State state, const Palette& palette);

// The headings and rows of `job list`; `wide` adds columns that only some jobs need.
std::vector<std::string> JobHeadings(bool wide);
std::vector<std::string> JobRow(const v1::Job& job, bool wide, const JobTextOptions& options);

// Everything about a job, one subject per line. Lines whose values are not known yet are omitted.
std::string RenderJob(const v1::Job& job, const JobTextOptions& options);

// When the server deletes the job's files, in one line; empty if the server does not report it.
std::string RenderRetention(const v1::Job& job, const JobTextOptions& options);

// How a finished job ended, in one line: "SUCCEEDED: accuracy 0.89, ...", "FAILED (DATA_ERROR): ...".
std::string RenderEnd(const v1::Job& job);

// Suggested next commands, one per line, each with its purpose; empty if there are none.
std::string NextCommands(const v1::Job& job);

}  // namespace ampd::client
