#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/job_spec.pb.h"
#include "client/terminal/session.h"

namespace ampd::client {

// What a job file says of a model's file on this machine: model.exported.path that begins with "./", "../" or "/", the
// first two from the job file's folder on. Data roots have names, so no path of theirs begins so.
struct LocalModel {
  std::string sha256;  // empty: the model is no file of this machine
  bool is_uploaded = false;
};

// Puts the artifact of that file in the place of its path, and uploads it where the server does not have it. With
// `dry_run` nothing is uploaded: what is not there keeps a path, for the server to check the rest of the spec by, and
// ShowAsUploaded puts the artifact in its place. `job_file`: "-" for standard input. REQUIRES: before Session::Client()
// the session was asked for its cancellation.
absl::StatusOr<LocalModel> UploadLocalModel(Session* session, const std::string& job_file, bool dry_run,
                                            absl::Duration retry_for, v1::JobSpec* spec);
void ShowAsUploaded(const LocalModel& model, v1::JobSpec* spec);

}  // namespace ampd::client
