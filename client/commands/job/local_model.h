#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/job_spec.pb.h"
#include "client/terminal/session.h"

namespace ampd::client {

// A model file on this machine that a job file names: a model.exported.path that begins with "./", "../" or "/". The
// first two are relative to the job file's folder. A path in a data root begins with the root's name, so it can't be
// mistaken for one.
struct LocalModel {
  std::string sha256;  // empty: the job file names no local model file
  bool is_uploaded = false;
};

// Replaces the path of that file by its artifact, and uploads the file if the server does not have it. With `dry_run`
// nothing is uploaded: a missing file keeps a path, so that the server can check the rest of the spec, and
// ShowAsUploaded replaces it later. `job_file`: "-" for standard input. REQUIRES: Session::Client() was not called
// before Session::CancelledByInterrupt().
absl::StatusOr<LocalModel> UploadLocalModel(Session* session, const std::string& job_file, bool dry_run,
                                            absl::Duration retry_for, v1::JobSpec* spec);
void ShowAsUploaded(const LocalModel& model, v1::JobSpec* spec);

}  // namespace ampd::client
