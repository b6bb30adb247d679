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
                              "  did you mean 'adamw: {learning_rate: 0.1}'?"));
  EXPECT_THAT(text, HasSubstr("did you mean 'optimizer: {adamw: {learning_rate: ...}}'?"));
  EXPECT_THAT(ProblemsOf("optimizer: {type: SGD}\n"), HasSubstr("did you mean 'sgd: {...}'?"));
  EXPECT_THAT(OverrideText("optimizer.name=adamw"), HasSubstr("did you mean 'optimizer.adamw={}'?"));
  EXPECT_THAT(OverrideText("optimizer={type: sgd, lr: 0.1}"),
              HasSubstr("did you mean 'optimizer.sgd={learning_rate: 0.1}'?"));
}

TEST(OddValues, AFieldOfAnotherSection_IsSuggestedWithAValueThatItTakes) {
  EXPECT_THAT(ProblemsOf("train: {loss_scale: 1024}\n"),
              HasSubstr("did you mean 'precision: {loss_scale: {static: {scale: 1024}}}'?"));
  EXPECT_THAT(ProblemsOf("train: {batch_size: 8}\n"), HasSubstr("did you mean 'data.batch_size'?"));
}

TEST(OddValues, AFieldThatStandsBesideAnotherNameForIt_IsChangedAndNotRepeated) {
  EXPECT_THAT(ProblemsOf("resources:\n  gres: gpu:1\n  kind: AUTO\n"),
              HasSubstr("'gres' is not a field of resources; kind in line 3 does that: set it to GPU, and remove this "
                        "line\n"));
  EXPECT_THAT(ProblemsOf("resources: {gres: gpu:1}\n"), HasSubstr("did you mean 'kind: GPU'?"));
}

TEST(OddValues, SizesAndTimesOfOtherPrograms_AreSuggestedWithTheirValues) {
  const std::string text = ProblemsOf("resources:\n  mem: 16G\n  time: '02:00:00'\n");
  EXPECT_THAT(text,
              HasSubstr("'mem' is not a field of resources; memory_bytes is memory of the device that the job runs "
                        "on\n  did you mean 'memory_bytes: 16GB'?"));
  EXPECT_THAT(text, HasSubstr("'time' is not a field of resources, but a field at the top level of the file does that; "
                              "deadline counts from the job's first start\n  did you mean 'deadline: 2h'?"));
  EXPECT_THAT(ProblemsOf("resources: {memory: 4GiB}\n"), HasSubstr("did you mean 'memory_bytes: 4GiB'?"));
  EXPECT_THAT(
      ProblemsOf("resources:\n  mem: 16G\n  memory_bytes: 8GB\n"),
      HasSubstr("memory_bytes in line 3 does that: set it to 16GB, and remove this line; memory_bytes is memory "
                "of the device that the job runs on\n"));
  EXPECT_THAT(ProblemsOf("timeout: 90m\n"), HasSubstr("did you mean 'deadline: 90m'?"));
  EXPECT_THAT(OverrideText("walltime=01:30:00"), HasSubstr("did you mean 'deadline=1h30m'?"));
  // The unit of a plain number is not known: Slurm's memory is in megabytes, and its time in minutes.
  EXPECT_THAT(ProblemsOf("resources: {mem: 16000}\n"), HasSubstr("did you mean 'memory_bytes'?"));
  EXPECT_THAT(ProblemsOf("time: 120\n"), HasSubstr("did you mean 'deadline'?"));
}

TEST(OddValues, AWordInPlaceOfANumber_IsAnsweredWithTheLimits) {
  EXPECT_THAT(OverrideText("priority=high"),
              HasSubstr("must be a whole number, not 'high'; allowed is -1000 to 1000\n"));
  EXPECT_THAT(OverrideText("checkpoint.keep=all"), HasSubstr("not 'all'; allowed is 1 to 1000\n"));
  EXPECT_THAT(
      OverrideText("eval.every_steps=never"),
      HasSubstr("not 'never'; 0 means only at the end; to train without evaluations, leave out data.eval\n  try"));
  EXPECT_THAT(OverrideText("sample.every_steps=never"), HasSubstr("to train without samples, leave out sample\n"));
  EXPECT_THAT(OverrideText("checkpoint.every_steps=never"), HasSubstr("only at the end\n  did you mean '0'?"));
  EXPECT_THAT(OverrideText("schedule.step.every_steps=never"), Not(HasSubstr("0 means")));
  EXPECT_THAT(OverrideText("priority=1 train.seed=2"), Not(HasSubstr("allowed is")));
}

TEST(OddValues, NamesOfOtherPrograms_LeadToTheField) {
  const Case cases[] = {{"batch", "data: {batch_size: ...}"},
                        {"device", "resources: {kind: GPU}"},
                        {"gpus", "resources: {kind: GPU}"},
                        {"fp16", "precision: {preset: fp16}"},
                        {"amp", "precision: {preset: auto}"},
                        {"dtype", "precision: {preset: ...}"},
                        {"mixed_precision", "precision: {preset: auto}"},
                        {"scaler", "precision: {loss_scale: ...}"},
                        {"gradient_accumulation_steps", "train: {gradient_accumulation: ...}"},
                        {"save_steps", "checkpoint: {every_steps: ...}"},
                        {"gradient_checkpointing", "train: {checkpoint_segments: ...}"},
                        {"tags", "labels"},
                        {"drop_last", "data: {last_batch: DROP}"},
                        {"shuffle", "data: {keep_order: false}"}};
  for (const auto& [name, field] : cases) {
    EXPECT_THAT(ProblemsOf(absl::StrCat(name, ": 1\n")), HasSubstr(absl::StrCat("did you mean '", field, "'?")))
        << name;
  }
  EXPECT_THAT(ProblemsOf("checkpoint: {save_steps: 1}\n"), HasSubstr("did you mean 'every_steps'?"));
  EXPECT_THAT(ProblemsOf("precision: {amp: 1}\n"), HasSubstr("did you mean 'preset: auto'?"));
  EXPECT_THAT(OverrideText("fp16=true"), HasSubstr("did you mean 'precision.preset=fp16'?"));
  EXPECT_THAT(OverrideText("device=cuda"), HasSubstr("did you mean 'resources.kind=GPU'?"));
}

TEST(OddValues, TheValueOfAnotherProgramsField_IsTranslated) {
  const Case cases[] = {{"dtype: torch.float16", "precision: {preset: fp16}"},
                        {"opt_level: O2", "precision: {preset: apex-o2}"},
                        {"mixed_precision: bf16", "precision: {preset: auto}"},
                        {"shuffle: false", "data: {keep_order: true}"},
                        {"drop_last: false", "data: {last_batch: PAD}"},
                        {"device: cuda:0", "resources: {kind: GPU}"},
                        {"device: 0", "resources: {kind: GPU}"},
                        {"gpus: 0", "resources: {kind: CPU}"},
                        {"optim: adamw_torch", "optimizer: {adamw: {}}"},
                        {"lr_scheduler_type: cosine", "schedule: {cosine: {}}"}};
  for (const auto& [line, meant] : cases) {
    EXPECT_THAT(ProblemsOf(absl::StrCat(line, "\n")), HasSubstr(absl::StrCat("did you mean '", meant, "'?"))) << line;
  }
  EXPECT_THAT(ProblemsOf("gpus: 2\n"), HasSubstr("; a job runs on one device\n"));
  EXPECT_THAT(OverrideText("resources.gpus=1"), HasSubstr("did you mean 'resources.kind=GPU'?"));
}

TEST(OddValues, ASectionThatIsOnlyCapitalised_IsReadAllTheSame) {
  const std::string text = ProblemsOf("Data: {train: {npz: {file: d/x}}, batch_size: x}\n");
  EXPECT_THAT(text, HasSubstr("'Data' is not a field of a job file\n  did you mean 'data'?"));
  EXPECT_THAT(text, HasSubstr("data.batch_size must be a whole number, not 'x'"));
  EXPECT_THAT(ProblemsOf("data: {}\nData: {batch_size: x}\n"), Not(HasSubstr("batch_size")));
}

TEST(OddValues, AListOfJobs_BelongsInSeveralFiles) {
  const char kOneJob[] = "; a job file holds one job, so put each item into a file of its own\n";
  EXPECT_THAT(ProblemsOf("[{\"name\": \"a\"}, {\"name\": \"b\"}]\n"), HasSubstr(kOneJob));
  EXPECT_THAT(ProblemsOf("- name: a\n- priority: 1\n"),
              HasSubstr("; write the fields without the '-' or '[]' of a list\n"));
}

TEST(OddValues, FieldsOfTransformers_AreAnsweredTogether) {
  EXPECT_THAT(ProblemsOf("learning_rate: 1\n"), HasSubstr("did you mean 'optimizer.adamw.learning_rate'?"));
  EXPECT_THAT(ProblemsOf("learning_rate: 1\noptimizer: {sgd: {}}\n"),
              HasSubstr("did you mean 'optimizer.sgd.learning_rate'?"));
  EXPECT_THAT(ProblemsOf("model_name_or_path: gpt2\n"), HasSubstr("; ampd loads no models by their name; "));
  EXPECT_THAT(ProblemsOf("per_device_train_batch_size: 8\ngradient_accumulation_steps: 4\n"),
              HasSubstr("; data.batch_size counts all samples of a step, here 8 times 4\n"
                        "  did you mean 'data: {batch_size: 32}'?"));
  EXPECT_THAT(ProblemsOf("train_batch_size: 8\ngradient_accumulation_steps: 4\n"),
              HasSubstr("did you mean 'data: {batch_size: ...}'?"));
}

TEST(OddValues, ATimeForANumberOfSteps_IsAnsweredWithSteps) {
  EXPECT_THAT(OverrideText("checkpoint.every=10m"),
              HasSubstr("; set checkpoint.every_steps, which counts steps, not time or epochs\n"));
  EXPECT_THAT(OverrideText("checkpoint.every=10"), HasSubstr("did you mean 'every_steps'?"));
  EXPECT_THAT(OverrideText("eval.every_steps=10m"), HasSubstr("; it counts steps, not time or epochs\n"));
}

TEST(OddValues, ASwitchOfAnotherProgramThatIsOff_IsNotAnsweredWithItsPreset) {
  for (const char* text :
       {"bf16: false\n", "bf16: {enabled: false}\n", "use_amp: no\n", "precision: {fp16: false}\n"}) {
    EXPECT_THAT(ProblemsOf(text), HasSubstr("; precision.preset alone chooses the formats; leave it out\n")) << text;
    EXPECT_THAT(ProblemsOf(text), Not(HasSubstr("did you mean"))) << text;
  }
}

TEST(OddValues, ASectionOfDeepSpeed_IsAnsweredWithItsPresetAndTheLossScale) {
  const std::string text = ProblemsOf("fp16: {enabled: true, loss_scale: 0}\n");
  EXPECT_THAT(text, HasSubstr("; its loss scale is set in precision.loss_scale\n"));
  EXPECT_THAT(text, HasSubstr("did you mean 'precision: {preset: deepspeed-fp16}'?"));
  EXPECT_THAT(ProblemsOf("fp16: {enabled: true}\n"), HasSubstr("did you mean 'precision: {preset: fp16}'?"));
}

TEST(OddValues, FieldsOfOtherProgramsWithoutACounterpart_HaveAdvice) {
  const Case cases[] = {
      {"train: {logging_steps: 1}", "the loss of every step is kept"},
      {"train: {output_dir: out}", "the server keeps checkpoints"},
      {"data: {num_workers: 4}", "the worker itself chooses how it reads the data"},
      {"zero_optimization: {stage: 2}", "a job runs on one device"},
      {"partition: gpu", "the server has one queue"},
      {"schedule: {warmup_ratio: 0.1}", "set schedule.warmup_steps, which counts steps"},
      {"checkpoint: {save_strategy: epoch}", "set checkpoint.every_steps"},
      {"resources: {limits: {cpu: 1}}", "set kind (AUTO, CPU or GPU) and memory_bytes"},
      {"x-common: {a: 1}", "gets its anchor ('&') where it is used first"},
      {"optimizer: {type: Adam, params: {lr: 1}}", "stand directly below it: adam: {learning_rate: ...}"},
      {"optimizer: {betas: [0.9, 0.95]}", "adamw and adam have beta1 and beta2"}};
  for (const auto& [line, advice] : cases) {
    EXPECT_THAT(ProblemsOf(absl::StrCat(line, "\n")), HasSubstr(advice)) << line;
  }
}

TEST(OddValues, AManifestOfKubernetes_IsNamedAndItsKindIsNoDevice) {
  const std::string text = ProblemsOf("apiVersion: batch/v1\nkind: Job\nspec: {template: {}}\n");
  EXPECT_THAT(text, HasSubstr("'kind' is not a field of a job file; a job file is no manifest of Kubernetes"));
  EXPECT_THAT(text, HasSubstr("'spec' is not a field of a job file; to get a job file to start from: ampctl init\n"));
  EXPECT_THAT(text, Not(HasSubstr("resources.kind")));
  EXPECT_THAT(ProblemsOf("kind: GPU\n"), HasSubstr("did you mean 'resources.kind'?"));
}

TEST(OddValues, BetasOfOtherPrograms_AreTwoFields) {
  EXPECT_THAT(ProblemsOf("optimizer: {adamw: {betas: [0.9, 0.95]}}\n"),
              HasSubstr("did you mean 'beta1: 0.9, beta2: 0.95'?"));
  EXPECT_THAT(OverrideText("optimizer.adam.betas=(0.9,0.95)"),
              HasSubstr("did you mean '--set optimizer.adam.beta1=0.9 --set optimizer.adam.beta2=0.95'?"));
}

TEST(OddValues, AFieldOfAnotherChoice_IsNotSuggestedInPlaceOfTheChosenOne) {
  EXPECT_THAT(ProblemsOf("model: {type: mlp, hidden_size: 16}\n"),
              HasSubstr("'hidden_size' is not a field of model or model.mlp\n  (allowed: in_features, hidden, "));
  EXPECT_THAT(ProblemsOf("optimizer: AdamW\ntrain: {learning_rate: 1}\n"),
              HasSubstr("did you mean 'optimizer.adamw.learning_rate'?"));
  EXPECT_THAT(OverrideText("data.train.path=x"), HasSubstr("did you mean 'data.train.tokens.path'?"));
}

TEST(OddValues, NumbersWithASuffixOrAFraction_AreSuggestedInDigits) {
  EXPECT_THAT(ProblemsOf("train: {steps: 1.5k}\n"), HasSubstr("did you mean '1500'?"));
  EXPECT_THAT(ProblemsOf("train: {steps: 2M}\n"), HasSubstr("did you mean '2000000'?"));
  EXPECT_THAT(ProblemsOf("schedule: {cosine: {final_ratio: 5%}}\n"), HasSubstr("did you mean '0.05'?"));
  EXPECT_THAT(ProblemsOf("optimizer: {sgd: {learning_rate: 1/1000}}\n"), HasSubstr("did you mean '0.001'?"));
  EXPECT_THAT(ProblemsOf("train: {steps: 1.5%}\n"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(ProblemsOf("train: {steps: 1/0}\n"), Not(HasSubstr("did you mean")));
}

TEST(OddValues, CommentsAndVariablesInAValue_AreNamed) {
  EXPECT_THAT(ProblemsOf("train:\n  steps: 4# four\n"),
              HasSubstr("; a '#' begins a comment only after a space\n  did you mean '4'?"));
  EXPECT_THAT(ProblemsOf("train:\n  steps: 4  // four\n"),
              HasSubstr("; '//' begins no comment; YAML has # comments\n  did you mean '4'?"));
  EXPECT_THAT(ProblemsOf("train:\n  steps: ${STEPS}\n"), HasSubstr("; a job file has no variables"));
  EXPECT_THAT(OverrideText("train.steps=$STEPS"), HasSubstr("; a job file has no variables, so write the value\n"));
}

TEST(OddValues, ATupleOfPython_IsSuggestedAsAList) {
  EXPECT_THAT(ProblemsOf("model: {lenet: {widths: (8, 16)}}\n"), HasSubstr("not '(8, 16)'\n  did you mean '[8, 16]'?"));
  EXPECT_THAT(ProblemsOf("model:\n  lenet:\n    widths: (8, 16)\n"), HasSubstr("did you mean '[8, 16]'?"));
  EXPECT_THAT(OverrideText("data.train.synthetic.shape=1x28x28"), HasSubstr("did you mean '[1, 28, 28]'?"));
}

TEST(OddValues, ASwitchInPlaceOfASection_IsSuggestedAsAnEmptyMappingIfThatIsEnough) {
  EXPECT_THAT(ProblemsOf("schedule: {cosine: true}\n"), HasSubstr("did you mean '{}'?"));
  EXPECT_THAT(ProblemsOf("train: {early_stopping: yes}\n"), HasSubstr("did you mean '{}'?"));
  EXPECT_THAT(ProblemsOf("schedule: {step: true}\n"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(ProblemsOf("optimizer: true\n"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(ProblemsOf("precision: true\n"), Not(HasSubstr("did you mean '{}'")));
  EXPECT_THAT(ProblemsOf("eval: false\n"), HasSubstr("not 'false'; remove the field\n"));
  EXPECT_THAT(ProblemsOf("model: {gpt2: small}\n"), HasSubstr("did you mean '{size: SMALL}'?"));
}

TEST(OddValues, AFieldWithoutAValue_SaysWhatToWrite) {
  EXPECT_THAT(ProblemsOf("train: {seed: ~}\n"),
              HasSubstr("train.seed is '~', which means no value in YAML; it must be a whole number of at least 0; "
                        "write one, or remove the field\n"));
  EXPECT_THAT(ProblemsOf("labels:\n  team:\n"), HasSubstr("write \"\" for an empty text, or remove the field\n"));
  EXPECT_THAT(ProblemsOf("name:\n"), HasSubstr("name has no value; it must be text; write one\n"));
}

TEST(OddValues, SeveralLabelsInOneText_AreSuggestedAsOneMapping) {
  EXPECT_THAT(OverrideText("labels=team=nlp,env=prod"), HasSubstr("did you mean '{team: nlp, env: prod}'?"));
  EXPECT_THAT(OverrideText("labels=team=nlp"), HasSubstr("did you mean 'labels.team=nlp'?"));
  EXPECT_THAT(ProblemsOf("labels: team=nlp\n"), HasSubstr("did you mean '{team: nlp}'?"));
}

TEST(OddValues, WordsForNoLimitAndTimesOfOtherPrograms_AreAnswered) {
  EXPECT_THAT(ProblemsOf("deadline: never\n"), HasSubstr("; for no limit, leave the field out\n"));
  EXPECT_THAT(ProblemsOf("deadline: 01:30:00\n"), HasSubstr("did you mean '1h30m'?"));
  EXPECT_THAT(ProblemsOf("model: {gpt2: {size: gpt2-medium}}\n"), HasSubstr("did you mean 'MEDIUM'?"));
  EXPECT_THAT(ProblemsOf("on_divergence: ROLL_BACK_AND_RAISE\n"),
              HasSubstr("did you mean 'ROLL_BACK_AND_RAISE_PRECISION'?"));
  EXPECT_THAT(ProblemsOf("resources: {kind: TPU}\n"), Not(HasSubstr("did you mean")));
}

TEST(OddOverrides, OverridesWithoutAnEqualsSign_AreAnsweredByTheirField) {
  EXPECT_THAT(OverrideText("checkpoint.keep_best"), HasSubstr("did you mean 'checkpoint.keep_best=true'?"));
  EXPECT_THAT(OverrideText("schedule.constant"), HasSubstr("did you mean 'schedule.constant={}'?"));
  EXPECT_THAT(OverrideText("fp16"), HasSubstr("did you mean 'precision.preset=fp16'?"));
  for (const char* text : {"eval-", "!eval", "~eval", "labels.team-"}) {
    EXPECT_THAT(OverrideText(text), HasSubstr("--set cannot remove a field, so remove ")) << text;
  }
}

TEST(OddOverrides, PathsOfOtherPrograms_LeadToThePath) {
  const Case cases[] = {{"\"train.steps\"=3", "train.steps"},
                        {"+train.steps=3", "train.steps"},
                        {"spec.train.steps=3", "train.steps"},
                        {"trainer.max_steps=3", "train.steps"},
                        {"model.lenet.widths+=8", "model.lenet.widths[2]"}};
  for (const auto& [text, path] : cases) {
    EXPECT_THAT(OverrideText(text), HasSubstr(absl::StrCat("did you mean '", path, "'?"))) << text;
  }
  EXPECT_THAT(OverrideText("model.lenet.widths.7=8"), HasSubstr("there is no item 7 in widths"));
  EXPECT_THAT(OverrideText("model.lenet.widths.7=8"), Not(HasSubstr("did you mean")));
}

TEST(OddOverrides, SeveralAssignmentsInOneOption_AreSuggestedAsOneOptionEach) {
  for (const char* text : {"train.steps=1,train.seed=3", "train.steps=1;seed=3", "train.steps=1 train.seed=3"}) {
    EXPECT_THAT(OverrideText(text), HasSubstr("did you mean '--set train.steps=1 --set train.seed=3'?")) << text;
  }
  EXPECT_THAT(OverrideText("train.steps=1,nonsense=3"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(OverrideText("train.steps==1"), HasSubstr("did you mean '1'?"));
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
  EXPECT_THAT(ReadJobFile("name: x\n", "f", {"labels.team='a b'"}).notes,
              ElementsAre("--set labels.team: the quotes are a part of the value 'a b'; without them: --set "
                          "'labels.team=a b'"));
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

TEST(OddOverrides, ALabelWithAnEscapedDot_IsAnsweredWithoutTheEscape) {
  for (const char* path : {"labels.exp\\.id", "labels.'exp.id'", "labels.\"exp.id\""}) {
    EXPECT_THAT(OverrideText(absl::StrCat(path, "=7")), HasSubstr("--set 'labels={exp.id: \"7\"}'\n")) << path;
  }
}

TEST(OddOverrides, TheMappingForADottedLabel_HasTheWholeValue_AsAShellReadsIt) {
  const std::string value = "it's x, c: y";
  EXPECT_THAT(OverrideText("labels.a.b=" + value), HasSubstr("--set 'labels={a.b: \"it'\\''s x, c: y\"}'\n"));
  EXPECT_EQ(ReadJobFile("name: x\n", "f", {"labels={a.b: \"it's x, c: y\"}"}).spec.labels().at("a.b"), value)
      << "what a shell makes of the suggestion";
  EXPECT_THAT(OverrideText("labels.a.b=" + std::string(60, 'v')), HasSubstr(": " + std::string(60, 'v') + "}'\n"));
  EXPECT_THAT(OverrideText("labels.a.b=" + std::string(61, 'v')), HasSubstr("--set 'labels={a.b: VALUE}'\n"));
  EXPECT_THAT(OverrideText("labels.a.b="), HasSubstr("--set 'labels={a.b: VALUE}'\n"));
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
  EXPECT_THAT(OverrideText("eval=~"),
              HasSubstr("is a mapping of fields, which --set cannot remove; set eval.every_steps=0, which means "
                        "only at the end; to train without evaluations, leave out data.eval\n"));
  EXPECT_THAT(OverrideText("schedule=null"), HasSubstr("which --set cannot remove; remove it in the file\n"));
  EXPECT_THAT(OverrideText("schedule.cosine="),
              HasSubstr("remove it in the file, or write {} for a mapping without fields\n"));
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
