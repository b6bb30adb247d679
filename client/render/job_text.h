#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/job.pb.h"
#include "client/render/format.h"

// Functions that show a job's record as text.
namespace ampd::client {

struct JobTextOptions {
  absl::Time now;
  absl::TimeZone zone;  // time zone in which times are shown
  Palette palette{false};
  bool wide = false;  // for RenderJob: adds details that are rarely needed
};

// Returns whether a job in this state has ended, successfully or not.
bool IsTerminal(v1::Job::State state);

// Returns whether train.early_stopping ended the job before its last step.
bool HasStoppedEarly(const v1::Job& job);

// Returns the state's name in its colour: green if the job ended well, red if it ended badly.
std::string StateText(v1::Job::State state, const Palette& palette);

// The headings and rows of `job list`; `wide` adds columns that only some jobs need.
std::vector<std::string> JobHeadings(bool wide);
std::vector<std::string> JobRow(const v1::Job& job, bool wide, const JobTextOptions& options);

// The headings and rows of `job list -o csv`.
std::vector<std::string> JobCsvHeadings();
std::vector<std::string> JobCsvRow(const v1::Job& job);

// Returns why the job is in its state, as one word such as DEVICE_BUSY or OUT_OF_MEMORY; "-" if there is no reason.
std::string ReasonWord(const v1::Job& job);

// Returns the precision of the latest attempt, such as "fp16". Until it is known, returns the preset or, if the job has
// a list of presets, all of them in order of preference: "bf16>fp32".
std::string LatestPrecision(const v1::Job& job);

// Returns the name of the worker of the latest attempt; "" if there is none.
std::string LatestWorker(const v1::Job& job);

// Returns everything about a job, one subject per line. Omits lines whose values are not known yet.
std::string RenderJob(const v1::Job& job, const JobTextOptions& options);

// Returns one line that says when the server deletes the job's files; empty if the server does not report it.
std::string RenderRetention(const v1::Job& job, const JobTextOptions& options);

// Returns one line that says how a finished job ended: "SUCCEEDED: accuracy 0.89, ...", "FAILED (DATA_ERROR): ...".
std::string RenderEnd(const v1::Job& job);

// Returns commands that the user may want to type next, one per line, each with its purpose; empty if there are none.
// `program` begins each command: "ampctl", and the options that it needs (Session::Program).
std::string NextCommands(const v1::Job& job, const std::string& program);

}  // namespace ampd::client
