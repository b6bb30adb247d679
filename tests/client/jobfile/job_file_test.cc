#include "client/jobfile/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/jobfile/problems_text.h"
#include "client/jobfile/violations.h"
#include "tests/golden_file.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;

const ProblemAdvice kAdvice = {.command = "ampctl job submit -f job.yaml --dry-run"};

std::string TextOf(std::string_view yaml, const std::vector<std::string>& overrides = {}) {
  const JobFile file = ReadJobFile(yaml, "job.yaml", overrides);
  return file.problems.empty() ? "" : ProblemsText(file.problems, kAdvice);
}

TEST(JobFile, ReadsTheExampleOfTheReadme) {
  const auto text = ReadFile(std::string(AMPD_SOURCE_DIR) + "/examples/fashion.yaml", 1 << 20);
  ASSERT_TRUE(text.ok());
  const JobFile file = ReadJobFile(*text, "fashion.yaml", {});
  ASSERT_TRUE(file.problems.empty()) << ProblemsText(file.problems, {});
  EXPECT_EQ(file.spec.name(), "fashion");
  EXPECT_EQ(file.spec.model().lenet().num_classes(), 10);
  EXPECT_EQ(file.spec.precision().preset(), "bf16");
  EXPECT_DOUBLE_EQ(file.spec.optimizer().adamw().learning_rate(), 2e-3);
  EXPECT_DOUBLE_EQ(file.spec.optimizer().adamw().weight_decay(), 0.01);
  EXPECT_EQ(file.spec.train().epochs(), 2);
  EXPECT_TRUE(file.spec.schedule().has_cosine());
}

TEST(JobFile, ReadsEverySampleInTheDocs) {
  const auto text = ReadFile(std::string(AMPD_SOURCE_DIR) + "/docs/samples.md", 1 << 20);
  ASSERT_TRUE(text.ok());
  std::vector<v1::SampleSpec> samples;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(*text, '\n'))) {
    if (line.rfind("sample: ", 0) == 0) {
      const JobFile file = ReadJobFile(line, "samples.md", {});
      EXPECT_TRUE(file.problems.empty()) << ProblemsText(file.problems, {});
      samples.push_back(file.spec.sample());
    }
  }
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].every_steps(), 200);
  EXPECT_EQ(samples[0].text().prompt(), "In the beginning");
  EXPECT_EQ(samples[0].text().tokens(), 400);
  EXPECT_DOUBLE_EQ(samples[0].text().temperature(), 0.8);
  EXPECT_EQ(samples[0].text().top_k(), 40);
  EXPECT_EQ(samples[1].images().rows(), 8);
}

TEST(JobFile, ReadsHowAnEpochEnds) {
  EXPECT_EQ(ReadJobFile("data: {last_batch: PAD}\n", "job.yaml", {}).spec.data().last_batch(), v1::DataSpec::PAD);
  EXPECT_EQ(ReadJobFile("data: {last_batch: DROP}\n", "job.yaml", {}).spec.data().last_batch(), v1::DataSpec::DROP);
  EXPECT_THAT(TextOf("data: {last_batch: PADD}\n"), HasSubstr("PAD"));
  EXPECT_THAT(TextOf("data: {last_batch: LAST_BATCH_UNSPECIFIED}\n"), HasSubstr("data.last_batch"));
}

TEST(JobFile, RefusesASampleOfTwoKinds) {
  EXPECT_THAT(TextOf("sample: {text: {}, images: {}}\n"), HasSubstr("job.yaml:1"));
  EXPECT_THAT(TextOf("sample: {text: {token: 3}}\n"), HasSubstr("tokens")) << "the nearest name";
  EXPECT_EQ(TextOf("sample: {text: }\n"), "");
}

TEST(JobFile, TakesListsMapsDurationsEnumsAndWholeNumbersInScientificNotation) {
  const JobFile file = ReadJobFile(
      "name: x\nmodel: {lenet: {widths: [8, 16]}}\nlabels: {team: a, size: 3}\ndeadline: 1h30m0.5s\n"
      "train: {steps: 1e3}\non_divergence: ROLL_BACK\nresources: {kind: CPU}\n"
      "precision: {compute: fp16, loss_scale: {static: {scale: 1024}}}\n",
      "job.yaml", {});
  ASSERT_TRUE(file.problems.empty()) << ProblemsText(file.problems, kAdvice);
  EXPECT_EQ(file.spec.model().lenet().widths(1), 16);
  EXPECT_EQ(file.spec.labels().at("size"), "3");
  EXPECT_EQ(file.spec.deadline().seconds(), 5400);
  EXPECT_EQ(file.spec.deadline().nanos(), 500'000'000);
  EXPECT_EQ(file.spec.train().steps(), 1000);
  EXPECT_EQ(file.spec.on_divergence(), v1::JobSpec::ROLL_BACK);
  EXPECT_EQ(file.spec.resources().kind(), v1::ResourceSpec::CPU);
  EXPECT_EQ(file.spec.precision().compute(), v1::PrecisionPolicy::fp16);
  EXPECT_EQ(file.spec.precision().loss_scale().fixed().scale(), 1024);
}

TEST(JobFile, ReadsEverySourceInTheDocsOfData) {
  const auto text = ReadFile(std::string(AMPD_SOURCE_DIR) + "/docs/data.md", 1 << 20);
  ASSERT_TRUE(text.ok());
  std::set<v1::DataSource::KindCase> kinds;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(*text, '\n'))) {
    if (line.rfind("train: ", 0) != 0) {
      continue;
    }
    const JobFile file = ReadJobFile(absl::StrCat("data:\n  ", line, "\n"), "data.md", {});
    EXPECT_TRUE(file.problems.empty()) << ProblemsText(file.problems, {});
    kinds.insert(file.spec.data().train().kind_case());
  }
  EXPECT_THAT(kinds, ::testing::IsSupersetOf({v1::DataSource::kIdx, v1::DataSource::kCifar, v1::DataSource::kNpz,
                                              v1::DataSource::kSafetensors}));
}

TEST(JobFile, AnEmptyChoiceIsItsDefaults) {
  const JobFile file = ReadJobFile("model: {lenet: }\nschedule:\n  constant:\n", "job.yaml", {});
  ASSERT_TRUE(file.problems.empty());
  EXPECT_TRUE(file.spec.model().has_lenet());
  EXPECT_TRUE(file.spec.schedule().has_constant());
}

TEST(JobFile, ReportsEveryProblemAtItsPlaceWithTheNearestName) {
  ExpectGolden("tests/golden/client/job_file_problems.txt", TextOf(R"(name: x
modl: {lenet: {num_classes: 10}}
data:
  train: {idx: {images: a, lables: b}}
  batch_size: many
precision:
  compute_dtyp: fp16
  compute: float16
  loss_scale: {dynamic: {initial: .inf}}
train: {steps: 10, epochs: 3, seed: -1, replay_skipped: yes}
model: {lenet: {widths: 32}}
deadline: 90
max_retries: 99999999999
on_divergence: ROLLBACK
optimizer: [1, 2]
eval: {every_steps: 2.5}
queue: {a: b}
checkpoint: {keep: }
)"));
}

TEST(JobFile, ALookAlikeInAKeyOrAValue_IsNamed) {
  const struct {
    const char* text;
    const char* message;
    const char* nearest;
  } cases[] = {
      {"n\u0430me: x\n",
       "'n\u0430me' is not a field of a job file; the character in line 1, column 2 is U+0430 (Cyrillic small letter "
       "a), "
       "which looks like a; type a plain a",
       "name"},
      {"train:\n  epochs: 1\uff12\n",
       "train.epochs must be a whole number, not '1\uff12'; the character in line 2, column 12 is U+FF12 (full-width "
       "form "
       "2), which looks like 2; type a plain 2",
       "12"},
      {"train:\n  epo\u200bchs: 1\n",
       "'epo\u200bchs' is not a field of train; the character in line 2, column 6 is U+200B (zero width space), which "
       "nobody sees; remove it",
       "epochs"},
      {"train:\n\u00a0\u00a0epochs: 1\n",
       "'\u00a0\u00a0epochs' is not a field of a job file; the character in line 2, column 1 is U+00A0 (no-break "
       "space), "
       "which looks like a space; type a plain space",
       ""},
      {"priority: \u20135\n",
       "priority must be a whole number, not '\u20135'; the character in line 1, column 11 is U+2013 (en dash), which "
       "looks like -; type a plain -",
       "-5"},
      {"{\u201cname\u201d: x}\n",
       "'\u201cname\u201d' is not a field of a job file; the character in line 1, column 2 is U+201C (left double "
       "quotation mark), which looks like \"; type a plain \"",
       ""},
  };
  for (const auto& test : cases) {
    const JobFile file = ReadJobFile(test.text, "f", {});
    ASSERT_FALSE(file.problems.empty()) << test.text;
    EXPECT_EQ(file.problems.back().message, test.message);
    EXPECT_EQ(file.problems.back().nearest, test.nearest) << test.text;
  }
  // The server refuses this preset, and quotes it in its message. The preset's name contains a dotless i (U+0131) and a
  // zero width space (U+200B).
  const JobFile file = ReadJobFile("precision: {preset: bf\u0131\u200b6}\n", "f", {});
  EXPECT_TRUE(file.problems.empty());
  const std::vector<Problem> placed =
      PlaceViolations({{"precision.preset", "is \"bf\u0131\u200b6\"; presets are bf16"}}, file, "f");
  EXPECT_THAT(placed[0].message, testing::HasSubstr("column 24 is U+200B (zero width space)"));
  // In names, labels and comments, characters that look like others are no mistake.
  EXPECT_TRUE(ReadJobFile("name: \u201cx\u201d\nlabels: {a: \u0430}\n# \u2013\n", "f", {}).problems.empty());
}

TEST(JobFile, ControlCharacters_AreNotPrinted) {
  const std::string red = "\x1b[31m";
  for (const std::string& text : {std::string("\"\\e[31mname\": x\n"), std::string("data: {batch_size: \"\\e[31m\"}\n"),
                                  "name: x\nname" + red + ": y\n"}) {
    const JobFile file = ReadJobFile(text, "job" + red + ".yaml", {"--" + red + "=1"});
    ASSERT_FALSE(file.problems.empty()) << text;
    const std::string problems = ProblemsText(file.problems, {.command = "ampctl job submit -f job" + red + ".yaml"});
    EXPECT_THAT(problems, ::testing::Not(HasSubstr("\x1b"))) << text;
    EXPECT_THAT(problems, HasSubstr("\\x1b[31m")) << text;
  }
}

TEST(JobFile, YamlThatIsNotATree_IsRefused) {
  std::string deep;
  for (int i = 0; i < 200; ++i) {
    deep += "[";
  }
  std::string laughs = "a: &a [1,1,1,1,1,1,1,1,1,1]\n";
  for (char c = 'b'; c < 'i'; ++c) {
    const char last = static_cast<char>(c - 1);
    absl::StrAppend(&laughs, std::string(1, c), ": &", std::string(1, c), " [");
    for (int i = 0; i < 10; ++i) {
      absl::StrAppend(&laughs, "*", std::string(1, last), ",");
    }
    laughs += "]\n";
  }
  std::string all;
  const std::pair<const char*, std::string> cases[] = {
      {"10 MB", std::string(10 << 20, 'a')},
      {"duplicate key", "name: a\nname: b\n"},
      {"alias in itself", "labels: &x {a: *x}\n"},
      {"unknown alias", "name: *y\n"},
      {"too deep", "a: " + deep},
      {"a billion laughs", laughs},
      {"empty", ""},
      {"only a comment", "# nothing\n"},
      {"two documents", "name: a\n---\nname: b\n"},
      {"broken syntax", "name: [a\nmodel: }\n"},
      {"tabs", "model:\n\tlenet: {}\n"},
      {"a list", "- a\n- b\n"},
      {"a word", "fashion\n"},
      {"a mapping as a key", "{a: b}: c\n"},
      {"no space behind a colon", "name:fashion\nmodel: {}\n"},
      {"indentation that is off", "data:\n  train: {}\n   batch_size: 3\n"},
      {"an open brace", "data: {train: {}\nname: a\n"},
      {"an open quote", "name: \"it \\\" goes on\nmodel: {}\n"},
      {"an open single quote behind a byte order mark",
       "\xEF\xBB\xBF"
       "name: a\nqueue: 'it''s\nmodel: {}\n"},
      {"a merge key", "data: &d {batch_size: 3}\neval:\n  <<: *d\n"},
      {"fields that stand elsewhere", "epochs: 3\ndata: {learning_rate: 1}\n"},
      {"a word for a mapping", "precision: bf16\nmodel: lenet\n"},
  };
  for (const auto& [name, yaml] : cases) {
    const std::string text = TextOf(yaml);
    EXPECT_THAT(text, HasSubstr("error: job.yaml")) << name;
    absl::StrAppend(&all, "# ", name, "\n", text);
  }
  ExpectGolden("tests/golden/client/job_file_refusals.txt", all);
}

TEST(JobFile, Aliases_AreReplacedByTheirValue) {
  const JobFile file =
      ReadJobFile("data:\n  train: &s {synthetic: {num_classes: 3, num_samples: 9}}\n  eval: *s\n", "job.yaml", {});
  ASSERT_TRUE(file.problems.empty());
  EXPECT_EQ(file.spec.data().eval().synthetic().num_samples(), 9);
}

TEST(Overrides, AreTypedReplaceAndBuildWhatIsMissing) {
  const JobFile file =
      ReadJobFile("name: x\ntrain: {epochs: 3}\noptimizer: {sgd: {learning_rate: 1}}\n", "job.yaml",
                  {"train.steps=20", "optimizer.adamw.learning_rate=1e-3", "name=yes", "model.lenet.widths=[4, 8]",
                   "precision.module_rules[0].match=head.*", "labels.a=1"});
  ASSERT_TRUE(file.problems.empty()) << ProblemsText(file.problems, kAdvice);
  EXPECT_EQ(file.spec.train().steps(), 20);
  EXPECT_DOUBLE_EQ(file.spec.optimizer().adamw().learning_rate(), 1e-3);
  EXPECT_EQ(file.spec.name(), "yes");
  EXPECT_EQ(file.spec.model().lenet().widths_size(), 2);
  EXPECT_EQ(file.spec.precision().module_rules(0).match(), "head.*");
  EXPECT_EQ(file.spec.labels().at("a"), "1");
}

TEST(Overrides, ProblemsNameTheOverride) {
  ExpectGolden("tests/golden/client/override_problems.txt",
               TextOf("name: x\n", {"train.epochs=many", "precison.preset=fp16", "novalue", "a..b=1",
                                    "precision.module_rules[3].match=x", "model.lenet.widths=[1,"}));
}

TEST(Overrides, ThatExcludeEachOther_AreRefused) {
  const std::string file = "name: x\ntrain: {steps: 3}\nmodel: {mlp: {}}\n";
  EXPECT_THAT(TextOf(file, {"train.steps=5", "train.epochs=6"}),
              HasSubstr("error: --set train.epochs: cannot be combined with --set train.steps: a job file has only one "
                        "of 'epochs' and 'steps'\n  try: correct the --set, and repeat the command\n"));
  EXPECT_THAT(TextOf(file, {"model={lenet: {}}", "model.mlp.hidden=[3]"}),
              HasSubstr("--set model.mlp.hidden: cannot be combined with --set model"));
}

TEST(Overrides, ThatReplaceAFieldOfTheFile_AreRecorded) {
  const JobFile file = ReadJobFile("model:\n  mlp: {}\n", "job.yaml", {"model.lenet.num_classes=4", "train.epochs=1"});
  ASSERT_EQ(file.replaced.size(), 1u);
  EXPECT_EQ(file.replaced[0].by, "--set model.lenet.num_classes");
  EXPECT_EQ(file.replaced[0].path, "model.mlp");
  EXPECT_EQ(file.replaced[0].mark.ToString(), "job.yaml:2:3");
}

TEST(JobFile, TheOptionNameAndAnOverrideOfTheName_AreRefusedTogether) {
  const JobFile file = ReadJobFile("name: x\n", "job.yaml", {"train.steps=5", "name=y"}, "z");
  EXPECT_EQ(ProblemsText(file.problems, kAdvice),
            "error: --name: sets again what --set name sets; give one of them\n"
            "  try: correct the --name, and repeat the command\n");
}

TEST(JobFile, TheOptionName_ReplacesTheNameInTheFile_AndErrorsPointToIt) {
  const JobFile file = ReadJobFile("name: x\n", "job.yaml", {}, "[b]");
  ASSERT_TRUE(file.problems.empty());
  EXPECT_EQ(file.spec.name(), "[b]");
  const auto problems = PlaceViolations({{"name", "is \"[b]\"; must be 1 to 63 letters"}}, file, "job.yaml");
  EXPECT_EQ(ProblemsText(problems, kAdvice),
            "error: --name: is \"[b]\"; must be 1 to 63 letters\n  try: correct the --name, and repeat the command\n");
}

TEST(ProblemsText, ShowsEachListOnceAndAtMostTwentyProblems) {
  std::string keys;
  for (int i = 0; i < 30; ++i) {
    absl::StrAppend(&keys, "bad_field_", i, ": 1\n");
  }
  const std::string text = TextOf(keys);
  EXPECT_EQ(text.find("(allowed: "), text.rfind("(allowed: "));
  EXPECT_THAT(text, HasSubstr("bad_field_19"));
  EXPECT_THAT(text, HasSubstr("error: and 10 more problems\n  try: correct them, then ampctl job submit"));
  EXPECT_LT(text.size(), 4096u);
}

TEST(ProblemsText, SaysWhatToDoNext) {
  const Problem in_file = {{"job.yaml", 1, 1}, "", "wrong"};
  const Problem in_override = {{"--set a", 0, 0}, "", "wrong"};
  EXPECT_THAT(ProblemsText({in_file}, {}), HasSubstr("  try: correct it, and repeat the command\n"));
  EXPECT_THAT(ProblemsText({in_file, in_override}, kAdvice),
              HasSubstr("  try: correct them, and repeat the command\n"));
  EXPECT_THAT(ProblemsText({in_file}, {.command = "ampctl estimate -f 'a b.yaml'", .notes = {"a note"}}),
              HasSubstr("  a note\n  try: correct it, and repeat the command\n"));
}

TEST(Overrides, TwoForOneField_AreRefused) {
  EXPECT_THAT(TextOf("name: x\n", {"train.steps=5", "train.steps=6"}),
              HasSubstr("error: --set train.steps: is given twice; give it once\n"));
  EXPECT_THAT(TextOf("name: x\n", {"train.steps=5", "train={seed: 6}"}),
              HasSubstr("error: --set train: sets again what --set train.steps sets; give one of them\n"));
  EXPECT_THAT(TextOf("name: x\n", {"train={steps: 5}", "train.steps=6"}),
              HasSubstr("error: --set train.steps: sets again what --set train sets; give one of them\n"));
  EXPECT_EQ(TextOf("name: x\n", {"train={steps: 5}", "train.seed=6"}), "") << "this one adds a field";
  EXPECT_EQ(TextOf("name: x\n", {"model.mlp.hidden[0]=5", "model.mlp.hidden[1]=6"}), "");
}

TEST(Overrides, BelowAValueOfAnotherKind_AreRefused_AndTheValueIsKept) {
  const std::string preset = TextOf("name: x\n", {"precision=bf16", "precision.loss_scale.static.scale=8"});
  EXPECT_THAT(preset, HasSubstr("error: --set precision.loss_scale.static.scale: sets a part of precision, but --set "
                                "precision sets precision to 'bf16'; precision must be a mapping\n"));
  EXPECT_THAT(preset, HasSubstr("did you mean '{preset: bf16}'?")) << "the reader reports the value too";
  EXPECT_THAT(TextOf("name: x\n", {"train=5", "train.seed=3"}),
              HasSubstr("--set train.seed: sets a part of train, but --set train sets train to '5'; train must be a "
                        "mapping\n"));
  const std::string file = TextOf("model: 5\ntrain: [a]\n", {"model.lenet.widths[0]=3", "train.steps=5"});
  EXPECT_THAT(file, HasSubstr("sets a part of model, but job.yaml:1:8 sets model to '5'; model must be a mapping\n"));
  EXPECT_THAT(file, HasSubstr("job.yaml:1:8: model must be a mapping of fields, not '5'\n"));
  EXPECT_THAT(file, HasSubstr("sets a part of train, but job.yaml:2:8 sets train to a list; train must be a "
                              "mapping\n"));
  EXPECT_THAT(file, HasSubstr("job.yaml:2:8: train must be a mapping of fields, not a list\n"));
}

TEST(Overrides, OfAFileThatIsAList_LeaveTheListToTheReader) {
  EXPECT_THAT(TextOf("- a\n- b\n", {"train.steps=5"}),
              HasSubstr("job.yaml:1:1: the job file must be a mapping of fields, not a list\n"));
  EXPECT_THAT(TextOf("fashion\n", {"train.steps=5"}),
              HasSubstr("job.yaml:1:1: the job file must be a mapping of fields, not 'fashion'\n"));
}

TEST(Overrides, BelowALabelOrAListOfAnotherKind_AreRefused) {
  EXPECT_THAT(TextOf("labels: [a]\n", {"labels.team=nlp"}),
              HasSubstr("sets a part of labels, but job.yaml:1:9 sets labels to a list; labels must be a mapping\n"));
  EXPECT_THAT(TextOf("model: {mlp: {hidden: 8}}\n", {"model.mlp.hidden[0]=3"}),
              HasSubstr("sets a part of model.mlp.hidden, but job.yaml:1:23 sets model.mlp.hidden to '8'; "
                        "model.mlp.hidden must be a list\n"));
  EXPECT_THAT(TextOf("precision: {module_rules: [head]}\n", {"precision.module_rules[0].match=head.*"}),
              HasSubstr("sets a part of precision.module_rules[0], but job.yaml:1:28 sets precision.module_rules[0] to "
                        "'head'; precision.module_rules[0] must be a mapping\n"));
  EXPECT_EQ(TextOf("train:\nlabels: ~\n", {"train.seed=3", "labels.team=nlp"}), "") << "an empty field has no value";
}

TEST(Overrides, BelowAFieldWithOneValue_AreReportedByTheReader) {
  EXPECT_THAT(TextOf("deadline: 1h\n", {"deadline.seconds=5"}), HasSubstr("deadline.seconds: "));
  EXPECT_THAT(TextOf("deadline: 1h\n", {"deadline.seconds=5"}), HasSubstr("not a mapping\n"));
  EXPECT_THAT(TextOf("train: {seed: 5}\n", {"train.seed.first=5"}),
              HasSubstr("must be a whole number of at least 0, not a mapping\n"));
  EXPECT_THAT(TextOf("model: {mlp: {hidden: [8]}}\n", {"model.mlp.hidden[0].size=5"}), HasSubstr("not a mapping\n"));
  EXPECT_THAT(TextOf("modle: 5\n", {"modle.mlp.hidden=[5]"}), HasSubstr("'modle' is not a field of a job file"));
}

TEST(Overrides, AMappingThatDropsFields_IsRecorded) {
  const JobFile file = ReadJobFile("train:\n  epochs: 2\n  seed: 7\n", "job.yaml", {"train={epochs: 5}"});
  ASSERT_EQ(file.replaced.size(), 1);
  EXPECT_EQ(file.replaced[0].by, "--set train");
  EXPECT_EQ(file.replaced[0].path, "train.seed");
  EXPECT_EQ(file.replaced[0].mark.ToString(), "job.yaml:2:3");
  EXPECT_TRUE(ReadJobFile("train: {epochs: 2}\n", "job.yaml", {"train={epochs: 5}"}).replaced.empty());
}

TEST(JobFile, RefusesANumberThatReadersOfYamlReadDifferently) {
  EXPECT_THAT(TextOf("train: {steps: 010}\n"), HasSubstr("train.steps is '010'; write 10, or 8 if octal is meant\n"));
  EXPECT_THAT(TextOf("train: {steps: 09}\n"), HasSubstr("train.steps is '09'; write 9\n"));
  EXPECT_THAT(TextOf("train: {steps: 007}\n"), HasSubstr("train.steps is '007'; write 7\n"));
  EXPECT_THAT(TextOf("priority: -010\n"), HasSubstr("priority is '-010'; write -10, or -8 if octal is meant\n"));
  EXPECT_THAT(TextOf("resources: {memory_bytes: 0100}\n"), HasSubstr("write 100, or 64 if octal is meant\n"));
  EXPECT_EQ(TextOf("train: {seed: 0}\n"), "");
}

TEST(JobFile, RefusesAPrecisionWithoutAValue) {
  EXPECT_THAT(TextOf("precision:\n"), HasSubstr("precision has no value; write {preset: fp32}, or remove the field\n"));
  EXPECT_EQ(TextOf("eval:\n"), "");
}

TEST(JobFile, SuggestsALabelForAnAssignment) {
  EXPECT_THAT(TextOf("name: x\n", {"labels=a=b"}), HasSubstr("did you mean 'labels.a=b'?"));
  EXPECT_THAT(TextOf("labels: a=b\n"), HasSubstr("did you mean '{a: b}'?"));
}

TEST(JobFile, NamesTheLineOnWhichAMistakeBegins) {
  EXPECT_THAT(TextOf("name: x\nprecision: {preset: fp32\ntrain:\n  steps: 5\n"),
              HasSubstr("error: job.yaml:2:12: not YAML: the '{' is not closed, or a ',' is missing\n"));
  EXPECT_THAT(TextOf("name: \"a{\"\nmodel: {mlp: {hidden: [8, 16}}\n# {\n"), HasSubstr("job.yaml:2:"));
  EXPECT_THAT(TextOf("name tiny\nqueue: x\n"),
              HasSubstr("error: job.yaml:1:1: not YAML: the line has no ':'; write name: tiny\n"));
}

}  // namespace
}  // namespace ampd::client
