#include "graph/modes.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ampd::graph {
namespace {

constexpr char kAttention[] = "aten.scaled_dot_product_attention.default";

Node Call(std::string op, std::vector<Argument> arguments) {
  return {.op = std::move(op), .arguments = std::move(arguments), .outputs = {}, .module_path = {}};
}

struct Case {
  const char* name;
  Node node;
  bool draws;
  bool draws_in_evaluation = false;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class Modes : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    Nodes, Modes,
    testing::Values(Case{"Dropout", Call("aten.dropout.default", {{"p", 0.5}, {"train", true}}), true},
                    Case{"DropoutInEvaluation", Call("aten.dropout.default", {{"p", 0.5}, {"train", false}}), false},
                    Case{"Attention", Call(kAttention, {}), false},
                    Case{"AttentionThatDropsNothing", Call(kAttention, {{"dropout_p", 0.0}}), false},
                    Case{"AttentionThatDropsWeights", Call(kAttention, {{"dropout_p", 0.1}}), true},
                    Case{"Lstm", Call("aten.lstm.input", {{"dropout", 0.5}, {"train", true}}), true},
                    Case{"LstmInFp32", Call("ampd.lstm_wide", {{"dropout", 0.5}, {"train", true}}), true},
                    Case{"LstmThatDropsNothing", Call("aten.lstm.input", {{"dropout", 0.0}, {"train", true}}), false},
                    Case{"GruInEvaluation", Call("aten.gru.input", {{"dropout", 0.5}, {"train", false}}), false},
                    Case{"Noise", Call("aten.bernoulli.p", {{"p", 0.8}}), true, true},
                    Case{"Linear", Call("aten.linear.default", {}), false},
                    Case{"OneOfOurs", Call("ampd.cross_entropy", {}), false}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

TEST_P(Modes, NodeDrawsAsItsArgumentsSay) { EXPECT_EQ(DrawsRandomNumbers(GetParam().node), GetParam().draws); }

TEST_P(Modes, NodeDrawsInEvaluationWhatNoModeTakesAway) {
  EXPECT_EQ(DrawsRandomNumbers(ForEvaluation(GetParam().node)), GetParam().draws_in_evaluation);
}

TEST(ForEvaluation, LeavesThePlainFormOfAttention) {
  const Node node = ForEvaluation(Call(kAttention, {{"is_causal", true}, {"dropout_p", 0.1}}));
  EXPECT_EQ(node.arguments, (std::vector<Argument>{{"is_causal", true}}));
}

Node Norm(Operand running_mean, Operand running_var) {
  return Call("aten.batch_norm.default", {{"input", ValueId{0}},
                                          {"running_mean", std::move(running_mean)},
                                          {"running_var", std::move(running_var)},
                                          {"training", true}});
}

TEST(ForEvaluation, ANormReadsItsRunningStatistics_OneWithoutTakesTheBatchsStill) {
  const Node norm = Norm(ValueId{1}, ValueId{2});
  EXPECT_TRUE(Trains(*FindOp(norm.op), norm));
  EXPECT_EQ(*ForEvaluation(norm).Find("training"), Operand(false));
  const Node without = Norm(Operand(), Operand());
  EXPECT_FALSE(HasModes(*FindOp(without.op), without));
  EXPECT_FALSE(Trains(*FindOp(without.op), without)) << "it writes nothing";
  EXPECT_EQ(*ForEvaluation(without).Find("training"), Operand(true));
}

}  // namespace
}  // namespace ampd::graph
