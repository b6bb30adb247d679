#include "graph/exported/json_cursor.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace ampd::graph {

void JsonCursor::Fail(std::string_view what) const {
  if (status_->ok()) {
    *status_ = absl::InvalidArgumentError(absl::StrCat(path_, path_.empty() ? "" : ": ", std::string(what)));
  }
}

JsonCursor JsonCursor::operator[](std::string_view key) const {
  std::string path = absl::StrCat(path_, path_.empty() ? "" : ".", std::string(key));
  if (json_ == nullptr) {
    return {nullptr, status_, std::move(path)};
  }
  const auto found = json_->is_object() ? json_->find(std::string(key)) : json_->end();
  if (!json_->is_object() || found == json_->end()) {
    Fail(absl::StrCat("has no \"", std::string(key), "\""));
    return {nullptr, status_, std::move(path)};
  }
  return {&*found, status_, std::move(path)};
}

bool JsonCursor::Has(std::string_view key) const {
  if (json_ == nullptr || !json_->is_object()) {
    return false;
  }
  const auto found = json_->find(std::string(key));
  return found != json_->end() && !found->is_null();
}

bool JsonCursor::IsNull() const { return json_ == nullptr || json_->is_null(); }

int64_t JsonCursor::Integer() const {
  if (json_ == nullptr) {
    return 0;
  }
  const bool too_large =
      json_->is_number_unsigned() && json_->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  if (!json_->is_number_integer() || too_large) {
    Fail("is no whole number");
    return 0;
  }
  return json_->get<int64_t>();
}

double JsonCursor::Real() const {
  if (json_ == nullptr) {
    return 0;
  }
  if (json_->is_number()) {
    return json_->get<double>();
  }
  const std::string text = json_->is_string() ? json_->get<std::string>() : "";
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "Infinity" || text == "-Infinity") {
    return text[0] == '-' ? -kInfinity : kInfinity;
  }
  if (text != "NaN") {
    Fail("is no number");
  }
  return std::numeric_limits<double>::quiet_NaN();
}

bool JsonCursor::Truth() const {
  if (json_ == nullptr || !json_->is_boolean()) {
    Fail("is neither true nor false");
    return false;
  }
  return json_->get<bool>();
}

std::string JsonCursor::Text() const {
  if (json_ == nullptr || !json_->is_string()) {
    Fail("is no string");
    return "";
  }
  return json_->get<std::string>();
}

std::vector<JsonCursor> JsonCursor::List(size_t max_size) const {
  std::vector<JsonCursor> list;
  if (json_ == nullptr || !json_->is_array() || json_->size() > max_size) {
    Fail(absl::StrCat("is no list of at most ", max_size, " elements"));
    return list;
  }
  for (size_t i = 0; i < json_->size(); ++i) {
    list.push_back({&(*json_)[i], status_, absl::StrCat(path_, "[", i, "]")});
  }
  return list;
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::Members(size_t max_size) const {
  std::vector<std::pair<std::string, JsonCursor>> members;
  if (json_ == nullptr || !json_->is_object() || json_->size() > max_size) {
    Fail(absl::StrCat("is no object of at most ", max_size, " members"));
    return members;
  }
  for (const auto& [key, value] : json_->items()) {
    members.emplace_back(key, JsonCursor(&value, status_, absl::StrCat(path_, ".", key)));
  }
  return members;
}

std::pair<std::string, JsonCursor> JsonCursor::Choice() const {
  const auto members = Members(1);
  if (members.size() != 1) {
    Fail("has not one member");
    return {"", JsonCursor(nullptr, status_, path_)};
  }
  return members[0];
}

}  // namespace ampd::graph
