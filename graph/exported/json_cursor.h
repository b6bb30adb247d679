#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace ampd::graph {

// A position in JSON of unknown origin. The JSON can be read through it without checking every step for errors:
//
//   absl::Status status;
//   const JsonCursor root(json, status);
//   const int64_t count = root["a"]["count"].Integer();
//   for (const JsonCursor& one : root["list"].List(100)) { ... }
//   AMPD_RETURN_IF_ERROR(status);   // before using what was read
//
// An error is a value that is missing or of another kind. The status keeps the first error ("a.count: is no whole
// number"); everything that is read after an error is empty or 0. The JSON and the status must outlive their cursors.
// Thread-compatible.
class JsonCursor {
 public:
  JsonCursor(const nlohmann::json& json, absl::Status& status) : json_(&json), status_(&status) {}

  // The value of `key` in this object; a missing key is an error.
  JsonCursor operator[](std::string_view key) const;
  bool Has(std::string_view key) const;
  bool IsNull() const;
  int64_t Integer() const;
  // Reads a floating-point number. Also accepts integers, and "Infinity", "-Infinity" and "NaN" as strings.
  double Real() const;
  bool Truth() const;
  std::string Text() const;
  std::vector<JsonCursor> List(size_t max_size) const;
  std::vector<std::pair<std::string, JsonCursor>> Members(size_t max_size) const;
  // The only member of this object. Its key selects one of several kinds of value.
  std::pair<std::string, JsonCursor> Choice() const;

  void Fail(std::string_view what) const;
  const std::string& path() const { return path_; }

 private:
  JsonCursor(const nlohmann::json* json, absl::Status* status, std::string path)
      : json_(json), status_(status), path_(std::move(path)) {}

  const nlohmann::json* json_;  // Null after a failure.
  absl::Status* status_;
  std::string path_;
};

}  // namespace ampd::graph
