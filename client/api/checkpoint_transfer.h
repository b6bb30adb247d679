#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/job.pb.h"
#include "client/api/job_client.h"
#include "client/api/transfer.h"

namespace ampd::client {

struct DownloadedCheckpoint {
  int64_t num_files = 0;  // with the manifest
  int64_t size_bytes = 0;
};

// Downloads a recorded checkpoint of the job into `folder`, which is created if it does not exist. The files get their
// names once their digests match the manifest, and the manifest, which must be the recorded one, comes last: a folder
// with a manifest is complete. An interrupted download resumes in the same folder. `wants` chooses the files beside the
// manifest; null: all.
//
// ALREADY_EXISTS if the folder has other files; DATA_LOSS if the worker's files are not those that the job saved;
// otherwise errors of the file system, which name the path, and the server's.
absl::StatusOr<DownloadedCheckpoint> DownloadCheckpoint(JobClient* client, const std::string& job,
                                                        const v1::Checkpoint& checkpoint, const std::string& folder,
                                                        const std::function<bool(const std::string& file)>& wants,
                                                        const TransferOptions& options);

}  // namespace ampd::client
