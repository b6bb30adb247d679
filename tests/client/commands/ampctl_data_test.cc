#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "ampd/v1/dataset_file.pb.h"
#include "tests/client/ampctl_fixture.h"
#include "tests/data/npy_bytes.h"

namespace ampd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns a file with two images of 1 x 2 pixels and three channels.
std::string Images() {
  return data::Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 1, 2), }",
                   std::string("\x00\xff\x33\x33\x00\x00\xff\x00\x33\x33\x00\x00", 12));
}

std::string Labels() {
  return data::Npy("{'descr': '<i2', 'fortran_order': False, 'shape': (4,), }", std::string("\1\0\0\0\1\0\2\0", 8));
}

class AmpctlData : public Ampctl {
 protected:
  v1::DatasetFile Inspected(const std::string& arguments) {
    v1::DatasetFile file;
    const Result result = Run(absl::StrCat("data inspect ", arguments, " -o json"), kNoServer);
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(result.out, &file).ok()) << result.out << result.err;
    return file;
  }
};

TEST_F(AmpctlData, Inspect_SaysWhatIsInAFile_WithoutAServer) {
  Write("x.npy", Images());
  Write("y.npy", Labels());
  const Result images = Run("data inspect x.npy", kNoServer);
  EXPECT_EQ(images.exit_code, 0) << images.err;
  EXPECT_EQ(images.out,
            "x.npy: NPY, 140 B\n"
            "NAME   DTYPE  SHAPE         RANGE     MEAN         STD        CLASSES\n"
            "array  uint8  (2, 3, 1, 2)  0 to 255  0.5, 0.2, 0  0.5, 0, 0\n");
  const Result labels = Run("data inspect --no-headers y.npy", kNoServer);
  EXPECT_EQ(labels.out, "y.npy: NPY, 136 B\narray  int16  (4)  0 to 2      3, of 1 to 2 samples\n");
  EXPECT_EQ(labels.err, "");
}

TEST_F(AmpctlData, Inspect_GivesProgramsAllOfIt) {
  Write("y.npy", Labels());
  const v1::DatasetFile file = Inspected("y.npy");
  EXPECT_EQ(file.path(), "y.npy");
  EXPECT_EQ(file.format(), v1::DatasetFile::NPY);
  EXPECT_EQ(file.size_bytes(), static_cast<int64_t>(Labels().size()));
  ASSERT_EQ(file.arrays_size(), 1);
  EXPECT_THAT(file.arrays(0).shape(), ElementsAre(4));
  EXPECT_THAT(file.arrays(0).class_counts(), ElementsAre(1, 2, 1));
}

// Returns a file in the format that `data pack` writes, with `num_classes` classes named "c0", "c1", ...
std::string Packed(int num_classes) {
  std::string names;
  for (int i = 0; i < num_classes; ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ",", R"(\"c)", i, R"(\")");
  }
  const std::string header = absl::StrCat(R"({"__metadata__":{"classes":"[)", names,
                                          R"(]"},"labels":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})");
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size() & 0xff);
  length[1] = static_cast<char>(header.size() >> 8);
  return absl::StrCat(length, header, std::string("\0\1", 2));
}

TEST_F(AmpctlData, Inspect_NamesTheClassesOfAPackedFile) {
  Write("two.safetensors", Packed(2));
  const Result two = Run("data inspect --no-headers two.safetensors", kNoServer);
  EXPECT_EQ(two.exit_code, 0) << two.err;
  EXPECT_THAT(two.out, HasSubstr("labels  uint8  (2)  0 to 1      2, of 1 samples\nclasses: c0, c1\n"));
  Write("many.safetensors", Packed(23));
  EXPECT_THAT(Run("data inspect many.safetensors", kNoServer).out, HasSubstr(", c18, c19 and 3 more\n"));
  EXPECT_EQ(Inspected("many.safetensors").class_names_size(), 23);
}

TEST_F(AmpctlData, Inspect_OfTexts_ShowsTheirLengths) {
  Write("texts.jsonl",
        "{\"input_ids\": [101, 7, 102], \"label\": 1}\n"
        "{\"input_ids\": [101, 102], \"label\": 0, \"token_type_ids\": [0, 1]}\n");
  const Result texts = Run("data inspect texts.jsonl", kNoServer);
  EXPECT_EQ(texts.exit_code, 0) << texts.err;
  EXPECT_EQ(texts.out,
            "texts.jsonl: JSONL, 105 B\n"
            "NAME            DTYPE  SHAPE  RANGE     MEAN  STD  CLASSES          LENGTHS\n"
            "input_ids       int64  (2)    7 to 102                              2 to 3 tokens, mean 2.5\n"
            "labels          int64  (2)    0 to 1               2, of 1 samples\n"
            "token_type_ids  int64  (2)    0 to 1                                2 to 3 tokens, mean 2.5\n");
  const v1::DatasetFile file = Inspected("texts.jsonl");
  EXPECT_EQ(file.format(), v1::DatasetFile::JSONL);
  ASSERT_EQ(file.arrays_size(), 3);
  EXPECT_EQ(file.arrays(0).lengths().mean(), 2.5);
  EXPECT_THAT(file.arrays(1).class_counts(), ElementsAre(1, 1));
  Write("one.jsonl", "{\"input_ids\": [1], \"label\": 1}\n");
  EXPECT_THAT(Run("data inspect one.jsonl", kNoServer).out, HasSubstr("  1 token, mean 1\n"));
}

TEST_F(AmpctlData, Inspect_OfTokensWithoutAHeader_UsesTheGivenFormat) {
  Write("text.bin", std::string("\x05\0\x01\0\xff\xff\0\0", 8));
  const Result unknown = Run("data inspect text.bin", kNoServer);
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("text.bin: of no format that is known by its content"));
  const Result narrow = Run("data inspect text.bin --format uint16", kNoServer);
  EXPECT_EQ(narrow.exit_code, 0) << narrow.err;
  EXPECT_EQ(narrow.out,
            "text.bin: UINT16_TOKENS, 8 B\n"
            "NAME    DTYPE   SHAPE  RANGE       MEAN  STD  CLASSES\n"
            "tokens  uint16  (4)    0 to 65535\n");
  const v1::DatasetFile wide = Inspected("--format uint32 text.bin");
  EXPECT_EQ(wide.format(), v1::DatasetFile::UINT32_TOKENS);
  EXPECT_EQ(wide.size_bytes(), 8);
  ASSERT_EQ(wide.arrays_size(), 1);
  EXPECT_EQ(wide.arrays(0).dtype(), "uint32");
  EXPECT_THAT(wide.arrays(0).shape(), ElementsAre(2));
  EXPECT_EQ(wide.arrays(0).max(), 65541);
}

TEST_F(AmpctlData, Inspect_OfTokensWithoutAHeader_ShowsHowAJobWouldReadThem) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += {static_cast<char>(i + 100), static_cast<char>(i), '\0', '\0'};
  }
  Write("text.bin", text);
  const Result inspected = Run("data inspect text.bin --no-headers", kNoServer);
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("text.bin: UINT32_TOKENS, 400 B\ntokens  uint32  (100)"));
  EXPECT_THAT(inspected.out,
              HasSubstr("\nnote: read as tokens of 32 bits without a header: every second 16 bits are 0"));
  EXPECT_THAT(Inspected("text.bin --format uint16").notes(),
              ElementsAre(HasSubstr("as the format of tokens says, and looks like tokens of 32 bits")));
}

TEST_F(AmpctlData, Inspect_OfFilesThatHoldNoTokens_ShowsTheProblem) {
  Write("odd.bin", "abcde");
  EXPECT_THAT(Inspected("odd.bin --format uint16").problems(),
              ElementsAre("odd.bin: has 5 bytes, no whole number of tokens of 2"));
  EXPECT_EQ(Run("data inspect odd.bin --format uint32", kNoServer).exit_code, 1);
  EXPECT_EQ(Inspected("odd.bin --format llm_c").problems_size(), 1);
  EXPECT_EQ(Run("data inspect nowhere --format uint16", kNoServer).exit_code, 3);
  const Result other = Run("data inspect odd.bin --format uint8", kNoServer);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("uint16"));
}

TEST_F(AmpctlData, Inspect_FollowsLinks_WhichAJobDoesNot) {
  std::filesystem::create_directory(folder_ + "/elsewhere");
  Write("elsewhere/y.npy", Labels());
  std::filesystem::create_symlink("elsewhere/y.npy", folder_ + "/link");
  EXPECT_EQ(Inspected("link").format(), v1::DatasetFile::NPY);
  EXPECT_EQ(Inspected(folder_ + "/link").path(), folder_ + "/link");
}

TEST_F(AmpctlData, ProblemsOfAFile_AreOnStdoutAndTheExitCodeIsOne) {
  Write("cut.npy", Labels().substr(0, 131));
  const Result result = Run("data inspect cut.npy", kNoServer);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "cut.npy: NPY, 131 B\nproblem: cut.npy: the file ends after 3 of 8 bytes of samples\n");
  EXPECT_EQ(Run("data inspect -o json cut.npy", kNoServer).exit_code, 1);
  EXPECT_THAT(Inspected("cut.npy").problems(), ElementsAre("cut.npy: the file ends after 3 of 8 bytes of samples"));
}

TEST_F(AmpctlData, ProblemsOfAFileWhoseNameIsNotUtf8_AreShownAndNothingElse) {
  Write("caf\xe9.npy", Labels().substr(0, 131));
  const Result result = Run("data inspect caf\xe9.npy", kNoServer);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "caf?.npy: NPY, 131 B\nproblem: caf?.npy: the file ends after 3 of 8 bytes of samples\n");
  EXPECT_EQ(result.err, "");
  const Result structured = Run("data inspect -o json caf\xe9.npy", kNoServer);
  EXPECT_THAT(structured.out, HasSubstr("caf?.npy: the file ends after 3 of 8 bytes of samples"));
  EXPECT_EQ(structured.err, "");
}

TEST_F(AmpctlData, FilesOfNoKnownFormat_AndNone_AreErrors) {
  Write("text", "hello\n");
  const Result text = Run("data inspect text", kNoServer);
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_EQ(text.out, "");
  EXPECT_THAT(text.err, HasSubstr("text: of no format that is known by its content: it begins as if it were text; it "
                                  "begins with \"hello\\n\""));
  EXPECT_THAT(text.err, HasSubstr("the formats are IDX, CIFAR, .npz, .npy, safetensors, tokens and JSON lines; ampctl "
                                  "data tokenize makes tokens of a text or, with --jsonl, JSON lines of a table such "
                                  "as CSV  [DATA_ERROR]"));
  Write("job.yaml", "name: x\n");
  EXPECT_THAT(Run("data inspect job.yaml", kNoServer).err,
              HasSubstr("\n  to check a job file: ampctl job submit --dry-run -f job.yaml\n"));
  const Result missing = Run("data inspect nowhere", kNoServer);
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("nowhere: No such file or directory"));
  EXPECT_THAT(missing.err, HasSubstr("the file must be on this machine; a path in a job file begins with the name of a "
                                     "data root, which stands for a folder of the worker\n"));
  EXPECT_THAT(Run("data inspect /nowhere", kNoServer).err, Not(HasSubstr("data root")));
  EXPECT_EQ(Run("data inspect .", kNoServer).exit_code, 2);
  EXPECT_EQ(Run("data inspect", kNoServer).exit_code, 2);
}

TEST_F(AmpctlData, Tokenize_WritesBytesWithoutAVocabulary) {
  Write("text", "hi\n");
  const Result result = Run("data tokenize text out.bin", kNoServer);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "out.bin: 3 tokens of 2 bytes each, from 3 B of text; kind of token: bytes; vocab_size: 256\n");
  EXPECT_EQ(result.err, "") << "no bar where there is no terminal";
  const v1::DatasetFile file = Inspected("out.bin");
  EXPECT_EQ(file.format(), v1::DatasetFile::LLM_C_TOKENS);
  EXPECT_THAT(file.arrays(0).shape(), ElementsAre(3));
  const Result again = Run("data tokenize text out.bin", kNoServer);
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err,
              HasSubstr("error: out.bin already exists; write to another file, or use --force to replace this one"));
  EXPECT_EQ(Run("data tokenize text out.bin --force --format uint32 -q", kNoServer).exit_code, 0);
  EXPECT_EQ(std::filesystem::file_size(folder_ + "/out.bin"), 12u);
}

TEST_F(AmpctlData, Tokenize_TakesTheFilesOfAVocabulary) {
  Write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nhi\n");
  Write("text", "Hi hi oh\n");
  const Result pieces = Run("data tokenize text out.bin --vocab vocab.txt", kNoServer);
  EXPECT_THAT(
      pieces.out,
      HasSubstr("3 tokens of 2 bytes each, from 9 B of text; kind of token: BERT's word pieces; vocab_size: 4"));
  Write("reviews.tsv", "label\ttext\nno\thi\nyes\toh hi\n");
  const Result labelled =
      Run("data tokenize reviews.tsv out.jsonl --jsonl --vocab vocab.txt --classes no,yes -o json", kNoServer);
  EXPECT_EQ(labelled.exit_code, 0) << labelled.err;
  EXPECT_THAT(labelled.out, HasSubstr("\"numTexts\": \"2\""));
  const v1::DatasetFile texts = Inspected("out.jsonl");
  EXPECT_THAT(texts.problems(), testing::IsEmpty());
  EXPECT_THAT(texts.arrays(1).class_counts(), ElementsAre(1, 1));
  EXPECT_EQ(Run("data tokenize text new --merges vocab.txt", kNoServer).exit_code, 2);
  EXPECT_EQ(Run("data tokenize text new --cased", kNoServer).exit_code, 2);
  const Result missing = Run("data tokenize text new --vocab nowhere", kNoServer);
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("nowhere"));
  EXPECT_EQ(Run("data tokenize text new --format uint8", kNoServer).exit_code, 2);
  EXPECT_EQ(Run("data tokenize text", kNoServer).exit_code, 2);
}

TEST_F(AmpctlData, Tokenize_SaysHowItReadATable) {
  Write("reviews.csv", "text,label\n\"hi, \"\"you\"\"\",1\nhi,0\n");
  const Result csv = Run("data tokenize reviews.csv out.jsonl --jsonl", kNoServer);
  EXPECT_EQ(csv.exit_code, 0) << csv.err;
  EXPECT_THAT(csv.out, HasSubstr("2 texts in 2 classes; 11 tokens in total"));
  EXPECT_THAT(csv.out,
              HasSubstr("; the input was read as a table with commas between columns and quotation marks as in CSV\n"));
  Write("reviews.tsv", "text\tlabel\n\"hi\"\t1\nhi\t0\n");
  const Result open = Run("data tokenize reviews.tsv out.jsonl --jsonl --force", kNoServer);
  EXPECT_EQ(open.exit_code, 1);
  EXPECT_THAT(open.err, HasSubstr("reviews.tsv:2: quotation marks stand around a cell"));
  EXPECT_THAT(Run("data tokenize reviews.tsv out.jsonl --jsonl --force --quotes csv", kNoServer).out,
              HasSubstr("2 texts in 2 classes; 4 tokens in total"));
  EXPECT_THAT(Run("data tokenize reviews.tsv out.jsonl --jsonl --force --quotes none -o json", kNoServer).out,
              HasSubstr("\"readAs\": \"a table with tabs between columns\""));
  EXPECT_EQ(Run("data tokenize reviews.tsv out.jsonl --jsonl --quotes both", kNoServer).exit_code, 2);
}

TEST_F(AmpctlData, Tokenize_RefusesAnOptionThatWouldHaveNoEffect) {
  Write("text", "abc");
  for (const char* option : {"--classes a,b", "--text-field text", "--label-field label", "--quotes csv",
                             "--quotes none", "--max-length 0", "--max-length 8"}) {
    const std::string command = absl::StrCat("data tokenize text new ", option);
    const Result result = Run(command, kNoServer);
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_THAT(result.err, HasSubstr(" needs --jsonl, which reads one text and its label per line")) << command;
  }
  for (const char* option : {"--format llm_c", "--any-format"}) {
    const std::string command = absl::StrCat("data tokenize text new --jsonl ", option);
    const Result result = Run(command, kNoServer);
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_THAT(result.err, HasSubstr("cannot be combined with --jsonl")) << command;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/new"));
}

TEST_F(AmpctlData, Tokenize_OfAnEmptyText_IsAnError) {
  Write("text", "");
  for (const char* option : {"", " --jsonl"}) {
    const Result result = Run(absl::StrCat("data tokenize text new", option), kNoServer);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err, "error: text is empty; there is no text to tokenize\n");
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/new"));
}

TEST_F(AmpctlData, Tokenize_OfAFileThatIsNotText_NeedsAnyFormat) {
  Write("packed", std::string("\x1f\x8b\x08\0\0\0\0\0\0\3", 10) + std::string(20, '\7'));
  const Result packed = Run("data tokenize packed out.bin", kNoServer);
  EXPECT_EQ(packed.exit_code, 1);
  EXPECT_THAT(packed.err, HasSubstr("packed: is compressed by gzip, and no text; to make a token of each of its bytes: "
                                    "--any-format\n"));
  Write("zero", std::string("ab\0cd", 5));
  EXPECT_THAT(Run("data tokenize zero out.bin", kNoServer).out, HasSubstr("5 tokens"));
  Write("binary", std::string("ab\0\xff\xfe cd", 8));
  EXPECT_THAT(
      Run("data tokenize binary out.bin --force", kNoServer).err,
      HasSubstr(
          "binary: has bytes of the value 0 and bytes that are not UTF-8, and is no text; to make a token of each"));
  EXPECT_THAT(Run("data tokenize packed out.bin --any-format --force", kNoServer).out, HasSubstr("30 tokens"));
  Write("lines", "{\"text\": \"hi\", \"label\": 1}\n");
  EXPECT_THAT(Run("data tokenize lines out.bin --force", kNoServer).err, HasSubstr("lines holds JSON"));
}

TEST_F(AmpctlData, Pack_OfAWrongSizeOrFolder_IsRefused) {
  for (const char* size : {"0", "x4", "4x", "4x4x4", "16385", "-1", "four"}) {
    const Result result = Run(absl::StrCat("data pack . out --size=", size), kNoServer);
    EXPECT_EQ(result.exit_code, 2) << size;
    EXPECT_THAT(result.err, HasSubstr("is not a size such as 32 or 64x48")) << size;
  }
  EXPECT_EQ(Run("data pack nowhere new --size 4", kNoServer).exit_code, 3);
  EXPECT_EQ(Run("data pack .", kNoServer).exit_code, 2);
}

}  // namespace
}  // namespace ampd::client
