#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "c10/util/Exception.h"

namespace ampd::executor {

// What LibTorch threw in one op of a program, forward or backward. The message names the op, its module and the line of
// the model's source, as far as they are known, before LibTorch's words.
class OpError : public c10::Error {
 public:
  OpError(const std::string& where, const std::string& what, bool is_index_error = false)
      : c10::Error(where + ": " + what), is_index_error_(is_index_error) {}

  // Whether LibTorch threw it for an index beyond what the op indexes.
  bool is_index_error() const { return is_index_error_; }

 private:
  bool is_index_error_;
};

// Throws what is being handled as an OpError of the op that `where` names. As it is, where no op is to blame: what
// tells of used-up memory or of the device, and an OpError. REQUIRES: called in a catch block.
[[noreturn]] void ThrowAsOpError(absl::FunctionRef<std::string()> where);

}  // namespace ampd::executor
