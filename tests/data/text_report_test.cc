#include "data/text_report.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/file_report.h"
#include "tests/data/data_folder.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Inspects files of JSON lines.
class TextReportTest : public DataFolderTest {
 protected:
  v1::DatasetFile Inspect(const std::string& content) {
    Write("f", content);
    const auto report = InspectFile(At("f"));
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(v1::DatasetFile());
  }
};

constexpr char kTexts[] =
    "{\"input_ids\": [101, 7, 102], \"label\": 2}\n"
    "{\"label\": 0, \"input_ids\": [5]}\r\n"
    "{\"input_ids\": [4, 30000], \"label\": 2}";

TEST_F(TextReportTest, JsonLines_AreTheArraysThatAJobMakesOfThem) {
  for (const bool gzip : {false, true}) {
    const v1::DatasetFile report = Inspect(gzip ? Gzip(kTexts) : kTexts);
    EXPECT_EQ(report.format(), v1::DatasetFile::JSONL);
    EXPECT_EQ(report.gzip(), gzip);
    EXPECT_THAT(report.problems(), IsEmpty());
    ASSERT_EQ(report.arrays_size(), 2);
    const v1::DatasetArray& tokens = report.arrays(0);
    EXPECT_EQ(tokens.name(), "input_ids");
    EXPECT_EQ(tokens.dtype(), "int64");
    EXPECT_THAT(tokens.shape(), ElementsAre(3));
    EXPECT_EQ(tokens.min(), 4);
    EXPECT_EQ(tokens.max(), 30000);
    EXPECT_EQ(tokens.lengths().min(), 1);
    EXPECT_EQ(tokens.lengths().max(), 3);
    EXPECT_EQ(tokens.lengths().mean(), 2);
    EXPECT_THAT(tokens.class_counts(), IsEmpty());
    const v1::DatasetArray& labels = report.arrays(1);
    EXPECT_EQ(labels.name(), "labels");
    EXPECT_EQ(labels.dtype(), "int64");
    EXPECT_THAT(labels.shape(), ElementsAre(3));
    EXPECT_EQ(labels.min(), 0);
    EXPECT_EQ(labels.max(), 2);
    EXPECT_THAT(labels.class_counts(), ElementsAre(1, 0, 2));
    EXPECT_FALSE(labels.has_lengths());
  }
}

TEST_F(TextReportTest, TextsWithoutALabel_AreThoseOfAPrediction) {
  const v1::DatasetFile report = Inspect("{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [4], \"token_type_ids\": [1]}\n");
  EXPECT_THAT(report.problems(), IsEmpty());
  EXPECT_THAT(report.notes(),
              ElementsAre("no line has a label: the file is for data.predict, and not for data.train or data.eval"));
  ASSERT_EQ(report.arrays_size(), 2);
  EXPECT_EQ(report.arrays(0).name(), "input_ids");
  EXPECT_THAT(report.arrays(0).shape(), ElementsAre(2));
  EXPECT_EQ(report.arrays(1).name(), "token_type_ids");
  EXPECT_THAT(Inspect(kTexts).notes(), IsEmpty());
}

TEST_F(TextReportTest, TextsOfWhichOnlySomeHaveALabel_AreAProblem) {
  constexpr char kWithout[] = "{\"input_ids\": [1]}";
  const auto problems = [this](const std::string& content) {
    const v1::DatasetFile report = Inspect(content);
    EXPECT_THAT(report.arrays(), IsEmpty());
    return std::vector<std::string>(report.problems().begin(), report.problems().end());
  };
  EXPECT_THAT(problems(absl::StrCat(kWithout, "\n", kTexts)), ElementsAre("f: line 1: label is missing"));
  EXPECT_THAT(problems(absl::StrCat(kTexts, "\n", kWithout, "\n", kWithout)),
              ElementsAre("f: line 4: label is missing"));
}

TEST_F(TextReportTest, TypesOfTokens_AreToldWhereAnyLineHasThem) {
  const std::string typed = "\n{\"input_ids\": [1, 2, 3, 4], \"token_type_ids\": [1, 1, 2, 2], \"label\": 1}";
  const v1::DatasetFile report = Inspect(kTexts + typed);
  ASSERT_EQ(report.arrays_size(), 3);
  const v1::DatasetArray& types = report.arrays(2);
  EXPECT_EQ(types.name(), "token_type_ids");
  EXPECT_THAT(types.shape(), ElementsAre(4));
  EXPECT_EQ(types.min(), 0) << "of the lines without";
  EXPECT_EQ(types.max(), 2);
  EXPECT_EQ(types.lengths().mean(), 2.5);
  EXPECT_EQ(Inspect(typed.substr(1)).arrays(2).min(), 1);
}

TEST_F(TextReportTest, ClassesOfTexts_AreCountedUpToSoMany) {
  const auto labels = [this](int64_t last) {
    return Inspect(absl::StrCat("{\"input_ids\": [1], \"label\": 3}\n{\"input_ids\": [1], \"label\": ", last, "}\n"))
        .arrays(1);
  };
  EXPECT_EQ(labels(65535).class_counts_size(), 65536);
  EXPECT_EQ(labels(65535).class_counts(65535), 1);
  EXPECT_EQ(labels(65536).max(), 65536);
  EXPECT_THAT(labels(65536).class_counts(), IsEmpty());
}

TEST_F(TextReportTest, JsonLines_AreKnownByTheFirstByteThatIsNoBlank) {
  const auto sound = [this](const std::string& content) {
    const v1::DatasetFile report = Inspect(content);
    return report.format() == v1::DatasetFile::JSONL && report.problems().empty();
  };
  const auto problem = [this](const std::string& content) {
    const v1::DatasetFile report = Inspect(content);
    EXPECT_EQ(report.format(), v1::DatasetFile::JSONL) << content;
    EXPECT_THAT(report.arrays(), IsEmpty()) << content;
    return report.problems().empty() ? "" : report.problems(0);
  };
  EXPECT_TRUE(sound(std::string(100, ' ') + kTexts));
  EXPECT_TRUE(sound(std::string(200'000, '\t') + kTexts)) << "behind the first piece that is read";
  EXPECT_TRUE(sound(std::string("\xef\xbb\xbf") + kTexts)) << "with a mark of UTF-8";
  EXPECT_EQ(problem("{"), "f: line 1: no JSON from byte 2 on");
  EXPECT_EQ(problem(std::string("\n") + kTexts), "f: line 1: no JSON from byte 1 on");
  EXPECT_EQ(problem("{\n  \"input_ids\": [1]\n}\n"), "f: line 1: no JSON from byte 2 on") << "a line is an object";
  EXPECT_EQ(problem("{}"), "f: line 1: input_ids is missing");
  EXPECT_EQ(problem("{\"model\": 1}"),
            "f: line 1: \"model\" is no member of a line; input_ids, label and token_type_ids are");
  EXPECT_EQ(problem("{       {"), "f: line 1: no JSON from byte 9 on") << "no length of safetensors";
}

TEST_F(TextReportTest, ProblemsOfJsonLines_AreInTheReadersWords) {
  const auto problems = [this](const std::string& content) {
    const v1::DatasetFile report = Inspect(content);
    EXPECT_EQ(report.format(), v1::DatasetFile::JSONL);
    EXPECT_THAT(report.arrays(), IsEmpty());
    return std::vector<std::string>(report.problems().begin(), report.problems().end());
  };
  EXPECT_THAT(problems(absl::StrCat(kTexts, "\n{\"input_ids\": [], \"label\": 0}")),
              ElementsAre("f: line 4: input_ids has no token"));
  EXPECT_THAT(problems("{\"input_ids\": [1, 4294967296], \"label\": 0}"),
              ElementsAre("f: line 1: input_ids[1] is 4294967296; a job takes at most 4294967295"));
  EXPECT_THAT(problems(absl::StrCat(kTexts, "\n{\"input_ids\": [1]", std::string(1, '\0'), "}")),
              ElementsAre("f: line 4: no JSON from byte 18 on: that byte has the value 0"));
  EXPECT_THAT(problems(absl::StrCat(kTexts, "\n{\"input_ids\": [1]\x01}")),
              ElementsAre(HasSubstr("f: line 4: no JSON from byte ")));
  const std::string packed = Gzip(kTexts);
  EXPECT_THAT(problems(packed.substr(0, packed.size() - 4)), ElementsAre("f: the gzip stream is cut off"));
}

}  // namespace
}  // namespace ampd::data
