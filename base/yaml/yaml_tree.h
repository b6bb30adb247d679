#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// YAML as a tree whose nodes know their positions, parsed under size limits.
namespace ampd {

// A position in the source: "job.yaml", line and column from 1. Line 0: the source as a whole.
struct SourceMark {
  std::string source;
  int line = 0;
  int column = 0;
  std::string ToString() const;
};

// One problem of a text in YAML, such as a job file. `field` is the path of the field as the user wrote it; empty if
// the problem concerns the text itself.
struct Problem {
  SourceMark mark;
  std::string field;
  std::string message;
  std::string nearest = {};               // the likely correction ("did you mean"); empty if no name is near
  std::vector<std::string> allowed = {};  // the allowed values; empty if there is no short list of them
};

struct YamlEntry;

// One value of the YAML text. A scalar keeps its text, because its type depends on the field that is set from it. A
// null keeps its text too: "~", "null" or nothing.
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

// A kind of file that is written in YAML: how messages name it, and which parts of YAML it may use.
struct YamlKind {
  const char* file = "";            // One file: "a job file".
  const char* files = "";           // Several: "job files".
  const char* content = "";         // The content of a file: "one job".
  const char* about_archives = "";  // Ends the message for a ZIP archive: "; a job file is a text in YAML".
  const char* about_empty = "";     // Ends the message for a file that is empty or holds only comments.
  // Whether anchors, aliases and tags are refused.
  bool is_plain = false;
};

inline constexpr int kMaxYamlBytes = 1 << 20;
inline constexpr int kMaxYamlDepth = 32;
inline constexpr int kMaxYamlNodes = 20'000;  // the most nodes of a tree, counted after aliases are expanded

// Parses one document and adds its problems to `problems`. A duplicate key is a problem, and its first value is kept.
// Returns nothing if no tree can be made: the text is empty, too large, too deep or not YAML, an alias is inside its
// own anchor, or there are too many nodes.
std::optional<YamlNode> ParseYaml(std::string_view text, const std::string& source, const YamlKind& kind,
                                  std::vector<Problem>* problems);

// Whether the text has nothing but comments and blank lines.
bool IsEmptyYaml(std::string_view text);

}  // namespace ampd
