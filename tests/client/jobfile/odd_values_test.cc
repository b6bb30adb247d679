// What ampctl says of values, keys and overrides that are nearly right: each message must name the mistake and the
// value as it was written, and must suggest only what the field accepts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/jobfile/job_file.h"
#include "client/jobfile/number_text.h"
#include "client/jobfile/problems_text.h"
#include "client/jobfile/violations.h"

namespace ampd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string ProblemsOf(std::string_view yaml, const std::vector<std::string>& overrides = {}) {
  const JobFile file = ReadJobFile(yaml, "job.yaml", overrides);
  return file.problems.empty() ? "" : ProblemsText(file.problems, {});
}

// The problems of one override of a small file.
std::string OverrideText(const std::string& override) { return ProblemsOf("name: x\n", {override}); }

// A wrong text, and a part of the message that ampctl must print about this text.
struct Case {
  const char* text;
  const char* answer;
};

TEST(NumberText, AWholeNumberKeepsEachDigit) {
  EXPECT_EQ(ExactWhole("1e3"), "1000");
  EXPECT_EQ(ExactWhole("-1.50E2"), "-150");
  EXPECT_EQ(ExactWhole("+0010.00"), "10");
  EXPECT_EQ(ExactWhole("500e-2"), "5");
  EXPECT_EQ(ExactWhole("0.0e-400"), "0");
  EXPECT_EQ(ExactWhole("9007199254740993.0"), "9007199254740993");
  for (const char* text : {"", ".", "e3", "1e", "2.5", "1e-400", "0.99999999999999999999", "1e50", "0x10", "1,0"}) {
    EXPECT_FALSE(ExactWhole(text).has_value()) << text;
  }
}

TEST(NumberText, OnlyGroupsOfThreeDigitsHaveSeparators) {
  EXPECT_EQ(WithoutSeparators("1,500,000"), "1500000");
  EXPECT_EQ(WithoutSeparators("-1 500.25"), "-1500.25");
  EXPECT_EQ(WithoutSeparators("1\u00a0500"), "1500");
  EXPECT_EQ(WithoutSeparators("10_00"), "1000");
  for (const char* text : {"1500", "0 2000", "32 64", "0,001", "1,5", "1,500 000", ",500", "1500,000", "", "1__0"}) {
    EXPECT_EQ(WithoutSeparators(text), "") << text;
  }
}

TEST(OddValues, AWholeNumberThatADoubleWouldChange_IsRefused) {
  for (const auto& [text, answer] :
       {Case{"9007199254740993.0",
             "is too large to be written as '9007199254740993.0'; write its digits only\n"
             "  did you mean '9007199254740993'?"},
        Case{"1e18",
             "is too large to be written as '1e18'; write its digits only\n"
             "  did you mean '1000000000000000000'?"},
        Case{"9007199254740992.5", "must be a whole number of at least 0, not '9007199254740992.5'\n"},
        Case{"9007199254740991.4", "must be a whole number of at least 0, not '9007199254740991.4'\n"},
        Case{"0.99999999999999999999", "must be a whole number of at least 0, not '0.99999999999999999999'\n"},
        Case{"1e-400", "must be a whole number of at least 0, not '1e-400'\n"}}) {
    EXPECT_THAT(ProblemsOf(absl::StrCat("train: {seed: ", text, "}\n")),
                HasSubstr(absl::StrCat("train.seed ", answer)));
  }
  EXPECT_EQ(ReadJobFile("train: {seed: 9007199254740991.0}\n", "f", {}).spec.train().seed(), 9007199254740991u);
  EXPECT_THAT(ProblemsOf("resources: {memory_bytes: 9007199254740993.0}\n"), HasSubstr("write its digits only"));
}

TEST(OddValues, OnlyAPlausibleNumberIsSuggested) {
  EXPECT_THAT(ProblemsOf("train: {steps: 0 2000}\n"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(ProblemsOf("train: {steps: 10 000}\n"), HasSubstr("did you mean '10000'?"));
  EXPECT_THAT(ProblemsOf("optimizer:\n  sgd:\n    learning_rate: 1,500\n"),
              HasSubstr("learning_rate is '1,500'; write 1500, or 1.500 if the ',' is a decimal comma\n"));
  EXPECT_THAT(ProblemsOf("optimizer:\n  sgd:\n    learning_rate: 0,001\n"), HasSubstr("did you mean '0.001'?"));
  EXPECT_THAT(ProblemsOf("optimizer:\n  sgd:\n    learning_rate: 1,500,000\n"), HasSubstr("did you mean '1500000'?"));
  EXPECT_THAT(ProblemsOf("optimizer:\n  sgd:\n    learning_rate: 1 5\n"), Not(HasSubstr("did you mean")));
}

TEST(OddValues, AListWithoutCommasOrSpaces_IsSuggestedAsAList) {
  EXPECT_THAT(ProblemsOf("model: {lenet: {widths: [32 64]}}\n"),
              HasSubstr("not '32 64'; a ',' stands between two items\n  did you mean '32, 64'?"));
  EXPECT_THAT(ProblemsOf("model:\n  lenet:\n    widths: 8 16\n"), HasSubstr("did you mean '[8, 16]'?"));
  EXPECT_THAT(ProblemsOf("model: {lenet: {widths: \"8,16\"}}\n"), HasSubstr("did you mean '[8, 16]'?"));
  EXPECT_THAT(ProblemsOf("model: {lenet: {widths: small}}\n"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(ProblemsOf("optimizer: {groups: bias}\n"), HasSubstr("did you mean '[{match: bias}]'?"));
  EXPECT_THAT(ProblemsOf("model:\n  lenet:\n    widths:\n      -8\n      -16\n"),
              HasSubstr("not '-8 -16'; the '-' of an item needs a space after it\n"));
  EXPECT_THAT(ProblemsOf("precision:\n  module_rules:\n    -match: a\n"),
              HasSubstr("not a mapping; the '-' of an item needs a space after it\n"));
  EXPECT_THAT(OverrideText("model.lenet.widths=[1 2]"), HasSubstr("did you mean '1, 2'?"));
  EXPECT_THAT(OverrideText("model.lenet.widths=8 16"), HasSubstr("did you mean '[8, 16]'?"));
}

TEST(OddValues, ANumberInPlaceOfAMapping_IsSuggestedAsItsFirstField) {
  EXPECT_THAT(ProblemsOf("precision: {loss_scale: 1024}\n"), HasSubstr("did you mean '{static: {scale: 1024}}'?"));
  EXPECT_THAT(ProblemsOf("precision: {loss_scale: {static: 1000}}\n"), HasSubstr("did you mean '{scale: 1000}'?"));
  EXPECT_THAT(ProblemsOf("train: 2000\n"), HasSubstr("did you mean '{steps: 2000}'?"));
  EXPECT_THAT(ProblemsOf("train: 2.5\n"), Not(HasSubstr("did you mean")));
}

TEST(OddValues, AFieldAsAWordOrAnAssignment_IsSuggestedAsItIsWritten) {
  EXPECT_THAT(ProblemsOf("train: steps\n"), HasSubstr("did you mean '{steps: ...}'?"));
  EXPECT_THAT(ProblemsOf("model: lenet\n"), HasSubstr("did you mean '{lenet: {}}'?"));
  EXPECT_THAT(ProblemsOf("optimizer: {adamw: {learning_rate=1e-3}}\n"),
              HasSubstr("'learning_rate=1e-3' has no ':'; write learning_rate: 1e-3\n"));
  EXPECT_THAT(ProblemsOf("train: {steps 3}\n"), HasSubstr("'steps 3' has no ':'; write steps: 3\n"));
  EXPECT_THAT(OverrideText("train={steps:3}"), HasSubstr("a ':' needs a space after it: steps: 3\n"));
  EXPECT_THAT(OverrideText("train=steps=3"), HasSubstr("did you mean 'train.steps=3'?"));
  EXPECT_THAT(OverrideText("train=steps: 3"), HasSubstr("did you mean 'train.steps=3'?"));
}

TEST(OddValues, AChoiceInAFieldLikeName_IsSuggestedAsAField) {
  const std::string text = ProblemsOf("optimizer: {name: adamw, lr: 0.1}\n");
  EXPECT_THAT(text, HasSubstr("'name' is not a field of optimizer; each choice is a field of its own\n"
                              "  did you mean 'adamw: {...}'?"));
  EXPECT_THAT(text, HasSubstr("did you mean 'optimizer: {adamw: {learning_rate: ...}}'?"));
  EXPECT_THAT(ProblemsOf("optimizer: {type: SGD}\n"), HasSubstr("did you mean 'sgd: {...}'?"));
  EXPECT_THAT(OverrideText("optimizer.name=adamw"), HasSubstr("did you mean 'optimizer.adamw={}'?"));
}

TEST(OddValues, NamesOfOtherPrograms_LeadToTheField) {
  const Case cases[] = {{"batch", "data: {batch_size: ...}"},
                        {"device", "resources: {kind: ...}"},
                        {"gpus", "resources: {devices: ...}"},
                        {"fp16", "precision: {preset: fp16}"},
                        {"amp", "precision: {preset: auto}"},
                        {"dtype", "precision: {preset: ...}"},
                        {"mixed_precision", "precision: {preset: auto}"},
                        {"scaler", "precision: {loss_scale: ...}"},
                        {"gradient_accumulation_steps", "train: {gradient_accumulation: ...}"},
                        {"save_steps", "checkpoint: {every_steps: ...}"},
                        {"gradient_checkpointing", "train: {checkpoint_segments: ...}"},
                        {"tags", "labels"},
                        {"drop_last", "data: {last_batch: ...}"},
                        {"shuffle", "data: {keep_order: ...}"}};
  for (const auto& [name, field] : cases) {
    EXPECT_THAT(ProblemsOf(absl::StrCat(name, ": 1\n")), HasSubstr(absl::StrCat("did you mean '", field, "'?")))
        << name;
  }
  EXPECT_THAT(ProblemsOf("checkpoint: {save_steps: 1}\n"), HasSubstr("did you mean 'every_steps'?"));
  EXPECT_THAT(ProblemsOf("precision: {amp: 1}\n"), HasSubstr("did you mean 'preset: auto'?"));
  EXPECT_THAT(OverrideText("fp16=true"), HasSubstr("did you mean 'precision.preset=fp16'?"));
  EXPECT_THAT(OverrideText("device=cuda"), HasSubstr("did you mean 'resources.kind'?"));
}

TEST(OddOverrides, AnItemOfAListThatTheFileDoesNotSet_ChangesTheDefaultList) {
  const JobFile first = ReadJobFile("name: x\n", "f", {"model.lenet.widths[0]=16"});
  ASSERT_THAT(first.problems, IsEmpty());
  EXPECT_THAT(first.spec.model().lenet().widths(), ElementsAre(16, 64));
  EXPECT_THAT(first.notes,
              ElementsAre("--set model.lenet.widths[0] starts from the default list, [32, 64], because the "
                          "file does not set model.lenet.widths"));
  const JobFile both = ReadJobFile("name: x\n", "f", {"model.lenet.widths[1]=8", "model.lenet.widths[2]=4"});
  EXPECT_THAT(both.spec.model().lenet().widths(), ElementsAre(32, 8, 4));
  const JobFile set = ReadJobFile("model: {lenet: {widths: [1]}}\n", "f", {"model.lenet.widths[0]=2"});
  EXPECT_THAT(set.spec.model().lenet().widths(), ElementsAre(2));
  EXPECT_THAT(set.notes, IsEmpty());
  EXPECT_THAT(OverrideText("model.lenet.widths[3]=2"), HasSubstr("the list has 2 items, so widths[2] adds one\n"));
}

TEST(OddOverrides, QuotesInAText_AreNoted) {
  EXPECT_THAT(ReadJobFile("name: x\n", "f", {"labels.team=\"nlp\""}).notes,
              ElementsAre("--set labels.team: the quotes are a part of the value \"nlp\"; without them: --set "
                          "labels.team=nlp"));
  EXPECT_THAT(ReadJobFile("name: x\n", "f", {"labels.team=nlp"}).notes, IsEmpty());
  EXPECT_THAT(ReadJobFile("name: x\n", "f", {"labels={a: \"b\"}"}).notes, IsEmpty());
}

TEST(OddOverrides, ATextMayBeginWithABracket) {
  EXPECT_EQ(ReadJobFile("name: x\n", "f", {"labels.a=[x"}).spec.labels().at("a"), "[x");
  EXPECT_EQ(
      ReadJobFile("name: x\n", "f", {"precision.module_rules[0].match=[ab]*"}).spec.precision().module_rules(0).match(),
      "[ab]*");
  EXPECT_EQ(ReadJobFile("name: x\n", "f", {"precision.prefer=[bf16, fp16]"}).spec.precision().prefer_size(), 2);
  EXPECT_THAT(OverrideText("labels=[x]"), HasSubstr("must be a mapping"));
}

TEST(OddOverrides, NamesInBrackets_AreSuggestedWithDots) {
  const Case cases[] = {{"train[steps]=3", "train.steps"},
                        {"train['steps']=3", "train.steps"},
                        {"labels[a]=1", "labels.a"},
                        {"labels[\"a\"]=1", "labels.a"},
                        {"data[train][idx][images]=x", "data.train.idx.images"},
                        {"precision.module_rules[0][match]=x", "precision.module_rules[0].match"}};
  for (const auto& [override, path] : cases) {
    const std::string text = OverrideText(override);
    EXPECT_THAT(text, HasSubstr("brackets hold the index of an item; a field follows a dot\n")) << override;
    EXPECT_THAT(text, HasSubstr(absl::StrCat("did you mean '", path, "'?"))) << override;
  }
  EXPECT_THAT(OverrideText("model.lenet.widths[x]=8"), HasSubstr("'x' is not the index of an item"));
}

TEST(OddOverrides, ALookAlike_IsNamed) {
  const Case cases[] = {{"tr\u0430in.steps=3",
                         "U+0430 (Cyrillic small letter a), which looks like a; type a plain a\n"
                         "  did you mean 'train'?"},
                        {"train\uff0esteps=3",
                         "U+FF0E (full-width form .), which looks like .; type a plain .\n"
                         "  did you mean 'train.steps'?"},
                        {"train.steps\uff1d3",
                         "U+FF1D (full-width form =), which looks like =; type a plain =\n"
                         "  did you mean 'train.steps=3'?"},
                        {"train.steps=\uff13", "U+FF13 (full-width form 3), which looks like 3; type a plain 3"},
                        {"train.steps=3\u200b", "U+200B (zero width space), which nobody sees; remove it"},
                        {"train.steps\u200b=3", "U+200B (zero width space), which nobody sees; remove it"},
                        {"priority=\u22125", "U+2212 (minus sign), which looks like -; type a plain -"},
                        {"train.steps=\u201c3\u201d", "U+201C (left double quotation mark)"}};
  for (const auto& [override, answer] : cases) {
    EXPECT_THAT(OverrideText(override), HasSubstr(answer)) << override;
  }
  const JobFile file = ReadJobFile("name: x\n", "f", {"precision.preset=bf1\uff16"});
  EXPECT_THAT(PlaceViolations({{"precision.preset", "is \"bf1\uff16\"; presets are bf16"}}, file, "f")[0].message,
              HasSubstr("the character '\uff16' is U+FF16"));
  EXPECT_THAT(ReadJobFile("name: x\n", "f", {"labels.\u0430=\u201cx\u201d"}).problems, IsEmpty());
}

TEST(OddOverrides, AWordForNoValue_DoesNotRemoveAField) {
  for (const char* override : {"train.clip_grad_norm=null", "train.steps=null", "train.steps=~", "train.steps=None",
                               "name=null", "name=~", "model.lenet.widths=null", "labels=null", "labels.a=~"}) {
    EXPECT_THAT(OverrideText(override),
                HasSubstr(", which means no value; --set cannot remove a field, so remove it in the file\n"))
        << override;
  }
  EXPECT_THAT(OverrideText("eval=~"), HasSubstr("is a mapping of fields, which --set cannot remove"));
  EXPECT_EQ(OverrideText("labels.a=None"), "") << "a text like any other";
}

TEST(OddViolations, HaveTheValueAsItWasWritten) {
  const JobFile file = ReadJobFile("deadline: 100000d\ntrain: {steps: 1e3}\non_divergence: FAIL\n", "f", {});
  const auto message = [&file](const char* field, const char* description) {
    return PlaceViolations({{field, description}}, file, "f")[0].message;
  };
  EXPECT_EQ(message("deadline", "is 2400000h; must be 1s to 3652d12h"),
            "deadline: is '100000d'; must be 1s to 3652d12h");
  EXPECT_EQ(message("train.steps", "is 1000; must be 1 to 9"), "train.steps: is '1e3'; must be 1 to 9");
  EXPECT_EQ(message("train.steps", "is 1000, and more; say less"), "train.steps: is 1000, and more; say less");
  EXPECT_EQ(message("on_divergence", "is set; leave it out"), "on_divergence: is set; leave it out");
}

TEST(OddViolations, NameTheOverrideThatLedToThem) {
  const JobFile file =
      ReadJobFile("eval: {every_steps: 5}\ncheckpoint: {keep_best: true}\n", "f", {"eval.every_steps=0"});
  const auto problems = PlaceViolations(
      {{"checkpoint.keep_best", "needs eval.every_steps above 0"}, {"eval.every_steps", "is bad"}}, file, "f");
  EXPECT_EQ(problems[0].message, "checkpoint.keep_best: needs eval.every_steps above 0; see --set eval.every_steps");
  EXPECT_EQ(problems[1].message, "eval.every_steps: is bad");
}

}  // namespace
}  // namespace ampd::client
