#pragma once

#include <string>
#include <string_view>
#include <vector>

// Names of fields and values in the files of other programs: PyTorch, Hugging Face, Lightning, DeepSpeed, Slurm and
// Kubernetes.
namespace ampd::client {

// Returns the name that ampd has for a field that other programs call `word`: "learning_rate" for "lr". Empty if there
// is none.
std::string UsualName(std::string_view word);

// The field of a job file that does what another program's field does, and its value if it has one: "precision.preset"
// and "fp16" for "fp16".
struct UsualField {
  std::string path;
  std::string value;
};

// Returns the field that does what other programs call `word`, such as "device" or "save_steps". The field may depend
// on `value`, the word's value in the user's text (empty: it has none): "dtype" with "float16" leads to the preset
// fp16. The path is empty if no field does that.
UsualField UsualFieldOf(std::string_view word, const std::string& value);

// Whether the field of another program is the size of one part of a batch, as "per_device_train_batch_size" is: a step
// has as many parts as the number of gradient accumulations says.
bool IsPartOfBatch(std::string_view word);

// Whether the value switches a field off: "false", "no", "off" or "0".
bool MeansNo(const std::string& value);

// Returns what to do with a field of another program that no field of a job file replaces, as the end of a sentence:
// "the worker itself chooses how it reads the data; leave it out" for "num_workers". Empty for other words.
std::string AdviceOn(std::string_view word);

// Returns the name that ampd has for a number format that other programs call `word`: "bf16" for "bfloat16". Empty if
// there is none.
std::string UsualFormat(std::string_view word);

// Returns that of the words of an enumeration, `names`, which was probably meant by `text`: "GPU" for "cuda:0",
// "MEDIUM" for "gpt2-medium". Empty if there is none.
std::string NearestWord(const std::string& text, const std::vector<std::string>& names);

}  // namespace ampd::client
