#include "data/text/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace ampd::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Rows = std::vector<std::vector<std::string>>;

class TableTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/table-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // Detects the format of a table and returns it as "tab none" or "comma csv"; or returns the error message.
  std::string Format(const std::string& content, Quotes quotes = Quotes::kAuto) {
    std::ofstream(root_ / "in", std::ios::binary) << content;
    const auto format = FormatOfTable(root_ / "in", quotes);
    if (!format.ok()) {
      EXPECT_EQ(format.status().code(), absl::StatusCode::kDataLoss);
      return std::string(format.status().message());
    }
    return absl::StrCat(format->delimiter == ',' ? "comma " : "tab ", format->quotes == Quotes::kCsv ? "csv" : "none");
  }
  Rows Read(const std::string& content, Quotes quotes = Quotes::kAuto) {
    std::ofstream(root_ / "in", std::ios::binary) << content;
    const auto format = FormatOfTable(root_ / "in", quotes);
    auto file = TextFile::Open(root_ / "in");
    if (!format.ok() || !file.ok()) {
      ADD_FAILURE() << format.status() << file.status();
      return {};
    }
    TableReader reader(&*file, *format);
    Rows rows;
    std::vector<std::string> cells;
    lines_.clear();
    while ((status_ = reader.Next(&cells)).ok() && !cells.empty()) {
      rows.push_back(cells);
      lines_.push_back(reader.line());
    }
    lines_.push_back(reader.line());
    return rows;
  }

  std::filesystem::path root_;
  absl::Status status_;
  std::vector<int64_t> lines_;
};

// The output of pandas' to_csv(sep="\t") for texts that contain a quotation mark, a tab and a line break.
constexpr char kOfPandas[] =
    "text\tlabel\n"
    "plain\t0\n"
    "\"He said \"\"hi\"\".\"\t1\n"
    "\"a\ttab\"\t0\n"
    "\"two\nlines\"\t1\n";

TEST_F(TableTest, QuotesOfPandas_StandForNothing) {
  EXPECT_EQ(Format(kOfPandas), "tab csv");
  EXPECT_THAT(Read(kOfPandas),
              ElementsAre(ElementsAre("text", "label"), ElementsAre("plain", "0"), ElementsAre("He said \"hi\".", "1"),
                          ElementsAre("a\ttab", "0"), ElementsAre("two\nlines", "1")));
  EXPECT_THAT(lines_, ElementsAre(1, 2, 3, 4, 5, 7));
  EXPECT_TRUE(status_.ok());
}

TEST_F(TableTest, EachSignOfPandasAlone_IsEnough) {
  EXPECT_EQ(Format("text\tlabel\n\"say \"\"hi\"\"\"\t1\n"), "tab csv") << "a mark that is written twice";
  EXPECT_EQ(Format("text\tlabel\n\"a\tb\"\t1\n"), "tab csv") << "a tab in a cell";
  EXPECT_EQ(Format("text\tlabel\n\"a\nb\"\t1\n"), "tab csv") << "an end of line in a cell";
  EXPECT_EQ(Format("\"text\"\t\"label\"\n\"a\"\t1\n\"b\"\t0\n"), "tab csv") << "quoting=csv.QUOTE_NONNUMERIC";
}

// The table is like the files of GLUE, in which texts are not quoted, so a quotation mark is part of the text.
TEST_F(TableTest, QuotesThatAreNotAroundACell_AreText) {
  const std::string of_glue = "sentence\tlabel\n\"Hello,\" she said\t1\nthe 5\" disk\t0\n\" and so on\t1\n";
  EXPECT_EQ(Format(of_glue), "tab none");
  EXPECT_THAT(Read(of_glue)[1], ElementsAre("\"Hello,\" she said", "1"));
  EXPECT_EQ(Format("a\tb\nno marks\t1\n"), "tab none");
  EXPECT_EQ(Format("a\tb\n\"never closed\t1\nfoo\t2\n"), "tab none");
}

TEST_F(TableTest, QuotesThatMayBeEither_MustBeSaid) {
  const std::string open = "text\tlabel\nplain\t0\n\"Hello\"\t1\n";
  EXPECT_THAT(Format(open),
              HasSubstr("in:3: quotation marks stand around a cell, as CSV puts them, and may be a part of "
                        "the text: say --quotes csv or none"));
  EXPECT_THAT(Read(open, Quotes::kCsv)[2], ElementsAre("Hello", "1"));
  EXPECT_THAT(Read(open, Quotes::kNone)[2], ElementsAre("\"Hello\"", "1"));
  EXPECT_THAT(Format("text\tlabel\n5\" disk\t0\n\"say \"\"hi\"\"\"\t1\n"), HasSubstr("say --quotes"))
      << "one mark is no CSV's, and another nobody else's";
}

TEST_F(TableTest, Commas_AreCsvs) {
  const std::string csv = "text,label\r\n\"a, b\",1\r\n\r\n\"say \"\"hi\"\"\",0\r\nplain,1";
  EXPECT_EQ(Format(csv), "comma csv");
  EXPECT_THAT(Read(csv), ElementsAre(ElementsAre("text", "label"), ElementsAre("a, b", "1"),
                                     ElementsAre("say \"hi\"", "0"), ElementsAre("plain", "1")));
  EXPECT_THAT(lines_, ElementsAre(1, 2, 4, 5, 6));
  EXPECT_EQ(Format("a, b\tc\n"), "tab none") << "a comma beside a tab is text";
}

// Line breaks in a quoted cell are part of its text, as in Python's csv module.
TEST_F(TableTest, LineBreaksInACell_AreKeptAsTheyAre) {
  EXPECT_THAT(
      Read("text,label\r\n\"a\r\nb\nc\r\n\r\nd\",1\r\n\"\r\n\",0\r\n"),
      ElementsAre(ElementsAre("text", "label"), ElementsAre("a\r\nb\nc\r\n\r\nd", "1"), ElementsAre("\r\n", "0")));
  EXPECT_THAT(lines_, ElementsAre(1, 2, 7, 9));
  EXPECT_THAT(Read("text\tlabel\r\n\"a\r\nb\"\t1\r\n"), ElementsAre(testing::_, ElementsAre("a\r\nb", "1")));
}

TEST_F(TableTest, MarksThatAreNotAsCsvHasThem_AreNamedByLine) {
  for (const char* wrong : {"5\" disk,1\n", "\"a\"b,1\n", "\"never closed,1\n", "\"a,1\nb\nc"}) {
    EXPECT_THAT(Read(absl::StrCat("text,label\nfine,0\n", wrong)), testing::SizeIs(2)) << wrong;
    EXPECT_EQ(status_.code(), absl::StatusCode::kDataLoss) << wrong;
    EXPECT_THAT(std::string(status_.message()), HasSubstr("quotation marks are not as CSV has them"));
    EXPECT_EQ(lines_.back(), 3) << wrong;
  }
}

TEST_F(TableTest, EmptyCellsAndMarks_AreKept) {
  EXPECT_THAT(Read("a,b,c\n,\"\",\n"), ElementsAre(ElementsAre("a", "b", "c"), ElementsAre("", "", "")));
  EXPECT_THAT(Read("a,b\n\"\"\"\",x\n")[1], ElementsAre("\"", "x"));
}

}  // namespace
}  // namespace ampd::text
