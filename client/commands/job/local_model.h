#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/job_spec.pb.h"
#include "client/terminal/session.h"

namespace ampd::client {

// A model file on this machine that a job file names: a model.exported.path that begins with "./", "../" or "/". A
// path that begins with "./" or "../" is relative to the job file's folder. A path on a worker can't be mistaken for a
// local file, because it begins with the name of a data root.
struct LocalModel {
  std::string sha256;  // digest of the file; empty: the job file names no local model file
  bool is_uploaded = false;
};

// Uploads the local model file that `spec` names, if the server does not have it, and replaces the path in `spec` by
// the artifact. With `dry_run` nothing is uploaded. If the server then does not have the file, `spec` gets a stand-in
// path, so that the server can check the rest of the spec; ShowAsUploaded replaces it by the artifact later. An error
// about the field model.exported.path, with that field violation, if the file is none of torch.export.
// `job_file` is the job file's path, or "-" for standard input. REQUIRES: Session::Client() was not called before
// Session::CancelledByInterrupt().
absl::StatusOr<LocalModel> UploadLocalModel(Session* session, const std::string& job_file, bool dry_run,
                                            absl::Duration retry_for, v1::JobSpec* spec);
void ShowAsUploaded(const LocalModel& model, v1::JobSpec* spec);

}  // namespace ampd::client
