#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace ampd::graph {

// A place in JSON from outside, read without asking at every step whether it is as expected:
//
//   absl::Status status;
//   const JsonCursor root(json, status);
//   const int64_t count = root["a"]["count"].Integer();
//   for (const JsonCursor& one : root["list"].List(100)) { ... }
//   AMPD_RETURN_IF_ERROR(status);   // before anything is done with what was read
//
// The first thing that is missing or of another kind is kept in the status, "a.count: is no whole number"; everything
// read from there on is empty or 0. The JSON and the status outlive their cursors. Thread-compatible.
class JsonCursor {
 public:
  JsonCursor(const nlohmann::json& json, absl::Status& status) : json_(&json), status_(&status) {}

  // What `key` of this object is; it must be there.
  JsonCursor operator[](std::string_view key) const;
  bool Has(std::string_view key) const;
  bool IsNull() const;
  int64_t Integer() const;
  // A whole number counts too, and so do "Infinity", "-Infinity" and "NaN" as strings.
  double Real() const;
  bool Truth() const;
  std::string Text() const;
  std::vector<JsonCursor> List(size_t max_size) const;
  std::vector<std::pair<std::string, JsonCursor>> Members(size_t max_size) const;
  // The one member of an object that says by its key which of several things it is.
  std::pair<std::string, JsonCursor> Choice() const;

  void Fail(std::string_view what) const;
  const std::string& path() const { return path_; }

 private:
  JsonCursor(const nlohmann::json* json, absl::Status* status, std::string path)
      : json_(json), status_(status), path_(std::move(path)) {}

  const nlohmann::json* json_;  // null: after a failure
  absl::Status* status_;
  std::string path_;
};

}  // namespace ampd::graph
