#include "data/text/labelled_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "data/jsonl.h"
#include "data/text/word_piece_tokenizer.h"

namespace ampd::text {
namespace {

using ::testing::EndsWith;

class LabelledTextTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/labelled-XXXXXX";
    root_ = mkdtemp(pattern.data());
    tokenizer_ = *WordPieceTokenizer::Make("[UNK]\n[CLS]\n[SEP]\na\nb\n", false);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  LabelledTextOptions With(const std::string& content) {
    std::ofstream(root_ / "in", std::ios::binary) << content;
    return {.text = root_ / "in",
            .classes = {},
            .destination = root_ / "out",
            .replace = true,
            .prefix = {1},
            .suffix = {2}};
  }
  std::string Written() { return ReadFile(root_ / "out", 1 << 20).value_or("nothing"); }
  std::string ErrorOf(const LabelledTextOptions& options) {
    const absl::Status status = WriteLabelledText(options, *tokenizer_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_FALSE(std::filesystem::exists(root_ / "out"));
    return std::string(status.message());
  }

  std::filesystem::path root_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(LabelledTextTest, Columns_AreFoundByTheNamesOfTheFirstLine) {
  const auto written = WriteLabelledText(With("label\tid\ttext\r\n1\tx\ta b\r\n\n0\ty\tB"), *tokenizer_);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(Written(), "{\"input_ids\": [1, 3, 4, 2], \"label\": 1}\n{\"input_ids\": [1, 4, 2], \"label\": 0}\n");
  EXPECT_EQ(written->num_texts, 2);
  EXPECT_EQ(written->num_tokens, 7);
  EXPECT_EQ(written->num_classes, 2);
  EXPECT_EQ(written->longest, 4);
}

TEST_F(LabelledTextTest, JsonLines_HaveFieldsByName) {
  LabelledTextOptions options = With("{\"s\": \"a\\u0062 b\", \"y\": \"no\"}\n{\"y\": \"yes\", \"s\": \"\"}\n");
  options.text_field = "s";
  options.label_field = "y";
  options.classes = {"no", "yes"};
  ASSERT_TRUE(WriteLabelledText(options, *tokenizer_).ok());
  EXPECT_EQ(Written(), "{\"input_ids\": [1, 0, 4, 2], \"label\": 0}\n{\"input_ids\": [1, 2], \"label\": 1}\n");
  ASSERT_TRUE(WriteLabelledText(With("{\"text\": \"a\", \"label\": 7}\n"), *tokenizer_).ok());
  EXPECT_EQ(Written(), "{\"input_ids\": [1, 3, 2], \"label\": 7}\n");
}

TEST_F(LabelledTextTest, ATextThatIsTooLong_IsCutBeforeItsEnd) {
  LabelledTextOptions options = With("text\tlabel\na b a b\t0\na b\t0\n");
  options.max_length = 4;
  const auto written = WriteLabelledText(options, *tokenizer_);
  EXPECT_EQ(Written(), "{\"input_ids\": [1, 3, 4, 2], \"label\": 0}\n{\"input_ids\": [1, 3, 4, 2], \"label\": 0}\n");
  EXPECT_EQ(written->num_cut, 1);
  options.max_length = 2;
  EXPECT_EQ(WriteLabelledText(options, *tokenizer_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LabelledTextTest, LinesThatAreNotAsTheyMustBe_AreNamed) {
  EXPECT_THAT(ErrorOf(With("text\tclass\na\t1\n")),
              EndsWith("in:1: no column is named \"label\"; the first line has text, class"));
  EXPECT_THAT(ErrorOf(With("text\tlabel\na\t1\nb\n")), EndsWith("in:3: has 1 columns; the first line has 2"));
  EXPECT_THAT(ErrorOf(With("text\tlabel\na\tgood\n")),
              EndsWith("in:2: label \"good\" is no number from 0 to 1048575; --classes gives the names of labels that "
                       "are words"));
  EXPECT_THAT(ErrorOf(With("text\tlabel\na\t-1\n")), testing::HasSubstr("label \"-1\" is no number"));
  LabelledTextOptions named = With("text\tlabel\na\tgood\n");
  named.classes = {"bad", "worse"};
  EXPECT_THAT(ErrorOf(named), EndsWith("in:2: label \"good\" is none of bad, worse"));
  for (const char* line :
       {"{\"text\": \"a\"}", "[1]", "{\"text\": 1, \"label\": 1}", "{\"text\": \"a\", \"label\": 0.5}"}) {
    EXPECT_THAT(ErrorOf(With(line)), EndsWith("in:1: is no JSON object with a string \"text\" and a label \"label\""));
  }
  EXPECT_THAT(ErrorOf(With("{\"text\": \"a\", \"label\": 1")),
              EndsWith("in:1: is no JSON object with a string \"text\" and a label \"label\": it is no JSON"));
  EXPECT_THAT(ErrorOf(With("text\tlabel\n")), EndsWith("in: has no text"));
}

// The byte is behind the part of the file by whose content the command recognises JSON lines.
TEST_F(LabelledTextTest, AByteOfZeroInAJsonLine_IsNamedByItsPlace) {
  const std::string line = "{\"text\": \"a\", \"label\": 1}";
  std::string lines;
  int num_lines = 0;
  for (; lines.size() < 100'000; ++num_lines) {
    lines += line + "\n";
  }
  EXPECT_THAT(
      ErrorOf(With(lines + line + std::string("\0{", 2))),
      EndsWith(absl::StrCat("in:", num_lines + 1, ": is no JSON object with a string \"text\" and a label ",
                            "\"label\": it is no JSON from byte ", line.size() + 1, " on: that byte has the value 0")));
}

TEST_F(LabelledTextTest, ATextWithoutATokenForAJob_IsNamed) {
  LabelledTextOptions bare = With("text\tlabel\na\t1\n\t0\n");
  bare.prefix.clear();
  bare.suffix.clear();
  EXPECT_THAT(ErrorOf(bare), EndsWith("in:3: its text has no token; a job takes texts of one or more"));
}

TEST_F(LabelledTextTest, ALineThatNoJobWouldRead_IsNamed) {
  static_assert(kMaxLabelledLineBytes == data::kMaxJsonlLineBytes);
  std::string text;
  while (text.size() < 2 * kMaxLabelledLineBytes / 3 + 2) {
    text += "a ";
  }
  LabelledTextOptions options = With(absl::StrCat("text\tlabel\na\t1\n", text, "\t0\n"));
  EXPECT_THAT(ErrorOf(options),
              testing::ContainsRegex("in:3: has [0-9]+ tokens in a line of [0-9]+ bytes; a job reads at most 16777216; "
                                     "--max-length cuts texts$"));
  options.max_length = 3;
  const auto written = WriteLabelledText(options, *tokenizer_);
  EXPECT_TRUE(written.ok()) << written.status();
}

// The quotation marks that CSV puts around a cell must not become part of the text on which a job trains.
TEST_F(LabelledTextTest, ATableOfPandas_IsWrittenWithoutItsQuotationMarks) {
  for (const char* table :
       {"text\tlabel\n\"a \"\"b\"\"\"\t1\n\"b\na\"\t0\n", "label,text\n1,\"a \"\"b\"\"\"\n0,\"b\na\"\n",
        "\xef\xbb\xbf\"text\"\t\"label\"\r\n\"a \"\"b\"\"\"\t1\r\n\"b a\"\t0\r\n"}) {
    const auto written = WriteLabelledText(With(table), *tokenizer_);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(Written(),
              "{\"input_ids\": [1, 3, 0, 4, 0, 2], \"label\": 1}\n{\"input_ids\": [1, 4, 3, 2], \"label\": 0}\n")
        << table;
    EXPECT_EQ(written->table.quotes, Quotes::kCsv);
  }
  std::filesystem::remove(root_ / "out");
  LabelledTextOptions as_text = With("text\tlabel\n\"a\"\t1\n");
  EXPECT_THAT(ErrorOf(as_text), testing::HasSubstr("in:2: quotation marks stand around a cell"));
  as_text.quotes = Quotes::kNone;
  ASSERT_TRUE(WriteLabelledText(as_text, *tokenizer_).ok());
  EXPECT_EQ(Written(), "{\"input_ids\": [1, 0, 3, 0, 2], \"label\": 1}\n");
}

TEST_F(LabelledTextTest, WhatAFileHolds_IsToldByItsContentAndNotByItsName) {
  std::filesystem::rename(With("text\tlabel\na\t1\n").text, root_ / "table.jsonl");
  LabelledTextOptions named = With("");
  named.text = root_ / "table.jsonl";
  const auto table = WriteLabelledText(named, *tokenizer_);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_FALSE(table->is_json);
  EXPECT_TRUE(WriteLabelledText(With("\n {\"text\": \"a\", \"label\": 1}\n"), *tokenizer_)->is_json);
}

TEST_F(LabelledTextTest, AColumnOrAKeyThatIsThereTwice_IsNamed) {
  EXPECT_THAT(ErrorOf(With("text\tlabel\ttext\na\t1\tb\n")), EndsWith("in:1: two columns are named \"text\""));
  EXPECT_THAT(ErrorOf(With("id,text,label,id\n1,a,1,2\n")), EndsWith("in:1: two columns are named \"id\""));
  EXPECT_THAT(ErrorOf(With("{\"text\": \"a\", \"label\": 1, \"text\": \"b\"}\n")),
              EndsWith("in:1: has the key \"text\" twice in an object"));
  EXPECT_THAT(ErrorOf(With("{\"text\": \"a\", \"label\": 1, \"l\\u0061bel\": 2}\n")),
              EndsWith("in:1: has the key \"label\" twice in an object"));
}

TEST_F(LabelledTextTest, AFileThatIsNoText_IsNamed) {
  EXPECT_THAT(ErrorOf(With("PAR1" + std::string(100, '\0'))), EndsWith("in: is a Parquet file, and no text"));
  EXPECT_THAT(ErrorOf(With(std::string("\x1f\x8b\x08\0\0\0\0\0\0\3", 10) + std::string(100, '\7'))),
              EndsWith("in: is compressed by gzip, and no text"));
}

}  // namespace
}  // namespace ampd::text
