#include "server/backup/manifest.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/formats/json.h"
#include "base/io/file.h"
#include "base/io/open_below.h"
#include "base/status_macros.h"

namespace ampd::server {
namespace {

using nlohmann::json;

constexpr int64_t kMaxManifestBytes = int64_t{256} << 20;  // The manifest needs about 200 bytes for each file.

absl::Status Damaged(std::string_view what) {
  return Error(absl::StatusCode::kDataLoss, "BACKUP_DAMAGED",
               absl::StrCat("the backup is damaged: its ", kManifestFile, " ", std::string(what)));
}

std::string ModeText(mode_t mode) { return absl::StrFormat("%04o", mode); }

// Returns the value of a field, or nullopt if the field is missing or has another type.
template <typename Value>
std::optional<Value> Field(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() ||
      (std::is_same_v<Value, std::string> ? !found->is_string() : !found->is_number_integer())) {
    return std::nullopt;
  }
  return found->get<Value>();
}

absl::StatusOr<BackupFile> ParseFile(const json& object) {
  const auto path = Field<std::string>(object, "path");
  const auto size = Field<int64_t>(object, "size_bytes");
  const auto sha256 = Field<std::string>(object, "sha256");
  const auto mode = Field<std::string>(object, "mode");
  if (!path.has_value() || !size.has_value() || !sha256.has_value() || !mode.has_value() || *size < 0 ||
      (*mode != ModeText(kPrivateFile) && *mode != ModeText(kUserFile))) {
    return Damaged("lacks a field of a file, or has a bad one");
  }
  if (!StaysBelow(*path)) {
    return Damaged(absl::StrCat("has a path that leads out of it: ", *path));
  }
  return BackupFile{*path, *size, *sha256, *mode == ModeText(kUserFile) ? kUserFile : kPrivateFile};
}

}  // namespace

std::string ToJson(const BackupManifest& manifest) {
  json files = json::array();
  for (const BackupFile& file : manifest.files) {
    files.push_back(
        {{"path", file.path}, {"size_bytes", file.size_bytes}, {"sha256", file.sha256}, {"mode", ModeText(file.mode)}});
  }
  const json all = {{"format", kBackupFormat},
                    {"ampd", manifest.ampd_version},
                    {"time", absl::FormatTime(absl::RFC3339_full, manifest.time, absl::UTCTimeZone())},
                    {"epoch", manifest.epoch},
                    {"last_update", manifest.last_update},
                    {"files", std::move(files)}};
  return all.dump(1) + "\n";
}

absl::StatusOr<BackupManifest> ParseManifest(std::string_view text) {
  const absl::StatusOr<json> parsed = ParseJson(text);
  if (!parsed.ok() || !parsed->is_object()) {
    return Damaged("is no JSON object");
  }
  const auto format = Field<int64_t>(*parsed, "format");
  if (format.has_value() && *format > kBackupFormat) {
    return Error(absl::StatusCode::kFailedPrecondition, "NEWER_BACKUP",
                 absl::StrCat("the backup has format ", *format, ", this ampd-server knows ", kBackupFormat,
                              "; restore it with the version that made it, or a later one"));
  }
  const auto version = Field<std::string>(*parsed, "ampd");
  const auto time = Field<std::string>(*parsed, "time");
  const auto epoch = Field<uint64_t>(*parsed, "epoch");
  const auto last_update = Field<uint64_t>(*parsed, "last_update");
  const auto files = parsed->find("files");
  BackupManifest manifest;
  if (!format.has_value() || !version.has_value() || !time.has_value() || !epoch.has_value() ||
      !last_update.has_value() || files == parsed->end() || !files->is_array() ||
      !absl::ParseTime(absl::RFC3339_full, *time, &manifest.time, nullptr)) {
    return Damaged("lacks a field");
  }
  manifest.ampd_version = *version;
  manifest.epoch = *epoch;
  manifest.last_update = *last_update;
  for (const json& file : *files) {
    AMPD_ASSIGN_OR_RETURN(manifest.files.emplace_back(), ParseFile(file));
  }
  return manifest;
}

absl::StatusOr<BackupManifest> ReadManifest(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat(folder, "/", kManifestFile), kMaxManifestBytes);
  if (absl::IsNotFound(text.status())) {
    return Error(absl::StatusCode::kFailedPrecondition, "NOT_A_BACKUP",
                 absl::StrCat(folder, " is no complete backup: it has no ", kManifestFile));
  }
  if (!text.ok()) {
    return Damaged(absl::StrCat(std::string(text.status().message())));
  }
  return ParseManifest(*text);
}

}  // namespace ampd::server
