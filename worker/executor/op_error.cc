#include "worker/executor/op_error.h"

#include <exception>
#include <new>

namespace ampd::executor {

void ThrowAsOpError(absl::FunctionRef<std::string()> where) {
  std::string what;
  bool is_index_error = false;
  try {
    throw;
  } catch (const OpError&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::AcceleratorError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const c10::IndexError& error) {
    what = error.what_without_backtrace();
    is_index_error = true;
  } catch (const c10::Error& error) {
    what = error.what_without_backtrace();
  } catch (const std::exception& error) {
    what = error.what();
  }
  throw OpError(where(), what, is_index_error);
}

}  // namespace ampd::executor
