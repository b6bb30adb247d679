#include "graph/exported/exported_json.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/formats/safetensors.h"
#include "base/formats/safetensors_json.h"
#include "graph/exported/size_expression.h"

namespace ampd::graph {
namespace {

constexpr size_t kMaxNodes = 100'000;
constexpr size_t kMaxTensors = 400'000;
constexpr size_t kMaxArguments = 64;
constexpr size_t kMaxList = 65'536;
constexpr size_t kMaxRank = 16;
constexpr size_t kMaxModules = 256;
constexpr int kMaxGraphs = 4;  // Maximum depth of nesting.
constexpr int64_t kMaxSize = int64_t{1} << 40;
constexpr size_t kMaxNameBytes = kMaxSafetensorsNameBytes - 32;
constexpr int64_t kSchemaMajor = 8;
constexpr int64_t kStrided = 7;

Dtype ReadDtype(const JsonCursor& json) {
  static const auto* const dtypes = new std::map<int64_t, Dtype>{
      {1, Dtype::kUint8},       {4, Dtype::kInt32},      {5, Dtype::kInt64}, {6, Dtype::kFloat16},
      {7, Dtype::kFloat32},     {8, Dtype::kFloat64},    {12, Dtype::kBool}, {13, Dtype::kBFloat16},
      {29, Dtype::kFloat8E4M3}, {30, Dtype::kFloat8E5M2}};
  const int64_t number = json.Integer();
  const auto found = dtypes->find(number);
  if (found == dtypes->end()) {
    json.Fail(absl::StrCat("is dtype ", number, " of torch.export, which models may not have"));
    return Dtype::kFloat32;
  }
  return found->second;
}

ExportedSize ReadSize(const JsonCursor& json) {
  const auto [kind, value] = json.Choice();
  if (kind == "as_expr") {
    return ParseSizeExpression(value["expr_str"].Text());
  }
  ExportedSize size;
  size.factor = value.Integer();
  if (kind != "as_int" || size.factor < 0 || size.factor > kMaxSize) {
    value.Fail("is no size");
    size.factor = 1;
  }
  return size;
}

ExportedTensor ReadTensor(const JsonCursor& json) {
  ExportedTensor tensor;
  tensor.dtype = ReadDtype(json["dtype"]);
  tensor.requires_grad = json["requires_grad"].Truth();
  if (const JsonCursor layout = json["layout"]; layout.Integer() != kStrided) {
    layout.Fail("is no dense layout");
  }
  for (const JsonCursor& size : json["sizes"].List(kMaxRank)) {
    tensor.sizes.push_back(ReadSize(size));
  }
  return tensor;
}

TensorName ReadName(const JsonCursor& json) { return {json["name"].Text()}; }

std::vector<std::optional<TensorName>> ReadNames(const JsonCursor& json) {
  std::vector<std::optional<TensorName>> names;
  for (const JsonCursor& one : json.List(kMaxList)) {
    names.push_back(ReadName(one));
  }
  return names;
}

std::vector<std::optional<TensorName>> ReadOptionalNames(const JsonCursor& json) {
  std::vector<std::optional<TensorName>> names;
  for (const JsonCursor& one : json.List(kMaxList)) {
    const auto [kind, value] = one.Choice();
    names.push_back(kind == "as_none" ? std::nullopt : std::optional(ReadName(value)));
  }
  return names;
}

SizeName ReadSizeName(const JsonCursor& json) {
  const auto [kind, value] = json.Choice();
  return kind == "as_name" ? SizeName{value.Text(), 0} : SizeName{"", value.Integer()};
}

template <typename T, typename ReadOne>
std::vector<T> ReadList(const JsonCursor& json, ReadOne read) {
  std::vector<T> list;
  for (const JsonCursor& one : json.List(kMaxList)) {
    list.push_back(read(one));
  }
  return list;
}

// Reads a memory format, and converts torch.export's number for it to the number of at::MemoryFormat.
MemoryFormat ReadMemoryFormat(const JsonCursor& json) {
  constexpr int64_t kNumbers[] = {-1, 0, 2, 3, 1};
  const int64_t number = json.Integer();
  if (number < 1 || number > 4) {
    json.Fail("is no memory format");
    return {};
  }
  return {kNumbers[number]};
}

ExportedGraph ReadGraph(const JsonCursor& json, int depth);

// Reads a bool: a constant, or the name of a bool that the program computes from sizes. Such a name is returned as the
// name of an unknown number (SizeName): the import omits assertions on it, and rejects any other op that uses it.
ExportedArgument ReadTruthName(const JsonCursor& json) {
  const auto [kind, value] = json.Choice();
  if (kind == "as_bool") {
    return value.Truth();
  }
  if (kind != "as_name") {
    value.Fail("is no truth");
  }
  return SizeName{value.Text(), 0};
}

// NOLINTNEXTLINE(misc-no-recursion): bounded by kMaxGraphs.
ExportedArgument ReadArgument(const JsonCursor& json, int depth) {
  const auto [kind, value] = json.Choice();
  if (kind == "as_none") return std::monostate();
  if (kind == "as_tensor") return ReadName(value);
  if (kind == "as_tensors") return ReadNames(value);
  if (kind == "as_optional_tensors") return ReadOptionalNames(value);
  if (kind == "as_int") return value.Integer();
  if (kind == "as_ints") return ReadList<int64_t>(value, [](const JsonCursor& one) { return one.Integer(); });
  if (kind == "as_float") return value.Real();
  if (kind == "as_floats") return ReadList<double>(value, [](const JsonCursor& one) { return one.Real(); });
  if (kind == "as_bool") return value.Truth();
  if (kind == "as_string") return value.Text();
  if (kind == "as_sym_int") return ReadSizeName(value);
  if (kind == "as_sym_bool") return ReadTruthName(value);
  if (kind == "as_sym_ints") return ReadList<SizeName>(value, ReadSizeName);
  if (kind == "as_scalar_type") return ReadDtype(value);
  if (kind == "as_memory_format") return ReadMemoryFormat(value);
  if (kind == "as_device" || kind == "as_layout") return Placement();
  if (kind == "as_graph" && depth < kMaxGraphs) {
    return std::make_shared<const ExportedGraph>(ReadGraph(value["graph"], depth + 1));
  }
  value.Fail(absl::StrCat("is an argument of the kind \"", kind, "\", which models may not have"));
  return std::monostate();
}

// Parses "L__self__,,Net;L__self__layer1,layer1,Sequential": keys, paths and types, the outermost module first. A
// second call of a module has "@1" after its path. Returns the path of the innermost module, and adds the types of all
// modules to `types`.
std::string ReadModules(const std::string& stack, std::map<std::string, std::string>& types) {
  std::string innermost;
  for (const absl::string_view module : absl::StrSplit(stack, absl::MaxSplits(';', kMaxModules))) {
    const std::vector<std::string> parts = absl::StrSplit(module, ',');
    const bool is_whole = parts.size() >= 3;
    innermost = is_whole ? parts[1].substr(0, parts[1].find('@')) : "";
    if (is_whole) {
      types.emplace(innermost, parts[2]);
    }
  }
  return innermost;
}

// Finds the last frame `File "<path>", line <n>, in <function>` that is not LibTorch's own. Returns "<file>:<n>", where
// <file> is the path without its folders.
std::string UserLine(const std::string& trace) {
  std::string line;
  for (absl::string_view row : absl::StrSplit(trace, '\n')) {
    row = absl::StripLeadingAsciiWhitespace(row);
    if (!absl::ConsumePrefix(&row, "File \"") || absl::StrContains(row, "site-packages/torch/")) {
      continue;
    }
    const std::vector<absl::string_view> parts = absl::StrSplit(row, absl::MaxSplits("\", line ", 1));
    if (parts.size() == 2) {
      const absl::string_view file = parts[0].substr(parts[0].rfind('/') + 1);
      line = absl::StrCat(file, ":", parts[1].substr(0, parts[1].find(',')));
    }
  }
  return line;
}

// Reads the tensors that a node computes.
void ReadResults(const JsonCursor& json, ExportedNode& node) {
  for (const JsonCursor& one : json.List(kMaxList)) {
    const auto [kind, value] = one.Choice();
    if (kind == "as_tensor") {
      node.tensors.push_back(ReadName(value).name);
    } else if (kind == "as_tensors") {
      for (const auto& name : ReadNames(value)) {
        node.tensors.push_back(name->name);
      }
    } else if (kind == "as_sym_int" || kind == "as_sym_bool" || kind == "as_sym_float") {
      node.gives_numbers = true;
    } else if (kind != "as_none") {
      value.Fail(absl::StrCat("is a result of the kind \"", kind, "\", which models may not have"));
    }
  }
}

// NOLINTNEXTLINE(misc-no-recursion): bounded by kMaxGraphs.
ExportedNode ReadNode(const JsonCursor& json, int depth, std::map<std::string, std::string>& module_types) {
  ExportedNode node;
  node.target = json["target"].Text();
  for (const JsonCursor& one : json["inputs"].List(kMaxArguments)) {
    node.arguments.emplace_back(one["name"].Text(), ReadArgument(one["arg"], depth));
  }
  ReadResults(json["outputs"], node);
  const JsonCursor metadata = json["metadata"];
  if (metadata.Has("nn_module_stack")) {
    node.module_path = ReadModules(metadata["nn_module_stack"].Text(), module_types);
  }
  if (metadata.Has("stack_trace")) {
    node.source = UserLine(metadata["stack_trace"].Text());
  }
  return node;
}

// NOLINTNEXTLINE(misc-no-recursion): bounded by kMaxGraphs.
ExportedGraph ReadGraph(const JsonCursor& json, int depth) {
  ExportedGraph graph;
  for (const auto& [name, tensor] : json["tensor_values"].Members(kMaxTensors)) {
    graph.tensors.emplace(name, ReadTensor(tensor));
  }
  for (const auto& [name, number] : json["sym_int_values"].Members(kMaxTensors)) {
    graph.numbers.emplace(name, ReadSize(number));
  }
  if (json.Has("sym_bool_values")) {
    for (const auto& [name, relation] : json["sym_bool_values"].Members(kMaxTensors)) {
      const auto [kind, value] = relation.Choice();
      if (kind == "as_expr") {
        graph.relations.emplace(name, value["expr_str"].Text());
      }
    }
  }
  for (const JsonCursor& input : json["inputs"].List(kMaxTensors)) {
    const auto [kind, value] = input.Choice();
    if (kind != "as_tensor") {
      value.Fail("is an input that is no tensor; give the model tensors alone");
    }
    graph.inputs.push_back(ReadName(value).name);
  }
  for (const JsonCursor& output : json["outputs"].List(kMaxTensors)) {
    const auto [kind, value] = output.Choice();
    graph.outputs.push_back(kind == "as_tensor" ? std::optional(ReadName(value).name) : std::nullopt);
  }
  for (const JsonCursor& node : json["nodes"].List(kMaxNodes)) {
    graph.nodes.push_back(ReadNode(node, depth, graph.module_types));
  }
  return graph;
}

ExportedInput ReadInput(const JsonCursor& json) {
  const auto [kind, value] = json.Choice();
  if (kind == "user_input") {
    const auto [what, argument] = value["arg"].Choice();
    if (what != "as_tensor") {
      argument.Fail("is an input that is no tensor; give the model tensors alone");
    }
    return {ExportedInput::Kind::kUser, ReadName(argument).name, ""};
  }
  const std::string tensor = kind.empty() ? "" : ReadName(value["arg"]).name;
  if (kind == "parameter") return {ExportedInput::Kind::kParameter, tensor, value["parameter_name"].Text()};
  if (kind == "buffer") return {ExportedInput::Kind::kBuffer, tensor, value["buffer_name"].Text()};
  if (kind == "tensor_constant") return {ExportedInput::Kind::kConstant, tensor, value["tensor_constant_name"].Text()};
  value.Fail(absl::StrCat("is an input of the kind \"", kind, "\", which models may not have"));
  return {};
}

// A number of a stored tensor, which must not depend on a symbol.
int64_t ReadNumber(const JsonCursor& json) {
  const ExportedSize size = ReadSize(json);
  if (!size.symbol.empty() || !size.unknown.empty() || size.factor < 0 || size.factor > kMaxSize) {
    json.Fail("is no number from 0 to 2^40");
    return 0;
  }
  return size.factor;
}

// Whether a stored tensor is within two limits:
// * Its last element lies within the first kMaxStoredTensorBytes of its entry.
// * It has at most as many elements as its entry has up to that last element. Otherwise, strides of 0 could make a
//   large tensor out of a small file.
bool IsWithinBounds(const StoredTensor& tensor) {
  __int128 last = tensor.offset;
  __int128 elements = 1;
  for (size_t i = 0; i < tensor.sizes.size() && elements < kMaxSize; ++i) {
    elements *= tensor.sizes[i];
    last += static_cast<__int128>(std::max<int64_t>(tensor.sizes[i] - 1, 0)) * tensor.strides[i];
  }
  return elements <= last + 1 && last < kMaxStoredTensorBytes / ItemSizeBytes(tensor.dtype);
}

StoredTensor ReadStored(const JsonCursor& json, const std::string& folder) {
  StoredTensor tensor;
  if (json["use_pickle"].Truth()) {
    json.Fail("is pickled, which would be a program; models have plain tensors");
    return tensor;
  }
  const std::string entry = json["path_name"].Text();
  if (entry.find('/') != std::string::npos) {
    json["path_name"].Fail("leads out of its folder");
  }
  tensor.entry = folder + entry;
  const JsonCursor meta = json["tensor_meta"];
  tensor.dtype = ReadDtype(meta["dtype"]);
  tensor.offset = ReadNumber(meta["storage_offset"]);
  for (const JsonCursor& size : meta["sizes"].List(kMaxSafetensorsRank)) {
    tensor.sizes.push_back(ReadNumber(size));
  }
  for (const JsonCursor& stride : meta["strides"].List(kMaxSafetensorsRank)) {
    tensor.strides.push_back(ReadNumber(stride));
  }
  if (tensor.sizes.size() != tensor.strides.size() || !IsWithinBounds(tensor)) {
    meta.Fail("has sizes and strides that do not fit together, or that are too large");
    return {};
  }
  return tensor;
}

}  // namespace

// Reads a symbol's range. If the lower end is missing, it is 0; if the upper end is missing, it is kMaxSize.
SymbolRange ReadRange(const JsonCursor& json) {
  const auto end = [&json](std::string_view key, int64_t otherwise) {
    const JsonCursor value = json[key];
    return value.IsNull() ? otherwise : value.Integer();
  };
  return {end("min_val", 0), end("max_val", kMaxSize)};
}

// Adds the sizes of the input `tensor` that the export left open, with their values in the export's example inputs.
void ReadExamples(const JsonCursor& tensors, const std::string& tensor, std::map<std::string, int64_t>& examples) {
  const auto sizes = tensors.Has(tensor) ? tensors[tensor]["sizes"].List(kMaxRank) : std::vector<JsonCursor>();
  for (const JsonCursor& size : sizes) {
    const auto [kind, value] = size.Choice();
    if (kind != "as_expr" || !value.Has("hint") || value["hint"].IsNull()) {
      continue;
    }
    const ExportedSize read = ReadSize(size);
    const auto [type, example] = value["hint"].Choice();
    if (type == "as_int" && !read.symbol.empty() && read.factor == 1) {
      examples.emplace(read.symbol, example.Integer());
    }
  }
}

ExportedProgram ReadProgram(const JsonCursor& json) {
  const JsonCursor version = json["schema_version"];
  if (const int64_t major = version["major"].Integer(); major != kSchemaMajor) {
    version.Fail(absl::StrCat("is ", major, "; this build reads ", kSchemaMajor, ", that of torch 2.11"));
    return {};
  }
  ExportedProgram program;
  const JsonCursor module = json["graph_module"];
  program.graph = ReadGraph(module["graph"], 1);
  for (const JsonCursor& input : module["signature"]["input_specs"].List(kMaxTensors)) {
    program.inputs.push_back(ReadInput(input));
    if (program.inputs.back().kind == ExportedInput::Kind::kUser) {
      ReadExamples(module["graph"]["tensor_values"], program.inputs.back().tensor, program.examples);
    }
  }
  for (const JsonCursor& output : module["signature"]["output_specs"].List(kMaxTensors)) {
    const auto [kind, value] = output.Choice();
    if (kind != "user_output") {
      value.Fail(absl::StrCat("is an output of the kind \"", kind,
                              "\"; save what torch.export.export returns, without run_decompositions"));
    }
  }
  if (json.Has("range_constraints")) {
    for (const auto& [symbol, range] : json["range_constraints"].Members(kMaxTensors)) {
      program.ranges.emplace(symbol, ReadRange(range));
    }
  }
  return program;
}

void ReadStoredTensors(const JsonCursor& json, const std::string& folder, std::map<std::string, StoredTensor>& tensors,
                       const std::string& suffix) {
  for (const auto& [key, one] : json["config"].Members(kMaxTensors)) {
    const std::string name = key.empty() ? key : key + suffix;
    // Rejects names that checkpoints can't hold. Checkpoints contain these names, also with the endings that the
    // optimizer appends, such as ".momentum_buffer".
    if (name.empty() || name.size() > kMaxNameBytes || HasControl(name)) {
      one.Fail(absl::StrCat("has no name of 1 to ", kMaxNameBytes, " bytes without control characters"));
    }
    if (!tensors.emplace(name, ReadStored(one, folder)).second) {
      one.Fail("has the name of another tensor");
    }
  }
}

}  // namespace ampd::graph
