// The calls of a file that the import refuses, because the code behind the import could not take them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "graph/exported/import.h"
#include "tests/graph/exported/exported_linear.h"

namespace ampd::graph {
namespace {

const json kNo = {{"as_bool", false}};
const json kYes = {{"as_bool", true}};

// The file of an exported model may contain any call, so the import checks what the engine assumes about calls
// (graph/exported/call_rules.h).
TEST(ImportProgram, ACallThatItsOpCantTakeIsNamed) {
  EXPECT_EQ(Refused([](json& m) { GraphOf(m)["nodes"][0]["inputs"].erase(1); }),
            "aten.linear.default of fc (net.py:10): it has no tensor as its weight");
  EXPECT_EQ(Refused([](json& m) { GraphOf(m)["nodes"][0]["inputs"][1]["arg"] = Named("p_b"); }),
            "aten.linear.default of fc (net.py:10): its weight has 1 dimensions; it takes 2");
  EXPECT_EQ(Refused([](json& m) {
              GraphOf(m)["nodes"][1] =
                  Call("max_pool2d.default", {{"self", Named("linear")}, {"kernel_size", {{"as_ints", {2, 2}}}}},
                       "relu", "act");
            }),
            "aten.max_pool2d.default of act (net.py:10): its self has 2 dimensions; it takes 3 to 4");
  EXPECT_EQ(Refused([](json& m) {
              GraphOf(m)["tensor_values"]["relu"] = Tensor({kBatch});
              const json none = {{"as_none", true}};
              GraphOf(m)["nodes"][1] = Call("batch_norm.default",
                                            {{"input", Named("linear")},
                                             {"weight", none},
                                             {"bias", none},
                                             {"running_mean", none},
                                             {"running_var", none},
                                             {"training", kYes},
                                             {"momentum", {{"as_float", 0.1}}},
                                             {"eps", {{"as_float", 1e-5}}},
                                             {"cudnn_enabled", kYes}},
                                            "relu", "act");
            }),
            "aten.batch_norm.default of act (net.py:10): its result has 1 dimensions; it takes at least 2");
  EXPECT_EQ(Refused([](json& m) {
              GraphOf(m)["tensor_values"]["linear"] = GraphOf(m)["tensor_values"]["relu"] = Tensor({kBatch, 3, 3});
              GraphOf(m)["tensor_values"]["state"] = Tensor({kBatch, 3, 3});
              GraphOf(m)["nodes"][1] = Call("gru.input",
                                            {{"input", Named("linear")},
                                             {"hx", Named("linear")},
                                             {"params", {{"as_tensors", json::array({{{"name", "p_w"}}})}}},
                                             {"has_biases", kNo},
                                             {"num_layers", {{"as_int", int64_t{1} << 40}}},
                                             {"dropout", {{"as_float", 0.0}}},
                                             {"train", kYes},
                                             {"bidirectional", kNo},
                                             {"batch_first", kYes}},
                                            "relu");
              GraphOf(m)["nodes"][1]["outputs"].push_back(Named("state"));
            }),
            "aten.gru.input (net.py:10): its num_layers is 1099511627776; it takes 1 to 4096");
}

// The op table has no rule about the sizes of these ops, so only their schemas require the tensors.
TEST(ImportProgram, ACallWithoutATensorThatItsOpRequiresIsNamed) {
  const auto fault = [](const std::string& op, const std::vector<std::pair<std::string, json>>& arguments) {
    return Refused([&](json& m) { GraphOf(m)["nodes"][1] = Call(op, arguments, "relu", "act"); });
  };
  const std::string at = " of act (net.py:10): ";
  EXPECT_EQ(fault("adaptive_avg_pool2d.default", {{"output_size", {{"as_ints", {2, 1}}}}}),
            "aten.adaptive_avg_pool2d.default" + at + "it has no tensor as its self");
  EXPECT_EQ(fault("nll_loss_nd.default", {{"target", Named("linear")}}),
            "aten.nll_loss_nd.default" + at + "it has no tensor as its self");
  EXPECT_EQ(fault("nll_loss_nd.default", {{"self", Named("linear")}}),
            "aten.nll_loss_nd.default" + at + "it has no tensor as its target");
  EXPECT_EQ(fault("type_as.default", {{"other", Named("linear")}}),
            "aten.type_as.default" + at + "it has no tensor as its self");
  EXPECT_EQ(fault("eq.Scalar", {{"self", Named("linear")}}),
            "aten.eq.Scalar" + at + "its argument other is missing; it takes a number");
  EXPECT_EQ(fault("relu.default", {{"self", {{"as_tensors", json::array({{{"name", "linear"}}})}}}}),
            "aten.relu.default" + at + "it has no tensor as its self");
}

// Passes exchange the results of these ops for their arguments, so a reader of the one must fit the other.
TEST(ImportProgram, AResultOfAnotherShapeThanTheTensorThatItStandsForIsNamed) {
  const auto fault = [](const std::string& op, const std::vector<std::pair<std::string, json>>& arguments) {
    return Refused([&](json& m) {
      GraphOf(m)["tensor_values"]["relu"] = Tensor({kBatch});
      GraphOf(m)["nodes"][1] = Call(op, arguments, "relu", "act");
    });
  };
  const std::string at = " of act (net.py:10): its result has another shape than its ";
  EXPECT_EQ(fault("relu_.default", {{"self", Named("linear")}}), "aten.relu_.default" + at + "self");
  EXPECT_EQ(fault("dropout.default", {{"input", Named("linear")}, {"p", {{"as_float", 0.5}}}, {"train", kYes}}),
            "aten.dropout.default" + at + "input");
  const std::string of_cast = Refused([](json& m) {
    constexpr int kDouble = 8;
    GraphOf(m)["tensor_values"]["relu"] = Tensor({kBatch}, false, kDouble);
    GraphOf(m)["nodes"][1] =
        Call("to.dtype", {{"self", Named("linear")}, {"dtype", {{"as_scalar_type", kDouble}}}}, "relu", "act");
  });
  EXPECT_EQ(of_cast, "aten.to.dtype" + at + "self");
}

// The file says that the einsum's result has two dimensions, but its equation gives one.
TEST(ImportProgram, ACallThatDoesNotTakeWhatAPassGivesItIsNamed) {
  const std::string fault = Refused([](json& m) {
    json& graph = GraphOf(m);
    const json operands = {{"as_tensors", json::array({{{"name", "linear"}}})}};
    graph["nodes"][1] =
        Call("einsum.default", {{"equation", {{"as_string", "bi->b"}}}, {"tensors", operands}}, "relu", "sum");
    graph["nodes"].push_back(Call(
        "layer_norm.default", {{"input", Named("relu")}, {"normalized_shape", {{"as_ints", {3}}}}}, "even", "norm"));
    graph["tensor_values"]["even"] = Tensor({kBatch, 3});
    graph["outputs"][0] = Named("even");
  });
  EXPECT_EQ(fault,
            "aten.layer_norm.default of norm (net.py:10): its normalized_shape, (3), is not what its input ends with");
}

}  // namespace
}  // namespace ampd::graph
