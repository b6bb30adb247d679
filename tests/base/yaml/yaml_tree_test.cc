#include "base/yaml/yaml_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/yaml/look_alike.h"

namespace ampd {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr YamlKind kLists = {
    .file = "a list", .files = "lists", .content = "one list", .about_archives = "; a list is a text"};
constexpr YamlKind kPlainLists = {.file = "a list",
                                  .files = "lists",
                                  .content = "one list",
                                  .about_archives = "; a list is a text",
                                  .is_plain = true};

// The first problem of the text, with its position; empty if there is none.
std::string ProblemOf(const std::string& text, const YamlKind& kind) {
  std::vector<Problem> problems;
  ParseYaml(text, "f", kind, &problems);
  return problems.empty() ? "" : absl::StrCat(problems[0].mark.ToString(), ": ", problems[0].message);
}

TEST(YamlTree, MessagesHaveTheNamesOfTheKindOfFile) {
  EXPECT_THAT(ProblemOf("a: 1\n---\nb: 2\n", kLists), HasSubstr("; a list holds one list"));
  EXPECT_THAT(ProblemOf("PK\x03\x04", kLists), HasSubstr("the file is a ZIP archive; a list is a text"));
  EXPECT_THAT(ProblemOf("[section]\nname = value\n", kLists), HasSubstr("TOML or INI; a list is YAML"));
  EXPECT_THAT(ProblemOf(std::string(kMaxYamlBytes + 1, 'a'), kLists), HasSubstr("; a list has at most"));
  EXPECT_THAT(ProblemOf("a: !<\n", kLists), HasSubstr("a tag, which lists do not have"));
}

TEST(YamlTree, JsonWithComments_IsNamedAsSuch) {
  for (const char* text :
       {"// c\n{\"a\": 1}", "{\"a\": 1, // c\n \"b\": 2}", "{\n  // c\n \"a\": 1}", "{\"a\": 1} // c\n",
        "{\"a\": \"x//y\", /* c */ \"b\": 2}", "/* c */\n[1]", "// c\na: 1\n"}) {
    EXPECT_THAT(ProblemOf(text, kLists), HasSubstr("JSON has no comments; YAML has # comments")) << text;
  }
  EXPECT_THAT(ProblemOf("{\"a\": 1,\n \"b\": 2, // c\n}", kLists), StartsWith("f:2:10: '//' begins no comment"));
  // In these texts, // does not begin a comment.
  for (const char* text : {"{a: x//y, b: http://z}", "{\"a\": \" // \"}", "{a: //x}", "{a: 1 # // c\n}", "a: //x\n",
                           "{\"a\": \"\\\" // \"}", "a: >\n  x // y\n"}) {
    EXPECT_EQ(ProblemOf(text, kLists), "") << text;
  }
}

TEST(YamlTree, TwoJsonValues_AreNamedAsSuch) {
  EXPECT_EQ(ProblemOf("{\"a\": 1}\n{\"a\": 2}\n", kLists),
            "f:2:1: a second JSON value begins here; a list holds one list");
  EXPECT_EQ(ProblemOf("{\"a\": 1} {\"a\": 2}\n", kLists),
            "f:1:10: a second JSON value begins here; a list holds one list");
}

TEST(YamlTree, AMarkAtTheEnd_BeginsNoSecondDocument) {
  for (const char* text : {"a: 1\n---\n", "---\na: 1\n---", "a: 1\n---  # end\n\n# bye\n"}) {
    EXPECT_EQ(ProblemOf(text, kLists), "") << text;
  }
  for (const char* text : {"a: 1\n---\n---\nb: 2\n", "a: 1\n--- b\n", "a: 1\n---\n~\n"}) {
    EXPECT_THAT(ProblemOf(text, kLists), HasSubstr("a second YAML document begins here")) << text;
  }
}

TEST(YamlTree, AScript_IsNamedAsSuch) {
  EXPECT_THAT(ProblemOf("#!/bin/bash\nx: (a: b\n  c: d\n", kLists), HasSubstr("the file is a script ('#!/bin/bash')"));
}

TEST(YamlTree, AnUnclosedQuoteBehindAnAnchorOrATag_IsReported) {
  EXPECT_EQ(ProblemOf("labels:\n  note: &n \"unclosed\nbogus: 3\nprecision: {preset: nonsense}\n", kLists),
            "f:2:9: not YAML: the quote \" is not closed");
  for (const char* properties : {"&n ", "!!str ", "! ", "&n !!str ", "!!str  &n ", "&n\n    ", "&n\r\n    ",
                                 "&n # c\n    ", "!!str # \"\n    # c\n    ", "!<tag:yaml.org,2002:str> "}) {
    for (const char quote : {'"', '\''}) {
      const std::string open = absl::StrCat("a:\n  b: ", properties, std::string(1, quote), "x");
      const std::string closed = absl::StrCat(open, std::string(1, quote), "\n");
      EXPECT_EQ(ProblemOf(open + "\nbogus: 3\n", kLists),
                absl::StrCat("f:2:6: not YAML: the quote ", std::string(1, quote), " is not closed"));
      EXPECT_EQ(ProblemOf(closed + "c: it's\n", kLists), "") << closed;
      EXPECT_EQ(
          ProblemOf(absl::StrCat("[", properties, std::string(1, quote), "x", std::string(1, quote), "]\n"), kLists),
          "");
    }
  }
  for (const char* text : {"a: &n\nb: it's\n", "a: &n it's\n", "a: !!str it's\n", "a: &n |\n  \"x\nb: 1\n",
                           "a: &n [\"x\"]\n", "&k \"a\": 1\n", "a: &n \"b\"\nc: *n\n"}) {
    EXPECT_EQ(ProblemOf(text, kLists), "") << text;
  }
}

TEST(YamlTree, AMisplacedColon_IsExplainedByItsLine) {
  EXPECT_THAT(ProblemOf("a: b: 1\n", kLists), HasSubstr("two fields stand in one line; write a: {b: 1}, or "));
  EXPECT_THAT(ProblemOf("a:\n  b: 1\n\n   c: 2\n", kLists),
              HasSubstr("f:4:5: not YAML: indented deeper than line 2, whose field has a value"));
  EXPECT_EQ(ProblemOf("a:\n  b: 1\n", kLists), "");
}

TEST(YamlTree, ALookAlikeThatBreaksTheSyntax_IsNamed) {
  EXPECT_THAT(ProblemOf("a: \u201cx: y\u201d\n", kLists), HasSubstr("is U+201D (right double quotation mark)"));
  EXPECT_EQ(
      ProblemOf("a\uff1a x\nb: 1\n", kLists),
      "f:1:2: not YAML: the character in line 1, column 2 is U+FF1A (full-width form :), which looks like :; type "
      "a plain :");
}

TEST(YamlTree, ALineWithoutAField_IsNamedAndNotALaterOne) {
  const std::pair<const char*, const char*> cases[] = {
      {"t:\n  steps:2000  # or epochs\n  clip: 1\n", "f:2:3: a ':' needs a space after it: steps: 2000"},
      {"t:\n  steps = 2000\n  clip: 1\n", "f:2:3: not YAML: the line has no ':'; write steps: 2000"},
      {"t:\n  steps 2000\n  clip: 1\n", "f:2:3: not YAML: the line has no ':'; write steps: 2000"},
      {"t:\n  steps  # or epochs\n  clip: 1\n", "f:2:3: not YAML: the line has no ':'; write steps:"},
      {"t:\n  steps: 1  # or epochs\n  clip:1.0\n  seed: 0\n", "f:3:3: a ':' needs a space after it: clip: 1.0"},
      {"t:\n  steps: 1\n  seed:0\n\n# the end\neval:\n  a: 1\n", "f:3:3: a ':' needs a space after it: seed: 0"},
      {"t:\n  a: 1\n  b:2\n  c:3\n  d: 4\n", "f:3:3: a ':' needs a space after it: b: 2"},
      {"name:lenet\n\nmodel:\n  a: 1\n", "f:1:1: a ':' needs a space after it: name: lenet"},
      {"a: 1\nb:[8, 16]\nc: 2\n", "f:2:1: a ':' needs a space after it: b: [8, 16]"},
      {"- match: head\n  compute:fp32\n  parameter: fp32\n", "f:2:3: a ':' needs a space after it: compute: fp32"},
      {"a:\n-8\n-16\nb: 3\n", "f:2:1: a '-' needs a space after it: - 8"},
      {"a:\n  -match: head\n   compute: fp32\n", "f:2:3: a '-' needs a space after it: - match: head"},
      {"a: 1\n!include x.yaml\nb:\n  c: 2\n", "f:2:1: '!include' is not supported: lists include no other files;"},
      {"a: 1\nb=2\n", "f:2:1: not YAML: the line has no ':'; write b: 2"},
      {"a: 1\nb 2  # two\n", "f:2:1: not YAML: the line has no ':'; write b: 2"},
      {"some words of a text\na: 1\n",
       "f:1:1: not YAML: the line has no ':'; a field is written as NAME: VALUE, and a comment begins with #"},
  };
  for (const auto& [text, problem] : cases) {
    EXPECT_THAT(ProblemOf(text, kLists), StartsWith(problem)) << text;
  }
  // In these texts, the line before the mistake belongs to a text of several lines.
  for (const char* text : {"a: |\n  steps 2000\n  b:3\nc: d: e\n", "a:\n  one text\n  in two lines\nc: d: e\n",
                           "a: one text\n  in two lines\nc: d: e\n"}) {
    EXPECT_THAT(ProblemOf(text, kLists), HasSubstr("two fields stand in one line")) << text;
  }
}

TEST(YamlTree, TextAfterAClosingQuote_IsNamed) {
  EXPECT_EQ(ProblemOf("a: \"lenet\" two\n", kLists),
            "f:1:12: not YAML: there is text after the closing quote: two; put all of the value in one pair of quotes, "
            "or remove the text");
  EXPECT_THAT(ProblemOf("a: 'it's late'\nb: 1\n", kLists), HasSubstr("within single quotes, write '' for a '"));
  EXPECT_THAT(ProblemOf("a: {b: \"x\" y}\n", kLists), StartsWith("f:1:12: not YAML: there is text after"));
  EXPECT_THAT(ProblemOf("a: {b: \"x\", c: 'y' # y\n", kLists), HasSubstr("is not closed"));
}

TEST(YamlTree, TextOutsideTheDocument_IsNamed) {
  EXPECT_THAT(ProblemOf("plain text\n# a comment\na: 1\n", kLists), StartsWith("f:1:1: not YAML: the line has no ':'"));
  EXPECT_EQ(ProblemOf("a: 1\n...\njunk\n", kLists),
            "f:3:1: the '...' in line 2 ends the document, so there must be no text after it; remove the line or the "
            "text");
  EXPECT_EQ(ProblemOf("{\"a\": 1}\njunk\n", kLists), "f:2:1: there is text after the end of the value; remove it");
}

TEST(YamlTree, MarksOfMergeConflictsAndOfMarkdown_AreNamed) {
  for (const char* mark : {"<<<<<<< HEAD", "=======", ">>>>>>> branch", "||||||| base"}) {
    EXPECT_THAT(ProblemOf(absl::StrCat("a: 1\n", mark, "\nb: 2\n"), kLists),
                testing::AllOf(StartsWith("f:2:1: '"), HasSubstr("is a mark of a merge conflict in git")))
        << mark;
  }
  EXPECT_EQ(ProblemOf("```yaml\na: 1\n```\n", kLists),
            "f:1:1: not YAML: '```' begins or ends a code block of Markdown; remove the line");
  EXPECT_THAT(ProblemOf("a: 1\n```\n", kLists), StartsWith("f:2:1: not YAML: '```' begins or ends a code block"));
  EXPECT_EQ(ProblemOf("a: |\n  <<<<<<< x\n  ```\n", kLists), "");
}

TEST(YamlTree, ABareLineWithAnInvisibleCharacter_NamesIt) {
  EXPECT_EQ(ProblemOf("a: 1\n\ufeff\nb: 2\n", kLists),
            "f:2:1: not YAML: the character in line 2, column 1 is U+FEFF (zero width no-break space), which nobody "
            "sees; remove it");
}

TEST(YamlTree, NoBreakSpacesAsIndentation_AreNamedInTheFirstOfTheirLines) {
  EXPECT_EQ(ProblemOf("a:\n\u00a0\u00a0b:\n\u00a0\u00a0\u00a0\u00a0c: 1\n    d: 2\n", kLists),
            "f:4:6: not YAML: indented deeper than line 3, whose field has a value; let both begin in the same column; "
            "the character in line 2, column 1 is U+00A0 (no-break space), which looks like a space; type a plain "
            "space; the file has 5 more of this character");
}

TEST(LookAlikes, OfATextWithoutLines_AreQuoted) {
  std::vector<LookAlike> found = FindLookAlikes("n\u0430me");
  ASSERT_EQ(found.size(), 1);
  found[0].line = 0;
  EXPECT_EQ(ExplainLookAlike(found[0]),
            "the character '\u0430' is U+0430 (Cyrillic small letter a), which looks like a; type a plain a");
}

TEST(LookAlikes, AreFoundWithTheirPlaces) {
  const std::vector<LookAlike> found =
      FindLookAlikes("n\u0430me: \u201cx\u201d\n# \u00e9\nq: \uff11\u200b\u2013\u0663\n");
  std::string all;
  for (const LookAlike& one : found) {
    absl::StrAppend(&all, one.line, ":", one.shown_column, " ", one.code, " ", one.name, " '", one.plain, "'\n");
  }
  EXPECT_EQ(all,
            "1:2 U+0430 Cyrillic small letter a 'a'\n1:7 U+201C left double quotation mark '\"'\n"
            "1:9 U+201D right double quotation mark '\"'\n3:4 U+FF11 full-width form 1 '1'\n"
            "3:5 U+200B zero width space ''\n3:6 U+2013 en dash '-'\n3:7 U+0663 Arabic-Indic digit 3 '3'\n");
  EXPECT_EQ(WithPlainCharacters("n\u0430me\u200b\uff5e\u00e9"), "name~\u00e9");
}

TEST(YamlTree, APlainKindHasNoAnchorsAliasesAndTags) {
  EXPECT_EQ(ProblemOf("a: &x 1\nb: *x\n", kLists), "");
  EXPECT_EQ(ProblemOf("a: !!str 1\n", kLists), "");
  EXPECT_THAT(ProblemOf("a: &x 1\n", kPlainLists), StartsWith("f:1:4: a value that begins with '&' has an anchor"));
  EXPECT_THAT(ProblemOf("a: &x [1]\n", kPlainLists), HasSubstr("has an anchor, which lists do not have"));
  EXPECT_THAT(ProblemOf("a: 1\nb: *x\n", kPlainLists), StartsWith("f:2:4: "));
  EXPECT_THAT(ProblemOf("a: 1\nb: !!str 2\n", kPlainLists), StartsWith("f:2:4: the tag "));
  EXPECT_EQ(ProblemOf("a: '&x'\nb: \"*x\"\nc: '!x'\n", kPlainLists), "");
}

TEST(YamlTree, ATextOfCommentsIsEmpty) {
  EXPECT_TRUE(IsEmptyYaml(""));
  EXPECT_TRUE(IsEmptyYaml("\n  # a: 1\n\t\n"));
  EXPECT_FALSE(IsEmptyYaml("# a\na: 1\n"));
}

}  // namespace
}  // namespace ampd
