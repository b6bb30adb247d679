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

// Downloads a recorded checkpoint of the job into `folder`, which is created if it does not exist. While a file is
// downloaded, its name ends in ".partial"; it gets its own name once its digest is the one in the manifest. The
// manifest itself must have the digest that the server recorded, and is written last. So a folder with a manifest is
// complete. An interrupted download resumes in the same folder. `wants` chooses the files to download besides the
// manifest; null: all.
//
// ALREADY_EXISTS if the folder has other files; DATA_LOSS if the worker's files are not those that the job saved;
// otherwise errors of the file system, which name the path, and the server's.
absl::StatusOr<DownloadedCheckpoint> DownloadCheckpoint(JobClient* client, const std::string& job,
                                                        const v1::Checkpoint& checkpoint, const std::string& folder,
                                                        const std::function<bool(const std::string& file)>& wants,
                                                        const TransferOptions& options);

}  // namespace ampd::client
