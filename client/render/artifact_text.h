#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/artifact_service.pb.h"

// Artifacts as rows of a table.
namespace ampd::client {

// The headings and rows of `artifact list`. `wide` adds the media type and the digest.
std::vector<std::string> ArtifactHeadings(bool wide);
std::vector<std::string> ArtifactRow(const v1::Artifact& artifact, bool wide, absl::Time now);

// The headings and rows of `artifact list -o csv`.
std::vector<std::string> ArtifactCsvHeadings();
std::vector<std::string> ArtifactCsvRow(const v1::Artifact& artifact);

}  // namespace ampd::client
