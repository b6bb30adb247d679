#include "base/yaml/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "base/yaml/bare_line.h"
#include "base/yaml/foreign_text.h"
#include "base/yaml/yaml_syntax.h"

namespace ampd {
namespace {

using YAML::anchor_t;

constexpr size_t kMaxShownKey = 60;

// An exception that ends the parse after a problem was recorded.
class Abandoned : public std::runtime_error {
 public:
  Abandoned() : std::runtime_error("abandoned") {}
};

int CountNodes(const YamlNode& node) {
  int count = 1;
  for (const YamlNode& item : node.items) {
    count += CountNodes(item);
  }
  for (const YamlEntry& entry : node.entries) {
    count += CountNodes(entry.value);
  }
  return count;
}

// Returns the position of the value itself if an anchor (&name), a tag (!!str) or both stand at `begin`, in front of
// it. Otherwise returns `begin`. Line ends and comments may stand between them and the value.
size_t BehindAnchorAndTag(std::string_view text, size_t begin) {
  constexpr std::string_view kBlanks = " \t\r\n";
  bool is_behind = false;
  while (begin < text.size() && (text[begin] == '&' || text[begin] == '!' || (is_behind && text[begin] == '#'))) {
    const size_t end = text[begin] == '#' ? text.find('\n', begin) : text.find_first_of(kBlanks, begin);
    begin = std::min(text.find_first_not_of(kBlanks, std::min(end, text.size())), text.size());
    is_behind = true;
  }
  return begin;
}

// Returns whether the scalar that begins at `begin` has an opening quote and no closing one. yaml-cpp then reads the
// rest of the file as a part of the scalar.
bool IsUnclosed(std::string_view text, size_t begin) {
  if (begin >= text.size() || (text[begin] != '"' && text[begin] != '\'')) {
    return false;
  }
  const char quote = text[begin];
  for (size_t i = begin + 1; i < text.size(); ++i) {
    const bool doubled = text[i] == quote && i + 1 < text.size() && text[i + 1] == quote;
    const bool escapes = quote == '"' ? text[i] == '\\' : doubled;
    if (!escapes && text[i] == quote) {
      return false;
    }
    i += escapes ? 1 : 0;
  }
  return true;
}

// Builds the tree from yaml-cpp's parse events. Unlike yaml-cpp's own tree, the events show aliases and duplicate
// keys.
class TreeBuilder final : public YAML::EventHandler {
 public:
  // `text` is the parsed text, without a byte order mark.
  TreeBuilder(std::string_view text, std::string source, const YamlKind& kind, std::vector<Problem>* problems)
      : text_(text), source_(std::move(source)), kind_(kind), problems_(problems) {}

  void OnDocumentStart(const YAML::Mark& mark) override { start_ = At(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, anchor_t anchor) override {
    YamlNode node = Node(YamlNode::Kind::kNull, mark);
    for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
      const bool is_word = text_.substr(std::max(0, mark.pos)).starts_with(word);
      node.text = is_word ? std::string(word) : node.text;
    }
    Add(std::move(node), anchor, mark);
  }
  void OnAlias(const YAML::Mark& mark, anchor_t anchor) override {
    if (kind_.is_plain) {
      Abandon(mark, absl::StrCat("a value that begins with '*' is an alias, which ", kind_.files,
                                 " do not have; write the value out, or put it in quotes"));
    }
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      Abandon(mark, "an alias refers to the value that it is part of");
    }
    YamlNode copy = found->second;
    num_nodes_ += CountNodes(copy) - 1;
    Add(std::move(copy), 0, mark);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, anchor_t anchor, const std::string& value) override {
    // yaml-cpp gives a plain scalar the tag "?" and a quoted one the tag "!".
    const bool quoted = tag == "!";
    CheckTag(mark, tag);
    if (const size_t begin = BehindAnchorAndTag(text_, mark.pos); IsUnclosed(text_, begin)) {
      Abandon(mark, absl::StrCat("not YAML: the quote ", std::string(1, text_[begin]), " is not closed"));
    }
    const bool null = !quoted && (value == "~" || value == "null" || value.empty());
    YamlNode node = Node(null ? YamlNode::Kind::kNull : YamlNode::Kind::kScalar, mark);
    node.text = value;
    node.quoted = quoted;
    Add(std::move(node), anchor, mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    CheckTag(mark, tag);
    Open(YamlNode::Kind::kSequence, mark, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, anchor_t anchor, YAML::EmitterStyle::value) override {
    CheckTag(mark, tag);
    Open(YamlNode::Kind::kMap, mark, anchor);
  }
  void OnMapEnd() override { Close(); }

  YamlNode TakeRoot() { return std::move(root_); }
  // Where the document began.
  const SourceMark& start() const { return start_; }

 private:
  struct OpenNode {
    YamlNode node;
    anchor_t anchor = 0;
    std::optional<YamlEntry> key;  // in a map: the key whose value comes next
    std::set<std::string> keys;
  };

  SourceMark At(const YAML::Mark& mark) const { return {source_, mark.line + 1, mark.column + 1}; }

  YamlNode Node(YamlNode::Kind kind, const YAML::Mark& mark) const {
    YamlNode node;
    node.kind = kind;
    node.mark = At(mark);
    return node;
  }

  // Returns line `number`, from 1, without its comment and the blanks around it.
  std::string LineAt(int number) {
    if (lines_.empty()) {
      lines_ = absl::StrSplit(absl::string_view(text_.data(), text_.size()), '\n');
    }
    const bool is_there = number >= 1 && static_cast<size_t>(number) <= lines_.size();
    const absl::string_view line = is_there ? lines_[static_cast<size_t>(number) - 1] : absl::string_view();
    return std::string(WithoutComment({line.data(), line.size()}));
  }

  // Accepts only the tags of YAML's own types, such as !!str, and only in files that may have tags. These tags have no
  // effect, because the type of a value follows from its field.
  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    constexpr std::string_view kOwn = "tag:yaml.org,2002:";
    constexpr std::string_view kTypes[] = {"bool", "float", "int", "map", "null", "seq", "str"};
    const bool is_own = tag.starts_with(kOwn);
    const std::string type = is_own ? tag.substr(kOwn.size()) : "";
    const bool is_type = std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
    if (!tag.empty() && tag != "?" && tag != "!" && (kind_.is_plain || !is_type)) {
      const std::string shown = Shortened(is_own ? "!!" + type : tag, kMaxShownKey);
      Abandon(mark, tag.starts_with("!include")
                        ? ExplainBareLine(tag, kind_)
                        : absl::StrCat("the tag '", shown,
                                       "' is not supported; remove it, or put a text that begins with '!' in quotes"));
    }
  }

  void CheckAnchor(const SourceMark& mark) {
    if (kind_.is_plain) {
      problems_->push_back({mark, "",
                            absl::StrCat("a value that begins with '&' has an anchor, which ", kind_.files,
                                         " do not have; remove it, or put the value in quotes")});
      throw Abandoned();
    }
  }

  [[noreturn]] void Abandon(const YAML::Mark& mark, std::string message) {
    problems_->push_back({At(mark), "", std::move(message), "", {}});
    throw Abandoned();
  }

  void Open(YamlNode::Kind kind, const YAML::Mark& mark, anchor_t anchor) {
    if (open_.size() >= kMaxYamlDepth) {
      Abandon(mark, absl::StrCat("a value is nested deeper than ", kMaxYamlDepth, " levels"));
    }
    open_.push_back({Node(kind, mark), anchor, std::nullopt, {}});
  }

  void Close() {
    OpenNode closed = std::move(open_.back());
    open_.pop_back();
    const YAML::Mark mark = YAML::Mark::null_mark();
    Add(std::move(closed.node), closed.anchor, mark);
  }

  void Add(YamlNode node, anchor_t anchor, const YAML::Mark& mark = YAML::Mark::null_mark()) {
    if (++num_nodes_ > kMaxYamlNodes) {
      Abandon(mark,
              absl::StrCat("there are more than ", kMaxYamlNodes, " values, counting what each alias stands for"));
    }
    if (anchor != 0) {
      CheckAnchor(node.mark);
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (open_.back().node.kind == YamlNode::Kind::kSequence) {
      open_.back().node.items.push_back(std::move(node));
    } else {
      AddToMap(&open_.back(), std::move(node));
    }
  }

  void AddToMap(OpenNode* map, YamlNode node) {
    if (!map->key.has_value()) {
      if (node.kind == YamlNode::Kind::kSequence || node.kind == YamlNode::Kind::kMap) {
        auto foreign = FindOtherLanguage(text_, source_, kind_);
        problems_->push_back(foreign.has_value()
                                 ? *std::move(foreign)
                                 : Problem{node.mark, "", "a key must be a word, not a list or a mapping"});
        throw Abandoned();
      }
      map->key = YamlEntry{node.text, node.mark, {}};
      return;
    }
    YamlEntry entry = *std::exchange(map->key, std::nullopt);
    if (node.kind == YamlNode::Kind::kNull && node.text.empty() && LineAt(entry.mark.line) == entry.key) {
      problems_->push_back({entry.mark, "", ExplainBareLine(entry.key, kind_)});
      throw Abandoned();  // yaml-cpp itself accepts such a line if it is the last one of a mapping.
    }
    if (!map->keys.insert(entry.key).second) {
      const auto first = std::find_if(map->node.entries.begin(), map->node.entries.end(),
                                      [&](const YamlEntry& other) { return other.key == entry.key; });
      problems_->push_back({entry.mark,
                            "",
                            absl::StrCat("the key '", Shortened(entry.key, kMaxShownKey),
                                         "' appears twice; first in line ", first->mark.line),
                            "",
                            {}});
      return;
    }
    if (node.kind == YamlNode::Kind::kNull && node.text.empty()) {
      node.mark = entry.mark;  // As the position of an empty value, yaml-cpp gives that of the next key.
    }
    entry.value = std::move(node);
    map->node.entries.push_back(std::move(entry));
  }

  const std::string_view text_;
  std::vector<absl::string_view> lines_;  // The lines of the text; split when the first is needed.
  const std::string source_;
  const YamlKind& kind_;
  std::vector<Problem>* const problems_;
  std::vector<OpenNode> open_;
  std::map<anchor_t, YamlNode> anchors_;
  SourceMark start_;
  YamlNode root_;
  int num_nodes_ = 0;
};

// Whether the second document, which begins at `start`, is the empty one behind a "---" in the last line with text.
bool IsEmptyBehind(std::string_view text, const SourceMark& start) {
  size_t at = 0;
  for (int line = 1; line < start.line && at != std::string_view::npos; ++line) {
    at = text.find('\n', at) + 1;
  }
  const std::string_view rest = text.substr(std::min(at, text.size()));
  return rest.starts_with("---") && IsEmptyYaml(rest.substr(3));
}

}  // namespace

std::string SourceMark::ToString() const { return line == 0 ? source : absl::StrCat(source, ":", line, ":", column); }

bool IsEmptyYaml(std::string_view text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
  return std::all_of(lines.begin(), lines.end(), [](absl::string_view whole) {
    const absl::string_view line = absl::StripAsciiWhitespace(whole);
    return line.empty() || line.front() == '#';
  });
}

std::optional<YamlNode> ParseYaml(std::string_view text, const std::string& source, const YamlKind& kind,
                                  std::vector<Problem>* problems) {
  if (text.size() > kMaxYamlBytes) {
    problems->push_back(
        {{source, 0, 0},
         "",
         absl::StrCat("the file has ", text.size(), " bytes; ", kind.file, " has at most ", kMaxYamlBytes),
         "",
         {}});
    return std::nullopt;
  }
  if (auto binary = FindBinary(text, source, kind); binary.has_value() && !IsWideText(text)) {
    problems->push_back(*std::move(binary));
    return std::nullopt;
  }
  if (auto problem = FindEncodingProblem(text, source); problem.has_value()) {
    problems->push_back(*std::move(problem));
    return std::nullopt;
  }
  if (constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF"; text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  if (auto conflict = FindConflictMark(text, source); conflict.has_value()) {
    problems->push_back(*std::move(conflict));
    return std::nullopt;
  }
  if (auto comment = LooksLikeJson(text) ? FindSlashComment(text, source) : std::nullopt; comment.has_value()) {
    problems->push_back(*std::move(comment));
    return std::nullopt;
  }
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(text, source, kind, problems);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      problems->push_back({{source, 0, 0}, "", absl::StrCat("the file has no fields", kind.about_empty), "", {}});
      return std::nullopt;
    }
    YamlNode root = builder.TakeRoot();
    TreeBuilder rest(text, source, kind, problems);
    if (parser.HandleNextDocument(rest) && !IsEmptyBehind(text, rest.start())) {
      auto foreign = FindOtherLanguage(text, source, kind);
      problems->push_back(foreign.has_value() ? *std::move(foreign)
                                              : ExplainSecondDocument(text, rest.start(), root.mark,
                                                                      root.kind == YamlNode::Kind::kScalar, kind));
      return std::nullopt;
    }
    return root;
  } catch (const Abandoned&) {
    return std::nullopt;
  } catch (const YAML::Exception& error) {
    auto foreign = FindOtherLanguage(text, source, kind);
    foreign = foreign.has_value() ? std::move(foreign) : FindSlashComment(text, source);
    problems->push_back(foreign.has_value() ? *std::move(foreign)
                                            : ExplainSyntax(text, {source, error.mark.line + 1, error.mark.column + 1},
                                                            kind, error.msg));
    return std::nullopt;
  }
}

}  // namespace ampd
