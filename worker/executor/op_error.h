#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "c10/util/Exception.h"

namespace ampd::executor {

// An error of one op of a program, in its forward or backward pass. The message names the op, its module and the line
// of the model's source, as far as they are known, followed by LibTorch's text.
class OpError : public c10::Error {
 public:
  OpError(const std::string& where, const std::string& what, bool is_index_error = false)
      : c10::Error(where + ": " + what), is_index_error_(is_index_error) {}

  // Whether LibTorch threw the error because an index is out of range.
  bool is_index_error() const { return is_index_error_; }

 private:
  bool is_index_error_;
};

// Rethrows the current exception as an OpError that names the op `where`. Two kinds of exceptions are rethrown
// unchanged: those that belong to no op, such as out-of-memory and device errors, and those that already are an
// OpError. REQUIRES: called in a catch block.
[[noreturn]] void ThrowAsOpError(absl::FunctionRef<std::string()> where);

}  // namespace ampd::executor
