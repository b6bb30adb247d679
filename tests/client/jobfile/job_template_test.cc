#include "client/jobfile/job_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/jobfile/job_file.h"
#include "client/jobfile/problems_text.h"
#include "server/admission/admission.h"

namespace ampd::client {
namespace {

TEST(JobTemplate, EveryOneIsAJobFileThatTheServerAccepts) {
  int num_templates = 0;
  for (const std::string& model : TemplateModels()) {
    for (const std::string& data : TemplateData()) {
      const auto text = JobTemplate(model, data, "job");
      if (!text.ok()) {
        continue;
      }
      ++num_templates;
      const JobFile file = ReadJobFile(*text, "job.yaml", {});
      EXPECT_TRUE(file.problems.empty()) << *text << ProblemsText(file.problems, {});
      const auto admitted = server::AdmitSpec(file.spec);
      EXPECT_TRUE(admitted.ok()) << *text << admitted.status();
      for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
        EXPECT_LE(line.size(), 120u) << line;
      }
    }
  }
  EXPECT_EQ(num_templates, 30);
}

TEST(JobTemplate, WithoutAKindOfData_HasTheUsualOne) {
  for (const std::string& model : TemplateModels()) {
    EXPECT_TRUE(JobTemplate(model, "", "job").ok()) << model;
  }
  EXPECT_EQ(*JobTemplate("gpt2", "", "job"), *JobTemplate("gpt2", "tokens", "job"));
  EXPECT_EQ(*JobTemplate("lenet", "", "job"), *JobTemplate("lenet", "idx", "job"));
}

TEST(JobTemplate, EveryKindOfDataIsForAModel) {
  for (const std::string& data : TemplateData()) {
    int num_models = 0;
    for (const std::string& model : TemplateModels()) {
      num_models += JobTemplate(model, data, "job").ok() ? 1 : 0;
    }
    EXPECT_GT(num_models, 0) << data;
  }
}

TEST(JobTemplate, WhatDoesNotFit_IsRefusedWithTheChoices) {
  EXPECT_EQ(JobTemplate("vgg", "", "job").status().message(),
            "there is no model 'vgg'; choose one of: lenet, mlp, resnet, efficientnet_b0, gpt2, bert_classifier, rnn, "
            "dcgan, exported");
  EXPECT_EQ(JobTemplate("gpt2", "idx", "job").status().message(),
            "the model 'gpt2' can't be trained on data of the kind 'idx'; choose one of: tokens");
  for (const std::string name : {"", "a: b", "1a", "A", "a\nb", "true ", "#x"}) {
    EXPECT_EQ(JobTemplate("gpt2", "", name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace ampd::client
