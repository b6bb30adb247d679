#include "client/compare/run_facts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/client/compare/planted_runs.h"

namespace ampd::client {
namespace {

TEST(FactsOf, AFinishedJob_HasTheTimeOfItsStepsAtTheMeanPace) {
  const RunFacts facts = FactsOf(RecordOf({.step_seconds = 0.02, .num_steps = 300}));
  EXPECT_NEAR(facts.step_seconds.value(), 6.0, 1e-9);
  EXPECT_NEAR(facts.samples_per_second.value(), kPlantedBatch / 0.02, 1);
  EXPECT_LT(facts.pace_noise.value(), 0.01) << "the slow first step does not count";
  EXPECT_EQ(facts.num_steps, 300);
  EXPECT_EQ(facts.device, "w1/cpu, AMD EPYC 9R14");
}

TEST(FactsOf, WithoutFinalMetrics_TheTimeComesFromThePoints) {
  RunRecord record = RecordOf({.step_seconds = 0.02});
  record.job.mutable_attempts(0)->mutable_outcome()->clear_final_metrics();
  const RunFacts facts = FactsOf(record);
  EXPECT_NEAR(facts.step_seconds.value(), 200 * 0.02, 0.01);
  EXPECT_NEAR(facts.peak_memory_bytes.value(), 100 << 20, 1);
  EXPECT_NEAR(facts.mean_memory_bytes.value(), 50 << 20, 1);
}

TEST(FactsOf, WhatWasNotMeasured_IsUnset) {
  v1::Job job = JobOf({});
  job.mutable_attempts(0)->mutable_outcome()->clear_final_metrics();
  const RunFacts facts = FactsOf({.job = job});
  EXPECT_EQ(facts.step_seconds, std::nullopt);
  EXPECT_EQ(facts.samples_per_second, std::nullopt);
  EXPECT_EQ(facts.pace_noise, std::nullopt);
  EXPECT_EQ(facts.mean_memory_bytes, std::nullopt);
  EXPECT_EQ(facts.peak_memory_bytes, std::nullopt);
  EXPECT_EQ(facts.energy_joules, std::nullopt);
  EXPECT_EQ(facts.eval_accuracy, std::nullopt);
  EXPECT_FALSE(facts.loss_tail.has_value());
}

TEST(FactsOf, TheEnergyOfAllAttempts_IsAddedUpOnlyIfEachWasMeasured) {
  v1::Job job = JobOf({});
  job.mutable_attempts(0)->mutable_outcome()->mutable_final_metrics()->set_energy_joules(100);
  EXPECT_EQ(FactsOf({.job = job}).energy_joules, 100);
  *job.add_attempts() = job.attempts(0);
  job.set_num_attempts(2);
  EXPECT_EQ(FactsOf({.job = job}).energy_joules, 200);
  job.mutable_attempts(0)->mutable_outcome()->mutable_final_metrics()->clear_energy_joules();
  EXPECT_EQ(FactsOf({.job = job}).energy_joules, std::nullopt);
  job.mutable_attempts(0)->mutable_outcome()->mutable_final_metrics()->set_energy_joules(100);
  job.set_num_attempts(17);
  EXPECT_EQ(FactsOf({.job = job}).energy_joules, std::nullopt) << "the record no longer has all attempts";
}

TEST(FactsOf, TheWorkOfAStep_BecomesARate) {
  v1::Job job = JobOf({.step_seconds = 0.01});
  EXPECT_EQ(FactsOf({.job = job}).flops_per_second, std::nullopt);
  v1::FinalMetrics& metrics = *job.mutable_attempts(0)->mutable_outcome()->mutable_final_metrics();
  metrics.set_flops_per_step(3e9);
  metrics.set_mfu(0.4);
  EXPECT_DOUBLE_EQ(FactsOf({.job = job}).flops_per_second.value(), 3e11);
  EXPECT_EQ(FactsOf({.job = job}).mfu, 0.4);
}

TEST(FactsOf, EventsThatCount_AreCounted) {
  RunRecord record = RecordOf({});
  for (const v1::Event::Kind kind : {v1::Event::LOSS_SCALE_AT_FLOOR, v1::Event::PRECISION_RAISED,
                                     v1::Event::LOSS_SCALE_AT_FLOOR, v1::Event::LOSS_SCALE_BACKED_OFF}) {
    record.events.add_events()->set_kind(kind);
  }
  const RunFacts facts = FactsOf(record);
  EXPECT_EQ(facts.num_scale_collapses, 2);
  EXPECT_EQ(facts.num_precision_raises, 1);
}

TEST(FactsOf, AJobThatStoppedEarly_IsASuccessWithTheStepsThatItTrained) {
  const RunFacts facts = FactsOf(RecordOf({.step_seconds = 0.02, .num_steps = 120, .asked_steps = 200}));
  EXPECT_TRUE(facts.stopped_early);
  EXPECT_TRUE(facts.succeeded());
  EXPECT_FALSE(facts.diverged());
  EXPECT_EQ(facts.num_steps, 120);
  EXPECT_NEAR(facts.step_seconds.value(), 120 * 0.02, 1e-9);
  EXPECT_FALSE(FactsOf(RecordOf({.num_steps = 200, .asked_steps = 200})).stopped_early) << "it trained all steps";
  EXPECT_FALSE(FactsOf(RecordOf({})).stopped_early);
}

TEST(FactsOf, PointsThatALaterAttemptReplaced_AreLeftOut) {
  RunRecord record = RecordOf({});
  auto* const replaced = record.points.add_segments();
  *replaced->mutable_steps() = record.points.segments(0).steps();
  replaced->set_superseded(true);
  EXPECT_EQ(FactsOf(record).losses.size(), 200);
}

TEST(FactsOf, AGansLosses_SayNothingAboutItsQuality) {
  RunRecord record = RecordOf({});
  record.points.mutable_segments(0)->mutable_steps()->add_phases()->set_name("discriminator");
  EXPECT_TRUE(FactsOf(record).loss_tail.has_value());
  record.points.mutable_segments(0)->mutable_steps()->add_phases()->set_name("generator");
  EXPECT_FALSE(FactsOf(record).loss_tail.has_value());
}

TEST(RunFacts, DivergedByItsReasonOrByLossesThatAreNotFinite) {
  EXPECT_FALSE(FactsOf(RecordOf({})).diverged());
  for (const v1::Reason::Code reason :
       {v1::Reason::NONFINITE_LOSS, v1::Reason::NONFINITE_GRADIENTS, v1::Reason::NONFINITE_STATE,
        v1::Reason::LOSS_SCALE_COLLAPSED, v1::Reason::DIVERGED}) {
    EXPECT_TRUE(FactsOf(RecordOf({.state = v1::Job::FAILED, .reason = reason})).diverged())
        << v1::Reason::Code_Name(reason);
  }
  EXPECT_FALSE(FactsOf(RecordOf({.state = v1::Job::FAILED, .reason = v1::Reason::OUT_OF_MEMORY})).diverged());
  EXPECT_TRUE(FactsOf(RecordOf({.loss = std::numeric_limits<double>::quiet_NaN()})).diverged())
      << "with on_divergence WARN such a job succeeds";
}

}  // namespace
}  // namespace ampd::client
