// Tests `ampctl job predict`.
#include <gmock/gmock.h>

#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;

constexpr char kData[] = "data: {predict: {idx: {images: d/i}}}\n";

class AmpctlPredict : public Ampctl {
 protected:
  // Adds a trained job with checkpoints at the steps 100, 200 and 300, and returns its id.
  std::string AddTrained() {
    v1::Job job = fake_.jobs.Add("trained", v1::Job::SUCCEEDED);
    v1::JobSpec& spec = *job.mutable_spec();
    spec.mutable_model()->mutable_lenet()->set_hidden(64);
    spec.mutable_model()->set_initial_weights("d/before");
    spec.mutable_model()->add_initialize_anew("fc.*");
    spec.mutable_precision()->set_preset("bf16");
    spec.mutable_resources()->set_kind(v1::ResourceSpec::CPU);
    spec.mutable_data()->set_batch_size(32);
    spec.mutable_data()->set_eval_batch_size(64);
    spec.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
    spec.mutable_train()->set_steps(300);
    job.clear_checkpoints();
    for (const auto& [step, loss] : {std::pair(100, 0.5), {200, 0.3}, {300, 0.4}}) {
      v1::Checkpoint& checkpoint = *job.add_checkpoints();
      checkpoint.set_step(step);
      checkpoint.set_eval_loss(loss);
    }
    fake_.jobs.Put(job);
    return job.id();
  }

  v1::JobSpec LastSpec() { return fake_.jobs.script()->creates.back().spec(); }
};

TEST_F(AmpctlPredict, TakesModelPrecisionAndDeviceFromTheTrainedJob) {
  const std::string id = AddTrained();
  Write("data.yaml", kData);
  const Result result = Run("job predict --checkpoint trained@best -f data.yaml --set predict.format=NPZ");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("submitted trained-predict"));
  const v1::JobSpec spec = LastSpec();
  EXPECT_EQ(spec.model().lenet().hidden(), 64);
  EXPECT_EQ(spec.model().initial_checkpoint().job_id(), id);
  EXPECT_EQ(spec.model().initial_checkpoint().step(), 200);
  EXPECT_EQ(spec.model().initial_weights(), "");
  EXPECT_EQ(spec.model().initialize_anew_size(), 0);
  EXPECT_EQ(spec.precision().preset(), "bf16");
  EXPECT_EQ(spec.resources().kind(), v1::ResourceSpec::CPU);
  EXPECT_EQ(spec.data().batch_size(), 64);
  EXPECT_EQ(spec.data().predict().idx().images(), "d/i");
  EXPECT_FALSE(spec.data().has_train());
  EXPECT_FALSE(spec.has_optimizer());
  EXPECT_FALSE(spec.has_train());
  EXPECT_EQ(spec.predict().format(), v1::PredictSpec::NPZ);
}

TEST_F(AmpctlPredict, AModelInTheFile_IsRefusedAtItsLine) {
  AddTrained();
  Write("a b.yaml", "name: x\nmodel: {lenet: {}}\n");
  const Result result = Run("job predict --checkpoint trained -f 'a b.yaml'");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(
      result.err,
      HasSubstr("error: a b.yaml:2:1: the file has a model, but a prediction uses the model of the trained job; "));
  EXPECT_THAT(result.err, HasSubstr("  try: correct it, then ampctl job predict --checkpoint trained -f 'a b.yaml'\n"));
  EXPECT_THAT(Run("job predict --checkpoint trained -f 'a b.yaml' out.jsonl").err,
              HasSubstr("  try: correct it, and repeat the command\n"));
}

TEST_F(AmpctlPredict, NamesTheCheckpointByItsStepOrTakesTheNewest) {
  const std::string id = AddTrained();
  Write("data.yaml", kData);
  for (const auto& [name, step] : {std::pair("@100", 100), {"", 300}, {"@newest", 300}, {"@best", 200}}) {
    ASSERT_EQ(Run("job predict -f data.yaml --checkpoint " + id + name).exit_code, 0) << name;
    EXPECT_EQ(LastSpec().model().initial_checkpoint().step(), step) << name;
  }
  for (const char* name : {"@worst", "@-5", "@", "@0"}) {
    const Result result = Run("job predict -f data.yaml --checkpoint " + id + name);
    EXPECT_EQ(result.exit_code, 2) << name;
    EXPECT_THAT(result.err, HasSubstr("it must be JOB, JOB@best, JOB@newest or JOB@STEP")) << name;
  }
  EXPECT_EQ(Run("job predict -f data.yaml --checkpoint j-nowhere@best").exit_code, 3);
  v1::Job unmeasured = fake_.jobs.Add("unmeasured", v1::Job::SUCCEEDED);
  unmeasured.clear_checkpoints();
  fake_.jobs.Put(unmeasured);
  EXPECT_THAT(Run("job predict -f data.yaml --checkpoint unmeasured").err, HasSubstr("has no checkpoint"));
  unmeasured.add_checkpoints()->set_step(10);
  fake_.jobs.Put(unmeasured);
  const Result none = Run("job predict -f data.yaml --checkpoint unmeasured@best");
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.err, HasSubstr("so none is the best"));
  EXPECT_EQ(Run("job predict -f data.yaml --checkpoint unmeasured@11").exit_code, 3);
}

TEST_F(AmpctlPredict, WithAFile_JoinsThePredictionsInTheOrderOfTheSamples) {
  AddTrained();
  Write("data.yaml", kData);
  fake_.artifacts.AddToEveryJob("{\"index\": 2}\n", "predictions-0000000002.jsonl");
  fake_.artifacts.AddToEveryJob("{\"index\": 0}\n{\"index\": 1}\n", "predictions-0000000000.jsonl");
  fake_.artifacts.AddToEveryJob("a text", "sample.txt");
  fake_.jobs.script()->ends_in = v1::Job::SUCCEEDED;
  const std::string command = "job predict --checkpoint trained -f data.yaml all.jsonl";
  const Result result = Run(command);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(*ReadFile(folder_ + "/all.jsonl", 1000), "{\"index\": 0}\n{\"index\": 1}\n{\"index\": 2}\n");
  const size_t before = fake_.jobs.size();
  const Result again = Run(command);
  EXPECT_NE(again.exit_code, 0);
  EXPECT_EQ(fake_.jobs.size(), before) << "nothing was submitted";
  EXPECT_EQ(Run(command + " --force").exit_code, 0);
  fake_.jobs.script()->ends_in = v1::Job::FAILED;
  EXPECT_EQ(Run("job predict --checkpoint trained -f data.yaml other.jsonl").exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/other.jsonl"));
}

TEST_F(AmpctlPredict, ForStdout_PrintsOnlyThePredictions) {
  AddTrained();
  Write("data.yaml", kData);
  fake_.artifacts.AddToEveryJob("{\"index\": 1}\n", "predictions-0000000001.jsonl");
  fake_.artifacts.AddToEveryJob("{\"index\": 0}\n", "predictions-0000000000.jsonl");
  fake_.jobs.script()->ends_in = v1::Job::SUCCEEDED;
  const Result result = Run("job predict --checkpoint trained -f data.yaml -");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "{\"index\": 0}\n{\"index\": 1}\n");
  EXPECT_THAT(result.err, HasSubstr("; waiting for its predictions"));
  EXPECT_EQ(Run("job predict --checkpoint trained -f data.yaml - -o json").exit_code, 2);
}

TEST_F(AmpctlPredict, APrecisionInTheFile_ReplacesTheTrainedOne) {
  v1::Job job = fake_.jobs.Add("mixed", v1::Job::SUCCEEDED);
  job.mutable_spec()->mutable_data()->set_batch_size(8);
  job.mutable_spec()->mutable_precision()->add_prefer("bf16");
  job.mutable_spec()->mutable_precision()->add_prefer("fp32");
  job.clear_checkpoints();
  job.add_checkpoints()->set_step(5);
  fake_.jobs.Put(job);
  Write("data.yaml", kData);
  ASSERT_EQ(Run("job predict --checkpoint mixed -f data.yaml").exit_code, 0);
  EXPECT_EQ(LastSpec().precision().prefer_size(), 2);
  ASSERT_EQ(Run("job predict --checkpoint mixed -f data.yaml --set precision.preset=fp32").exit_code, 0);
  EXPECT_EQ(LastSpec().precision().prefer_size(), 0);
  EXPECT_EQ(LastSpec().precision().preset(), "fp32");
  const Result other = Run("job predict --checkpoint mixed -f data.yaml --set model.lenet.hidden=8");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("a prediction uses the model of the trained job"));
}

TEST_F(AmpctlPredict, AJobThatHasNotEnded_IsNamedWithWhatToDo) {
  v1::Job job = fake_.jobs.Add("held", v1::Job::PAUSED);
  job.add_checkpoints()->set_step(5);
  fake_.jobs.Put(job);
  Write("data.yaml", kData);
  const Result result = Run("job predict --checkpoint held@5 -f data.yaml");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(
      result.err,
      HasSubstr(
          "--checkpoint: job " + job.id() +
          " is PAUSED, and only the checkpoints of ended jobs can be used; let it end (resume it: ampctl job resume "));
  EXPECT_THAT(result.err, HasSubstr("or end it: ampctl job cancel " + job.id()));
  EXPECT_TRUE(fake_.jobs.script()->creates.empty());
}

TEST_F(AmpctlPredict, RefusesAFileThatWouldBeWrong) {
  AddTrained();
  Write("data.yaml", kData);
  const Result npz = Run("job predict --checkpoint trained -f data.yaml --set predict.format=NPZ out.npz");
  EXPECT_EQ(npz.exit_code, 2);
  EXPECT_THAT(npz.err, HasSubstr("are several files"));
  EXPECT_EQ(Run("job predict --checkpoint trained -f data.yaml data.yaml --force").exit_code, 2);
  EXPECT_EQ(*ReadFile(folder_ + "/data.yaml", 1000), kData);
  EXPECT_THAT(Run("job predict --checkpoint trained -f missing.yaml").err, HasSubstr("cannot read missing.yaml"));
  EXPECT_TRUE(fake_.jobs.script()->creates.empty());
}

}  // namespace
}  // namespace ampd::client
