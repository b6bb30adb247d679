#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "client/commands/command.h"

// The option --sort of the commands that list things.
namespace ampd::client {

// The value by which an item is sorted: a number, a text, or nothing if the item has no value.
using SortValue = std::variant<std::monostate, double, std::string>;

// A field by which a list can be sorted.
template <typename Item>
struct SortField {
  std::string name;  // such as "age"
  std::function<SortValue(const Item&)> value;
};

struct SortOrder {
  std::string field;  // empty: the list is not sorted
  bool is_descending = false;
};

// Parses the value of --sort, such as "loss,desc".
SortOrder ParseSortOrder(const std::string& text);

// The option --sort. Its value is a field, optionally followed by ",desc" or ",asc".
Argument SortOption(std::string* order, std::vector<std::string> fields);

template <typename Item>
std::vector<std::string> NamesOf(const std::vector<SortField<Item>>& fields) {
  std::vector<std::string> names;
  for (const SortField<Item>& field : fields) {
    names.push_back(field.name);
  }
  return names;
}

// Returns the value of the item by which `order` sorts. REQUIRES: `order.field` is in `fields`.
template <typename Item>
SortValue SortValueOf(const std::vector<SortField<Item>>& fields, const SortOrder& order, const Item& item) {
  const auto field =
      std::find_if(fields.begin(), fields.end(), [&](const SortField<Item>& one) { return one.name == order.field; });
  return field->value(item);
}

// Sorts items and keeps only the first `limit` of them (0: all). The buffer never holds more than twice as many. Items
// with equal values stay in the order in which they were added; items without a value come last. Single-threaded.
template <typename Kept>
class SortBuffer {
 public:
  SortBuffer(bool is_descending, size_t limit) : is_descending_(is_descending), limit_(limit) {}

  void Add(SortValue value, Kept kept) {
    entries_.push_back({std::move(value), num_added_++, std::move(kept)});
    if (limit_ > 0 && entries_.size() >= 2 * limit_) {
      Sort();
    }
  }

  std::vector<Kept> Take() {
    Sort();
    std::vector<Kept> all;
    for (Entry& entry : entries_) {
      all.push_back(std::move(entry.kept));
    }
    entries_.clear();
    return all;
  }

  size_t num_added() const { return num_added_; }

 private:
  struct Entry {
    SortValue value;
    size_t order = 0;
    Kept kept;
  };

  bool IsBefore(const Entry& a, const Entry& b) const {
    const bool a_lacks = std::holds_alternative<std::monostate>(a.value);
    const bool b_lacks = std::holds_alternative<std::monostate>(b.value);
    if (a_lacks || b_lacks || a.value == b.value) {
      return std::tie(a_lacks, a.order) < std::tie(b_lacks, b.order);
    }
    return is_descending_ ? b.value < a.value : a.value < b.value;
  }
  void Sort() {
    std::sort(entries_.begin(), entries_.end(), [this](const Entry& a, const Entry& b) { return IsBefore(a, b); });
    if (limit_ > 0 && entries_.size() > limit_) {
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(limit_), entries_.end());
    }
  }

  const bool is_descending_;
  const size_t limit_;
  size_t num_added_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace ampd::client
