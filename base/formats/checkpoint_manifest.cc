#include "base/formats/checkpoint_manifest.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/formats/json.h"
#include "base/formats/sha256.h"

namespace ampd {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

std::string Write(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

json FilesOf(const CheckpointManifest& manifest) {
  json files = json::object();
  for (const auto& [name, file] : manifest.files) {
    files[name] = {{"sha256", file.sha256}, {"size_bytes", file.size_bytes}};
  }
  return files;
}

bool IsFileName(const std::string& name) {
  return !name.empty() && name[0] != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
}

template <typename Integer>
bool Is(const json& number) {
  constexpr Integer kMost = std::numeric_limits<Integer>::max();
  return number.is_number_unsigned()
             ? number.get<uint64_t>() <= static_cast<uint64_t>(kMost)
             : number.is_number_integer() && number.get<int64_t>() >= std::numeric_limits<Integer>::min();
}

// Returns whether the manifest has a well-formed "identity", so that its fields can be read without further checks.
bool NamesItsRun(const json& manifest) {
  const auto identity = manifest.find("identity");
  const auto has = [&](const char* name, auto is_right) {
    return identity->contains(name) && is_right((*identity)[name]);
  };
  return identity != manifest.end() && identity->is_object() &&
         has("job", [](const json& j) { return j.is_string(); }) &&
         has("attempt", [](const json& j) { return Is<int32_t>(j); }) &&
         has("token", [](const json& j) { return j.is_string(); });
}

bool AreFiles(const json& manifest) {
  if (!manifest.contains("files") || !manifest["files"].is_object() || manifest["files"].empty()) {
    return false;
  }
  return std::all_of(manifest["files"].items().begin(), manifest["files"].items().end(), [](const auto& named) {
    const json& file = named.value();
    return IsFileName(named.key()) && file.is_object() && file.contains("sha256") && file["sha256"].is_string() &&
           file.contains("size_bytes") && Is<int64_t>(file["size_bytes"]) && file["size_bytes"] >= 0;
  });
}

bool IsManifest(const json& manifest) {
  const auto strings = [&](const char* name) {
    return manifest.contains(name) && manifest[name].is_object() &&
           std::all_of(manifest[name].begin(), manifest[name].end(), [](const json& j) { return j.is_string(); });
  };
  return manifest.is_object() && manifest.value("version", json()) == kVersion && NamesItsRun(manifest) &&
         strings("state") && strings("environment") && manifest.contains("step") && Is<int64_t>(manifest["step"]) &&
         AreFiles(manifest);
}

}  // namespace

std::string WriteManifest(const CheckpointManifest& manifest) {
  return Write({{"version", kVersion},
                {"identity", {{"job", manifest.job_id}, {"attempt", manifest.attempt}, {"token", manifest.token}}},
                {"environment", manifest.environment},
                {"state", manifest.state},
                {"step", manifest.step},
                {"files", FilesOf(manifest)}});
}

absl::StatusOr<CheckpointManifest> ParseManifest(std::string_view text) {
  const absl::StatusOr<json> read = ParseJson(text);
  if (absl::IsAlreadyExists(read.status())) {
    return absl::DataLossError(absl::StrCat("is not the manifest of a checkpoint: it ", read.status().message()));
  }
  if (!read.ok()) {
    return absl::DataLossError("is not JSON, so it is not the manifest of a checkpoint; was it cut off?");
  }
  const json& parsed = *read;
  if (!IsManifest(parsed)) {
    return absl::DataLossError(absl::StrCat("is not a manifest of version ", kVersion));
  }
  CheckpointManifest manifest;
  manifest.job_id = parsed["identity"]["job"].get<std::string>();
  manifest.attempt = parsed["identity"]["attempt"].get<int32_t>();
  manifest.token = parsed["identity"]["token"].get<std::string>();
  manifest.step = parsed["step"].get<int64_t>();
  manifest.state = parsed["state"].get<std::map<std::string, std::string>>();
  manifest.environment = parsed["environment"].get<std::map<std::string, std::string>>();
  for (const auto& [name, file] : parsed["files"].items()) {
    manifest.files[name] = {file["sha256"].get<std::string>(), file["size_bytes"].get<int64_t>()};
  }
  return manifest;
}

std::string StateHash(const CheckpointManifest& manifest) {
  return Sha256Hex(Write({{"files", FilesOf(manifest)}, {"state", manifest.state}, {"step", manifest.step}}));
}

}  // namespace ampd
