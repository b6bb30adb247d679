#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// YAML as a tree of our own in which every node knows its place, read under limits.
namespace ampd::client {

// Where something stands: "job.yaml", line and column from 1. Line 0: the source as a whole.
struct SourceMark {
  std::string source;
  int line = 0;
  int column = 0;
  std::string ToString() const;
};

// One thing wrong with a job file. `field` is the path as the user wrote it, empty for problems of the text itself.
struct Problem {
  SourceMark mark;
  std::string field;
  std::string message;
  std::string nearest;               // did you mean ...; empty if nothing is near
  std::vector<std::string> allowed;  // what may stand there; empty if that is no short list
};

struct YamlEntry;

// A value. Scalars keep their text: what they are is decided by the field that they are for.
struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  SourceMark mark;
  std::string text;
  bool quoted = false;
  std::vector<YamlNode> items;
  std::vector<YamlEntry> entries;
};

struct YamlEntry {
  std::string key;
  SourceMark mark;
  YamlNode value;
};

inline constexpr int kMaxYamlBytes = 1 << 20;
inline constexpr int kMaxYamlDepth = 32;
inline constexpr int kMaxYamlNodes = 20'000;  // after aliases are followed

// Reads one document. Empty after a problem that leaves no tree (too large, too deep, broken syntax, an alias inside
// its own anchor, too many nodes); duplicate keys are reported and the first one is kept.
std::optional<YamlNode> ParseYaml(std::string_view text, const std::string& source, std::vector<Problem>* problems);

}  // namespace ampd::client
